import { createHash } from 'node:crypto';
import { at, type Caller, makeCaller, parseJson } from './caller.ts';
import { completionAnswers, completionStreams } from './cases.ts';
import { startChild } from './child.ts';
import type { Running } from './contenders.ts';
import { type Gateway, type GatewayStart, readPort, startGateway } from './gateway.ts';
import { completionMessage, type Message, type StreamSpec, streamToken } from './messages.ts';
import type { Plan } from './options.ts';
import { connections, startNginx } from './programs.ts';
import { type CaseFigures, type Lane, measureRequests } from './rounds.ts';
import { completionId } from './stream-events.ts';
import {
  loadStreams,
  measureLanes,
  type StreamFigures,
  type StreamLane,
  type StreamResult,
  streamCount,
  streamSpec,
} from './streams.ts';

/** Expected interaction. */
export interface Expected {
  /** `user` of the request. */
  readonly user: string;
  /** SHA-256 of the text received by the client. */
  readonly digest: unknown;
  readonly tokens: number;
}

/** Expected number of interactions. */
export interface Count {
  readonly all: number;
  /** Maximum number of those whose clients disconnected early. */
  readonly left: number;
}

/** Deletes all interactions. */
export async function clearRecorded(caller: Caller, gateway: Gateway): Promise<void> {
  const { status, body } = await caller.delete(new URL('/api/v1/interactions', gateway.management));
  if (status !== 200) throw new Error(`DELETE /api/v1/interactions: status ${status}: ${body.slice(0, 200)}`);
}

/**
 * Compares the interactions with the completions received by clients.
 *
 * @throws Error if one is missing, truncated or different
 */
export async function checkRecorded(
  caller: Caller,
  gateway: Gateway,
  expected: readonly Expected[],
  { all, left }: Count,
): Promise<void> {
  // Interactions are recorded asynchronously, shortly after the response.
  const list = await gateway.child.waitFor(`it had recorded ${all} interactions`, 10_000, async () => {
    const { body } = await caller.get(new URL('/api/v1/interactions', gateway.management));
    const data = at(parseJson(body), 'data');
    return Array.isArray(data) && data.length >= all ? data : undefined;
  });
  if (list.length !== all) throw new Error(`${list.length} interactions were recorded and not ${all}`);
  const byUser = new Map(expected.map((each) => [each.user, each]));
  const userOf = (interaction: unknown) => String(at(interaction, 'request_body', 'user'));
  const isRight = (interaction: unknown) => {
    const each = byUser.get(userOf(interaction));
    return each !== undefined && isWhole(interaction, each);
  };
  const others = list.filter((interaction: unknown) => !isRight(interaction));
  if (others.length > left) {
    const first = JSON.stringify(others[0]).slice(-600);
    throw new Error(`${others.length} of ${all} interactions are not what the client read, the first: ...${first}`);
  }
  const distinct = new Set(list.filter(isRight).map(userOf));
  if (all > 0 && distinct.size !== expected.length) {
    throw new Error(`of ${expected.length} different completions only ${distinct.size} were recorded`);
  }
}

function isWhole(interaction: unknown, { user, digest, tokens }: Expected): boolean {
  const choice = at(interaction, 'response_body', 'choices', 0);
  return (
    at(interaction, 'completion_id') === completionId(user) &&
    at(interaction, 'status_code') === 200 &&
    at(interaction, 'request_truncated') === undefined &&
    at(interaction, 'response_truncated') === undefined &&
    at(interaction, 'response_body', 'usage', 'completion_tokens') === tokens &&
    at(choice, 'finish_reason') === 'stop' &&
    textDigest(String(at(choice, 'message', 'content'))) === digest
  );
}

/** Returns the digest of a text, like those of the stream reader. */
export const textDigest = (text: string): string => createHash('sha256').update(text).digest('hex');

/** Figures of chat completions. */
export interface InferenceFigures {
  readonly streams: StreamFigures;
  /** Completions in one piece; undefined without the load generator. */
  readonly answers: CaseFigures | undefined;
}

/** Running chat-completions server. */
export interface CompletionServer extends AsyncDisposable {
  /** URL of chat completions. */
  readonly url: URL;
}

/** Proxy of completions. */
interface Relay {
  readonly running: Running;
  readonly url: URL;
  readonly gateway: Gateway | undefined;
}

/** Tokens of a completion in one piece (2 kB). */
const answerTokens = 450;

/** Default interaction capacity of the gateway. */
const capacity = 1000;

/** Starts the chat-completions server. */
export async function startCompletions(folder: string): Promise<CompletionServer> {
  const file = `${import.meta.dirname}/completions.ts`;
  const child = startChild('completions', `${folder}/completions.log`, process.execPath, [file]);
  const port = await readPort(child);
  return {
    url: new URL(`http://127.0.0.1:${port}/v1/chat/completions`),
    [Symbol.asyncDispose]: () => child.stop(2_000),
  };
}

/** Returns the start options of a gateway in front of the server, with this interaction capacity. */
export const inferenceStart = (start: GatewayStart, { url }: CompletionServer, recorded = capacity): GatewayStart => ({
  ...start,
  variables: {
    SERVICE_INFERENCE_UPSTREAM: url.host,
    ...(recorded !== capacity && { SERVICE_INTERACTION_CAPACITY: String(recorded) }),
  },
});

/**
 * Measures chat completions through a gateway with recording, one without, nginx, and directly, in turn in every round.
 * Interactions are compared with the received completions after every measurement of streams and at the end.
 *
 * @param withLoad false omits measurements with the load generator
 * @param log called after every measurement
 * @throws Error if a target loses or changes a chunk, or if an interaction is wrong
 */
export async function measureInference(
  start: GatewayStart,
  plan: Plan,
  folder: string,
  withNginx: boolean,
  withLoad: boolean,
  log: (line: string) => void,
): Promise<InferenceFigures> {
  await using owned = new AsyncDisposableStack();
  const upstream = owned.use(await startCompletions(folder));
  const gateway = async (name: 'gateway' | 'gateway, recording off', recorded: number): Promise<Relay> => {
    const outputFile = `${folder}/inference-${recorded}.log`;
    const registryFolder = `${folder}/registry-inference-${recorded}`;
    const started = await startGateway(inferenceStart({ ...start, outputFile, registryFolder }, upstream, recorded));
    const { child } = owned.use(started);
    return { running: { name, pid: child.pid, child }, url: started.completions, gateway: started };
  };
  const relays: Relay[] = [await gateway('gateway', capacity), await gateway('gateway, recording off', 0)];
  if (withNginx) {
    const nginx = owned.use(await startNginx(`${folder}/nginx-inference`, { completions: upstream.url }, 'streams'));
    const running = { name: 'nginx', pid: nginx.workerPid, child: undefined } as const;
    relays.unshift({ running, url: nginx.endpoint('completions'), gateway: undefined });
  }
  relays.push({ running: { name: 'direct', pid: undefined, child: undefined }, url: upstream.url, gateway: undefined });
  using caller = makeCaller();
  const lanes = relays.map((relay) => streamLane(caller, relay));
  const streamed = { ...plan, streamRounds: plan.completionRounds };
  const rows = await measureLanes(completionStreams.name, 'completion', lanes, streamed, folder, log);
  const streams = { case: completionStreams, rows };
  const answers = withLoad ? await measureAnswers(caller, relays, plan, folder, log) : undefined;
  return { streams, answers };
}

/** Returns a function that runs streamed completions. */
export function busyCompletions(
  url: URL,
  folder: string,
  pid?: number,
): (seconds: number, everyMs?: number) => Promise<StreamResult> {
  return (seconds, everyMs) => {
    const requested = streamSpec(seconds, everyMs);
    const messages = streamMessages(requested);
    return loadStreams(`${folder}/streams.json`, { kind: 'completion', url: url.href, messages, ...requested, pid });
  };
}

const streamMessages = (requested: StreamSpec) =>
  Array.from({ length: streamCount }, (_, index) =>
    completionMessage(streamToken(index), requested.events, requested.everyMs, requested.together),
  );

function streamLane(caller: Caller, { running, url, gateway }: Relay): StreamLane {
  const lane = { contender: running, url, messages: streamMessages, seen: [] };
  if (gateway === undefined) return lane;
  const records = running.name === 'gateway';
  return {
    ...lane,
    before: () => clearRecorded(caller, gateway),
    after: ({ events }, { digests }) => {
      const expected = digests.map((digest, index) => ({ user: streamToken(index), digest, tokens: events }));
      if (expected.length !== streamCount) throw new Error(`${expected.length} of ${streamCount} texts were read`);
      return checkRecorded(caller, gateway, expected, { all: records ? streamCount : 0, left: 0 });
    },
  };
}

/** User of each connection's completions in one piece. */
const answerUsers = Array.from({ length: connections }, (_, index) => `caller-${index}`);

/** Requests for completions in one piece, one for each connection. */
export const answerMessages = (): Message[] => answerUsers.map((user) => completionMessage(user, answerTokens));

/** Measures completions in one piece: sequential requests on each connection. */
async function measureAnswers(
  caller: Caller,
  relays: readonly Relay[],
  plan: Plan,
  folder: string,
  log: (line: string) => void,
): Promise<CaseFigures> {
  const messages = answerMessages();
  const expected: Expected[] = [];
  const lanes: Lane[] = [];
  for (const { running, url } of relays) {
    let answerBytes = 0;
    for (const [index, message] of messages.entries()) {
      const { status, body } = await caller.post(url, message);
      const text = at(parseJson(body), 'choices', 0, 'message', 'content');
      if (status !== 200 || typeof text !== 'string')
        throw new Error(`${url}: status ${status}: ${body.slice(0, 300)}`);
      answerBytes = body.length;
      expected[index] = { user: answerUsers[index] ?? '', digest: textDigest(text), tokens: answerTokens };
    }
    const load = { script: `${folder}/load.lua`, url, messages, answerBytes, pid: running.pid };
    lanes.push({ contender: running, load, perCpuSecond: [], perSecond: [], times: [] });
  }
  const inOnePiece = { ...plan, rounds: plan.answerRounds };
  const rows = await measureRequests(caller, completionAnswers.name, lanes, inOnePiece, log);
  for (const { running, gateway } of relays) {
    if (gateway !== undefined) {
      // The load generator aborts its last requests.
      const all = running.name === 'gateway' ? capacity : 0;
      await checkRecorded(caller, gateway, expected, { all, left: connections });
    }
  }
  return { case: completionAnswers, rows };
}
