import { type Caller, makeCaller, openSession } from './caller.ts';
import { type InferenceCase, type StreamCase, streamCases } from './cases.ts';
import type { Contender, Running } from './contenders.ts';
import { rotated } from './measure.ts';
import { type Message, type Streamed, streamMessage } from './messages.ts';
import type { Plan } from './options.ts';
import { type Spread, spread } from './statistics.ts';
import type { StreamKind } from './stream-events.ts';
import { loadStreams, type StreamsSeen, streamCount } from './stream-load.ts';
import { residentMiB } from './usage.ts';

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
  messages(asked: Streamed): readonly Message[];
  /** Does what has to be done before a stretch begins. */
  before?(): Promise<void>;
  /** Looks at what a stretch has left behind; throws when it is not right. */
  after?(asked: Streamed, seen: StreamsSeen): Promise<void>;
  readonly seen: StreamsSeen[];
}

/** Milliseconds between two chunks of a stream where delays are measured: no process comes near to filling a core. */
const everyMs = 100;
/** The same where the gateway is kept busy, to warm it up and to profile it. */
const busyEveryMs = 25;

/**
 * Measures all cases of event streams: the contenders in turn in every round.
 *
 * @param say told after every stretch
 * @throws Error when a contender loses or changes a single event
 */
export async function measureStreams(
  contenders: readonly Contender[],
  plan: Plan,
  folder: string,
  say: (line: string) => void,
): Promise<StreamFigures[]> {
  const figures: StreamFigures[] = [];
  for (const measured of streamCases) {
    using caller = makeCaller();
    const lanes: StreamLane[] = [];
    for (const contender of contenders) {
      const url = contender.endpoint(measured.era);
      const sessions = await openSessions(caller, measured, url);
      lanes.push({ contender, url, messages: (asked) => callsOf(measured, asked, sessions), seen: [] });
    }
    figures.push({ case: measured, rows: await measureLanes(measured.name, 'progress', lanes, plan, folder, say) });
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
  say: (line: string) => void,
): Promise<StreamRow[]> {
  const streamed = async (lane: StreamLane, asked: Streamed) => {
    const { contender, url } = lane;
    await lane.before?.();
    const messages = lane.messages(asked);
    const stretch = { kind, url: url.href, messages, ...asked };
    const seen = await loadStreams(`${folder}/streams.json`, { ...stretch, pid: contender.pid });
    await lane.after?.(asked, seen);
    contender.child?.forget();
    return seen;
  };
  for (const lane of lanes)
    if (lane.contender.child !== undefined) await streamed(lane, busy(plan.streamWarmUpSeconds));
  for (let round = 0; round < plan.streamRounds; round++) {
    for (const lane of rotated(lanes, round)) {
      const seen = await streamed(lane, { events: (plan.streamSeconds * 1000) / everyMs, everyMs });
      lane.seen.push(seen);
      const cpu = lane.contender.pid === undefined ? '' : `, ${seen.cpuPerChunkUs.toFixed(1)} µs CPU per chunk`;
      const where = `${name}, round ${round + 1} of ${plan.streamRounds}, ${lane.contender.name}`;
      say(`${where}: p50 ${seen.p50Ms.toFixed(3)} ms${cpu}`);
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
): Promise<(seconds: number) => Promise<unknown>> {
  const sessions = await openSessions(caller, measured, url);
  return (seconds) => {
    const asked = busy(seconds);
    const messages = callsOf(measured, asked, sessions);
    return loadStreams(`${folder}/streams.json`, { kind: 'progress', url: url.href, messages, ...asked });
  };
}

/** What streams are asked for that keep a gateway busy. */
export const busy = (seconds: number): Streamed => ({ events: (seconds * 1000) / busyEveryMs, everyMs: busyEveryMs });

/** A legacy client has a session, one for each stream. */
async function openSessions(caller: Caller, { era }: StreamCase, url: URL): Promise<(string | undefined)[]> {
  const sessions: (string | undefined)[] = [];
  for (let opened = 0; opened < streamCount; opened++) {
    sessions.push(era === 'legacy' ? await openSession(caller, url) : undefined);
  }
  return sessions;
}

const callsOf = ({ era }: StreamCase, asked: Streamed, sessions: readonly (string | undefined)[]): Message[] =>
  sessions.map((session, index) => streamMessage(era, asked, index, session));

function row({ contender, seen }: StreamLane, lanes: readonly StreamLane[]): StreamRow {
  const nginx = lanes.find((lane) => lane.contender.name === 'nginx');
  const direct = lanes.find((lane) => lane.contender.name === 'direct');
  const relays = contender.pid !== undefined;
  const each = (pick: (seen: StreamsSeen, round: number) => number) => spread(seen.map(pick));
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
