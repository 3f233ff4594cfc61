import { defineConfig } from 'vitest/config';

export default defineConfig({
  test: {
    include: ['packages/*/src/**/*.test.ts', 'test/**/*.test.ts', 'scripts/**/*.test.ts'],
    testTimeout: 30_000,
    hookTimeout: 30_000,
    // Whole services on a busy machine; who polls waits as long as it takes and no longer.
    expect: { poll: { timeout: 20_000, interval: 10 } },
    // Tests start real servers and processes; two workers fit the smallest machine that is supported.
    maxWorkers: 2,
    pool: 'forks',
  },
});
