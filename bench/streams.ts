import { execFile } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { promisify } from 'node:util';
import { type Bench, startConnected } from './bench.ts';
import { at, type Caller, makeCaller, openSession, parseJson } from './caller.ts';
import { type StreamCase, streamCases } from './cases.ts';
import { residentMiB } from './child.ts';
import { type Spread, spread, thousandths, whole } from './figures.ts';
import { type Message, type StreamSpec, streamMessage } from './messages.ts';
import { startNginx } from './nginx.ts';
import type { Plan } from './options.ts';
import { type Lane, type MeasuredCase, makeLane, measureRounds, type Sample, type Workload } from './rounds.ts';
import type { StreamKind } from './stream-events.ts';
import { costTable, type Report, type Table } from './tables.ts';
import { addressesOf, gatewayTarget, type Target } from './targets.ts';

/** Number of concurrent event streams. */
export const streamCount = 500;

/** Limit of the added median delay of a chunk, in milliseconds. */
const addedBound = { limit: 0.25 };

/** Input of the stream reader. */
export interface StreamPlan extends StreamSpec {
  readonly kind: StreamKind;
  readonly url: string;
  /** Requests, one for each stream. */
  readonly messages: readonly Message[];
  /** Process whose CPU time is measured. */
  readonly pid?: number | undefined;
}

/** Result of the stream reader, while all streams were active. */
export type StreamResult = Required<Sample>;

const run = promisify(execFile);

/**
 * Opens all streams of the plan and reads them to the end.
 *
 * @param file path for the plan
 * @throws Error if a stream breaks, stalls, or loses or changes an event
 */
async function readStreams(file: string, plan: StreamPlan): Promise<StreamResult> {
  writeFileSync(file, JSON.stringify(plan));
  const reader = run(process.execPath, [`${import.meta.dirname}/stream-reader.ts`, file]);
  const { stdout } = await reader.catch((error: unknown) => {
    throw new Error(`event streams: ${String(at(error, 'stderr')).trim()}`, { cause: error });
  });
  const seen = parseJson(stdout);
  // NaN is null in JSON.
  const figure = (name: keyof StreamResult) => Number(at(seen, name) ?? Number.NaN);
  return { cpuUs: figure('cpuUs'), perSecond: figure('perSecond'), p50Ms: figure('p50Ms'), p99Ms: figure('p99Ms') };
}

/** Interval of chunks for measurements in milliseconds: no process saturates a core. */
const steadyEveryMs = 100;
/** Interval of chunks for the first warm-up. */
const busyEveryMs = 25;

/** Streams on a target: their requests, and the process whose CPU time is measured. */
export interface StreamLoad {
  readonly kind: StreamKind;
  readonly url: URL;
  readonly target: Partial<Pick<Target, 'pid' | 'clearOutput'>>;
  messages(requested: StreamSpec): readonly Message[];
}

/** Returns the load of streams on a target. Gateways are warmed up. */
export function streamWorkload(load: StreamLoad, folder: string, plan: Plan): Workload {
  const { kind, url, target } = load;
  const streamed = async (seconds: number, everyMs: number) => {
    const requested: StreamSpec = { events: (seconds * 1000) / everyMs, everyMs, together: streamCount };
    const streams = { kind, url: url.href, messages: load.messages(requested), ...requested, pid: target.pid };
    const seen = await readStreams(`${folder}/streams.json`, streams);
    target.clearOutput?.();
    return seen;
  };
  return {
    async warmUp() {
      if (target.clearOutput === undefined) return;
      await streamed(plan.streamWarmUpSeconds, busyEveryMs);
      // V8 compiles functions again when a turn has one chunk instead of many.
      await streamed(2 * plan.streamSeconds, steadyEveryMs);
    },
    measure: () => streamed(plan.streamSeconds, steadyEveryMs),
  };
}

/** Measures event streams through nginx, without a proxy, and through the gateway. */
export async function measureStreams(bench: Bench): Promise<Report> {
  const { plan, folder, upstreams, log } = bench;
  await using owned = new AsyncDisposableStack();
  const nginx = owned.use(await startNginx(`${folder}/nginx-streams`, addressesOf(upstreams), false));
  const gateway = gatewayTarget(await startConnected(bench, 'streams', owned));
  using caller = makeCaller();
  const cases: MeasuredCase[] = [];
  for (const measured of streamCases) {
    const direct = upstreams[measured.era].endpoint();
    const lanes = [
      makeLane('nginx', await progressStreams(caller, measured, nginx, bench)),
      makeLane('direct', await progressStreams(caller, measured, { endpoint: () => direct }, bench)),
      makeLane('gateway', await progressStreams(caller, measured, gateway, bench)),
    ];
    cases.push({ title: measured.title, bound: measured.bound, lanes });
  }
  await measureRounds(cases, { rounds: plan.rounds }, log);
  return streamReport('streams', cases, bench, gateway);
}

/** Returns the report of cases with the targets `nginx`, `direct` and `gateway`. */
export function streamReport(block: string, cases: readonly MeasuredCase[], { plan }: Bench, gateway: Target): Report {
  return {
    block,
    measured: `${plan.rounds} rounds of ${plan.streamSeconds} s, ${whole(residentMiB(gateway.pid))} MiB resident at the end`,
    tables: [costTable(`CPU µs per chunk, ${streamCount} streams`, cases), delayTable(cases)],
  };
}

function delayTable(cases: readonly MeasuredCase[]): Table {
  const names = cases[0]?.lanes.map(({ name }) => name) ?? [];
  return {
    head: ['delay of a chunk, p50 ms', ...names, 'p99, gateway', 'gateway - direct'],
    rows: cases.map(({ title, lanes }) => {
      const [, direct, gateway] = lanes;
      const cells = [...lanes.map((lane) => medianOf(lane, 'p50Ms')), medianOf(gateway, 'p99Ms')];
      return { title, cells, figure: addedMs(direct, gateway), format: thousandths, bound: addedBound };
    }),
  };
}

const medianOf = (lane: Lane | undefined, name: 'p50Ms' | 'p99Ms') =>
  thousandths(spread(lane?.samples.map((sample) => sample[name] ?? Number.NaN) ?? []).median);

const addedMs = (direct: Lane | undefined, gateway: Lane | undefined): Spread =>
  spread(gateway?.samples.map(({ p50Ms = 0 }, round) => p50Ms - (direct?.samples[round]?.p50Ms ?? Number.NaN)) ?? []);

/** Opens a session for each stream of a legacy client and returns the load of its streams. */
export async function progressStreams(
  caller: Caller,
  { era }: StreamCase,
  target: Pick<Target, 'endpoint'> & StreamLoad['target'],
  { folder, plan }: Pick<Bench, 'folder' | 'plan'>,
): Promise<Workload> {
  const url = target.endpoint(era);
  const sessions: (string | undefined)[] = [];
  for (let opened = 0; opened < streamCount; opened++) {
    sessions.push(era === 'legacy' ? await openSession(caller, url) : undefined);
  }
  const messages = (requested: StreamSpec) =>
    sessions.map((session, index) => streamMessage(era, requested, index, session));
  return streamWorkload({ kind: 'progress', url, target, messages }, folder, plan);
}
