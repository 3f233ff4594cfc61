import { campaignSeed } from '../fixtures/seed.ts';
import { FuzzRun } from '../fuzz/fuzz-run.ts';
import type { FuzzResult } from '../fuzz/fuzzer.ts';
import type { Campaign } from './campaign.ts';
import { PROBED, ProcessProbe } from './process-probe.ts';

const REQUESTS = 5_000;
const CONNECTIONS = 3;
const MEGABYTE = 1024 * 1024;
/** The most that the heap may have grown after the first round, when everything that was made is deleted again. */
const MOST = { bytes: 20 * MEGABYTE, part: 0.1 };

/** Requests of every kind against what `/openapi.json` says. `SEED` makes the same again, a round being one more. */
export const fuzzCampaign: Campaign = {
  name: 'fuzz',
  title: 'Requests of every kind, made of /openapi.json alone',
  async run(print, rounds = 5) {
    const seed = campaignSeed();
    print(`SEED=${seed}`);
    const run = await FuzzRun.start(PROBED);
    try {
      const probe = await ProcessProbe.connect(run.gateway);
      const results: FuzzResult[] = [];
      const heaps: number[] = [];
      for (let round = 1; round <= rounds; round++) {
        // Connections of one round take the seeds after the round's own.
        const result = await run.fuzz(seed + (round - 1) * CONNECTIONS, REQUESTS, CONNECTIONS);
        results.push(result);
        heaps.push((await probe.holdings([])).heap);
        print(`round ${round}: ${result.sent} requests, ${result.findings.length} findings`);
      }
      // A process does not end while it is looked into.
      probe.close();
      const wrong = [...results.flatMap(({ findings }) => findings), ...grown(heaps), ...(await run.end())];
      for (const paragraph of wrong) print(`\n${paragraph}`);
      return { passed: wrong.length === 0, report: report(seed, results, heaps, wrong) };
    } finally {
      await run.close();
    }
  },
};

function grown([first = 0, ...later]: readonly number[]): string[] {
  const last = later.at(-1) ?? first;
  const most = first * (1 + MOST.part) + MOST.bytes;
  return last > most ? [`the heap has ${last} bytes, after the first round it had ${first}`] : [];
}

function report(
  seed: number,
  results: readonly FuzzResult[],
  heaps: readonly number[],
  wrong: readonly string[],
): string {
  const seconds = results.reduce((sum, { durationMs }) => sum + durationMs, 0) / 1_000;
  const rows: readonly (readonly [string, string | number])[] = [
    ['seed', seed],
    ['requests, with those that check what others did', results.reduce((sum, { sent }) => sum + sent, 0)],
    ['connections; seconds', `${CONNECTIONS}; ${Math.round(seconds)}`],
    ['heap after each round', heaps.map((heap) => `${Math.round(heap / MEGABYTE)} MB`).join(', ')],
    ['**what was not as the document says, or failed**', `**${wrong.length}**`],
  ];
  const statuses = [...summed(results)].map(([id, counts]) => {
    const sorted = [...counts].sort(([one], [other]) => one - other);
    return `| ${id} | ${sorted.map(([status, count]) => `${status}: ${count}`).join(', ')} |\n`;
  });
  const shown = wrong.map((paragraph) => `\n\`\`\`\n${paragraph}\n\`\`\`\n`).join('');
  return `${table(rows)}\n| operation | answers |\n|---|---|\n${statuses.sort().join('')}${shown}`;
}

function table(rows: readonly (readonly [string, string | number])[]): string {
  return `| | |\n|---|---|\n${rows.map(([what, value]) => `| ${what} | ${value} |\n`).join('')}`;
}

/** Answers of all rounds by operation and status. */
function summed(results: readonly FuzzResult[]): ReadonlyMap<string, ReadonlyMap<number, number>> {
  const sums = new Map<string, Map<number, number>>();
  for (const [id, statuses] of results.flatMap(({ answers }) => [...answers])) {
    const known = sums.get(id) ?? new Map<number, number>();
    sums.set(id, known);
    for (const [status, count] of statuses) known.set(status, (known.get(status) ?? 0) + count);
  }
  return sums;
}
