import { campaignSeed } from '../fixtures/seed.ts';
import type { HostileCase } from '../hostile/hostile-case.ts';
import { type CaseResult, startHostileRun } from '../hostile/hostile-run.ts';
import type { Latencies } from '../hostile/latency-probe.ts';
import { hostileCases } from '../hostile/variants.ts';
import type { Campaign } from './campaign.ts';
import { quantile } from './tally.ts';

/** Longest turn of the event loop, in milliseconds of CPU time. */
const MAX_TURN_MS = 50;
/** Growth of the service's RSS during a case, in bytes. */
const MAX_GROWTH = 384 * 1024 * 1024;
/** Additional latency of others at the 90th percentile, beside a process that only reads, in milliseconds. */
const MAX_DELAY_MS = 250;

/** Sends hostile messages on all sides, and measures whether others are still served. */
export const hostileMessagesCampaign: Campaign = {
  name: 'hostile-messages',
  title: 'Hostile messages on all sides',
  async run(print) {
    const seed = campaignSeed();
    const cases = hostileCases(seed);
    const results: CaseResult[] = [];
    const failures: string[] = [];
    await using run = await startHostileRun(seed, true);
    const { longestMs } = await run.measured.blockedTurns();
    if (longestMs <= MAX_TURN_MS) failures.push('the probe does not notice a service that parses a large text at once');
    for (const hostile of cases) {
      const result = await run.measure(hostile);
      results.push(result);
      const problems = problemsOf(result);
      failures.push(...problems.map((problem) => `${result.group}, ${result.name}: ${problem}`));
      print(`${problems.length > 0 ? 'FAIL' : 'PASS'} ${rowOf(result).join(' | ')} | ${result.outcome.slice(0, 300)}`);
    }
    return { passed: failures.length === 0, report: report(seed, cases, results, failures) };
  },
};

function problemsOf({
  longestMs,
  peakRss,
  rssBefore,
  latencies,
  readerLatencies,
  outcome,
  isFailed,
}: CaseResult): string[] {
  const delay = readerLatencies ? p90(latencies) - p90(readerLatencies) : 0;
  return [
    ...(isFailed ? [outcome.slice(0, 300)] : []),
    ...(longestMs > MAX_TURN_MS ? [`a turn of ${Math.round(longestMs)} ms`] : []),
    ...(peakRss - rssBefore > MAX_GROWTH ? [`${megabytes(peakRss - rssBefore)} more memory`] : []),
    ...(latencies.failures > 0 ? [`${latencies.failures} probes failed`] : []),
    ...(delay > MAX_DELAY_MS ? [`others were delayed by ${Math.round(delay)} ms`] : []),
  ];
}

function p90({ list, health }: Latencies): number {
  return Math.max(quantile(list, 0.9), quantile(health, 0.9));
}

function rowOf(result: CaseResult): string[] {
  const { name, longestMs, peakRss, rssBefore, latencies, readerLatencies } = result;
  const times = (measured: Latencies | undefined): string =>
    measured ? [measured.list, measured.health].map((list) => `${Math.round(quantile(list, 0.9))}`).join(' and ') : '';
  return [
    name,
    longestMs.toFixed(1),
    times(latencies),
    times(readerLatencies),
    `${megabytes(rssBefore)}, ${megabytes(peakRss)}`,
    problemsOf(result).length > 0 ? '**FAIL**' : 'PASS',
  ];
}

function report(
  seed: number,
  cases: readonly HostileCase[],
  results: readonly CaseResult[],
  failures: readonly string[],
): string {
  const rows = [...new Set(cases.map(({ group }) => group))].map((group) => {
    const found = results.filter((result) => result.group === group);
    const most = (of: (result: CaseResult) => number) => Math.max(...found.map(of));
    const cells = [
      group,
      found.length,
      most(({ longestMs }) => longestMs).toFixed(1),
      Math.round(most(({ latencies }) => p90(latencies))),
      megabytes(most(({ peakRss, rssBefore }) => peakRss - rssBefore)),
      found.filter((result) => problemsOf(result).length > 0).length,
    ];
    return `| ${cells.join(' | ')} |\n`;
  });
  const head =
    '| | cases | longest turn, CPU ms | p90 of others, ms | growth of RSS | failures |\n|---|---|---|---|---|---|\n';
  return `Seed ${seed}.\n\n${head}${rows.join('')}\n**Failures: ${failures.length}**\n\n${failures.map((line) => `- ${line}\n`).join('')}`;
}

function megabytes(bytes: number): string {
  return `${Math.round(bytes / 1024 / 1024)} MB`;
}
