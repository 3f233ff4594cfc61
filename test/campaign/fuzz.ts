import { campaignSeed } from '../fixtures/seed.ts';
import { FuzzRun } from '../fuzz/fuzz-run.ts';
import type { FuzzResult } from '../fuzz/fuzzer.ts';
import type { Campaign } from './campaign.ts';
import { INSPECTOR_ARGS, ProcessProbe } from './process-probe.ts';

const REQUESTS = 5_000;
const CONNECTIONS = 3;
const MEGABYTE = 1024 * 1024;
/** Limit for the growth of the heap after the first round, when all created entries are deleted. */
const MAX_GROWTH = { bytes: 20 * MEGABYTE, part: 0.1 };

/** Sends random requests and checks the responses against `/openapi.json`. `SEED` repeats a run; each round increments it. */
export const fuzzCampaign: Campaign = {
  name: 'fuzz',
  title: 'Fuzzed requests, generated from /openapi.json',
  async run(print, rounds = 5) {
    const seed = campaignSeed();
    print(`SEED=${seed}`);
    const run = await FuzzRun.start(INSPECTOR_ARGS);
    try {
      const probe = await ProcessProbe.connect(run.gateway);
      const results: FuzzResult[] = [];
      const heaps: number[] = [];
      for (let round = 1; round <= rounds; round++) {
        // Each connection of a round has its own seed.
        const result = await run.fuzz(seed + (round - 1) * CONNECTIONS, REQUESTS, CONNECTIONS);
        results.push(result);
        heaps.push((await probe.usage([])).heap);
        print(`round ${round}: ${result.sent} requests, ${result.findings.length} findings`);
      }
      // A process does not exit while an inspector is connected.
      probe.close();
      const failures = [...results.flatMap(({ findings }) => findings), ...grown(heaps), ...(await run.end())];
      for (const paragraph of failures) print(`\n${paragraph}`);
      return { passed: failures.length === 0, report: report(seed, results, heaps, failures) };
    } finally {
      await run.close();
    }
  },
};

function grown([first = 0, ...later]: readonly number[]): string[] {
  const last = later.at(-1) ?? first;
  const limit = first * (1 + MAX_GROWTH.part) + MAX_GROWTH.bytes;
  return last > limit ? [`heap: ${last} bytes, ${first} after the first round`] : [];
}

function report(
  seed: number,
  results: readonly FuzzResult[],
  heaps: readonly number[],
  failures: readonly string[],
): string {
  const seconds = results.reduce((sum, { durationMs }) => sum + durationMs, 0) / 1_000;
  const rows: readonly (readonly [string, string | number])[] = [
    ['seed', seed],
    ['requests, including those that verify the effect of others', results.reduce((sum, { sent }) => sum + sent, 0)],
    ['operations; responses by status', responsesByStatus(results)],
    ['connections; seconds', `${CONNECTIONS}; ${Math.round(seconds)}`],
    ['heap after each round', heaps.map((heap) => `${Math.round(heap / MEGABYTE)} MB`).join(', ')],
    ['**responses that contradict the document, or failures**', `**${failures.length}**`],
  ];
  const details = failures.map((paragraph) => `\n\`\`\`\n${paragraph}\n\`\`\`\n`).join('');
  return `${table(rows)}${details}`;
}

function table(rows: readonly (readonly [string, string | number])[]): string {
  return `| | |\n|---|---|\n${rows.map(([label, value]) => `| ${label} | ${value} |\n`).join('')}`;
}

/** The number of operations, and of the responses of all rounds with each status. */
function responsesByStatus(results: readonly FuzzResult[]): string {
  const operations = new Set<string>();
  const sums = new Map<number, number>();
  for (const [id, statuses] of results.flatMap(({ responses }) => [...responses])) {
    operations.add(id);
    for (const [status, count] of statuses) sums.set(status, (sums.get(status) ?? 0) + count);
  }
  const sorted = [...sums].sort(([one], [other]) => one - other);
  return `${operations.size}; ${sorted.map(([status, count]) => `${status}: ${count}`).join(', ')}`;
}
