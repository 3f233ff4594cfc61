import type { Caller } from './caller.ts';
import type { BridgeCase, InferenceCase } from './cases.ts';
import { residentMiB } from './child.ts';
import type { ContenderName, Running } from './contenders.ts';
import { percentile, type Spread, spread } from './figures.ts';
import type { Plan } from './options.ts';
import { type LoadPlan, load } from './programs.ts';
import { rotate, warmUp } from './requests.ts';

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
  readonly case: BridgeCase | InferenceCase;
  readonly rows: readonly Row[];
}

/** Target with its load and measurements. */
export interface Lane {
  readonly contender: Running;
  readonly load: LoadPlan;
  readonly perCpuSecond: number[];
  readonly perSecond: number[];
  /** Response times of a single caller in milliseconds. */
  readonly times: number[];
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
  log: (line: string) => void,
): Promise<Row[]> {
  const loaded = async ({ contender, load: planned }: Lane, seconds: number) => {
    const result = await load(planned, seconds);
    contender.child?.clearOutput();
    return result;
  };
  for (const lane of lanes) {
    if (lane.contender.child !== undefined) await warmUp(plan, (seconds) => loaded(lane, seconds));
  }
  for (let round = 0; round < plan.rounds; round++) {
    for (const lane of rotate(lanes, round)) {
      if (lane.contender.pid === undefined && round >= plan.directRounds) continue;
      const { perSecond, perCpuSecond } = await loaded(lane, plan.loadSeconds);
      lane.perSecond.push(perSecond);
      if (lane.contender.pid !== undefined) lane.perCpuSecond.push(perCpuSecond);
      const figure = lane.contender.pid === undefined ? perSecond : perCpuSecond;
      const unit = lane.contender.pid === undefined ? 'per second' : 'per CPU-second';
      const where = `${name}, round ${round + 1} of ${plan.rounds}, ${lane.contender.name}`;
      log(`${where}: ${Math.round(figure)} ${unit}`);
    }
    await callSequentially(caller, rotate(lanes, round), plan.singleCalls);
  }
  return lanes.map((lane) => row(lane, lanes));
}

/** Calls the targets in turn with a single caller. The first ten calls, which open connections, do not count. */
export async function callSequentially(
  caller: Caller,
  lanes: readonly Pick<Lane, 'load' | 'times'>[],
  count: number,
): Promise<void> {
  for (let call = -10; call < count; call++) {
    for (const { load: planned, times } of lanes) {
      const elapsed = await singleCall(caller, planned);
      if (call >= 0) times.push(elapsed);
    }
  }
}

/** Sends the first request of a load and returns the response time in milliseconds. */
export async function singleCall(caller: Caller, { url, messages }: LoadPlan): Promise<number> {
  const [message] = messages;
  if (message === undefined) throw new Error(`no request for ${url}`);
  const startedAt = performance.now();
  const { status } = await caller.post(url, message);
  if (status !== 200) throw new Error(`single caller at ${url}: status ${status}`);
  return performance.now() - startedAt;
}

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
