import { createHash } from 'node:crypto';
import { at, type Caller, makeCaller, parseJson } from './caller.ts';
import { completionAnswers, completionStreams } from './cases.ts';
import { startChild } from './child.ts';
import { type Gateway, type GatewayStart, type Running, readPort, startGateway } from './gateway.ts';
import { completionMessage, type Message, type StreamSpec, streamToken } from './messages.ts';
import type { Plan } from './options.ts';
import { connections, startNginx } from './programs.ts';
import { type CaseFigures, type Lane, measureRequests } from './requests.ts';
import { completionId } from './stream-events.ts';
import {
  busyLoad,
  loadStreams,
  measureLanes,
  type StreamFigures,
  type StreamLane,
  type StreamResult,
  streamCount,
} from './streams.ts';

/** What one completion should have been recorded as. */
export interface Expected {
  /** The `user` of the request. */
  readonly user: string;
  /** SHA-256 of the text that the client read. */
  readonly digest: unknown;
  readonly tokens: number;
}

/** How many interactions have to be there. */
export interface Count {
  readonly all: number;
  /** Of these at most so many whose clients left before they had the whole answer. */
  readonly left: number;
}

/** Has the gateway forget what it recorded. */
export async function clearRecorded(caller: Caller, gateway: Gateway): Promise<void> {
  const { status, body } = await caller.delete(new URL('/api/v1/interactions', gateway.management));
  if (status !== 200) throw new Error(`DELETE /api/v1/interactions: status ${status}: ${body.slice(0, 200)}`);
}

/**
 * Compares what the gateway recorded with what clients read: every completion that they read whole is there once, as
 * they read it.
 *
 * @throws Error when one is missing, cut, or not what the client read
 */
export async function checkRecorded(
  caller: Caller,
  gateway: Gateway,
  expected: readonly Expected[],
  { all, left }: Count,
): Promise<void> {
  // The recorder works behind the answer: the last ones are there a moment after their clients have them.
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

/** As the digests of streams are made. */
export const textDigest = (text: string): string => createHash('sha256').update(text).digest('hex');

/** What was found of chat completions. */
export interface InferenceFigures {
  readonly streams: StreamFigures;
  /** Those in one piece; undefined without the load generator. */
  readonly answers: CaseFigures | undefined;
}

/** A running chat-completions server of the bench. */
export interface CompletionServer extends AsyncDisposable {
  /** Where completions are asked for. */
  readonly url: URL;
}

/** Something that passes completions on, with the gateway where it is one. */
interface Relay {
  readonly running: Running;
  readonly url: URL;
  readonly gateway: Gateway | undefined;
}

/** Tokens of a completion in one piece: 2 kB. */
const answerTokens = 450;

/** Interactions that the gateway keeps as shipped. */
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

/** How a gateway is started in front of that server; `recorded` interactions are kept. */
export const inferenceStart = (start: GatewayStart, { url }: CompletionServer, recorded = capacity): GatewayStart => ({
  ...start,
  variables: {
    SERVICE_INFERENCE_UPSTREAM: url.host,
    ...(recorded !== capacity && { SERVICE_INTERACTION_CAPACITY: String(recorded) }),
  },
});

/**
 * Measures chat completions through a gateway that records them, one that records none, nginx and none of these, in turn
 * in every round. What was recorded is compared with what was read, after every stretch of streams and at the end.
 *
 * @param withLoad false leaves out what needs the load generator
 * @param log called after every measurement
 * @throws Error when a contender loses or changes a single chunk, or when a completion was not recorded as it was read
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

/** Keeps a gateway busy with completions; resolves to that. */
export function busyCompletions(url: URL, folder: string, pid?: number): (seconds: number) => Promise<StreamResult> {
  return (seconds) => {
    const asked = busyLoad(seconds);
    const messages = streamMessages(asked);
    return loadStreams(`${folder}/streams.json`, { kind: 'completion', url: url.href, messages, ...asked, pid });
  };
}

const streamMessages = (asked: StreamSpec) =>
  Array.from({ length: streamCount }, (_, index) => completionMessage(streamToken(index), asked.events, asked.everyMs));

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
    lanes.push({ contender: running, url, messages, answerBytes, perCpuSecond: [], perSecond: [], times: [] });
  }
  const inOnePiece = { ...plan, rounds: plan.answerRounds };
  const rows = await measureRequests(caller, completionAnswers.name, lanes, inOnePiece, folder, true, log);
  for (const { running, gateway } of relays) {
    if (gateway !== undefined) {
      // The load generator leaves its last requests behind.
      const all = running.name === 'gateway' ? capacity : 0;
      await checkRecorded(caller, gateway, expected, { all, left: connections });
    }
  }
  return { case: completionAnswers, rows };
}
