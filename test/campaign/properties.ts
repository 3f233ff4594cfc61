import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { glob, mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { z } from 'zod';
import { campaignSeed } from '../fixtures/seed.ts';
import type { Campaign } from './campaign.ts';

const ROOT = resolve(import.meta.dirname, '../..');
const VITEST = join(ROOT, 'node_modules/vitest/vitest.mjs');

/** Matches the source of tests with random values. */
const RANDOM = /'fast-check'|\btestSeed\(/;
/** Tests with their own campaign. */
const EXCLUDED = ['test/management-model.test.ts', 'test/fuzz.test.ts'];

/** JSON report of the test runner. */
const vitestReport = z.object({
  success: z.boolean(),
  numTotalTests: z.number(),
  testResults: z.array(
    z.object({
      assertionResults: z.array(
        z.object({ fullName: z.string(), status: z.string(), failureMessages: z.array(z.string()) }),
      ),
    }),
  ),
});

/**
 * Runs the property tests of all packages, which use a fixed seed in `npm test`, with other seeds. `SEED` repeats a run; each
 * round increments it.
 */
export const propertiesCampaign: Campaign = {
  name: 'properties',
  title: 'Property tests with new seeds',
  async run(print, rounds = 20) {
    const first = campaignSeed();
    print(`SEED=${first}`);
    const files = await randomTests();
    const failures: string[] = [];
    let tests = 0;
    for (let seed = first; seed < first + rounds; seed++) {
      const { success, numTotalTests, testResults } = await runTests(files, seed);
      const failed = testResults.flatMap(({ assertionResults }) => assertionResults.filter(isFailed));
      tests += numTotalTests;
      failures.push(
        ...failed.map(({ fullName, failureMessages }) => `SEED=${seed} ${fullName}\n${failureMessages[0]}`),
      );
      // A file that fails to load has no failed tests.
      if (!success && failed.length === 0) failures.push(`SEED=${seed} the tests did not run`);
      print(`SEED=${seed}: ${numTotalTests} tests, ${failed.length} failed`);
    }
    for (const paragraph of failures) print(`\n${paragraph}`);
    return { passed: failures.length === 0, report: report([first, rounds, files.length, tests], failures) };
  },
};

async function randomTests(): Promise<string[]> {
  const found: string[] = [];
  for await (const path of glob(['packages/*/src/**/*.test.ts', 'test/*.test.ts'], { cwd: ROOT })) {
    if (!EXCLUDED.includes(path) && RANDOM.test(await readFile(resolve(ROOT, path), 'utf8'))) found.push(path);
  }
  if (found.length === 0) throw new Error('no random tests were found');
  return found;
}

async function runTests(files: readonly string[], seed: number): Promise<z.infer<typeof vitestReport>> {
  const folder = await mkdtemp(join(tmpdir(), 'sluice-properties-'));
  try {
    const output = join(folder, 'report.json');
    const args = [VITEST, 'run', '--reporter=json', `--outputFile=${output}`, ...files];
    const env = { ...process.env, SEED: String(seed) };
    await once(spawn(process.execPath, args, { cwd: ROOT, env, stdio: ['ignore', 'ignore', 'inherit'] }), 'close');
    return vitestReport.parse(JSON.parse(await readFile(output, 'utf8')));
  } finally {
    await rm(folder, { recursive: true });
  }
}

function isFailed({ status }: { readonly status: string }): boolean {
  return status === 'failed';
}

function report([seed, rounds, files, tests]: readonly number[], failures: readonly string[]): string {
  const rows: readonly (readonly [string, string | number | undefined])[] = [
    ['seed of the first round; rounds', `${seed}; ${rounds}`],
    ['files; tests in all rounds', `${files}; ${tests}`],
    ['**tests that failed**', `**${failures.length}**`],
  ];
  const details = failures.map((paragraph) => `\n\`\`\`\n${paragraph}\n\`\`\`\n`).join('');
  return `| | |\n|---|---|\n${rows.map(([label, value]) => `| ${label} | ${value} |\n`).join('')}${details}`;
}
