import { execFile } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { promisify } from 'node:util';
import { at, type Caller, makeCaller, openSession, parseJson } from './caller.ts';
import { type InferenceCase, type StreamCase, streamCases } from './cases.ts';
import { residentMiB } from './child.ts';
import type { Contender, Running } from './contenders.ts';
import { type CostRatio, type CostSpread, costRatio, costSpread, type Spread, spread } from './figures.ts';
import { type Message, type StreamSpec, streamMessage } from './messages.ts';
import type { Plan } from './options.ts';
import { rotate } from './requests.ts';
import type { StreamKind } from './stream-events.ts';

/** Number of concurrent event streams. */
export const streamCount = 500;

/** Input of the stream reader. */
export interface StreamPlan extends StreamSpec {
  readonly kind: StreamKind;
  readonly url: string;
  /** Requests, one for each stream. */
  readonly messages: readonly Message[];
  /** Process whose CPU time is measured. */
  readonly pid?: number;
}

/** Result of the stream reader, while all streams were active. */
export interface StreamResult {
  readonly chunks: number;
  /** Chunks of all streams per second of wall-clock time. */
  readonly perSecond: number;
  /** CPU time of the process per chunk in microseconds; NaN without a process. */
  readonly cpuPerChunkUs: number;
  /** Delay between writing and receiving a chunk, in milliseconds. */
  readonly p50Ms: number;
  readonly p99Ms: number;
  /** Completions: SHA-256 of the text of each stream, in the order of the messages. */
  readonly digests: readonly unknown[];
}

const run = promisify(execFile);

/**
 * Opens all streams of the plan and reads them to the end.
 *
 * @param file path for the plan
 * @throws Error if a stream breaks, stalls, or loses or changes an event
 */
export async function loadStreams(file: string, plan: StreamPlan): Promise<StreamResult> {
  writeFileSync(file, JSON.stringify(plan));
  const { stdout } = await run(process.execPath, [`${import.meta.dirname}/stream-reader.ts`, file]).catch(
    (error: unknown) => {
      throw new Error(`event streams: ${String(at(error, 'stderr')).trim()}`, { cause: error });
    },
  );
  const seen = parseJson(stdout);
  const digests = at(seen, 'digests');
  // NaN is null in JSON.
  const figure = (name: string) => Number(at(seen, name) ?? Number.NaN);
  return {
    chunks: figure('chunks'),
    perSecond: figure('perSecond'),
    cpuPerChunkUs: figure('cpuPerChunkUs'),
    p50Ms: figure('p50Ms'),
    p99Ms: figure('p99Ms'),
    digests: Array.isArray(digests) ? digests : [],
  };
}

/** Figures of a target in a case of event streams. */
export interface StreamRow {
  readonly contender: Running['name'];
  /** CPU time of the proxy's process per chunk, in microseconds. */
  readonly cpuPerChunkUs: CostSpread | undefined;
  /** CPU time of nginx relative to it. */
  readonly ratio: CostRatio | undefined;
  readonly perSecond: Spread;
  /** Delay of a chunk in milliseconds. */
  readonly p50Ms: Spread;
  readonly p99Ms: Spread;
  /** Median delay minus that without a proxy in the same round, if it was measured. */
  readonly addedMs: Spread | undefined;
  readonly rssMiB: number | undefined;
}

/** Figures of a case of event streams. */
export interface StreamFigures {
  readonly case: StreamCase | InferenceCase;
  readonly rows: readonly StreamRow[];
}

/** Target with its requests and measurements. */
export interface StreamLane {
  readonly contender: Running;
  readonly url: URL;
  /** Returns the requests of a measurement. */
  messages(requested: StreamSpec): readonly Message[];
  /** Prepares a measurement. */
  before?(): Promise<void>;
  /** Verifies the state after a measurement; throws if it is wrong. */
  after?(requested: StreamSpec, seen: StreamResult): Promise<void>;
  readonly seen: StreamResult[];
}

/** Interval of chunks for measurements in milliseconds: no process saturates a core. */
export const steadyEveryMs = 100;
/** Interval of chunks for warm-up and profiling. */
const busyEveryMs = 25;

/**
 * Measures all cases of event streams, with the targets in turn in every round.
 *
 * @param log called after every measurement
 * @throws Error if a target loses or changes an event
 */
export async function measureStreams(
  contenders: readonly Contender[],
  plan: Plan,
  folder: string,
  log: (line: string) => void,
): Promise<StreamFigures[]> {
  const figures: StreamFigures[] = [];
  for (const measured of streamCases) {
    using caller = makeCaller();
    const lanes: StreamLane[] = [];
    for (const contender of contenders) {
      const url = contender.endpoint(measured.era);
      const sessions = await openSessions(caller, measured, url);
      lanes.push({ contender, url, messages: (requested) => streamMessages(measured, requested, sessions), seen: [] });
    }
    figures.push({ case: measured, rows: await measureLanes(measured.name, 'progress', lanes, plan, folder, log) });
  }
  return figures;
}

/**
 * Warms up the gateways and measures a case of event streams, with all lanes in turn in every round.
 *
 * @param name name of the case in the log
 * @throws Error if a target loses or changes an event
 */
export async function measureLanes(
  name: string,
  kind: StreamKind,
  lanes: readonly StreamLane[],
  plan: Plan,
  folder: string,
  log: (line: string) => void,
): Promise<StreamRow[]> {
  const streamed = async (lane: StreamLane, requested: StreamSpec) => {
    const { contender, url } = lane;
    await lane.before?.();
    const messages = lane.messages(requested);
    const stretch = { kind, url: url.href, messages, ...requested };
    const seen = await loadStreams(`${folder}/streams.json`, { ...stretch, pid: contender.pid });
    await lane.after?.(requested, seen);
    contender.child?.clearOutput();
    return seen;
  };
  for (const lane of lanes) {
    if (lane.contender.child === undefined) continue;
    await streamed(lane, streamSpec(plan.streamWarmUpSeconds));
    // V8 compiles functions again when a turn has one chunk instead of many.
    await streamed(lane, streamSpec(2 * plan.streamSeconds, steadyEveryMs));
  }
  for (let round = 0; round < plan.streamRounds; round++) {
    for (const lane of rotate(lanes, round)) {
      if (lane.contender.pid === undefined && round >= plan.streamDirectRounds) continue;
      const seen = await streamed(lane, streamSpec(plan.streamSeconds, steadyEveryMs));
      lane.seen.push(seen);
      const cpu = lane.contender.pid === undefined ? '' : `, ${seen.cpuPerChunkUs.toFixed(1)} µs CPU per chunk`;
      const where = `${name}, round ${round + 1} of ${plan.streamRounds}, ${lane.contender.name}`;
      log(`${where}: p50 ${seen.p50Ms.toFixed(3)} ms${cpu}`);
    }
  }
  return lanes.map((lane) => row(lane, lanes));
}

/** Opens the sessions of a case and returns a function that runs its streams. */
export async function busyStreams(
  caller: Caller,
  measured: StreamCase,
  url: URL,
  folder: string,
  pid?: number,
): Promise<(seconds: number, everyMs?: number) => Promise<StreamResult>> {
  const sessions = await openSessions(caller, measured, url);
  return (seconds, intervalMs) => {
    const requested = streamSpec(seconds, intervalMs);
    const messages = streamMessages(measured, requested, sessions);
    return loadStreams(`${folder}/streams.json`, { kind: 'progress', url: url.href, messages, ...requested, pid });
  };
}

/** Returns the specification of streams of this duration, by default at the rate for warm-up and profiling. */
export const streamSpec = (seconds: number, everyMs = busyEveryMs): StreamSpec => ({
  events: (seconds * 1000) / everyMs,
  everyMs,
  together: streamCount,
});

/** Opens a session for each stream of a legacy client. */
async function openSessions(caller: Caller, { era }: StreamCase, url: URL): Promise<(string | undefined)[]> {
  const sessions: (string | undefined)[] = [];
  for (let opened = 0; opened < streamCount; opened++) {
    sessions.push(era === 'legacy' ? await openSession(caller, url) : undefined);
  }
  return sessions;
}

const streamMessages = (
  { era }: StreamCase,
  requested: StreamSpec,
  sessions: readonly (string | undefined)[],
): Message[] => sessions.map((session, index) => streamMessage(era, requested, index, session));

function row({ contender, seen }: StreamLane, lanes: readonly StreamLane[]): StreamRow {
  const nginx = lanes.find((lane) => lane.contender.name === 'nginx');
  const direct = lanes.find((lane) => lane.contender.name === 'direct');
  const relays = contender.pid !== undefined;
  const costs = (results: readonly StreamResult[]) => results.map(({ cpuPerChunkUs }) => cpuPerChunkUs);
  const each = (pick: (seen: StreamResult) => number) => spread(seen.map(pick));
  const added = seen.flatMap(({ p50Ms }, round) => {
    const without = direct?.seen[round];
    return without === undefined ? [] : [p50Ms - without.p50Ms];
  });
  return {
    contender: contender.name,
    cpuPerChunkUs: relays ? costSpread(costs(seen)) : undefined,
    ratio: relays && nginx !== undefined ? costRatio(costs(nginx.seen), costs(seen)) : undefined,
    perSecond: each(({ perSecond }) => perSecond),
    p50Ms: each(({ p50Ms }) => p50Ms),
    p99Ms: each(({ p99Ms }) => p99Ms),
    addedMs: relays ? spread(added) : undefined,
    rssMiB: contender.pid === undefined ? undefined : residentMiB(contender.pid),
  };
}
