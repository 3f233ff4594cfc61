import { glob, readFile } from 'node:fs/promises';
import { resolve } from 'node:path';
import { expect, it } from 'vitest';

const ROOT = resolve(import.meta.dirname, '..');

/** APIs that measure the whole process, including earlier tests in it. */
const PROCESS_PROPERTIES = /\b(?:memoryUsage|getHeapStatistics|getActiveResourcesInfo|--expose-gc)\b/;

it('tests that measure their process run in a separate one', async () => {
  const measuring: string[] = [];
  for await (const path of glob('packages/*/src/**/*.test.ts', { cwd: ROOT })) {
    if (PROCESS_PROPERTIES.test(await readFile(resolve(ROOT, path), 'utf8'))) measuring.push(path);
  }
  expect(measuring).not.toEqual([]);
  expect(measuring.filter((path) => !path.endsWith('.process.test.ts'))).toEqual([]);
});
