import { basename } from 'node:path';
import { defineConfig } from 'vitest/config';
import { BaseSequencer, type TestSpecification } from 'vitest/node';
import { unitTests } from './test/unit-tests.ts';

/** Tests that measure their process, or need the machine for themselves, and run in a separate process. */
const ALONE = 'packages/*/src/**/*.process.test.ts';
/** `npm run test:slow`: tests that take long, or need programs that npm does not install. */
const SLOW = '**/*.slow.test.ts';

/** Tests beside the code. */
const BESIDE = 'packages/*/src/**/*.test.ts';
/** `npm run test:fast`. */
const UNIT = unitTests(import.meta.dirname, BESIDE);

/** Tests of the web console, in a browser. */
const CONSOLE = 'test/console/**/*.test.ts';

/** Files that take long. They are started first, so that no worker idles while the last of them run. */
const LONGEST = [
  'installation.slow.test.ts',
  'frame.test.ts',
  'hostile-actions.slow.test.ts',
  'inspector.slow.test.ts',
  'toolchains.slow.test.ts',
  'action.slow.test.ts',
  'upstream-drills.slow.test.ts',
  'replica-faults.slow.test.ts',
  'service.test.ts',
  'pool.test.ts',
  'management-model.test.ts',
  'compressed-responses.test.ts',
  'desired-state.test.ts',
  'build.test.ts',
  'compiler.test.ts',
  'result-schema.test.ts',
];

class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const rank = ({ moduleId }: TestSpecification) => {
      const index = LONGEST.indexOf(basename(moduleId));
      return index < 0 ? LONGEST.length : index;
    };
    return (await super.sort(files)).sort((one, other) => rank(one) - rank(other));
  }
}

export default defineConfig({
  test: {
    // Many times the usual duration, for busy machines.
    testTimeout: 60_000,
    hookTimeout: 120_000,
    // For whole services on a busy machine; polling ends as soon as the condition holds.
    expect: { poll: { timeout: 20_000, interval: 10 } },
    // For the smallest supported machine, with two cores: further workers use the time in which the tests of two wait
    // for servers and processes.
    maxWorkers: 4,
    pool: 'forks',
    // Files share processes, one after the other: a process per file, with all its imports, would add a fourth to the
    // tests' time.
    isolate: false,
    // Compile cache shared by the processes that tests start.
    env: { NODE_COMPILE_CACHE: new URL('node_modules/.cache/sluice-tests', import.meta.url).pathname },
    sequence: { sequencer: LongestFirst },
    tags: [{ name: 'slow', description: 'Run by `npm run test:slow` only.' }],
    setupFiles: ['test/setup.ts'],
    projects: [
      {
        extends: true,
        test: {
          name: 'across packages',
          include: ['test/**/*.test.ts', 'scripts/**/*.test.ts', 'bench/**/*.test.ts'],
          exclude: [SLOW, CONSOLE],
        },
      },
      {
        extends: true,
        test: { name: 'console', include: [CONSOLE], exclude: [SLOW], globalSetup: ['test/console-setup.ts'] },
      },
      { extends: true, test: { name: 'alone', include: [ALONE], isolate: true } },
      {
        extends: true,
        test: { name: 'unit', include: UNIT, exclude: [ALONE, SLOW] },
      },
      {
        extends: true,
        test: { name: 'beside the code', include: [BESIDE], exclude: [ALONE, SLOW, ...UNIT] },
      },
      {
        extends: true,
        test: {
          name: 'slow',
          include: [`test/${SLOW}`, `packages/*/src/${SLOW}`],
          globalSetup: ['test/slow-setup.ts', 'test/console-setup.ts'],
          testTimeout: 300_000,
          hookTimeout: 300_000,
        },
      },
    ],
  },
});
