import type { Action, EvaluationContext, HostFunctions } from '../packages/server/src/policy/sandbox/action.ts';
import { ActionCompiler } from '../packages/server/src/policy/sandbox/compiler.ts';
import {
  type Toolchain,
  toolchainNames,
  toolchains,
} from '../packages/server/src/policy/sandbox/fixtures/ordinary-actions.ts';
import { SandboxPool } from '../packages/server/src/policy/sandbox/pool.ts';
import { readSandboxScripts } from '../packages/server/src/policy/sandbox/sandbox-process.ts';
import { HOST_LIMITS, SandboxWorker } from '../packages/server/src/policy/sandbox/sandbox-worker.ts';
import type { Bench } from './bench.ts';
import { formatRange, percentile, spread, thousandths, whole } from './figures.ts';
import { rotate } from './rounds.ts';
import type { Report, Row } from './tables.ts';

/** Pool of a toolchain's action, with its measurements, one for each round. */
interface Lane {
  readonly toolchain: Toolchain;
  readonly action: Action;
  readonly hosts: SandboxPool;
  /** Milliseconds of sequential evaluations. */
  readonly p50Ms: number[];
  readonly p99Ms: number[];
  /** With one evaluation in flight for each host. */
  readonly perSecond: number[];
}

/** Toolchains without a JavaScript engine have bounds, on two cores. */
const bounded: ReadonlySet<Toolchain> = new Set(['wat', 'assemblyscript']);
const p50Bound = { limit: 2, aim: 1 };
const perSecondBound = { floor: 800, aim: 2_000 };
/** Limit of the start of a host process. */
const startBound = { limit: 150 };

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

/** Active hosts of each pool, in addition to a spare one. */
const HOSTS = 2;
const WARM_UP_CALLS = 300;

/**
 * Measures evaluations without the LLM call, from the call of the pool to the response, for all toolchains in turn in every
 * round, and the start of host processes.
 *
 * @throws Error if the response is not the expected one
 */
export async function measureEvaluators({ plan, log }: Bench): Promise<Report> {
  await using owned = new AsyncDisposableStack();
  const compiler = new ActionCompiler();
  owned.defer(() => compiler.close());
  const lanes: Lane[] = [];
  for (const toolchain of toolchainNames) {
    log(`evaluators: building ${toolchain}`);
    const action = await compiler.compile(await toolchains[toolchain]());
    const hosts = new SandboxPool({ size: HOSTS });
    owned.defer(() => hosts.close());
    hosts.setActions([action]);
    const lane: Lane = { toolchain, action, hosts, p50Ms: [], p99Ms: [], perSecond: [] };
    lanes.push(lane);
    for (let call = 0; call < WARM_UP_CALLS; call++) await evaluate(lane);
  }
  for (let round = 0; round < plan.rounds; round++) {
    for (const lane of rotate(lanes, round)) {
      await runSequentially(lane, plan.seconds);
      await runConcurrently(lane, plan.seconds);
      const summary = `${lane.p50Ms.at(-1)?.toFixed(3)} ms, ${Math.round(lane.perSecond.at(-1) ?? 0)} per second`;
      log(`evaluators, ${lane.toolchain}, round ${round + 1}: ${summary}`);
    }
  }
  const startMs: number[] = [];
  for (const { action } of lanes.slice(0, 1)) {
    for (let start = 0; start < plan.hostStarts; start++) startMs.push(await startHost(action));
  }
  const start: Row = {
    title: 'start of a process',
    cells: [],
    figure: spread(startMs),
    format: whole,
    bound: startBound,
  };
  return {
    block: 'evaluators',
    measured: `${plan.rounds} rounds of ${plan.seconds} s`,
    tables: [
      { head: ['toolchain', 'p99 ms', 'p50 ms'], rows: lanes.map(p50Row) },
      { head: [`toolchain, ${HOSTS} evaluations in flight`, 'per second'], rows: lanes.map(perSecondRow) },
      { head: ['host processes', 'ms'], rows: [start] },
    ],
  };
}

const p50Row = ({ toolchain, p50Ms, p99Ms }: Lane): Row => ({
  title: toolchain,
  cells: [formatRange(spread(p99Ms), thousandths)],
  figure: spread(p50Ms),
  format: thousandths,
  bound: bounded.has(toolchain) ? p50Bound : undefined,
});

const perSecondRow = ({ toolchain, perSecond }: Lane): Row => ({
  title: toolchain,
  cells: [],
  figure: spread(perSecond),
  format: whole,
  bound: bounded.has(toolchain) ? perSecondBound : undefined,
});

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

async function runSequentially(lane: Lane, seconds: number): Promise<void> {
  const elapsed: number[] = [];
  const end = performance.now() + seconds * 1_000;
  while (performance.now() < end) elapsed.push(await evaluate(lane));
  lane.p50Ms.push(percentile(elapsed, 0.5));
  lane.p99Ms.push(percentile(elapsed, 0.99));
}

async function runConcurrently(lane: Lane, seconds: number): Promise<void> {
  let count = 0;
  const startedAt = performance.now();
  const worker = async () => {
    for (; performance.now() < startedAt + seconds * 1_000; count++) await evaluate(lane);
  };
  await Promise.all(Array.from({ length: HOSTS }, worker));
  lane.perSecond.push((count * 1_000) / (performance.now() - startedAt));
}

/** Returns the milliseconds until a host process has started and loaded a small action. */
async function startHost(small: Action): Promise<number> {
  const startedAt = performance.now();
  const host = new SandboxWorker(readSandboxScripts(['host']), HOST_LIMITS, () => undefined);
  try {
    await host.load(small);
    return performance.now() - startedAt;
  } finally {
    host.kill();
    await host.exited;
  }
}
