import { join } from 'node:path';
import { type Bench, startNamed } from './bench.ts';
import { connectService, startGrpcService } from './bridge.ts';
import { makeCaller } from './caller.ts';
import { bridgeCases, completionCase, crossings, type RequestCase, requestCases, streamCases } from './cases.ts';
import { extractCommit } from './checkout.ts';
import { formatRange, hundredths, medianInterval, spread, table, tenths, thousandths } from './figures.ts';
import type { Gateway, GatewayStart } from './gateway.ts';
import { completionStreams, inferenceStart, startCompletions } from './inference.ts';
import { loadWorkload } from './load.ts';
import { connectMixedUsers, mixedUsersName, planMixedUsers, startMixedUpstreams } from './mixed-users.ts';
import type { Part } from './options.ts';
import { planLoad } from './requests.ts';
import { makeLane, measureRounds, type Workload } from './rounds.ts';
import { progressStreams } from './streams.ts';
import { connectUpstreams, gatewayTarget } from './targets.ts';

/** A case passes if its median is at least this, or if its interval contains 1. */
const MIN_MEDIAN = 0.97;
/** Minimum median of every case. */
const MIN_CASE = 0.93;

/** How gateways of a case are started and loaded. */
export interface Setup {
  readonly start?: Partial<GatewayStart>;
  readonly connect: (gateway: Gateway) => Promise<Workload>;
}

/** Case that loads nothing but gateways. */
export interface GatewayCase {
  readonly name: string;
  readonly title: string;
  readonly part: Part;
  /** Starts the servers of the case, which `owned` stops. */
  readonly prepare: (bench: Bench, owned: AsyncDisposableStack) => Promise<Setup>;
}

const mixedUsersCase: GatewayCase = {
  name: mixedUsersName,
  title: mixedUsersName,
  part: mixedUsersName,
  async prepare({ plan, folder }, owned) {
    const upstreams = await startMixedUpstreams(folder, owned);
    const caller = owned.use(makeCaller());
    return {
      async connect(gateway) {
        await connectMixedUsers(gateway, upstreams);
        return loadWorkload(await planMixedUsers(caller, gateway, folder), gatewayTarget(gateway), plan);
      },
    };
  },
};

const requestsOf = (measured: RequestCase): GatewayCase => ({
  ...measured,
  async prepare({ upstreams, plan, folder }, owned) {
    const service = measured.part === 'bridge' ? await startGrpcService(folder, owned) : undefined;
    const caller = owned.use(makeCaller());
    return {
      async connect(gateway) {
        if (service !== undefined) await connectService(gateway, service);
        else await connectUpstreams(gateway, upstreams);
        const target = gatewayTarget(gateway);
        return loadWorkload(await planLoad(caller, measured, target, folder), target, plan);
      },
    };
  },
});

const progressCases = streamCases.map(
  (measured): GatewayCase => ({
    ...measured,
    async prepare(bench, owned) {
      const caller = owned.use(makeCaller());
      return {
        async connect(gateway) {
          await connectUpstreams(gateway, bench.upstreams);
          return progressStreams(caller, measured, gatewayTarget(gateway), bench);
        },
      };
    },
  }),
);

const completions: GatewayCase = {
  ...completionCase,
  async prepare(bench, owned) {
    const server = await startCompletions(bench.folder, owned);
    const connect = async (gateway: Gateway) => completionStreams(gateway.completions, gatewayTarget(gateway), bench);
    return { start: inferenceStart(server), connect };
  },
};

/** Cases that can be compared with another commit, and profiled. */
export const gatewayCases: readonly GatewayCase[] = [
  ...requestCases.map(requestsOf),
  mixedUsersCase,
  ...crossings.map(requestsOf),
  ...progressCases,
  ...bridgeCases.map(requestsOf),
  completions,
];

/**
 * Compares the gateway of this tree with that of another commit: each case starts both and loads them in interleaved pairs, with
 * alternating order. Returns a table that ends with a line that starts with PASS or FAIL.
 */
export async function compare(
  bench: Bench,
  commit: string,
): Promise<{ readonly text: string; readonly passed: boolean }> {
  const { options, folder, log } = bench;
  const selected = gatewayCases.filter(({ part }) => options.parts.has(part));
  if (selected.length === 0) {
    const parts = new Set(gatewayCases.map(({ part }) => part));
    throw new Error(`--against: expected --only with ${[...parts].join(', ')}`);
  }
  const other = await extractCommit(commit, join(import.meta.dirname, '..'), folder, log);
  const nodeFlags = options.customNodeFlags ? options.nodeFlags : (other.nodeFlags ?? options.nodeFlags);
  const rows: string[][] = [];
  const failed: string[] = [];
  for (const { name, prepare } of selected) {
    await using owned = new AsyncDisposableStack();
    const { start, connect } = await prepare(bench, owned);
    const run = async (side: string, gatewayStart: Partial<GatewayStart> = {}) =>
      makeLane(
        side,
        await connect(owned.use(await startNamed(bench, `${name}-${side}`, { ...start, ...gatewayStart }))),
      );
    const lanes = [await run('this'), await run('other', { entry: other.entry, nodeFlags })];
    await measureRounds([{ title: name, lanes }], { rounds: options.pairs }, log);
    const [mine = [], theirs = []] = lanes.map(({ samples }) => samples.map(({ cpuUs }) => cpuUs));
    const ratio = medianInterval(mine.map((cpuUs, pair) => (theirs[pair] ?? Number.NaN) / cpuUs));
    const isPassed = ratio.median >= MIN_CASE && (ratio.median >= MIN_MEDIAN || (ratio.low <= 1 && ratio.high >= 1));
    if (!isPassed) failed.push(`${name} ${thousandths(ratio.median)}`);
    log(`${name}: ratio ${hundredths(ratio.median)}`);
    rows.push([
      name,
      formatRange(spread(mine), tenths),
      formatRange(spread(theirs), tenths),
      thousandths(ratio.median),
      `${thousandths(ratio.low)}-${thousandths(ratio.high)}`,
      isPassed ? 'pass' : 'FAIL',
    ]);
  }
  const rule = `median at least ${MIN_MEDIAN} or interval contains 1, no median below ${MIN_CASE}`;
  const passed = failed.length === 0;
  return {
    text: [
      `${options.pairs} interleaved pairs per case against ${commit}. The ratio is the CPU time of ${commit} divided by that of this tree, per request or chunk: more than 1 is faster.`,
      table(['case', 'CPU µs, this tree', `CPU µs, ${commit}`, 'median ratio', '95 % interval', ''], rows),
      passed ? `PASS: all ${rows.length} cases (${rule})` : `FAIL: ${failed.join(', ')} (${rule})`,
    ].join('\n\n'),
    passed,
  };
}
