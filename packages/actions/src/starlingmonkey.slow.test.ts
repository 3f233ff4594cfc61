import { mkdir, mkdtemp, readdir, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it, onTestFinished, vi } from 'vitest';
import { ActionBuildError, buildAction } from './build.ts';

const PASSES = 'export function evaluate() {}\n';

it('leaves no temporary files, whether StarlingMonkey succeeds or fails', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'sluice-test-build-'));
  onTestFinished(async () => {
    vi.unstubAllEnvs();
    await rm(folder, { recursive: true });
  });
  const path = (name: string) => join(folder, name);
  /** The error message for an action, without its folder. */
  const problems = async (files: Readonly<Record<string, string>>): Promise<string[]> => {
    for (const [name, text] of Object.entries(files)) await writeFile(path(name), text);
    try {
      await buildAction({ entry: path('a.ts'), engine: 'starlingmonkey' });
    } catch (error) {
      if (!(error instanceof ActionBuildError)) throw error;
      return error.problems.map((problem) => problem.replaceAll(`${folder}/`, ''));
    }
    return [];
  };
  await mkdir(path('tmp'));
  vi.stubEnv('TMPDIR', path('tmp'));
  expect(await problems({ 'a.ts': PASSES })).toEqual([]);
  expect(await readdir(path('tmp'))).toEqual([]);
  const failed = await problems({ 'a.ts': `\nthrow new Error('no settings'); ${PASSES}` });
  expect(failed).toEqual(['a.ts:2:7: module initialization failed: no settings']);
  expect(await problems({ 'a.ts': 'export async function evaluate() {}' })).toEqual([
    'a.ts:1:23: evaluate must not be async: nothing runs after it has returned',
  ]);
  expect(await readdir(path('tmp'))).toEqual([]);
});
