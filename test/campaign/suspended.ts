import type { Campaign } from './campaign.ts';
import { INSPECTOR_ARGS, ProcessProbe, type ResourceUsage } from './process-probe.ts';
import type { SuspensionTally } from './suspended-client.ts';
import { type RestartRound, SuspensionRun } from './suspended-run.ts';
import { quantile } from './tally.ts';

const CALLS = 500;
const WAVES = 10;
/** Timeout of suspended calls, in milliseconds: longer than it takes to suspend all of them. */
const TIMEOUT_MS = 8_000;
/** The same for the restarts of the gateway. */
const LONG_MS = 300_000;
const MEGABYTE = 1024 * 1024;
/** Time limit for the gateway to release the resources of a wave, in milliseconds. */
const SETTLE_MS = 30_000;
const CLASSES = ['SuspendableCall', 'RelayedCall', 'ResponseWriter', 'ServerResponse'];
/** Limits without calls in flight: instances per class, sockets, and growth of the heap since the first wave. */
const MAX = { instances: 8, sockets: 16, heapBytes: 20 * MEGABYTE, heapPart: 0.1 };

/** Resource usage without calls in flight, and the number of streams of pooled sessions. */
interface IdleState {
  readonly usage: ResourceUsage;
  readonly streams: number;
}

interface WavesResult {
  readonly tally: SuspensionTally;
  /** After the first wave, and after the last. */
  readonly first: IdleState;
  readonly last: IdleState;
}

interface RestartsResult {
  readonly terminated: readonly RestartRound[];
  readonly killed: readonly RestartRound[];
  readonly tally: SuspensionTally;
}

/**
 * Suspends 500 concurrent calls of several users in two namespaces: no client may access another's call, abandoned calls
 * must be canceled upstream, and at the end the gateway must not retain any of them. Then restarts gateways with 500
 * suspended calls. A round is a wave of calls; for every two rounds the gateway is terminated and killed once.
 */
export const suspendedCampaign: Campaign = {
  name: 'suspended',
  title: `${CALLS} concurrent suspended calls, and restarts meanwhile`,
  async run(print, rounds = WAVES) {
    const waves = await runWaves(rounds, print);
    const restarts = await runRestarts(Math.ceil(rounds / 2), print);
    const failures = [...waves.tally.failures, ...restarts.tally.failures];
    for (const line of failures) print(`  ${line}`);
    return { passed: failures.length === 0, report: report(rounds, waves, restarts, failures) };
  },
};

async function runWaves(rounds: number, print: (line: string) => void): Promise<WavesResult> {
  const run = await SuspensionRun.start({ timeoutMs: TIMEOUT_MS, nodeArgs: INSPECTOR_ARGS });
  const probe = await ProcessProbe.connect(run.gateway);
  const { tally } = run;
  const wave = async (number: number) => {
    await run.wave(CALLS);
    print(`wave ${number}: ${tally.completed} of ${tally.calls} calls completed, ${tally.failures.length} failures`);
  };
  try {
    await wave(1);
    const first = await measureIdle(run, probe);
    for (let number = 2; number <= rounds; number++) await wave(number);
    const last = rounds === 1 ? first : await measureIdle(run, probe);
    tally.failures.push(...excess(first), ...excess(last), ...growth(first.usage, last.usage));
    // A process does not exit while an inspector is connected.
    probe.close();
    await run.stop();
    return { tally, first, last };
  } finally {
    await run.close();
  }
}

async function runRestarts(rounds: number, print: (line: string) => void): Promise<RestartsResult> {
  const run = await SuspensionRun.start({ timeoutMs: LONG_MS });
  const [terminated, killed]: [RestartRound[], RestartRound[]] = [[], []];
  try {
    for (let round = 1; round <= rounds; round++) {
      terminated.push(await run.terminate(CALLS));
      killed.push(await run.kill(CALLS));
      print(
        `${round} restarts with each signal: ${run.tally.notHeld} retries not held, ${run.tally.failures.length} failures`,
      );
    }
    return { terminated, killed, tally: run.tally };
  } finally {
    await run.close();
  }
}

/** Measures the gateway once it has released its resources, or after the time limit. */
async function measureIdle(run: SuspensionRun, probe: ProcessProbe): Promise<IdleState> {
  run.disconnect();
  const { streams } = await run.upstream.stats();
  const test = (usage: ResourceUsage) => excess({ usage, streams }).length === 0;
  return { usage: await probe.until(test, SETTLE_MS, CLASSES), streams };
}

/** One line per resource above its limit. */
function excess({ usage: { instances, sockets }, streams }: IdleState): string[] {
  const lines = Object.entries(instances).flatMap(([name, count]) =>
    count > MAX.instances ? [`${count} instances of ${name}`] : [],
  );
  if (sockets - streams > MAX.sockets) lines.push(`${sockets - streams} open sockets besides ${streams} streams`);
  return lines;
}

function growth(first: ResourceUsage, last: ResourceUsage): string[] {
  const limit = first.heap * (1 + MAX.heapPart) + MAX.heapBytes;
  return last.heap > limit ? [`heap: ${last.heap} bytes, ${first.heap} after the first wave`] : [];
}

function report(rounds: number, waves: WavesResult, restarts: RestartsResult, failures: readonly string[]): string {
  const { tally, first, last } = waves;
  const { terminated, killed } = restarts;
  const sum = (from: readonly RestartRound[], value: (round: RestartRound) => number) =>
    from.reduce((all, round) => all + value(round), 0);
  const max = (from: readonly RestartRound[], value: (round: RestartRound) => number) =>
    `${Math.round(Math.max(...from.map(value)))} ms`;
  const callSockets = ({ usage, streams }: IdleState) => usage.sockets - streams;
  const rows: [string, string | number][] = [
    ['waves of 500 concurrent suspended calls; total calls', `${rounds}; ${tally.calls}`],
    ['input-required results', tally.rounds],
    ['calls with the responses of their own client', tally.completed],
    [
      'calls that timed out, or whose client disconnected during its retry; of these canceled upstream',
      `${tally.expired + tally.disconnected}; ${tally.canceled}`,
    ],
    ['retries rejected: other user or namespace, modified state or other arguments', tally.rejected],
    ['retries that were late or duplicate, with the error `not_held`', tally.notHeld],
    ['latency of a retry, p50 and p99', times(tally.times)],
    [
      'heap after the first and after the last wave',
      [first, last].map(({ usage }) => megabytes(usage.heap)).join(' and '),
    ],
    [
      'sockets after the first and after the last wave, without those of pooled sessions',
      [first, last].map(callSockets).join(' and '),
    ],
    [
      'call objects after the last wave',
      Object.entries(last.usage.instances)
        .map((entry) => entry.join(' '))
        .join(', '),
    ],
    [
      'SIGTERM: count; suspended calls; of these canceled upstream',
      `${terminated.length}; ${sum(terminated, ({ suspended }) => suspended)}; ${sum(terminated, ({ canceled }) => canceled)}`,
    ],
    ['SIGTERM until exit, maximum', max(terminated, ({ exitedAfter }) => exitedAfter)],
    ['SIGKILL: count; suspended calls', `${killed.length}; ${sum(killed, ({ suspended }) => suspended)}`],
    ['retries after either, with the error `not_held`', sum([...terminated, ...killed], ({ notHeld }) => notHeld)],
    ['latency of such a retry, 500 concurrent, maximum', max([...terminated, ...killed], (round) => round.maxRetry)],
    ['**accepted from another client, lost, not canceled, or leaked**', `**${failures.length}**`],
  ];
  const lines = rows.map(([label, value]) => `| ${label} | ${value} |\n`);
  return `| | |\n|---|---|\n${lines.join('')}${failures.map((line) => `- ${line}\n`).join('')}`;
}

function times(values: readonly number[]): string {
  return `${Math.round(quantile(values, 0.5))} ms, ${Math.round(quantile(values, 0.99))} ms`;
}

function megabytes(bytes: number): string {
  return `${Math.round(bytes / MEGABYTE)} MB`;
}
