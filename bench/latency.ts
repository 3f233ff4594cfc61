import { execFile } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { promisify } from 'node:util';
import { type Bench, startConnected } from './bench.ts';
import { at, type Caller, makeCaller, parseJson } from './caller.ts';
import { casesOf } from './cases.ts';
import { formatRange, hundredths, percentile, spread, thousandths, whole } from './figures.ts';
import { CONNECTIONS, type LoadPlan, loadWorkload } from './load.ts';
import type { Message } from './messages.ts';
import { startNginx } from './nginx.ts';
import { planLoad } from './requests.ts';
import { rotate } from './rounds.ts';
import type { Report, Row } from './tables.ts';
import { addressesOf, gatewayTarget, startRelay, type Target } from './targets.ts';

/** Limits of the median response time of a single caller minus that through nginx, in milliseconds. */
const singleBounds = { list: { limit: 0, aim: 0 }, call: { limit: 0.06, aim: 0.035 } } as const;

/** Limit of the p99 at a steady rate, relative to that of the relay in the same round. */
const pacedBound = { limit: 1.5 };

/** Calls per second of the steady rate: about a twentieth of what the gateway can handle. */
const pacedRate = 1_000;

/** Input of the paced caller. */
export interface PacedPlan {
  readonly url: string;
  readonly message: Message;
  readonly connections: number;
  /** Calls per second of all connections. */
  readonly perSecond: number;
  readonly seconds: number;
  readonly answerBytes: number;
}

/** Result of the paced caller: response times from when a call was due. */
export interface PacedResult {
  readonly calls: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
}

/** Target with its load and the response times of a single caller. */
interface Lane {
  readonly target: Target;
  readonly load: LoadPlan;
  readonly times: number[];
}

/**
 * Measures response times of a single caller in the cases of lists and calls, and those of calls at a steady rate, with all
 * targets in turn in every round.
 */
export async function measureLatency(bench: Bench): Promise<Report> {
  const { plan, folder, upstreams, log } = bench;
  await using owned = new AsyncDisposableStack();
  const targets: readonly Target[] = [
    await startRelay(folder, upstreams, owned),
    owned.use(await startNginx(`${folder}/nginx-latency`, addressesOf(upstreams), true)),
    gatewayTarget(await startConnected(bench, 'latency', owned)),
  ];
  const names = targets.map(({ name }) => name);
  const single: Row[] = [];
  const paced: Row[] = [];
  for (const measured of casesOf('list', 'call')) {
    using caller = makeCaller();
    const lanes: Lane[] = [];
    for (const target of targets) {
      const load = await planLoad(caller, measured, target, folder);
      if (target.name !== 'nginx') await loadWorkload(load, target, plan).warmUp();
      lanes.push({ target, load, times: [] });
    }
    for (let round = 0; round < plan.rounds; round++) {
      await callSequentially(caller, rotate(lanes, round), plan.singleCalls);
    }
    const p50Ms = lanes.map(({ times }) => percentile(times, 0.5));
    const [, nginx = Number.NaN, gateway = Number.NaN] = p50Ms;
    log(`${measured.title}, p50: ${names.map((name, index) => `${name} ${p50Ms[index]?.toFixed(3)} ms`).join(', ')}`);
    single.push({
      title: measured.title,
      cells: p50Ms.map(thousandths),
      figure: gateway - nginx,
      format: thousandths,
      bound: singleBounds[measured.method === 'list' ? 'list' : 'call'],
    });
    if (measured.name === 'call-legacy') paced.push(...(await measurePaced(lanes, bench)));
  }
  const calls = `${plan.rounds * plan.singleCalls} calls of a single caller`;
  return {
    block: 'latency',
    measured: `${calls}, ${plan.rounds} rounds of ${plan.pacedSeconds} s at the steady rate`,
    tables: [
      { head: ['single caller, p50 ms', ...names, 'gateway - nginx'], rows: single },
      {
        head: [`${whole(pacedRate)} tools/call per second`, 'p50 ms', 'p99 ms', 'p99 relative to the relay'],
        rows: paced,
      },
    ],
  };
}

/** Calls the targets in turn with a single caller. The first ten calls, which open connections, do not count. */
export async function callSequentially(
  caller: Caller,
  lanes: readonly { readonly load: Pick<LoadPlan, 'url' | 'messages'>; readonly times: number[] }[],
  count: number,
): Promise<void> {
  for (let call = -10; call < count; call++) {
    for (const { load, times } of lanes) {
      const [message] = load.messages;
      if (message === undefined) throw new Error(`no request for ${load.url}`);
      const startedAt = performance.now();
      const { status } = await caller.post(load.url, message);
      if (status !== 200) throw new Error(`single caller at ${load.url}: status ${status}`);
      if (call >= 0) times.push(performance.now() - startedAt);
    }
  }
}

const run = promisify(execFile);

async function measurePaced(lanes: readonly Lane[], { plan, folder, log }: Bench): Promise<Row[]> {
  const called = async ({ target, load }: Lane): Promise<PacedResult> => {
    const [message] = load.messages;
    const rate = { connections: CONNECTIONS, perSecond: pacedRate, seconds: plan.pacedSeconds };
    const file = `${folder}/paced.json`;
    writeFileSync(file, JSON.stringify({ url: load.url.href, message, answerBytes: load.answerBytes, ...rate }));
    const { stdout } = await run(process.execPath, [`${import.meta.dirname}/paced-caller.ts`, file]);
    target.clearOutput?.();
    const value = parseJson(stdout);
    const [calls, p50Ms, p99Ms] = ['calls', 'p50Ms', 'p99Ms'].map((name) => Number(at(value, name)));
    if (!calls || !p50Ms || !p99Ms) throw new Error(`steady calls at ${load.url}: unexpected result: ${stdout}`);
    log(`${pacedRate} calls per second, ${target.name}: p50 ${p50Ms.toFixed(3)} ms, p99 ${p99Ms.toFixed(3)} ms`);
    return { calls, p50Ms, p99Ms };
  };
  // V8 compiles functions again when a turn has one request instead of many.
  for (const lane of lanes) if (lane.target.name !== 'nginx') await called(lane);
  const results = lanes.map((lane) => ({ lane, found: [] as PacedResult[] }));
  for (let round = 0; round < plan.rounds; round++) {
    for (const { lane, found } of rotate(results, round)) found.push(await called(lane));
  }
  return results.map(({ lane: { target }, found }) => ({
    title: `${target.name} at the steady rate`,
    cells: [
      formatRange(spread(found.map(({ p50Ms }) => p50Ms)), thousandths),
      formatRange(spread(found.map(({ p99Ms }) => p99Ms)), thousandths),
    ],
    figure: spread(found.map(({ p99Ms }, round) => p99Ms / (results[0]?.found[round]?.p99Ms ?? Number.NaN))),
    format: hundredths,
    bound: target.name === 'gateway' ? pacedBound : undefined,
  }));
}
