import { basename } from 'node:path';
import { defineConfig } from 'vitest/config';
import { BaseSequencer, type TestSpecification } from 'vitest/node';

/** Tests that measure the process they run in, or that nothing else can stand beside, and have one of their own. */
const ALONE = 'packages/*/src/**/*.process.test.ts';
/** `npm run test:slow`: what takes long, or needs programs that npm does not bring. */
const SLOW = '**/*.slow.test.ts';

/** Files that take long. They begin first, or other workers would have nothing to do while the last of them run. */
const LONGEST = [
  'conformance.test.ts',
  'hostile-actions.slow.test.ts',
  'inspector.slow.test.ts',
  'toolchains.slow.test.ts',
  'action.test.ts',
  'fuzz.test.ts',
  'service.test.ts',
  'upstream-drills.test.ts',
  'management-model.test.ts',
  'suspended-calls.test.ts',
  'pool.test.ts',
  'build.test.ts',
  'cli-process.test.ts',
  'sessions.test.ts',
  'example-registration.test.ts',
  'evaluators-updates.test.ts',
  'evaluators-lists.test.ts',
  'compiler.test.ts',
  'result-schema.test.ts',
  'guest-isolation.test.ts',
  'parked.test.ts',
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
    // Many times what they take, for machines that are busy with something else.
    testTimeout: 60_000,
    hookTimeout: 120_000,
    // Whole services on a busy machine; who polls waits as long as it takes and no longer.
    expect: { poll: { timeout: 20_000, interval: 10 } },
    // For the smallest machine that is supported, with two cores: further workers use what the tests of two leave idle
    // while they wait for servers and processes.
    maxWorkers: 4,
    pool: 'forks',
    // Files share processes, one after the other: a process and all its imports for each would take a fourth of the
    // tests' time more.
    isolate: false,
    // Processes that tests start compile what they import once for all of them.
    env: { NODE_COMPILE_CACHE: new URL('node_modules/.cache/sluice-tests', import.meta.url).pathname },
    sequence: { sequencer: LongestFirst },
    setupFiles: ['test/setup.ts'],
    projects: [
      {
        extends: true,
        test: {
          name: 'across packages',
          include: ['test/**/*.test.ts', 'scripts/**/*.test.ts'],
          exclude: [SLOW],
        },
      },
      { extends: true, test: { name: 'alone', include: [ALONE], isolate: true } },
      {
        extends: true,
        test: { name: 'beside the code', include: ['packages/*/src/**/*.test.ts'], exclude: [ALONE, SLOW] },
      },
      {
        extends: true,
        test: {
          name: 'slow',
          include: [`test/${SLOW}`, `packages/*/src/${SLOW}`],
          globalSetup: ['test/slow-setup.ts'],
          testTimeout: 300_000,
          hookTimeout: 300_000,
        },
      },
    ],
  },
});
