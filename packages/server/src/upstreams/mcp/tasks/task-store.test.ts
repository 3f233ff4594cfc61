import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it, onTestFinished } from 'vitest';
import { FileLog } from '../../../registry/store/file-log.ts';
import { diskFiles } from '../../../registry/store/files.ts';
import { type LogConsumer, memoryLog, type RecordLog } from '../../../registry/store/record-log.ts';
import type { Conflict } from '../../../registry/store/store.ts';
import { record } from './task-record.fixture.ts';
import { LogTaskStore } from './task-store.ts';

const LATER = { expires: Number.MAX_SAFE_INTEGER };
const log = { warn: () => undefined, error: () => undefined };

/** Opens the tasks of a folder, as a new process does. */
async function openIn(folder: string) {
  const records = await FileLog.open({ folder, files: diskFiles(), log, recover: false });
  onTestFinished(() => records.close().catch(() => undefined));
  const store = new LogTaskStore(records);
  return { store, records, tasks: await store.load() };
}

async function newFolder(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'sluice-tasks-'));
  onTestFinished(() => rm(folder, { recursive: true }));
  return folder;
}

it('has the records of the process before, whether that was closed or killed', async () => {
  const folder = await newFolder();
  const { store, tasks } = await openIn(folder);
  expect(tasks).toEqual([]);
  await Promise.all(['a', 'b', 'c'].map((id) => store.put(record(id, LATER))));
  await Promise.all([store.change('b', { status: 'completed', statusMessage: 'done' }), store.remove('a')]);
  await store.change('unknown', { status: 'failed' });
  const expected = [record('b', { ...LATER, status: 'completed', statusMessage: 'done' }), record('c', LATER)];
  const killed = await openIn(folder);
  expect(killed.tasks).toEqual(expected);
  await killed.store.put(record('d', LATER));
  await killed.records.close();
  expect((await openIn(folder)).tasks).toEqual([...expected, record('d', LATER)]);
});

it('compacts a journal that has become long', async () => {
  const folder = await newFolder();
  const { store, records } = await openIn(folder);
  const statusMessage = 'x'.repeat(1000);
  const ids = Array.from({ length: 400 }, (_, at) => String(at));
  await Promise.all(ids.map((id) => store.put(record(id, { ...LATER, statusMessage }))));
  await Promise.all(ids.map((id) => store.remove(id)));
  await store.put(record('last', LATER));
  await records.close();
  expect((await readFile(join(folder, 'records.snapshot'))).length).toBeLessThan(2_000);
  expect((await openIn(folder)).tasks).toEqual([record('last', LATER)]);
});

it('names a file that is damaged', async () => {
  const folder = await newFolder();
  const records = await FileLog.open({ folder, files: diskFiles(), log, recover: false });
  const changes = [{ op: 'put', section: 'tasks', id: 'a', json: '{}' }] as const;
  await records.commit({ changes, publish: () => undefined });
  await records.close();
  await expect(openIn(folder)).rejects.toThrow(`${folder}/records.snapshot has tasks that cannot be used: "a".kind: `);
  await writeFile(join(folder, 'records.snapshot'), 'x');
  await expect(openIn(folder)).rejects.toThrow(
    `${folder}/records.snapshot is corrupt at byte 0; repair it, or set SERVICE_PERSIST_RECOVER=rename to start without it`,
  );
});

it.each([
  ['completed', 'completed'],
  ['working', 'failed'],
] as const)('stores a status unless another replica has stored an end meanwhile: %s', async (by, expected) => {
  const stored = { ...memoryLog(), isShared: true };
  const put = (status: typeof by) => [
    { section: 'tasks', id: 'a', json: JSON.stringify(record('a', { ...LATER, status })) },
  ];
  let consumer: LogConsumer | undefined;
  const shared: RecordLog = {
    ...stored,
    async add(added) {
      if (!consumer) await added.reload(new Map([['tasks', put('working')]]));
      consumer = added;
    },
    async commit(first, conflict?: Conflict) {
      await consumer?.apply(put(by));
      const made = conflict?.isOutdated() ? await conflict.remake() : first;
      made.publish();
    },
  };
  const store = new LogTaskStore(shared);
  await store.load();
  await store.change('a', { status: 'failed', statusMessage: 'late' });
  expect((await store.load()).map(({ status }) => status)).toEqual([expected]);
});
