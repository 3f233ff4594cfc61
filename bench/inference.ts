import { type Caller, makeCaller } from './caller.ts';
import { completionAnswers, completionStreams } from './cases.ts';
import { startChild } from './child.ts';
import type { Running } from './contenders.ts';
import { printedPort } from './fixture.ts';
import { type Gateway, type GatewayStart, startGateway } from './gateway.ts';
import { at, parseJson } from './json.ts';
import { connections } from './load.ts';
import { type CaseFigures, type Lane, measureRequests } from './measure.ts';
import { completionMessage, type Streamed, streamToken } from './messages.ts';
import { startNginx } from './nginx.ts';
import type { Plan } from './options.ts';
import { checkRecorded, type Expected, forgetRecorded, textDigest } from './recorded.ts';
import { loadStreams, streamCount } from './stream-load.ts';
import { busy, measureLanes, type StreamFigures, type StreamLane } from './streams.ts';

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
  const port = await printedPort(child);
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
 * @param say told after every stretch
 * @throws Error when a contender loses or changes a single chunk, or when a completion was not recorded as it was read
 */
export async function measureInference(
  start: GatewayStart,
  plan: Plan,
  folder: string,
  withNginx: boolean,
  withLoad: boolean,
  say: (line: string) => void,
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
  const rows = await measureLanes(completionStreams.name, 'completion', lanes, streamed, folder, say);
  const streams = { case: completionStreams, rows };
  const answers = withLoad ? await measureAnswers(caller, relays, plan, folder, say) : undefined;
  return { streams, answers };
}

/** Keeps a gateway busy with completions; resolves to that. */
export function busyCompletions(url: URL, folder: string): (seconds: number) => Promise<unknown> {
  return (seconds) => {
    const asked = busy(seconds);
    const messages = streamMessages(asked);
    return loadStreams(`${folder}/streams.json`, { kind: 'completion', url: url.href, messages, ...asked });
  };
}

const streamMessages = (asked: Streamed) =>
  Array.from({ length: streamCount }, (_, index) => completionMessage(streamToken(index), asked.events, asked.everyMs));

function streamLane(caller: Caller, { running, url, gateway }: Relay): StreamLane {
  const lane = { contender: running, url, messages: streamMessages, seen: [] };
  if (gateway === undefined) return lane;
  const records = running.name === 'gateway';
  return {
    ...lane,
    before: () => forgetRecorded(caller, gateway),
    after: ({ events }, { digests }) => {
      const expected = digests.map((digest, index) => ({ user: streamToken(index), digest, tokens: events }));
      if (expected.length !== streamCount) throw new Error(`${expected.length} of ${streamCount} texts were read`);
      return checkRecorded(caller, gateway, expected, { all: records ? streamCount : 0, left: 0 });
    },
  };
}

/** Completions in one piece: one request after the other on each connection. */
async function measureAnswers(
  caller: Caller,
  relays: readonly Relay[],
  plan: Plan,
  folder: string,
  say: (line: string) => void,
): Promise<CaseFigures> {
  const users = Array.from({ length: connections }, (_, index) => `caller-${index}`);
  const messages = users.map((user) => completionMessage(user, answerTokens));
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
      expected[index] = { user: users[index] ?? '', digest: textDigest(text), tokens: answerTokens };
    }
    lanes.push({ contender: running, url, messages, answerBytes, perCpuSecond: [], perSecond: [], times: [] });
  }
  const inOnePiece = { ...plan, rounds: plan.answerRounds };
  const rows = await measureRequests(caller, completionAnswers.name, lanes, inOnePiece, folder, true, say);
  for (const { running, gateway } of relays) {
    if (gateway !== undefined) {
      // The load generator leaves its last requests behind.
      const all = running.name === 'gateway' ? capacity : 0;
      await checkRecorded(caller, gateway, expected, { all, left: connections });
    }
  }
  return { case: completionAnswers, rows };
}
