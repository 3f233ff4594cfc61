import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { expect, onTestFinished, test } from 'vitest';
import { z } from 'zod';
import { Collection } from './collection.ts';
import { FileLog } from './file-log.ts';
import { diskFiles } from './files.ts';
import { recordsOfLog } from './fixtures/changes.ts';
import { memoryLog, type RecordLog } from './record-log.ts';

const schema = z.object({ count: z.number(), expires: z.number(), text: z.string().optional() });
type Content = z.output<typeof schema>;

const log = { info: () => undefined, warn: () => undefined, error: () => undefined };

async function newFolder(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'sluice-records-'));
  onTestFinished(() => rm(folder, { recursive: true }));
  return folder;
}

/** A log whose journal is compacted after each write that is longer than its snapshot. */
const openLog = (folder: string) => FileLog.open({ folder, files: diskFiles(), log, compactFromBytes: 1 });

async function openIn(log: RecordLog, name: string, clock: { now: number }): Promise<Collection<Content>> {
  const collection = new Collection<Content>({ name, schema, expires: ({ expires }) => expires, now: () => clock.now });
  await collection.open(log);
  return collection;
}

/** Lets everything go on that does not wait for the disk. */
async function microtasks(): Promise<void> {
  for (let count = 0; count < 20; count++) await Promise.resolve();
}

test('a change of a record that expires in the snapshot before it is stored as a whole', async () => {
  const folder = await newFolder();
  const clock = { now: 0 };
  const first = await openLog(folder);
  await (await openIn(first, 'changed', clock)).put('a', { count: 1, expires: 100 });
  await first.close();
  const stored = await openLog(folder);
  const [changed, other] = [await openIn(stored, 'changed', clock), await openIn(stored, 'other', clock)];
  // After this write the journal is compacted. The change waits for it, and was made of the record before.
  const writing = other.put('b', { count: 1, expires: 1_000, text: 'x'.repeat(10_000) });
  await microtasks();
  const waiting = changed.update('a', (before) => ({ count: (before?.count ?? 0) + 1, expires: 1_000 }));
  await microtasks();
  clock.now = 200;
  await Promise.all([writing, waiting]);
  const hasSnapshot = async () => (await readFile(join(folder, 'records.snapshot'), 'utf8')).includes('"other"');
  await expect.poll(hasSnapshot).toBe(true);
  // As after SIGKILL.
  const read = await FileLog.read({ folder, files: diskFiles(), log });
  const records = await recordsOfLog(read, 'changed');
  expect(records.filter(({ id }) => id === 'a').map(({ json }) => JSON.parse(json))).toEqual([
    { count: 2, expires: 1_000 },
  ]);
  await stored.close();
});

test('changes that wait are one commit, each made of the one before, and a rejected one concerns only its caller', async () => {
  let commits = 0;
  const memory = memoryLog();
  const commit: RecordLog['commit'] = (...args) => {
    commits++;
    return memory.commit(...args);
  };
  const counted = { ...memory, commit };
  const collection = await openIn(counted, 'counts', { now: 0 });
  const add = () => collection.update('a', (before) => ({ count: (before?.count ?? 0) + 1, expires: 1 }));
  const results = await Promise.allSettled([
    add(),
    add(),
    collection.update('a', () => {
      throw new Error('rejected');
    }),
    add(),
    collection.remove('b'),
  ]);
  expect(results.map(({ status }) => status)).toEqual(['fulfilled', 'fulfilled', 'rejected', 'fulfilled', 'fulfilled']);
  expect([commits, collection.get('a')]).toEqual([1, { count: 3, expires: 1 }]);
});

test('a commit that fails changes nothing', async () => {
  const failing = { ...memoryLog(), commit: () => nextTurn().then(() => Promise.reject(new Error('no disk'))) };
  const collection = await openIn(failing, 'counts', { now: 0 });
  await expect(collection.put('a', { count: 1, expires: 1 })).rejects.toThrow('no disk');
  expect(collection.get('a')).toBeUndefined();
});

/** A collection of numbers in a log that replicas share, with its events and the records that it could not read. */
async function openShared() {
  const unreadable: string[] = [];
  const readRecord: RecordLog['readRecord'] = (_section, json, read) => {
    try {
      return read(json);
    } catch {
      unreadable.push(json);
      return undefined;
    }
  };
  const records = new Collection({ name: 'test', schema: z.int() });
  await records.open({ ...memoryLog(), isShared: true, confirm: async () => ['stopped'], readRecord });
  const changes: unknown[] = [];
  records.changed.subscribe(({ id, content, isForeign }) => changes.push([id, content, isForeign]));
  return { records, changes, unreadable };
}

const changeOf = (id: string, json: string | null) => ({ section: 'test', id, json });

test('changes of this replica and of others are events, in the order of their commits', async () => {
  const { records, changes } = await openShared();
  await records.put('a', 1);
  expect(await records.confirm()).toEqual(['stopped']);
  await records.apply([changeOf('a', '2'), changeOf('b', '3'), changeOf('b', null)]);
  expect(changes).toEqual([
    ['a', 1, false],
    ['a', 2, true],
    ['b', 3, true],
    ['b', undefined, true],
  ]);
  expect([...records.entries()]).toEqual([['a', 2]]);
});

test('a record that this version cannot read changes nothing here', async () => {
  const { records, changes, unreadable } = await openShared();
  await records.apply([changeOf('a', '1')]);
  await records.apply([changeOf('a', '"later"'), changeOf('b', '{'), changeOf('c', '4')]);
  expect(unreadable).toEqual(['"later"', '{']);
  expect([...records.entries()]).toEqual([
    ['a', 1],
    ['c', 4],
  ]);
  expect(changes).toHaveLength(2);
});
