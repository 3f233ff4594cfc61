import { connectService, startGrpcService } from './bridge.ts';
import { makeCaller } from './caller.ts';
import {
  type BridgeCase,
  bridgeCases,
  cases,
  completionAnswers,
  completionStreams,
  type Exchange,
  pairings,
  type StreamCase,
  streamCases,
} from './cases.ts';
import type { Checkout } from './checkout.ts';
import { connectUpstreams, type Upstreams } from './contenders.ts';
import {
  formatRange,
  hundredths,
  type Interval,
  medianInterval,
  type Spread,
  spread,
  table,
  tenths,
  thousandths,
} from './figures.ts';
import { type Gateway, type GatewayStart, startGateway } from './gateway.ts';
import { answerMessages, busyCompletions, inferenceStart, startCompletions } from './inference.ts';
import { bridged } from './messages.ts';
import { connectMixedUsers, mixedUsersName, planMixedUsers, startMixedUpstreams } from './mixed-users.ts';
import type { Options, Part, Plan } from './options.ts';
import { type LoadPlan, load } from './programs.ts';
import { planLoad, warmUp } from './requests.ts';
import { busyStreams, type StreamResult, steadyEveryMs } from './streams.ts';

/** A case passes if its median is at least this, or if its interval contains 1. */
const MIN_MEDIAN = 0.97;
/** Minimum median of every case. */
const MIN_CASE = 0.93;

/** Result of one case: the ratio is the other commit's CPU time divided by this tree's, so more than 1 is faster. */
export interface Comparison {
  readonly name: string;
  readonly thisUs: Spread;
  readonly otherUs: Spread;
  readonly ratio: Interval;
}

/** Load of one case on one gateway. */
interface Workload {
  /** Generates load until the engine has compiled the code of the case. */
  warmUp(): Promise<unknown>;
  /** Generates load and returns the gateway's CPU time per request or chunk, in microseconds. */
  measure(): Promise<number>;
}

/** A case with the servers it needs: how to start a gateway, and how to connect and load it. */
interface Setup {
  readonly start: (side: GatewayStart) => GatewayStart;
  readonly connect: (gateway: Gateway) => Promise<Workload>;
}

interface ComparedCase {
  readonly name: string;
  readonly part: Part;
  readonly prepare: (context: Context) => Promise<Setup>;
}

interface Context {
  readonly upstreams: Upstreams;
  readonly plan: Plan;
  readonly folder: string;
  /** Stops the servers of the case. */
  readonly resources: AsyncDisposableStack;
}

const mixedUsersCase: ComparedCase = {
  name: mixedUsersName,
  part: 'mixed-users',
  async prepare({ plan, folder, resources }) {
    const upstreams = await startMixedUpstreams(folder, resources);
    const caller = resources.use(makeCaller());
    return {
      start: (side) => side,
      async connect(gateway) {
        await connectMixedUsers(gateway, upstreams);
        return requests(gateway, await planMixedUsers(caller, gateway, `${folder}/load.lua`), plan);
      },
    };
  },
};

const compared: readonly ComparedCase[] = [
  ...cases.map((measured) => requestCase(measured, measured.part)),
  mixedUsersCase,
  ...pairings.filter(({ era, upstream }) => era !== upstream).map((measured) => requestCase(measured, 'pairings')),
  ...streamCases.map(streamCase),
  ...bridgeCases.map((measured) => requestCase(measured, 'bridge')),
  completionCase(completionStreams.name, busyCompletionStreams),
  completionCase(completionAnswers.name, completionRequests),
];

/** Parts with cases that can be compared. */
export const comparedParts: ReadonlySet<Part> = new Set(compared.map(({ part }) => part));

/**
 * Compares the gateway of this tree with that of another commit. Each case starts both gateways and loads them in
 * interleaved pairs, with alternating order.
 *
 * @param log called after every pair
 */
export async function compare(
  options: Options,
  start: GatewayStart,
  other: Checkout,
  upstreams: Upstreams,
  folder: string,
  log: (line: string) => void,
): Promise<Comparison[]> {
  const nodeFlags = options.customNodeFlags ? options.nodeFlags : (other.nodeFlags ?? options.nodeFlags);
  const comparisons: Comparison[] = [];
  for (const { name, prepare } of compared.filter(({ part }) => options.parts.has(part))) {
    await using resources = new AsyncDisposableStack();
    const setup = await prepare({ upstreams, plan: options.plan, folder, resources });
    const run = async (side: string, gatewayStart: GatewayStart): Promise<Workload> => {
      const [registryFolder, outputFile] = [`${folder}/compare-${name}-${side}`, `${folder}/compare-${side}.log`];
      return setup.connect(
        resources.use(await startGateway(setup.start({ ...gatewayStart, registryFolder, outputFile }))),
      );
    };
    const workloads = [
      await run('this', start),
      await run('other', { ...start, entry: other.entry, nodeFlags }),
    ] as const;
    for (const workload of workloads) await workload.warmUp();
    const pairs: [thisUs: number, otherUs: number][] = [];
    for (let pair = 0; pair < options.pairs; pair++) {
      const costs: [number, number] = [0, 0];
      for (const side of pair % 2 === 0 ? ([0, 1] as const) : ([1, 0] as const)) {
        costs[side] = await workloads[side].measure();
      }
      pairs.push(costs);
      const [thisUs, otherUs] = costs;
      const ratio = hundredths(otherUs / thisUs);
      log(
        `${name}, pair ${pair + 1} of ${options.pairs}: ${tenths(thisUs)} µs, other ${tenths(otherUs)} µs, ratio ${ratio}`,
      );
    }
    comparisons.push({
      name,
      thisUs: spread(pairs.map(([thisUs]) => thisUs)),
      otherUs: spread(pairs.map(([, otherUs]) => otherUs)),
      ratio: medianInterval(pairs.map(([thisUs, otherUs]) => otherUs / thisUs)),
    });
  }
  return comparisons;
}

/** Returns the table of the comparisons, ending with a line that starts with PASS or FAIL. */
export function comparisonReport(
  comparisons: readonly Comparison[],
  { against, pairs }: Options,
): { readonly text: string; readonly passed: boolean } {
  const failed = comparisons.filter((comparison) => !passes(comparison));
  const figures = table(
    ['case', 'CPU µs, this tree', `CPU µs, ${against}`, 'median ratio', '95 % interval', ''],
    comparisons.map((comparison) => {
      const { name, thisUs, otherUs, ratio } = comparison;
      const interval = `${thousandths(ratio.low)}-${thousandths(ratio.high)}`;
      const result = passes(comparison) ? 'pass' : 'FAIL';
      return [
        name,
        formatRange(thisUs, tenths),
        formatRange(otherUs, tenths),
        thousandths(ratio.median),
        interval,
        result,
      ];
    }),
  );
  const rule = `median at least ${MIN_MEDIAN} or interval contains 1, no median below ${MIN_CASE}`;
  const summary =
    failed.length === 0
      ? `PASS: all ${comparisons.length} cases (${rule})`
      : `FAIL: ${failed.map(({ name, ratio }) => `${name} ${thousandths(ratio.median)}`).join(', ')} (${rule})`;
  const introduction =
    `${pairs} interleaved pairs per case against ${against}. The ratio is the CPU time of ${against} divided by that of ` +
    'this tree, per request or chunk: more than 1 is faster.';
  return { text: `${introduction}\n\n${figures}\n\n${summary}`, passed: failed.length === 0 };
}

function passes({ ratio: { median, low, high } }: Comparison): boolean {
  return median >= MIN_CASE && (median >= MIN_MEDIAN || (low <= 1 && high >= 1));
}

function requestCase(measured: Exchange | BridgeCase, part: Part): ComparedCase {
  return {
    name: measured.name,
    part,
    async prepare({ upstreams, plan, folder, resources }) {
      const service = measured.method === 'bridge' ? resources.use(await startGrpcService(folder)) : undefined;
      const caller = resources.use(makeCaller());
      return {
        start: (side) => side,
        async connect(gateway) {
          if (service !== undefined) await connectService(gateway, service);
          else await connectUpstreams(gateway, upstreams);
          const url = gateway.endpoint(measured.method === 'bridge' ? bridged.namespace : measured.upstream);
          return requests(
            gateway,
            await planLoad(caller, measured, url, `${folder}/load.lua`, gateway.child.pid),
            plan,
          );
        },
      };
    },
  };
}

function requests(gateway: Gateway, planned: LoadPlan, plan: Plan): Workload {
  const run = async (seconds: number) => {
    const result = await load(planned, seconds);
    gateway.child.clearOutput();
    return result;
  };
  return {
    warmUp: () => warmUp(plan, run),
    measure: async () => 1e6 / (await run(plan.loadSeconds)).perCpuSecond,
  };
}

function streamCase(measured: StreamCase): ComparedCase {
  return {
    name: measured.name,
    part: 'streams',
    async prepare({ upstreams, plan, folder, resources }) {
      const caller = resources.use(makeCaller());
      return {
        start: (side) => side,
        async connect(gateway) {
          await connectUpstreams(gateway, upstreams);
          const url = gateway.endpoint(measured.era);
          return streams(gateway, await busyStreams(caller, measured, url, folder, gateway.child.pid), plan);
        },
      };
    },
  };
}

function streams(
  gateway: Gateway,
  run: (seconds: number, everyMs?: number) => Promise<StreamResult>,
  plan: Plan,
): Workload {
  return {
    async warmUp() {
      await run(plan.streamWarmUpSeconds);
      await run(2 * plan.streamSeconds, steadyEveryMs);
    },
    async measure() {
      const { cpuPerChunkUs } = await run(plan.streamSeconds, steadyEveryMs);
      gateway.child.clearOutput();
      return cpuPerChunkUs;
    },
  };
}

function completionCase(
  name: string,
  connect: (gateway: Gateway, context: Context) => Promise<Workload>,
): ComparedCase {
  return {
    name,
    part: 'inference',
    async prepare(context) {
      const server = context.resources.use(await startCompletions(context.folder));
      return { start: (side) => inferenceStart(side, server), connect: (gateway) => connect(gateway, context) };
    },
  };
}

async function busyCompletionStreams(gateway: Gateway, { plan, folder }: Context): Promise<Workload> {
  return streams(gateway, busyCompletions(gateway.completions, folder, gateway.child.pid), plan);
}

async function completionRequests(gateway: Gateway, { plan, folder, resources }: Context): Promise<Workload> {
  const messages = answerMessages();
  const caller = resources.use(makeCaller());
  let answerBytes = 0;
  for (const message of messages.slice(0, 1)) {
    const { status, body } = await caller.post(gateway.completions, message);
    if (status !== 200) throw new Error(`${gateway.completions}: status ${status}: ${body.slice(0, 300)}`);
    answerBytes = body.length;
  }
  const planned = { script: `${folder}/load.lua`, url: gateway.completions, messages, answerBytes };
  return requests(gateway, { ...planned, pid: gateway.child.pid }, plan);
}
