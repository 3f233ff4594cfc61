import { makeCaller } from './caller.ts';
import { type Case, cases } from './cases.ts';
import { connectUpstreams } from './contenders.ts';
import { type Interval, medianInterval, percentile, type Spread, spread } from './figures.ts';
import type { Gateway } from './gateway.ts';
import type { Plan } from './options.ts';
import { type LoadPlan, load } from './programs.ts';
import { type ReplicaBench, waitForReplicas } from './replica-bench.ts';
import { planLoad, rotate, warmUp } from './requests.ts';
import { callSequentially } from './rounds.ts';

/** Limits of the CPU time on PostgreSQL relative to that with a registry folder, and of the added median response time. */
export const costLimits = {
  /** A tie: it has to be exceeded by the whole 95 % interval as well. */
  list: 1.03,
  call: 1.1,
  addedMs: 0.1,
} as const;

/** Limit of the responses per second of two processes relative to one, with load generator and upstream on the same cores. */
export const processesFloor = 1;

/** Figures of a case on a replica and on a gateway with a registry folder. */
export interface CostFigures {
  readonly case: Case;
  /** CPU time per response in microseconds. */
  readonly folderUs: Spread;
  readonly postgresUs: Spread;
  /** CPU time on PostgreSQL relative to that with a folder, in the same round. */
  readonly ratio: Interval;
  /** Median response time of a single caller. */
  readonly folderMs: number;
  readonly postgresMs: number;
}

/** Figures of a case on one process and on two. */
export interface ProcessFigures {
  readonly case: Case;
  readonly onePerSecond: Spread;
  readonly twoPerSecond: Spread;
  /** Responses per second of two processes relative to one, in the same round. */
  readonly ratio: Interval;
  readonly oneUs: Spread;
  readonly twoUs: Spread;
}

/** Measurements of a case on gateways of one kind: one for each round, and response times of a single caller. */
interface Measurements {
  readonly cpuUs: number[];
  readonly perSecond: number[];
  readonly times: number[];
}

/** A gateway with the load of a case. */
interface Lane extends Measurements {
  readonly gateway: Gateway;
  readonly load: LoadPlan;
}

function noMeasurements(): Measurements {
  return { cpuUs: [], perSecond: [], times: [] };
}

const listsAndCalls = cases.filter(({ part }) => part === 'list' || part === 'call');

/** Processes of each kind that are compared: what V8 compiles differs from start to start by as much as the limits allow. */
const STARTS = 3;

/** Measures the same requests on a replica and on a gateway with a registry folder, in turn in every round of every start. */
export async function measureCost(bench: ReplicaBench): Promise<CostFigures[]> {
  const plan = { ...bench.plan, replicaRounds: Math.ceil(bench.plan.replicaRounds / STARTS) };
  const measured = listsAndCalls.map((each) => ({ case: each, folder: noMeasurements(), shared: noMeasurements() }));
  for (let start = 0; start < STARTS; start++) {
    await using alone = await bench.startAlone(`alone-${start}`);
    await using replica = await bench.startReplica(`replica-${start}`, await bench.postgres.createDatabase());
    for (const gateway of [alone, replica]) await connectUpstreams(gateway, bench.upstreams);
    for (const { case: measuredCase, folder, shared } of measured) {
      using caller = makeCaller();
      const lanes = await lanesOf(bench, measuredCase, [alone, replica], [folder, shared]);
      await measureRounds(lanes, plan);
      await callSequentially(caller, lanes, plan.singleCalls * plan.singleRounds);
    }
  }
  return measured.map(({ case: measuredCase, folder, shared }) => {
    const found = {
      case: measuredCase,
      folderUs: spread(folder.cpuUs),
      postgresUs: spread(shared.cpuUs),
      ratio: medianInterval(shared.cpuUs.map((cost, at) => cost / (folder.cpuUs[at] ?? Number.NaN))),
      folderMs: percentile(folder.times, 0.5),
      postgresMs: percentile(shared.times, 0.5),
    };
    const { ratio, folderMs, postgresMs } = found;
    const added = (postgresMs - folderMs).toFixed(3);
    bench.log(
      `replicas, ${measuredCase.name}: ${ratio.median.toFixed(3)} times the CPU time with a folder, p50 ${added} ms more`,
    );
    return found;
  });
}

/** Measures the same requests on one process and on two that share its ports. */
export async function measureProcesses(bench: ReplicaBench): Promise<ProcessFigures[]> {
  const { plan, log, upstreams, postgres } = bench;
  await using one = await bench.startReplica('one-process', await postgres.createDatabase());
  await using two = await bench.startReplica('two-processes', await postgres.createDatabase(), {
    variables: { SERVICE_PROCESSES: '2' },
  });
  await waitForReplicas(two, 2);
  for (const gateway of [one, two]) await connectUpstreams(gateway, upstreams);
  const figures: ProcessFigures[] = [];
  for (const measured of listsAndCalls.filter(({ era }) => era === 'legacy')) {
    const [single, both] = await lanesOf(bench, measured, [one, two]);
    if (!single || !both) throw new Error('there are two lanes');
    await measureRounds([single, both], plan);
    const found = {
      case: measured,
      onePerSecond: spread(single.perSecond),
      twoPerSecond: spread(both.perSecond),
      ratio: medianInterval(both.perSecond.map((rate, at) => rate / (single.perSecond[at] ?? Number.NaN))),
      oneUs: spread(single.cpuUs),
      twoUs: spread(both.cpuUs),
    };
    log(`replicas, ${measured.name}: two processes answer ${found.ratio.median.toFixed(2)} times as many requests`);
    figures.push(found);
  }
  return figures;
}

async function lanesOf(
  { folder, plan }: ReplicaBench,
  measured: Case,
  gateways: readonly Gateway[],
  measurements: readonly Measurements[] = gateways.map(noMeasurements),
): Promise<readonly Lane[]> {
  using caller = makeCaller();
  const lanes: Lane[] = [];
  for (const [at, gateway] of gateways.entries()) {
    const url = gateway.endpoint(measured.upstream);
    const planned = await planLoad(caller, measured, url, `${folder}/load.lua`, gateway.child.pid);
    lanes.push({ gateway, load: planned, ...(measurements[at] ?? noMeasurements()) });
  }
  for (const lane of lanes) await warmUp(plan, (seconds) => load(lane.load, seconds));
  return lanes;
}

async function measureRounds(lanes: readonly Lane[], { replicaRounds, caseSeconds }: Plan): Promise<void> {
  for (let round = 0; round < replicaRounds; round++) {
    for (const { gateway, load: planned, cpuUs, perSecond } of rotate(lanes, round)) {
      const result = await load(planned, caseSeconds);
      gateway.child.clearOutput();
      cpuUs.push(1e6 / result.perCpuSecond);
      perSecond.push(result.perSecond);
    }
  }
}
