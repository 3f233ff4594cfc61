import { isDeepStrictEqual } from 'node:util';
import { at, type Caller, makeCaller, openSession, parseJson } from './caller.ts';
import { type BridgeCase, type Case, type CaseName, cases, type Exchange, type RequestPart } from './cases.ts';
import type { Contender, ContenderName } from './contenders.ts';
import { type CostRatio, type CostSpread, costRatio, costSpread, type Spread, spread } from './figures.ts';
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
  readonly cpuUs: CostSpread;
  /** CPU time of the relay relative to it. */
  readonly ratio: CostRatio;
  /** CPU time of nginx relative to it, in the rounds with nginx. */
  readonly nginxRatio: CostRatio;
  /** CPU time relative to that of the gateway with default settings; undefined for other targets. */
  readonly toGateway: CostRatio | undefined;
  readonly perSecond: Spread;
}

/** Figures of a case of requests. */
export interface RequestFigures {
  readonly case: Case;
  readonly rounds: number;
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

/** Parts that are measured together: the garbage of large bodies must not be collected during small requests. */
const small: readonly RequestPart[] = ['list', 'call', 'read'];
const groups: readonly (readonly RequestPart[])[] = [small, ['large'], ['mixed']];

/** A ratio within this factor of its floor is measured in more rounds. */
const closeFactor = 1.15;

/** Case with its targets. */
interface Prepared {
  readonly case: Case;
  readonly lanes: readonly Lane[];
}

/**
 * Measures the cases of the given parts. In every round all cases of a group are measured, each with all its targets in
 * turn, so that other activity on the machine affects all of them.
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
  using caller = makeCaller();
  const figures: RequestFigures[] = [];
  const warmed = new Set<Contender>();
  for (const group of groups) {
    const prepared: Prepared[] = [];
    for (const measured of cases.filter(({ part }) => parts.has(part) && group.includes(part))) {
      const lanes = await makeLanes(caller, measured, contenders, folder);
      const warmUpSeconds = group === small ? plan.warmUpSeconds : plan.otherWarmUpSeconds;
      for (const lane of lanes) await warmUpLane(lane, { ...plan, warmUpSeconds }, warmed.has(lane.contender));
      for (const { contender } of lanes) warmed.add(contender);
      prepared.push({ case: measured, lanes });
    }
    const rounds = group === small ? plan.caseRounds : plan.otherRounds;
    for (let round = 0; round < rounds; round++) {
      for (const one of prepared) await measureRound(one, round, plan, log);
    }
    const close = prepared.filter(isClose).map(withoutVariants);
    for (let round = rounds; round < plan.closeRounds; round++) {
      for (const one of close) await measureRound(one, round, plan, log);
    }
    for (const { case: measured, lanes } of prepared) {
      const most = Math.max(...lanes.map(({ cpuUs }) => cpuUs.length));
      figures.push({ case: measured, rounds: most, rows: rowsOf(lanes) });
    }
  }
  return figures;
}

const isVariant = ({ name }: Contender) => name.startsWith('gateway,');

/** Returns the targets of a case, with the load for each. */
async function makeLanes(
  caller: Caller,
  measured: Case,
  contenders: readonly Contender[],
  folder: string,
): Promise<Lane[]> {
  const lanes: Lane[] = [];
  for (const contender of contenders) {
    if (isVariant(contender) && !variedCases.has(measured.name)) continue;
    const url = contender.endpoint(measured.upstream);
    const withSessions = contender.name !== 'relay' && contender.name !== 'nginx';
    const planned = await planLoad(caller, measured, url, `${folder}/load.lua`, contender.pid, withSessions);
    lanes.push({ contender, load: planned, cpuUs: [], perSecond: [] });
  }
  return lanes;
}

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

async function measureRound(
  { case: { name }, lanes }: Prepared,
  round: number,
  plan: Plan,
  log: (line: string) => void,
): Promise<void> {
  for (const lane of rotate(lanes, round)) {
    if (lane.contender.name === 'nginx' && round >= plan.nginxRounds) continue;
    const { perSecond, perCpuSecond } = await loadLane(lane, plan.caseSeconds);
    lane.perSecond.push(perSecond);
    lane.cpuUs.push(1e6 / perCpuSecond);
    log(
      `${name}, round ${round + 1}, ${lane.contender.name}: ${(1e6 / perCpuSecond).toFixed(1)} µs of CPU per response`,
    );
  }
}

/** Whether the floor of a case is so close to its ratio that a few rounds do not show whether it is met. */
function isClose({ case: { floor }, lanes }: Prepared): boolean {
  const ratio = rowsOf(lanes).find(({ contender }) => contender === 'gateway')?.ratio.figure;
  if (floor === undefined || ratio === undefined) return false;
  return ratio > floor / closeFactor && ratio < floor * closeFactor;
}

const withoutVariants = (prepared: Prepared): Prepared => ({
  ...prepared,
  lanes: prepared.lanes.filter(({ contender }) => !isVariant(contender)),
});

function rowsOf(lanes: readonly Lane[]): RequestRow[] {
  const of = (wanted: ContenderName) => lanes.find(({ contender }) => contender.name === wanted)?.cpuUs ?? [];
  const [relay, nginx, gateway] = [of('relay'), of('nginx'), of('gateway')];
  return lanes.map(({ contender, cpuUs, perSecond }) => ({
    contender: contender.name,
    cpuUs: costSpread(cpuUs),
    ratio: costRatio(relay, cpuUs),
    nginxRatio: costRatio(nginx, cpuUs),
    toGateway: isVariant(contender) ? costRatio(cpuUs, gateway) : undefined,
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
