import { at, type Caller, makeCaller, openSession, parseJson } from './caller.ts';
import { type BridgeCase, type Case, cases, type Exchange, type InferenceCase, pairings } from './cases.ts';
import { residentMiB } from './child.ts';
import { percentile, type Spread, spread } from './figures.ts';
import {
  type Contender,
  type ContenderName,
  connectUpstreams,
  type GatewayStart,
  type Running,
  startGateway,
  type Upstreams,
} from './gateway.ts';
import { callMessage, listMessage, type Message } from './messages.ts';
import type { Plan } from './options.ts';
import { connections, type Load, load } from './programs.ts';

/** Figures of a target in a case. */
export interface Row {
  readonly contender: ContenderName | 'grpc-js client';
  readonly perCpuSecond: Spread | undefined;
  /** Requests per CPU-second relative to nginx, or to the gRPC client, in the same round. */
  readonly ratio: Spread | undefined;
  readonly perSecond: Spread | undefined;
  /** Response times of a single caller, and the time added to the median, in milliseconds. */
  readonly p50Ms: number;
  readonly p99Ms: number;
  readonly addedMs: number | undefined;
  readonly rssMiB: number | undefined;
}

/** Figures of a case. */
export interface CaseFigures {
  readonly case: Case | BridgeCase | InferenceCase;
  readonly rows: readonly Row[];
}

/** Target with its requests and measurements. */
export interface Lane {
  readonly contender: Running;
  readonly url: URL;
  readonly messages: readonly Message[];
  readonly answerBytes: number;
  readonly perCpuSecond: number[];
  readonly perSecond: number[];
  readonly times: number[];
}

/**
 * Measures the cases of the given methods, with all targets in turn in every round, so that other activity on the machine
 * affects all of them.
 *
 * @param withLoad false omits measurements with the load generator
 * @param log called after every measurement
 */
export async function measureCases(
  methods: ReadonlySet<string>,
  contenders: readonly Contender[],
  plan: Plan,
  folder: string,
  withLoad: boolean,
  log: (line: string) => void,
): Promise<CaseFigures[]> {
  const figures: CaseFigures[] = [];
  for (const measured of cases.filter(({ method }) => methods.has(method))) {
    using caller = makeCaller();
    const lanes: Lane[] = [];
    for (const contender of contenders) lanes.push(await openLane(caller, contender, measured));
    const rows = await measureRequests(caller, measured.name, lanes, plan, folder, withLoad, log);
    figures.push({ case: measured, rows });
  }
  return figures;
}

/**
 * Warms up the gateways and measures a case of requests, with all lanes in turn in every round.
 *
 * @param name name of the case in the log
 */
export async function measureRequests(
  caller: Caller,
  name: string,
  lanes: readonly Lane[],
  plan: Plan,
  folder: string,
  withLoad: boolean,
  log: (line: string) => void,
): Promise<Row[]> {
  const script = `${folder}/load.lua`;
  const loaded = async (lane: Lane, seconds: number) => {
    const { contender, url, messages, answerBytes } = lane;
    const result = await load(script, url, messages, seconds, answerBytes, contender.pid);
    contender.child?.clearOutput();
    return result;
  };
  for (const lane of lanes) {
    if (withLoad && lane.contender.child !== undefined) await warmUp(plan, (seconds) => loaded(lane, seconds));
  }
  for (let round = 0; round < plan.rounds; round++) {
    for (const lane of rotate(lanes, round)) {
      if (!withLoad || (lane.contender.pid === undefined && round >= plan.directRounds)) continue;
      const { perSecond, perCpuSecond } = await loaded(lane, plan.loadSeconds);
      lane.perSecond.push(perSecond);
      if (lane.contender.pid !== undefined) lane.perCpuSecond.push(perCpuSecond);
      const figure = lane.contender.pid === undefined ? perSecond : perCpuSecond;
      const unit = lane.contender.pid === undefined ? 'per second' : 'per CPU-second';
      const where = `${name}, round ${round + 1} of ${plan.rounds}, ${lane.contender.name}`;
      log(`${where}: ${Math.round(figure)} ${unit}`);
    }
    // The first calls open connections and, without preceding load, compile the code.
    await callSequentially(caller, rotate(lanes, round), plan.singleCalls, withLoad || round > 0 ? 10 : 1_000);
  }
  return lanes.map((lane) => row(lane, lanes));
}

/** Returns the requests of a case: for legacy clients one for each session, with one session per connection. */
export async function caseMessages(caller: Caller, measured: Exchange | BridgeCase, url: URL): Promise<Message[]> {
  const message = measured.method === 'list' ? listMessage : callMessage;
  if (measured.era === 'modern') return [message('modern')];
  const sessions: string[] = [];
  for (let opened = 0; opened < connections; opened++) sessions.push(await openSession(caller, url));
  return sessions.map((session) => message('legacy', session));
}

/** Sends a request and returns the size of the response in bytes. Throws if the response is not the expected one. */
export async function checkAnswer(
  caller: Caller,
  measured: Exchange | BridgeCase,
  url: URL,
  message: Message,
): Promise<number> {
  const { status, body } = await caller.post(url, message);
  const response = parseJson(body);
  const items = at(response, 'result', measured.method === 'list' ? 'tools' : 'content');
  const failed = status !== 200 || at(response, 'result', 'isError') === true;
  if (failed || at(response, 'id') !== 1 || !Array.isArray(items) || items.length === 0) {
    throw new Error(`${measured.name} at ${url}: status ${status}, not the expected answer: ${body.slice(0, 300)}`);
  }
  return body.length;
}

async function openLane(caller: Caller, contender: Contender, measured: Case): Promise<Lane> {
  const url = contender.endpoint(measured.upstream);
  const messages = await caseMessages(caller, measured, url);
  let answerBytes = 0;
  for (const message of messages.slice(0, 1)) answerBytes = await checkAnswer(caller, measured, url, message);
  return { contender, url, messages, answerBytes, perCpuSecond: [], perSecond: [], times: [] };
}

/**
 * Generates load until the engine has compiled the code of the case. Measured: the CPU time of a call falls to less than
 * half within the first 80,000 calls and stays there; on a busy machine these take long.
 *
 * @returns number of requests
 */
export async function warmUp(
  { warmUpRequests, warmUpSeconds }: Pick<Plan, 'warmUpRequests' | 'warmUpSeconds'>,
  loaded: (seconds: number) => Promise<Load>,
): Promise<number> {
  let requests = 0;
  for (let second = 0; second < warmUpSeconds && requests < warmUpRequests; second++) {
    requests += (await loaded(1)).requests;
  }
  return requests;
}

/** Calls the targets in turn with a single caller; the first `ignored` calls do not count. */
async function callSequentially(caller: Caller, lanes: readonly Lane[], count: number, ignored: number): Promise<void> {
  for (let call = -ignored; call < count; call++) {
    for (const { url, messages, times } of lanes) {
      const message = messages[0];
      if (message === undefined) continue;
      const startedAt = performance.now();
      const { status } = await caller.post(url, message);
      const elapsed = performance.now() - startedAt;
      if (status !== 200) throw new Error(`single caller at ${url}: status ${status}`);
      if (call >= 0) times.push(elapsed);
    }
  }
}

/** Rotates the items, so that the order of targets changes between rounds. */
export const rotate = <T>(items: readonly T[], by: number): T[] => {
  const from = by % items.length;
  return [...items.slice(from), ...items.slice(0, from)];
};

function row(lane: Lane, lanes: readonly Lane[]): Row {
  const nginx = lanes.find(({ contender }) => contender.name === 'nginx');
  const direct = lanes.find(({ contender }) => contender.name === 'direct');
  const ratios = lane.perCpuSecond.map((figure, round) => figure / (nginx?.perCpuSecond[round] ?? Number.NaN));
  const p50Ms = percentile(lane.times, 0.5);
  return {
    contender: lane.contender.name,
    perCpuSecond: lane.perCpuSecond.length > 0 ? spread(lane.perCpuSecond) : undefined,
    ratio: lane.perCpuSecond.length > 0 && nginx !== undefined ? spread(ratios) : undefined,
    perSecond: lane.perSecond.length > 0 ? spread(lane.perSecond) : undefined,
    p50Ms,
    p99Ms: percentile(lane.times, 0.99),
    addedMs: direct === undefined || direct === lane ? undefined : p50Ms - percentile(direct.times, 0.5),
    rssMiB: lane.contender.pid === undefined ? undefined : residentMiB(lane.contender.pid),
  };
}

/** Figures of a pairing of eras. */
export interface PairingFigures {
  readonly pairing: Exchange;
  readonly cpuPerCallUs: Spread;
  /** CPU time relative to the pairing within the client's era in the same round; undefined for that pairing. */
  readonly against: Spread | undefined;
  readonly perSecond: Spread;
}

interface PairingLane {
  readonly pairing: Exchange;
  readonly url: URL;
  readonly messages: readonly Message[];
  readonly answerBytes: number;
  readonly cpuPerCallUs: number[];
  readonly perSecond: number[];
}

/**
 * Measures all pairings in turn in every round, on one gateway.
 *
 * @param log called after every measurement
 */
export async function measurePairings(
  start: GatewayStart,
  upstreams: Upstreams,
  plan: Plan,
  folder: string,
  log: (line: string) => void,
): Promise<PairingFigures[]> {
  await using gateway = await startGateway({ ...start, registryFolder: `${folder}/registry-pairings` });
  await connectUpstreams(gateway, upstreams);
  using caller = makeCaller();
  const lanes: PairingLane[] = [];
  for (const pairing of pairings) {
    const url = gateway.endpoint(pairing.upstream);
    const messages = await caseMessages(caller, pairing, url);
    let answerBytes = 0;
    for (const message of messages.slice(0, 1)) answerBytes = await checkAnswer(caller, pairing, url, message);
    lanes.push({ pairing, url, messages, answerBytes, cpuPerCallUs: [], perSecond: [] });
  }
  const loaded = async ({ url, messages, answerBytes }: PairingLane, seconds: number) => {
    const result = await load(`${folder}/pairings.lua`, url, messages, seconds, answerBytes, gateway.child.pid);
    gateway.child.clearOutput();
    return result;
  };
  for (const lane of lanes) await warmUp(plan, (seconds) => loaded(lane, seconds));
  for (let round = 0; round < plan.pairingRounds; round++) {
    for (const lane of rotate(lanes, round)) {
      const { perSecond, perCpuSecond } = await loaded(lane, plan.loadSeconds);
      lane.perSecond.push(perSecond);
      lane.cpuPerCallUs.push(1e6 / perCpuSecond);
      const where = `${lane.pairing.name}, round ${round + 1} of ${plan.pairingRounds}`;
      log(`${where}: ${(1e6 / perCpuSecond).toFixed(1)} µs of CPU per call`);
    }
  }
  return lanes.map((lane) => pairingFigures(lane, lanes));
}

function pairingFigures(
  { pairing, cpuPerCallUs, perSecond }: PairingLane,
  lanes: readonly PairingLane[],
): PairingFigures {
  const plain = lanes.find(({ pairing: { era, upstream } }) => era === pairing.era && upstream === era);
  const ratios = cpuPerCallUs.map((cost, round) => cost / (plain?.cpuPerCallUs[round] ?? Number.NaN));
  return {
    pairing,
    cpuPerCallUs: spread(cpuPerCallUs),
    against: pairing.era === pairing.upstream ? undefined : spread(ratios),
    perSecond: spread(perSecond),
  };
}
