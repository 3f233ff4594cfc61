import { setTimeout as wait } from 'node:timers/promises';
import type { Action, EvaluationContext, HostAnswers } from '../packages/server/src/policy/sandbox/action.ts';
import { ActionCompiler } from '../packages/server/src/policy/sandbox/compiler.ts';
import { coreAction } from '../packages/server/src/policy/sandbox/fixtures/hostile/core-action.ts';
import {
  type Toolchain,
  toolchainNames,
  toolchains,
} from '../packages/server/src/policy/sandbox/fixtures/ordinary-actions.ts';
import { HOST_LIMITS, Host } from '../packages/server/src/policy/sandbox/host-process.ts';
import { ActionHosts } from '../packages/server/src/policy/sandbox/pool.ts';
import { readSandboxScripts } from '../packages/server/src/policy/sandbox/sandbox-process.ts';
import { cpuSeconds, residentMiB } from './child.ts';
import { percentile, type Spread, spread } from './figures.ts';
import type { Plan } from './options.ts';
import { rotate } from './requests.ts';

/** What evaluations cost without the LLM, and what host processes do when one is killed. */
export interface EvaluatorFigures {
  readonly toolchains: readonly ToolchainFigures[];
  /** Milliseconds from the deadline of a run that does not end until another run, which waited, is over. */
  readonly failoverMs: Spread;
  /** Milliseconds from starting a host process until it has taken a small action in. */
  readonly startMs: Spread;
}

/** Evaluations by the same action, built by one tool chain. */
export interface ToolchainFigures {
  readonly toolchain: Toolchain;
  readonly componentBytes: number;
  /** Milliseconds in which a component becomes an action, in a process of its own; once. */
  readonly compileMs: number;
  /** Milliseconds in which a host that has started takes the action in. */
  readonly loadMs: Spread;
  /** Milliseconds of one evaluation at a time. */
  readonly p50Ms: Spread;
  readonly p99Ms: Spread;
  /** With as many under way as there are hosts. */
  readonly perSecond: Spread;
  /** CPU time of one evaluation then, in this process and in the hosts, in microseconds. */
  readonly ownUs: Spread;
  readonly hostUs: Spread;
  /** Of the largest host process at the end. */
  readonly hostMiB: number;
}

/** The pool of one tool chain's action, and what it has shown so far, a value for each round. */
interface Lane extends Pick<ToolchainFigures, 'toolchain' | 'componentBytes' | 'compileMs' | 'loadMs'> {
  readonly action: Action;
  readonly hosts: ActionHosts;
  readonly p50Ms: number[];
  readonly p99Ms: number[];
  readonly perSecond: number[];
  readonly ownUs: number[];
  readonly hostUs: number[];
}

/** A `tools/call` of some 300 bytes that is blocked, for which the action reads what the LLM said. */
const reason = 'the amount is larger than what agents may transfer';
const context: EvaluationContext = {
  method: 'tools/call',
  namespace: 'finance',
  toolName: 'transfer',
  arguments: [
    ['from', 'DE02120300000000202051'],
    ['to', 'DE02500105170137075030'],
    ['amount', '{"currency":"EUR","value":25000}'],
    ['purpose', 'Invoice 2026-1177 of the fifteenth, as agreed on the telephone with the accounts department'],
  ],
  llmResult: `block:${reason}`,
  conversationId: 'conversation-4711',
};

/** The action asks nothing. */
const answers: HostAnswers = {
  tools: () => '[]',
  tool: () => undefined,
  copyTool: () => false,
  history: () => '[]',
  verify: () => Promise.resolve(undefined),
  log: () => undefined,
};

/** Of each pool, besides one that waits. Aims and floors are those of two cores. */
export const hostCount = 2;

/** What a run that does not end gets in place of a second, so that many of them can be killed. */
const KILL_AFTER_MS = 100;
/** In which a pool becomes whole again. */
const REST_MS = 1_000;
const WARM_UP_CALLS = 300;

/**
 * Measures evaluations from handing an action over to the hosts until its response is there, by tool chain, in turn in
 * every round. Each tool chain has a pool of its own.
 *
 * @param log called after every measurement
 * @throws Error when an evaluation does not respond as it should
 */
export async function measureEvaluators(plan: Plan, log: (line: string) => void): Promise<EvaluatorFigures> {
  await using owned = new AsyncDisposableStack();
  const compiler = new ActionCompiler();
  owned.defer(() => compiler.close());
  const endless = await compiler.compile(await coreAction({ evaluate: '(loop $forever (br $forever))' }));
  const small = await compiler.compile(await toolchains.wat());
  const lanes: Lane[] = [];
  for (const toolchain of toolchainNames) {
    log(`evaluators: ${toolchain} is built and taken in`);
    const lane = await openLane(toolchain, compiler, endless, plan.evaluatorStarts);
    owned.defer(() => lane.hosts.close());
    lanes.push(lane);
    for (let call = 0; call < WARM_UP_CALLS; call++) await evaluate(lane);
  }
  for (let round = 0; round < plan.evaluatorRounds; round++) {
    for (const lane of rotate(lanes, round)) {
      await oneAtATime(lane, plan.evaluatorSeconds);
      await manyAtOnce(lane, plan.evaluatorSeconds);
      const shown = `${lane.p50Ms.at(-1)?.toFixed(3)} ms, ${Math.round(lane.perSecond.at(-1) ?? 0)} per second`;
      log(`evaluators, ${lane.toolchain}, round ${round + 1} of ${plan.evaluatorRounds}: ${shown}`);
    }
  }
  log('evaluators: hosts are killed and started');
  const successionMs = spread(await measureFailover(endless, small, plan.evaluatorStarts));
  const startMs = spread(await times(plan.evaluatorStarts, async () => (await startHost(small, endless))[0]));
  return { toolchains: lanes.map(figures), failoverMs: successionMs, startMs };
}

function figures({ action: _, hosts, p50Ms, p99Ms, perSecond, ownUs, hostUs, ...built }: Lane): ToolchainFigures {
  return {
    ...built,
    p50Ms: spread(p50Ms),
    p99Ms: spread(p99Ms),
    perSecond: spread(perSecond),
    ownUs: spread(ownUs),
    hostUs: spread(hostUs),
    hostMiB: Math.max(...hosts.pids.map(residentMiB)),
  };
}

/** Compiles the action and gives it a pool that keeps it. */
async function openLane(
  toolchain: Toolchain,
  compiler: ActionCompiler,
  endless: Action,
  starts: number,
): Promise<Lane> {
  const component = await toolchains[toolchain]();
  const began = performance.now();
  const action = await compiler.compile(component);
  const compileMs = performance.now() - began;
  const loadMs = spread(await times(starts, async () => (await startHost(endless, action))[1]));
  const hosts = new ActionHosts({ size: hostCount });
  hosts.keep([action]);
  const built = { toolchain, componentBytes: component.length, compileMs, loadMs };
  return { ...built, action, hosts, p50Ms: [], p99Ms: [], perSecond: [], ownUs: [], hostUs: [] };
}

/** One evaluation, in milliseconds. */
async function evaluate({ toolchain, action, hosts }: Lane): Promise<number> {
  const began = performance.now();
  const { response } = await hosts.run(action, context, answers);
  const took = performance.now() - began;
  if (response?.kind !== 'block' || response.reason !== reason) {
    throw new Error(`${toolchain}: the action responded with ${JSON.stringify(response)}`);
  }
  return took;
}

async function oneAtATime(lane: Lane, seconds: number): Promise<void> {
  const took: number[] = [];
  const end = performance.now() + seconds * 1_000;
  while (performance.now() < end) took.push(await evaluate(lane));
  lane.p50Ms.push(percentile(took, 0.5));
  lane.p99Ms.push(percentile(took, 0.99));
}

async function manyAtOnce(lane: Lane, seconds: number): Promise<void> {
  let count = 0;
  const before = usage(lane);
  const began = performance.now();
  const worker = async () => {
    for (; performance.now() < began + seconds * 1_000; count++) await evaluate(lane);
  };
  await Promise.all(Array.from({ length: hostCount }, worker));
  const ms = performance.now() - began;
  const after = usage(lane);
  lane.perSecond.push((count * 1_000) / ms);
  lane.ownUs.push(((after.own - before.own) * 1e6) / count);
  // A host that was replaced meanwhile counts no more.
  const hosts = [...after.hosts].map(([pid, used]) => used - (before.hosts.get(pid) ?? 0));
  lane.hostUs.push((hosts.reduce((sum, used) => sum + used, 0) * 1e6) / count);
}

/** CPU seconds used so far, here and by host. */
function usage({ hosts }: Lane): { readonly own: number; readonly hosts: ReadonlyMap<number, number> } {
  return { own: cpuSeconds(process.pid), hosts: new Map(hosts.pids.map((pid) => [pid, cpuSeconds(pid)])) };
}

/** Has a pool of one host kill it again and again while another run waits, with a spare that has had time to start. */
async function measureFailover(endless: Action, small: Action, kills: number): Promise<number[]> {
  const hosts = new ActionHosts({ size: 1, limits: { ...HOST_LIMITS, runMs: KILL_AFTER_MS } });
  try {
    hosts.keep([endless, small]);
    return await times(kills, async () => {
      await wait(REST_MS);
      const began = performance.now();
      const killed = hosts.run(endless, context, answers).then(
        () => Promise.reject(new Error('a run without end has ended')),
        () => undefined,
      );
      await Promise.all([killed, hosts.run(small, context, answers)]);
      return performance.now() - began - KILL_AFTER_MS;
    });
  } finally {
    await hosts.close();
  }
}

/** Milliseconds from starting a host process until it has a small action, and in which it takes another one in then. */
async function startHost(small: Action, other: Action): Promise<readonly [startMs: number, loadMs: number]> {
  const began = performance.now();
  const host = new Host(readSandboxScripts(['host']), HOST_LIMITS, () => undefined);
  try {
    await host.load(small);
    const started = performance.now();
    await host.load(other);
    return [started - began, performance.now() - started];
  } finally {
    host.kill();
    await host.ended;
  }
}

async function times(count: number, measure: () => Promise<number>): Promise<number[]> {
  const all: number[] = [];
  for (let time = 0; time < count; time++) all.push(await measure());
  return all;
}
