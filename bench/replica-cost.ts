import { type Bench, startConnected } from './bench.ts';
import { makeCaller } from './caller.ts';
import { casesOf, type RequestCase } from './cases.ts';
import { medianInterval, percentile, thousandths } from './figures.ts';
import type { Gateway } from './gateway.ts';
import { callSequentially } from './latency.ts';
import { type LoadPlan, loadWorkload } from './load.ts';
import { startReplica, waitForReplicas, withPostgres } from './replicas.ts';
import { planLoad } from './requests.ts';
import { type Lane, type MeasuredCase, measureRounds, type Workload } from './rounds.ts';
import { costTable, type Report } from './tables.ts';
import { connectUpstreams, gatewayTarget } from './targets.ts';

/** Limits of the CPU time on PostgreSQL relative to that with a registry folder. A list has to tie. */
const costBounds = { list: { limit: 1.03 }, call: { limit: 1.1 } };
/** Limit of the added median response time of a single caller, in milliseconds. */
const addedBound = { limit: 0.1 };
/** Floor of the responses per second of two processes relative to one, with load generator and upstream on the same cores. */
const processesBound = { floor: 1 };

/** Processes of each kind that are compared: what V8 compiles differs from start to start by as much as the limits allow. */
const STARTS = 3;

/** Target that is started several times, with the measurements of all starts. */
interface RestartedLane extends Lane {
  /** Response times of a single caller in milliseconds. */
  readonly times: number[];
  workload: Workload;
}

/** A measurement is never exactly a tie: the 95 % interval has to contain 1. */
function isTie({ bound, lanes: [alone, replica] }: MeasuredCase): boolean {
  const ratios = replica?.samples.map(({ cpuUs }, at) => cpuUs / (alone?.samples[at]?.cpuUs ?? Number.NaN)) ?? [];
  return bound === costBounds.list && medianInterval(ratios).low <= 1;
}

/** Returns a case with targets that are started later. */
function restartedCase(request: RequestCase) {
  const workload: Workload = { warmUp: async () => undefined, measure: () => Promise.reject(new Error('not started')) };
  const lane = (name: string): RestartedLane => ({ name, samples: [], times: [], workload });
  const bound = costBounds[request.method === 'list' ? 'list' : 'call'];
  return { request, title: request.title, bound, lanes: [lane('registry folder'), lane('PostgreSQL')] as const };
}

/** Measures the same requests with a registry folder and on PostgreSQL, in turn in every round of every start. */
export async function measureReplicaCost(bench: Bench): Promise<Report> {
  const { plan, folder, log, upstreams } = bench;
  const rounds = Math.ceil(plan.rounds / STARTS);
  await using owned = new AsyncDisposableStack();
  const shared = await withPostgres(bench, owned);
  const cases = casesOf('list', 'call').map(restartedCase);
  for (let start = 0; start < STARTS; start++) {
    await using running = new AsyncDisposableStack();
    const alone = await startConnected(bench, `alone-${start}`, running);
    const database = await shared.postgres.createDatabase();
    const replica = running.use(await startReplica(shared, `replica-${start}`, { database }));
    await connectUpstreams(replica, upstreams);
    for (const measured of cases) {
      using caller = makeCaller();
      const single: { readonly load: LoadPlan; readonly times: number[] }[] = [];
      for (const [index, lane] of measured.lanes.entries()) {
        const target = gatewayTarget(index === 0 ? alone : replica);
        const load = await planLoad(caller, measured.request, target, folder);
        lane.workload = loadWorkload(load, target, plan);
        single.push({ load, times: lane.times });
      }
      await measureRounds([measured], { rounds }, log);
      await callSequentially(caller, single, plan.singleCalls);
    }
  }
  return {
    block: 'replica-cost',
    measured: `${STARTS} starts with ${rounds} rounds of ${plan.seconds} s`,
    tables: [
      costTable('CPU µs per response', cases, isTie),
      {
        head: ['single caller, p50 ms', 'registry folder', 'PostgreSQL', 'added'],
        rows: cases.map(({ title, lanes }) => {
          const [alone, replica] = [percentile(lanes[0].times, 0.5), percentile(lanes[1].times, 0.5)];
          const cells = [thousandths(alone), thousandths(replica)];
          return { title, cells, figure: replica - alone, format: thousandths, bound: addedBound };
        }),
      },
    ],
  };
}

/** Measures the same requests on one process and on two that share its ports. */
export async function measureProcesses(bench: Bench): Promise<Report> {
  const { plan, folder, log, upstreams } = bench;
  await using owned = new AsyncDisposableStack();
  const shared = await withPostgres(bench, owned);
  const start = async (processes: number) => {
    const variables = { SERVICE_PROCESSES: String(processes) };
    const database = await shared.postgres.createDatabase();
    const gateway = owned.use(await startReplica(shared, `processes-${processes}`, { database, variables }));
    await waitForReplicas(gateway, processes);
    await connectUpstreams(gateway, upstreams);
    return gateway;
  };
  const gateways = [await start(1), await start(2)];
  using caller = makeCaller();
  const lane = async (request: RequestCase, gateway: Gateway, name: string): Promise<Lane> => {
    const target = gatewayTarget(gateway);
    const { warmUp, measure } = loadWorkload(await planLoad(caller, request, target, folder), target, plan);
    const inTotal = async () => {
      const { perSecond } = await measure();
      return { perSecond, cpuUs: 1e6 / perSecond };
    };
    return { name, samples: [], workload: { warmUp, measure: inTotal } };
  };
  const cases: MeasuredCase[] = [];
  for (const request of casesOf('list', 'call').filter(({ era }) => era === 'legacy')) {
    const lanes = await Promise.all(gateways.map((gateway, index) => lane(request, gateway, `${index + 1}`)));
    cases.push({ title: request.title, bound: processesBound, lanes });
  }
  await measureRounds(cases, plan, log);
  return {
    block: 'replica-processes',
    measured: `${plan.rounds} rounds of ${plan.seconds} s`,
    tables: [costTable('`SERVICE_PROCESSES`, µs per response', cases)],
  };
}
