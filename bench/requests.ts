import { isDeepStrictEqual } from 'node:util';
import { at, type Caller, makeCaller, openSession, parseJson } from './caller.ts';
import { type BridgeCase, type Case, type CaseName, cases, type Exchange } from './cases.ts';
import type { Contender, ContenderName } from './contenders.ts';
import { type Spread, spread } from './figures.ts';
import {
  callMessage,
  content,
  listMessage,
  type Message,
  mixedEvents,
  mixedMessage,
  promptMessage,
  readMessage,
} from './messages.ts';
import type { Plan } from './options.ts';
import { connections, type Load, type LoadPlan, load } from './programs.ts';

/** Figures of a target in a case of requests. */
export interface RequestRow {
  readonly contender: ContenderName;
  /** CPU time per response in microseconds. */
  readonly cpuUs: Spread;
  /** CPU time of the relay relative to it, in the same round. */
  readonly ratio: Spread;
  /** CPU time relative to that of the gateway with default settings, in the same round; undefined for other targets. */
  readonly toGateway: Spread | undefined;
  readonly perSecond: Spread;
}

/** Figures of a case of requests. */
export interface RequestFigures {
  readonly case: Case;
  readonly rows: readonly RequestRow[];
}

/** Target with its load and measurements, one for each round. */
interface Lane {
  readonly contender: Contender;
  readonly load: LoadPlan;
  readonly cpuUs: number[];
  readonly perSecond: number[];
}

/** Cases that are also measured with a loaded registry and without the log. */
const variedCases: ReadonlySet<CaseName> = new Set(['list-legacy', 'call-legacy']);

/**
 * Measures the cases of the given parts, with all targets in turn in every round, so that other activity on the machine
 * affects all of them.
 *
 * @param contenders the relay, nginx if it is installed, the gateway, and gateways with other settings
 * @param log called after every measurement
 */
export async function measureCases(
  parts: ReadonlySet<string>,
  contenders: readonly Contender[],
  plan: Plan,
  folder: string,
  log: (line: string) => void,
): Promise<RequestFigures[]> {
  const figures: RequestFigures[] = [];
  const warmed = new Set<Contender>();
  for (const measured of cases.filter(({ part }) => parts.has(part))) {
    using caller = makeCaller();
    const lanes: Lane[] = [];
    for (const contender of contenders) {
      if (isVariant(contender) && !variedCases.has(measured.name)) continue;
      const url = contender.endpoint(measured.upstream);
      const withSessions = contender.name !== 'relay' && contender.name !== 'nginx';
      const planned = await planLoad(caller, measured, url, `${folder}/load.lua`, contender.pid, withSessions);
      lanes.push({ contender, load: planned, cpuUs: [], perSecond: [] });
    }
    for (const lane of lanes) await warmUpLane(lane, plan, warmed.has(lane.contender));
    for (const { contender } of lanes) warmed.add(contender);
    figures.push({ case: measured, rows: await measureLanes(measured, lanes, plan, log) });
  }
  return figures;
}

const isVariant = ({ name }: Contender) => name.startsWith('gateway,');

async function loadLane({ contender, load: planned }: Lane, seconds: number): Promise<Load> {
  const result = await load(planned, seconds);
  contender.child?.clearOutput();
  return result;
}

/** Warms up a gateway, or the relay once. */
async function warmUpLane(lane: Lane, plan: Plan, isWarm: boolean): Promise<void> {
  const { name, child } = lane.contender;
  if (child === undefined || (isWarm && name === 'relay')) return;
  await warmUp(plan, (seconds) => loadLane(lane, seconds));
}

async function measureLanes(
  { name }: Case,
  lanes: readonly Lane[],
  plan: Plan,
  log: (line: string) => void,
): Promise<RequestRow[]> {
  for (let round = 0; round < plan.caseRounds; round++) {
    for (const lane of rotate(lanes, round)) {
      if (lane.contender.name === 'nginx' && round >= plan.nginxRounds) continue;
      const { perSecond, perCpuSecond } = await loadLane(lane, plan.caseSeconds);
      lane.perSecond.push(perSecond);
      lane.cpuUs.push(1e6 / perCpuSecond);
      const where = `${name}, round ${round + 1} of ${plan.caseRounds}, ${lane.contender.name}`;
      log(`${where}: ${(1e6 / perCpuSecond).toFixed(1)} µs of CPU per response`);
    }
  }
  const of = (wanted: ContenderName) => lanes.find(({ contender }) => contender.name === wanted)?.cpuUs;
  const [relay, gateway] = [of('relay'), of('gateway')];
  return lanes.map(({ contender, cpuUs, perSecond }) => ({
    contender: contender.name,
    cpuUs: spread(cpuUs),
    ratio: spread(cpuUs.map((cost, round) => (relay?.[round] ?? Number.NaN) / cost)),
    toGateway: isVariant(contender)
      ? spread(cpuUs.map((cost, round) => cost / (gateway?.[round] ?? Number.NaN)))
      : undefined,
    perSecond: spread(perSecond),
  }));
}

/**
 * Returns the load of a case on a target after one response of each kind was as expected.
 *
 * @param withSessions whether legacy clients have sessions
 * @throws Error if a response is not the expected one
 */
export async function planLoad(
  caller: Caller,
  measured: Exchange | BridgeCase,
  url: URL,
  script: string,
  pid: number | undefined,
  withSessions = true,
): Promise<LoadPlan> {
  const messages = await caseMessages(caller, measured, url, withSessions);
  const [message] = messages;
  if (message === undefined) throw new Error(`${measured.name}: no request`);
  const answerBytes =
    measured.method === 'mixed'
      ? await checkMixed(caller, url, messages.slice(0, 20))
      : await checkAnswer(caller, measured, url, message);
  return { script, url, messages, answerBytes, pid, connections: connectionsOf(measured) };
}

const connectionsOf = (measured: Exchange | BridgeCase) =>
  measured.method === 'bridge' ? connections : measured.connections;

/**
 * Returns the requests of a case. Legacy clients have one session on all connections, since wrk does not tell which connection
 * a request is for: on those of real clients, too, the session of each request is the same. The mixed load has as many sessions as
 * connections, and as many requests as bring every message to every session.
 */
export async function caseMessages(
  caller: Caller,
  measured: Exchange | BridgeCase,
  url: URL,
  withSessions = true,
): Promise<Message[]> {
  const { era } = measured;
  const sessions: (string | undefined)[] = [undefined];
  if (era === 'legacy' && withSessions) {
    sessions.length = 0;
    const count = measured.method === 'mixed' ? connections : 1;
    for (let opened = 0; opened < count; opened++) sessions.push(await openSession(caller, url));
  }
  if (measured.method !== 'mixed') return sessions.map((session) => caseMessage(measured, session));
  return Array.from({ length: 5 * connections }, (_, index) =>
    mixedMessage(era, index, sessions[index % sessions.length]),
  );
}

function caseMessage(measured: Exchange | BridgeCase, session: string | undefined): Message {
  const { era, method } = measured;
  switch (method) {
    case 'list':
      return listMessage(era, session);
    case 'read':
      return readMessage(era, session);
    case 'prompt':
      return promptMessage(era, session);
    case 'bridge':
      return callMessage(era, session);
    default:
      return callMessage(era, session, measured);
  }
}

/** Member of the result that must not be empty. */
const resultMembers = { list: 'tools', read: 'contents', prompt: 'messages', call: 'content', bridge: 'content' };

/** Sends a request and returns the size of the response in bytes. Throws if the response is not the expected one. */
export async function checkAnswer(
  caller: Caller,
  measured: Exchange | BridgeCase,
  url: URL,
  message: Message,
): Promise<number> {
  const { status, body } = await caller.post(url, message);
  const response = parseJson(body);
  const result = at(response, 'result');
  const large = measured.method === 'call' ? measured.answer : undefined;
  const items = at(result, measured.method === 'mixed' ? 'content' : resultMembers[measured.method]);
  const isWhole =
    large === undefined
      ? Array.isArray(items) && items.length > 0
      : isDeepStrictEqual(at(items, 0, 'text') ?? at(result, 'structuredContent', 'rows'), content(large));
  if (status !== 200 || at(result, 'isError') === true || at(response, 'id') !== 1 || !isWhole) {
    throw new Error(`${measured.name} at ${url}: status ${status}, not the expected answer: ${body.slice(0, 300)}`);
  }
  return body.length;
}

/** Sends the messages of the mixed load and returns the average size of the responses in bytes. */
async function checkMixed(caller: Caller, url: URL, messages: readonly Message[]): Promise<number> {
  let [bytes, streams] = [0, 0];
  for (const message of messages) {
    const { status, headers, body } = await caller.post(url, message);
    const isStream = headers['content-type'] === 'text/event-stream';
    const events = body.match(/^data: \{/gm)?.length;
    if (status !== 200 || !body.includes('"result":') || (isStream && events !== mixedEvents + 1)) {
      throw new Error(`mixed load at ${url}: status ${status}, not the expected answer: ${body.slice(0, 300)}`);
    }
    if (isStream) streams++;
    bytes += body.length;
  }
  if (streams !== messages.length / 20) throw new Error(`mixed load at ${url}: ${streams} event streams`);
  return bytes / messages.length;
}

/**
 * Generates load until the engine has compiled the code of the case: until the CPU time per response has not fallen by
 * 3 % for two seconds. The first 60,000 calls cost about twice as much; on a busy machine these take long.
 *
 * @returns number of requests
 */
export async function warmUp(
  { warmUpRequests, warmUpSeconds }: Pick<Plan, 'warmUpRequests' | 'warmUpSeconds'>,
  loaded: (seconds: number) => Promise<Load>,
): Promise<number> {
  let requests = 0;
  let best = 0;
  let steadySeconds = 0;
  for (let second = 0; second < warmUpSeconds && requests < warmUpRequests && steadySeconds < 2; second++) {
    const load = await loaded(1);
    requests += load.requests;
    steadySeconds = load.perCpuSecond > 1.03 * best ? 0 : steadySeconds + 1;
    best = Math.max(best, load.perCpuSecond);
  }
  return requests;
}

/** Rotates the items, so that the order of targets changes between rounds. */
export const rotate = <T>(items: readonly T[], by: number): T[] => {
  const from = by % items.length;
  return [...items.slice(from), ...items.slice(0, from)];
};
