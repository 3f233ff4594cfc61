import { mkdtemp, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { diskFiles, type Files } from '../registry/store/files.ts';
import { endedInFolder, endedInMemory } from './ended-sessions.ts';

let folder: string;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'sluice-ended-'));
});
afterEach(() => rm(folder, { recursive: true }));

const FOREVER = 8e15;

it('ends are known at once, and after a restart', async () => {
  const ended = await endedInFolder(folder, diskFiles());
  expect(ended.has('a')).toBe(false);
  await ended.add('a', FOREVER);
  expect([ended.has('a'), ended.has('b')]).toEqual([true, false]);
  const again = await endedInFolder(folder, diskFiles());
  expect([again.has('a'), again.has('b')]).toEqual([true, false]);
  expect((await stat(join(folder, 'sessions.json'))).mode & 0o777).toBe(0o600);
});

it('every end that was answered is on disk, also when many come at once', async () => {
  const ended = await endedInFolder(folder, diskFiles());
  await Promise.all(
    Array.from({ length: 50 }, async (_, i) => {
      await ended.add(`s${i}`, FOREVER);
      expect(await readFile(join(folder, 'sessions.json'), 'utf8')).toContain(`"s${i}"`);
    }),
  );
  expect(await readdir(folder)).toEqual(['sessions.json']);
});

it('ends that come together share writes', async () => {
  let writes = 0;
  const disk = diskFiles();
  const files: Files = {
    ...disk,
    rename: (from, to) => {
      writes++;
      return disk.rename(from, to);
    },
  };
  const ended = await endedInFolder(folder, files);
  await Promise.all(Array.from({ length: 100 }, (_, i) => ended.add(`s${i}`, FOREVER)));
  expect(writes).toBeLessThanOrEqual(2);
});

it('an end that could not be written is told and has not happened, and the next one is tried again', async () => {
  const disk = diskFiles();
  let broken = true;
  const files: Files = {
    ...disk,
    rename: (from, to) => (broken ? Promise.reject(new Error('disk full')) : disk.rename(from, to)),
  };
  const ended = await endedInFolder(folder, files);
  await expect(ended.add('a', FOREVER)).rejects.toThrow('disk full');
  expect(ended.has('a')).toBe(false);
  broken = false;
  await ended.add('b', FOREVER);
  const again = await endedInFolder(folder, disk);
  expect([again.has('a'), again.has('b')]).toEqual([false, true]);
});

it('what has expired is forgotten', async () => {
  let now = 1_000;
  const ended = await endedInFolder(folder, diskFiles(), () => now);
  await ended.add('old', 2_000);
  now = 2_000;
  await ended.add('new', 3_000);
  expect(await readFile(join(folder, 'sessions.json'), 'utf8')).not.toContain('old');
  const memory = endedInMemory(() => now);
  await memory.add('old', 2_500);
  now = 2_600;
  await memory.add('new', 3_000);
  expect([memory.has('old'), memory.has('new')]).toEqual([false, true]);
});

it('a damaged file stops the start and is named', async () => {
  await writeFile(join(folder, 'sessions.json'), '{"version":1,"ended":{');
  await expect(endedInFolder(folder, diskFiles())).rejects.toThrow(/sessions\.json is damaged/);
});
