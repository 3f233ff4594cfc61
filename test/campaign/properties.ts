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

/** What tests that try random values have in their text. */
const RANDOM = /'fast-check'|\btestSeed\(/;
/** They have campaigns of their own. */
const ELSEWHERE = ['test/management-model.test.ts', 'test/fuzz.test.ts'];

/** What the test runner reports of a run. */
const reported = z.object({
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

/** The random tests beside the code, which try the same in each `npm test`. `SEED` makes the same again, a round being one more. */
export const propertiesCampaign: Campaign = {
  name: 'properties',
  title: 'Random tests beside the code, with other values each time',
  async run(print, rounds = 20) {
    const first = campaignSeed();
    print(`SEED=${first}`);
    const files = await randomTests();
    const wrong: string[] = [];
    let tests = 0;
    for (let seed = first; seed < first + rounds; seed++) {
      const { success, numTotalTests, testResults } = await runTests(files, seed);
      const failed = testResults.flatMap(({ assertionResults }) => assertionResults.filter(isFailed));
      tests += numTotalTests;
      wrong.push(...failed.map(({ fullName, failureMessages }) => `SEED=${seed} ${fullName}\n${failureMessages[0]}`));
      // A file that cannot be run has no tests that fail.
      if (!success && failed.length === 0) wrong.push(`SEED=${seed} the tests could not be run`);
      print(`SEED=${seed}: ${numTotalTests} tests, ${failed.length} failed`);
    }
    for (const paragraph of wrong) print(`\n${paragraph}`);
    return { passed: wrong.length === 0, report: report([first, rounds, files.length, tests], wrong) };
  },
};

async function randomTests(): Promise<string[]> {
  const found: string[] = [];
  for await (const path of glob(['packages/*/src/**/*.test.ts', 'test/*.test.ts'], { cwd: ROOT })) {
    if (!ELSEWHERE.includes(path) && RANDOM.test(await readFile(resolve(ROOT, path), 'utf8'))) found.push(path);
  }
  if (found.length === 0) throw new Error('no random tests were found');
  return found;
}

async function runTests(files: readonly string[], seed: number): Promise<z.infer<typeof reported>> {
  const folder = await mkdtemp(join(tmpdir(), 'sluice-properties-'));
  try {
    const output = join(folder, 'report.json');
    const args = [VITEST, 'run', '--reporter=json', `--outputFile=${output}`, ...files];
    const env = { ...process.env, SEED: String(seed) };
    await once(spawn(process.execPath, args, { cwd: ROOT, env, stdio: ['ignore', 'ignore', 'inherit'] }), 'close');
    return reported.parse(JSON.parse(await readFile(output, 'utf8')));
  } finally {
    await rm(folder, { recursive: true });
  }
}

function isFailed({ status }: { readonly status: string }): boolean {
  return status === 'failed';
}

function report([seed, rounds, files, tests]: readonly number[], wrong: readonly string[]): string {
  const rows: readonly (readonly [string, string | number | undefined])[] = [
    ['seed of the first round; rounds', `${seed}; ${rounds}`],
    ['files; tests in all rounds', `${files}; ${tests}`],
    ['**tests that failed**', `**${wrong.length}**`],
  ];
  const shown = wrong.map((paragraph) => `\n\`\`\`\n${paragraph}\n\`\`\`\n`).join('');
  return `| | |\n|---|---|\n${rows.map(([what, value]) => `| ${what} | ${value} |\n`).join('')}${shown}`;
}
