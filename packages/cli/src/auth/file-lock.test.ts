import { existsSync } from 'node:fs';
import { mkdtemp, readFile, rm, utimes, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { withLock } from './file-lock.ts';

let folder: string;
let file: string;
let lock: string;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'sluice-lock-'));
  file = join(folder, 'credentials.json');
  lock = `${file}.lock`;
});
afterEach(() => rm(folder, { recursive: true }));

async function age(seconds: number): Promise<void> {
  const modified = Date.now() / 1000 - seconds;
  await utimes(lock, modified, modified);
}

it('serializes owners and leaves no file behind', async () => {
  const events: string[] = [];
  const work = (name: string) => async () => {
    events.push(`${name} in`);
    await new Promise(setImmediate);
    events.push(`${name} out`);
  };
  await Promise.all([withLock(file, work('a')), withLock(file, work('b'))]);
  expect(events).toEqual(
    events[0] === 'a in' ? ['a in', 'a out', 'b in', 'b out'] : ['b in', 'b out', 'a in', 'a out'],
  );
  expect(existsSync(lock)).toBe(false);
});

it('waits for a running owner', async () => {
  await writeFile(lock, 'another');
  let attempts = 0;
  const done = await withLock(
    file,
    async () => attempts,
    async () => {
      attempts += 1;
      await age(100);
      if (attempts === 3) await rm(lock);
    },
  );
  expect(done).toBe(3);
});

it('takes over a stale lock', async () => {
  await writeFile(lock, 'another');
  await age(130);
  expect(await withLock(file, () => readFile(lock, 'utf8'))).toMatch(/^[\da-f-]{36}$/);
});

it('is removed by its owner only', async () => {
  await withLock(file, async () => {
    await rm(lock);
    await writeFile(lock, 'of one that held us for dead');
  });
  expect(await readFile(lock, 'utf8')).toBe('of one that held us for dead');
});

it('is released when the work fails', async () => {
  await expect(withLock(file, () => Promise.reject(new Error('no')))).rejects.toThrow('no');
  expect(existsSync(lock)).toBe(false);
});
