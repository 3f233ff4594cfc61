import { mkdtemp, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { diskFiles } from '../../registry/store/files.ts';
import { newSessionKey, sessionKeyIn } from './sessions.ts';

let folder: string;
let path: string;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'sluice-key-'));
  path = join(folder, 'session.key');
});
afterEach(() => rm(folder, { recursive: true }));

it('is created on the first start, readable by its owner only, and reused afterwards', async () => {
  const key = await sessionKeyIn(folder, diskFiles());
  expect(key).toHaveLength(32);
  expect((await stat(path)).mode & 0o777).toBe(0o600);
  expect(await sessionKeyIn(folder, diskFiles())).toEqual(key);
});

it('is unique per folder and creation', async () => {
  const key = await sessionKeyIn(folder, diskFiles());
  await rm(path);
  expect(await sessionKeyIn(folder, diskFiles())).not.toEqual(key);
  expect(newSessionKey()).not.toEqual(newSessionKey());
});

it.each(['', 'zz', 'ab'.repeat(31), `${'ab'.repeat(31)}zz`, 'ab'.repeat(33)])(
  'a file that contains %j instead is reported and left unchanged',
  async (content) => {
    await writeFile(path, content);
    await expect(sessionKeyIn(folder, diskFiles())).rejects.toThrow(`${path} does not contain a key of 32 bytes`);
    expect(await readFile(path, 'utf8')).toBe(content);
  },
);
