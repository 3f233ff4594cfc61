import { type Caller, makeCaller, openSession } from './caller.ts';
import { type StreamCase, streamCases } from './cases.ts';
import type { Contender } from './contenders.ts';
import { rotated } from './measure.ts';
import { type Message, type Streamed, streamMessage } from './messages.ts';
import type { Plan } from './options.ts';
import { type Spread, spread } from './statistics.ts';
import { loadStreams, type StreamsSeen, streamCount } from './stream-load.ts';
import { residentMiB } from './usage.ts';

/** Figures of one contender in one case of event streams. */
export interface StreamRow {
  readonly contender: Contender['name'];
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
  readonly case: StreamCase;
  readonly rows: readonly StreamRow[];
}

/** One contender with its clients' sessions and what it has shown so far. */
interface Lane {
  readonly contender: Contender;
  readonly url: URL;
  readonly sessions: readonly (string | undefined)[];
  readonly seen: StreamsSeen[];
  rssMiB: number | undefined;
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
    const lanes: Lane[] = [];
    for (const contender of contenders) {
      const url = contender.endpoint(measured.era);
      const sessions = await openSessions(caller, measured, url);
      lanes.push({ contender, url, sessions, seen: [], rssMiB: undefined });
    }
    const streamed = async ({ contender, url, sessions }: Lane, asked: Streamed) => {
      const messages = callsOf(measured, asked, sessions);
      const seen = await loadStreams(`${folder}/streams.json`, {
        url: url.href,
        messages,
        ...asked,
        pid: contender.pid,
      });
      contender.child?.forget();
      return seen;
    };
    for (const lane of lanes)
      if (lane.contender.name === 'gateway') await streamed(lane, busy(plan.streamWarmUpSeconds));
    for (let round = 0; round < plan.streamRounds; round++) {
      for (const lane of rotated(lanes, round)) {
        const seen = await streamed(lane, { events: (plan.streamSeconds * 1000) / everyMs, everyMs });
        lane.seen.push(seen);
        const cpu = lane.contender.pid === undefined ? '' : `, ${seen.cpuPerChunkUs.toFixed(1)} µs CPU per chunk`;
        const where = `${measured.name}, round ${round + 1} of ${plan.streamRounds}, ${lane.contender.name}`;
        say(`${where}: p50 ${seen.p50Ms.toFixed(3)} ms${cpu}`);
      }
    }
    for (const lane of lanes) if (lane.contender.pid !== undefined) lane.rssMiB = residentMiB(lane.contender.pid);
    figures.push({ case: measured, rows: lanes.map((lane) => row(lane, lanes)) });
  }
  return figures;
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
    return loadStreams(`${folder}/streams.json`, {
      url: url.href,
      messages: callsOf(measured, asked, sessions),
      ...asked,
    });
  };
}

const busy = (seconds: number): Streamed => ({ events: (seconds * 1000) / busyEveryMs, everyMs: busyEveryMs });

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

function row({ contender, seen, rssMiB }: Lane, lanes: readonly Lane[]): StreamRow {
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
    rssMiB,
  };
}
