import { execFile } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { promisify } from 'node:util';
import { at, type Caller, makeCaller, openSession, parseJson } from './caller.ts';
import { type InferenceCase, type StreamCase, streamCases } from './cases.ts';
import { residentMiB } from './child.ts';
import { type Spread, spread } from './figures.ts';
import type { Contender, Running } from './gateway.ts';
import { type Message, type StreamSpec, streamMessage } from './messages.ts';
import type { Plan } from './options.ts';
import { rotate } from './requests.ts';
import type { StreamKind } from './stream-events.ts';

/** Event streams that are read at once. */
export const streamCount = 500;

/** What the process that reads event streams is told. */
export interface StreamPlan extends StreamSpec {
  readonly kind: StreamKind;
  readonly url: string;
  /** One call for each stream, which asks for what the plan says. */
  readonly messages: readonly Message[];
  /** Process whose CPU time is watched meanwhile. */
  readonly pid?: number;
}

/** What arrived while all streams were flowing. */
export interface StreamResult {
  readonly chunks: number;
  /** Chunks per second of wall-clock time, of all streams together. */
  readonly perSecond: number;
  /** CPU time of the watched process per chunk, in microseconds; NaN when none was watched. */
  readonly cpuPerChunkUs: number;
  /** From just before the upstream wrote a chunk until the reader had it, in milliseconds. */
  readonly p50Ms: number;
  readonly p99Ms: number;
  /** Of completions: SHA-256 of each stream's text, in the order of the plan's messages. */
  readonly digests: readonly unknown[];
}

const run = promisify(execFile);

/**
 * Opens all streams of the plan at once and reads each of them to its end.
 *
 * @param file takes the plan
 * @throws Error when a stream broke, stood still, or lost or changed an event
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
  // JSON has no NaN: a figure that is none comes back as null.
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

/** Figures of one contender in one case of event streams. */
export interface StreamRow {
  readonly contender: Running['name'];
  /** CPU time of the proxy's process per chunk, in microseconds. */
  readonly cpuPerChunkUs: Spread | undefined;
  /** Chunks per CPU-second against nginx in the same round. */
  readonly ratio: Spread | undefined;
  readonly perSecond: Spread;
  /** From the upstream's writing of a chunk to the reader's having it, in milliseconds. */
  readonly p50Ms: Spread;
  readonly p99Ms: Spread;
  /** What the proxy adds to the median against the upstream itself in the same round. */
  readonly addedMs: Spread | undefined;
  readonly rssMiB: number | undefined;
}

/** All figures of one case of event streams. */
export interface StreamFigures {
  readonly case: StreamCase | InferenceCase;
  readonly rows: readonly StreamRow[];
}

/** One contender with what its clients ask and what it has shown so far. */
export interface StreamLane {
  readonly contender: Running;
  readonly url: URL;
  /** What all streams of one stretch are asked for. */
  messages(asked: StreamSpec): readonly Message[];
  /** Does what has to be done before a stretch begins. */
  before?(): Promise<void>;
  /** Looks at what a stretch has left behind; throws when it is not right. */
  after?(asked: StreamSpec, seen: StreamResult): Promise<void>;
  readonly seen: StreamResult[];
}

/** Milliseconds between two chunks of a stream where delays are measured: no process comes near to filling a core. */
const everyMs = 100;
/** The same where the gateway is kept busy, to warm it up and to profile it. */
const busyEveryMs = 25;

/**
 * Measures all cases of event streams: the contenders in turn in every round.
 *
 * @param log called after every measurement
 * @throws Error when a contender loses or changes a single event
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
      lanes.push({ contender, url, messages: (asked) => streamMessages(measured, asked, sessions), seen: [] });
    }
    figures.push({ case: measured, rows: await measureLanes(measured.name, 'progress', lanes, plan, folder, log) });
  }
  return figures;
}

/**
 * Measures one case of event streams, after each gateway has been warmed up: all lanes in turn in every round.
 *
 * @param name what is said of the case while it is measured
 * @throws Error when a contender loses or changes a single event
 */
export async function measureLanes(
  name: string,
  kind: StreamKind,
  lanes: readonly StreamLane[],
  plan: Plan,
  folder: string,
  log: (line: string) => void,
): Promise<StreamRow[]> {
  const streamed = async (lane: StreamLane, asked: StreamSpec) => {
    const { contender, url } = lane;
    await lane.before?.();
    const messages = lane.messages(asked);
    const stretch = { kind, url: url.href, messages, ...asked };
    const seen = await loadStreams(`${folder}/streams.json`, { ...stretch, pid: contender.pid });
    await lane.after?.(asked, seen);
    contender.child?.clearOutput();
    return seen;
  };
  for (const lane of lanes)
    if (lane.contender.child !== undefined) await streamed(lane, busyLoad(plan.streamWarmUpSeconds));
  for (let round = 0; round < plan.streamRounds; round++) {
    for (const lane of rotate(lanes, round)) {
      const seen = await streamed(lane, { events: (plan.streamSeconds * 1000) / everyMs, everyMs });
      lane.seen.push(seen);
      const cpu = lane.contender.pid === undefined ? '' : `, ${seen.cpuPerChunkUs.toFixed(1)} µs CPU per chunk`;
      const where = `${name}, round ${round + 1} of ${plan.streamRounds}, ${lane.contender.name}`;
      log(`${where}: p50 ${seen.p50Ms.toFixed(3)} ms${cpu}`);
    }
  }
  return lanes.map((lane) => row(lane, lanes));
}

/** Keeps a gateway busy with the streams of a case, opened anew each time; resolves to that. */
export async function busyStreams(
  caller: Caller,
  measured: StreamCase,
  url: URL,
  folder: string,
  pid?: number,
): Promise<(seconds: number) => Promise<StreamResult>> {
  const sessions = await openSessions(caller, measured, url);
  return (seconds) => {
    const asked = busyLoad(seconds);
    const messages = streamMessages(measured, asked, sessions);
    return loadStreams(`${folder}/streams.json`, { kind: 'progress', url: url.href, messages, ...asked, pid });
  };
}

/** What streams are asked for that keep a gateway busy. */
export const busyLoad = (seconds: number): StreamSpec => ({
  events: (seconds * 1000) / busyEveryMs,
  everyMs: busyEveryMs,
});

/** A legacy client has a session, one for each stream. */
async function openSessions(caller: Caller, { era }: StreamCase, url: URL): Promise<(string | undefined)[]> {
  const sessions: (string | undefined)[] = [];
  for (let opened = 0; opened < streamCount; opened++) {
    sessions.push(era === 'legacy' ? await openSession(caller, url) : undefined);
  }
  return sessions;
}

const streamMessages = ({ era }: StreamCase, asked: StreamSpec, sessions: readonly (string | undefined)[]): Message[] =>
  sessions.map((session, index) => streamMessage(era, asked, index, session));

function row({ contender, seen }: StreamLane, lanes: readonly StreamLane[]): StreamRow {
  const nginx = lanes.find((lane) => lane.contender.name === 'nginx');
  const direct = lanes.find((lane) => lane.contender.name === 'direct');
  const relays = contender.pid !== undefined;
  const each = (pick: (seen: StreamResult, round: number) => number) => spread(seen.map(pick));
  return {
    contender: contender.name,
    cpuPerChunkUs: relays ? each(({ cpuPerChunkUs }) => cpuPerChunkUs) : undefined,
    ratio:
      relays && nginx !== undefined
        ? each(({ cpuPerChunkUs }, round) => (nginx.seen[round]?.cpuPerChunkUs ?? Number.NaN) / cpuPerChunkUs)
        : undefined,
    perSecond: each(({ perSecond }) => perSecond),
    p50Ms: each(({ p50Ms }) => p50Ms),
    p99Ms: each(({ p99Ms }) => p99Ms),
    addedMs: relays ? each(({ p50Ms }, round) => p50Ms - (direct?.seen[round]?.p50Ms ?? Number.NaN)) : undefined,
    rssMiB: contender.pid === undefined ? undefined : residentMiB(contender.pid),
  };
}
