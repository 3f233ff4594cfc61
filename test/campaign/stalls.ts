import { campaignSeed } from '../fixtures/seed.ts';
import type { HostileCase } from '../hostile/hostile-case.ts';
import { type HostileRun, startHostileRun } from '../hostile/hostile-run.ts';
import { stallCases } from '../hostile/stall-cases.ts';
import type { Campaign } from './campaign.ts';
import { quantile } from './tally.ts';

/** Longest turn of the event loop, in milliseconds of CPU time. */
const MAX_TURN_MS = 50;
/** Times that a case is sent if its turns are too long: a garbage collection may be due in one of them, but not in each. */
const ATTEMPTS = 3;

/** Sends messages that are expensive to read, on all sides, and measures the turns of the event loop. */
export const stallsCampaign: Campaign = {
  name: 'stalls',
  title: 'Messages that may hold the event loop',
  async run(print, rounds) {
    const seed = campaignSeed();
    await using run = await startHostileRun(seed, false);
    const results: StallResult[] = [];
    const { longestMs } = await run.measured.blockedTurns();
    const failures =
      longestMs > MAX_TURN_MS ? [] : ['the probe does not notice a service that parses a large text at once'];
    for (const hostile of stallCases(seed).slice(0, rounds)) {
      const result = await measureStall(run, hostile, MAX_TURN_MS, ATTEMPTS);
      results.push(result);
      if (result.problem !== undefined) failures.push(`${result.name}: ${result.problem}`);
      print(
        `${result.problem === undefined ? 'PASS' : 'FAIL'} ${result.longestMs.toFixed(1)} ms | ${result.name} | ${result.outcome}`,
      );
    }
    return { passed: failures.length === 0, report: report(seed, results, failures) };
  },
};

/** Turns of the event loop during a case. */
export interface StallResult {
  readonly name: string;
  readonly group: string;
  /** CPU time of the longest turn; the least of all attempts. */
  readonly longestMs: number;
  readonly outcome: string;
  readonly problem: string | undefined;
}

/** Sends a case, again if a turn took longer than `maxMs`. */
export async function measureStall(
  run: HostileRun,
  hostile: HostileCase,
  maxMs: number,
  attempts: number,
): Promise<StallResult> {
  let longestMs = Number.POSITIVE_INFINITY;
  let outcome = '';
  for (let attempt = 0; attempt < attempts && longestMs > maxMs; attempt++) {
    const measured = await run.measureTurns(hostile);
    longestMs = Math.min(longestMs, measured.longestMs);
    outcome = measured.outcome.slice(0, 200);
    if (measured.isFailed) return { ...hostile, longestMs, outcome, problem: `no response: ${outcome}` };
  }
  const problem = longestMs > maxMs ? `a turn of ${Math.round(longestMs)} ms` : undefined;
  return { ...hostile, longestMs, outcome, problem };
}

function report(seed: number, results: readonly StallResult[], failures: readonly string[]): string {
  const groups = [...new Set(results.map(({ group }) => group))];
  const rows = groups.map((group) => {
    const times = results.filter((result) => result.group === group).map(({ longestMs }) => longestMs);
    const figures = [0.5, 0.9, 1].map((part) => quantile(times, part).toFixed(1));
    return `| ${group} | ${times.length} | ${figures.join(' | ')} |\n`;
  });
  return [
    `Seed ${seed}. Each message has up to 4 MiB. A turn is one iteration of the event loop; its time is the CPU time of the main`,
    `thread, with its garbage collections. A message with a turn of more than ${MAX_TURN_MS} ms is sent ${ATTEMPTS} times, and its best run counts.\n`,
    '| | messages | longest turn, CPU ms: median | p90 | maximum |\n|---|---|---|---|---|',
    rows.join(''),
    `**Failures: ${failures.length}**\n`,
    failures.map((line) => `- ${line}\n`).join(''),
  ].join('\n');
}
