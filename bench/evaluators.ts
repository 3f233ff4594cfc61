import { setTimeout as wait } from 'node:timers/promises';
import type { Action, EvaluationContext, HostFunctions } from '../packages/server/src/policy/sandbox/action.ts';
import { ActionCompiler } from '../packages/server/src/policy/sandbox/compiler.ts';
import { coreAction } from '../packages/server/src/policy/sandbox/fixtures/hostile/core-action.ts';
import {
  type Toolchain,
  toolchainNames,
  toolchains,
} from '../packages/server/src/policy/sandbox/fixtures/ordinary-actions.ts';
import { HOST_LIMITS, HostProcess } from '../packages/server/src/policy/sandbox/host-process.ts';
import { HostPool } from '../packages/server/src/policy/sandbox/pool.ts';
import { readSandboxScripts } from '../packages/server/src/policy/sandbox/sandbox-process.ts';
import { cpuSeconds, residentMiB } from './child.ts';
import { percentile, type Spread, spread } from './figures.ts';
import type { Plan } from './options.ts';
import { rotate } from './requests.ts';

/** Figures of evaluations without the LLM call, and of host processes. */
export interface EvaluatorFigures {
  readonly toolchains: readonly ToolchainFigures[];
  /** Milliseconds from the deadline of an endless run to the end of a waiting run. */
  readonly failoverMs: Spread;
  /** Milliseconds from the start of a host process until it has loaded a small action. */
  readonly startMs: Spread;
}

/** Figures of the action built with one toolchain. */
export interface ToolchainFigures {
  readonly toolchain: Toolchain;
  readonly componentBytes: number;
  /** Milliseconds to compile the component, in a separate process. */
  readonly compileMs: number;
  /** Milliseconds to load the action in a running host. */
  readonly loadMs: Spread;
  /** Milliseconds of sequential evaluations. */
  readonly p50Ms: Spread;
  readonly p99Ms: Spread;
  /** With one evaluation in flight for each host. */
  readonly perSecond: Spread;
  /** CPU time per evaluation in this process and in the hosts, in microseconds. */
  readonly ownUs: Spread;
  readonly hostUs: Spread;
  /** Resident memory of the largest host process at the end. */
  readonly hostMiB: number;
}

/** Pool of a toolchain's action, with its measurements, one for each round. */
interface Lane extends Pick<ToolchainFigures, 'toolchain' | 'componentBytes' | 'compileMs' | 'loadMs'> {
  readonly action: Action;
  readonly hosts: HostPool;
  readonly p50Ms: number[];
  readonly p99Ms: number[];
  readonly perSecond: number[];
  readonly ownUs: number[];
  readonly hostUs: number[];
}

/** Context of a `tools/call` of about 300 bytes, which the action blocks according to the LLM output. */
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

/** The action calls no host functions. */
const responses: HostFunctions = {
  tools: () => '[]',
  tool: () => undefined,
  copyTool: () => false,
  history: () => '[]',
  verify: () => Promise.resolve(undefined),
  log: () => undefined,
};

/** Active hosts of each pool, in addition to a spare one. Aims and floors are for two cores. */
export const hostCount = 2;

/** Deadline of endless runs, instead of a second. */
const DEADLINE_MS = 100;
/** Time for a pool to replace a host. */
const PAUSE_MS = 1_000;
const WARM_UP_CALLS = 300;

/**
 * Measures evaluations from the call of the pool to the response, for all toolchains in turn in every round. Each
 * toolchain has its own pool.
 *
 * @param log called after every measurement
 * @throws Error if the response is not the expected one
 */
export async function measureEvaluators(plan: Plan, log: (line: string) => void): Promise<EvaluatorFigures> {
  await using owned = new AsyncDisposableStack();
  const compiler = new ActionCompiler();
  owned.defer(() => compiler.close());
  const endless = await compiler.compile(await coreAction({ evaluate: '(loop $forever (br $forever))' }));
  const small = await compiler.compile(await toolchains.wat());
  const lanes: Lane[] = [];
  for (const toolchain of toolchainNames) {
    log(`evaluators: building and loading ${toolchain}`);
    const lane = await openLane(toolchain, compiler, endless, plan.evaluatorStarts);
    owned.defer(() => lane.hosts.close());
    lanes.push(lane);
    for (let call = 0; call < WARM_UP_CALLS; call++) await evaluate(lane);
  }
  for (let round = 0; round < plan.evaluatorRounds; round++) {
    for (const lane of rotate(lanes, round)) {
      await oneAtATime(lane, plan.evaluatorSeconds);
      await runConcurrently(lane, plan.evaluatorSeconds);
      const summary = `${lane.p50Ms.at(-1)?.toFixed(3)} ms, ${Math.round(lane.perSecond.at(-1) ?? 0)} per second`;
      log(`evaluators, ${lane.toolchain}, round ${round + 1} of ${plan.evaluatorRounds}: ${summary}`);
    }
  }
  log('evaluators: killing and starting hosts');
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

/** Compiles the action and creates its pool. */
async function openLane(
  toolchain: Toolchain,
  compiler: ActionCompiler,
  endless: Action,
  starts: number,
): Promise<Lane> {
  const component = await toolchains[toolchain]();
  const startedAt = performance.now();
  const action = await compiler.compile(component);
  const compileMs = performance.now() - startedAt;
  const loadMs = spread(await times(starts, async () => (await startHost(endless, action))[1]));
  const hosts = new HostPool({ size: hostCount });
  hosts.setActions([action]);
  const built = { toolchain, componentBytes: component.length, compileMs, loadMs };
  return { ...built, action, hosts, p50Ms: [], p99Ms: [], perSecond: [], ownUs: [], hostUs: [] };
}

/** Returns the milliseconds of an evaluation. */
async function evaluate({ toolchain, action, hosts }: Lane): Promise<number> {
  const startedAt = performance.now();
  const { response } = await hosts.run(action, context, responses);
  const elapsed = performance.now() - startedAt;
  if (response?.kind !== 'block' || response.reason !== reason) {
    throw new Error(`${toolchain}: unexpected response ${JSON.stringify(response)}`);
  }
  return elapsed;
}

async function oneAtATime(lane: Lane, seconds: number): Promise<void> {
  const elapsed: number[] = [];
  const end = performance.now() + seconds * 1_000;
  while (performance.now() < end) elapsed.push(await evaluate(lane));
  lane.p50Ms.push(percentile(elapsed, 0.5));
  lane.p99Ms.push(percentile(elapsed, 0.99));
}

async function runConcurrently(lane: Lane, seconds: number): Promise<void> {
  let count = 0;
  const before = usage(lane);
  const startedAt = performance.now();
  const worker = async () => {
    for (; performance.now() < startedAt + seconds * 1_000; count++) await evaluate(lane);
  };
  await Promise.all(Array.from({ length: hostCount }, worker));
  const ms = performance.now() - startedAt;
  const after = usage(lane);
  lane.perSecond.push((count * 1_000) / ms);
  lane.ownUs.push(((after.serviceSeconds - before.serviceSeconds) * 1e6) / count);
  // Hosts replaced in the meantime are not counted.
  const hosts = [...after.hosts].map(([pid, used]) => used - (before.hosts.get(pid) ?? 0));
  lane.hostUs.push((hosts.reduce((sum, used) => sum + used, 0) * 1e6) / count);
}

/** Returns the CPU seconds of this process and of each host. */
function usage({ hosts }: Lane): { readonly serviceSeconds: number; readonly hosts: ReadonlyMap<number, number> } {
  return { serviceSeconds: cpuSeconds(process.pid), hosts: new Map(hosts.pids.map((pid) => [pid, cpuSeconds(pid)])) };
}

/** Measures the failover to the spare host after the deadline of an endless run, while another run waits. */
async function measureFailover(endless: Action, small: Action, kills: number): Promise<number[]> {
  const hosts = new HostPool({ size: 1, limits: { ...HOST_LIMITS, runMs: DEADLINE_MS } });
  try {
    hosts.setActions([endless, small]);
    return await times(kills, async () => {
      await wait(PAUSE_MS);
      const startedAt = performance.now();
      const killed = hosts.run(endless, context, responses).then(
        () => Promise.reject(new Error('an endless run has ended')),
        () => undefined,
      );
      await Promise.all([killed, hosts.run(small, context, responses)]);
      return performance.now() - startedAt - DEADLINE_MS;
    });
  } finally {
    await hosts.close();
  }
}

/** Returns the milliseconds to start a host process with a small action, and to load another one. */
async function startHost(small: Action, other: Action): Promise<readonly [startMs: number, loadMs: number]> {
  const startedAt = performance.now();
  const host = new HostProcess(readSandboxScripts(['host']), HOST_LIMITS, () => undefined);
  try {
    await host.load(small);
    const started = performance.now();
    await host.load(other);
    return [started - startedAt, performance.now() - started];
  } finally {
    host.kill();
    await host.exited;
  }
}

async function times(count: number, measure: () => Promise<number>): Promise<number[]> {
  const all: number[] = [];
  for (let time = 0; time < count; time++) all.push(await measure());
  return all;
}
