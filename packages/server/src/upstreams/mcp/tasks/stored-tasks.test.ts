import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it, onTestFinished } from 'vitest';
import { FileLog } from '../../../registry/store/file-log.ts';
import { diskFiles } from '../../../registry/store/files.ts';
import { type LogConsumer, memoryLog, type RecordLog } from '../../../registry/store/record-log.ts';
import type { Conflict } from '../../../registry/store/store.ts';
import { record } from './task-record.fixture.ts';
import { type NewTask, Tasks } from './tasks.ts';

const log = { warn: () => undefined, error: () => undefined };

const { id: _, created, expires, states, status, createdAt, lastUpdatedAt, ttlMs, ...members } = record('');
const NEW: NewTask = members;
const STATE = { status, createdAt, lastUpdatedAt, ttlMs, statusMessage: undefined, pollIntervalMs: undefined } as const;

async function load(records: RecordLog): Promise<Tasks> {
  const tasks = new Tasks({ log: records });
  onTestFinished(() => tasks.close());
  await tasks.load();
  return tasks;
}

/** Opens the tasks of a folder, as a new process does. */
async function openIn(folder: string) {
  const records = await FileLog.open({ folder, files: diskFiles(), log, recover: false });
  onTestFinished(() => records.close().catch(() => undefined));
  const tasks = await load(records);
  const create = async (statusMessage?: string) => {
    const task = await tasks.create(NEW, { ...STATE, statusMessage });
    return task ?? expect.unreachable();
  };
  const stored = () => tasks.all().map(({ id, record }) => [id, record.status, record.statusMessage]);
  return { records, create, stored };
}

async function newFolder(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'sluice-tasks-'));
  onTestFinished(() => rm(folder, { recursive: true }));
  return folder;
}

it('has the records of the process before, whether that was closed or killed', async () => {
  const folder = await newFolder();
  const { create, stored, records } = await openIn(folder);
  expect(stored()).toEqual([]);
  const [a, b, c] = [await create('a'), await create('b'), await create('c')];
  a.remove();
  b.observe({ ...STATE, taskId: b.id, status: 'completed', statusMessage: 'done' });
  // Changes are stored in order.
  await c.cancel();
  const expected = [
    [b.id, 'completed', 'done'],
    [c.id, 'working', 'c'],
  ];
  const killed = await openIn(folder);
  expect(killed.stored()).toEqual(expected);
  const d = await killed.create('d');
  await killed.records.close();
  expect((await openIn(folder)).stored()).toEqual([...expected, [d.id, 'working', 'd']]);
  await records.close().catch(() => undefined);
});

it('compacts a journal that has become long', async () => {
  const folder = await newFolder();
  const { create, records } = await openIn(folder);
  const many = await Promise.all(Array.from({ length: 400 }, () => create('x'.repeat(1000))));
  for (const task of many) task.remove();
  const last = await create();
  await records.close();
  expect((await readFile(join(folder, 'records.snapshot'))).length).toBeLessThan(2_000);
  expect((await openIn(folder)).stored()).toEqual([[last.id, 'working', undefined]]);
});

it('names a file that is damaged', async () => {
  const folder = await newFolder();
  const records = await FileLog.open({ folder, files: diskFiles(), log, recover: false });
  const changes = [{ section: 'tasks', id: 'a', json: '{}' }] as const;
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
  const put = (changed: typeof by) => [
    {
      section: 'tasks',
      id: 'a',
      json: JSON.stringify(record('a', { created: Date.now(), expires: Number.MAX_SAFE_INTEGER, status: changed })),
    },
  ];
  let consumer: LogConsumer | undefined;
  const shared: RecordLog = {
    ...memoryLog(),
    isShared: true,
    async add(added) {
      await added.reload(new Map([['tasks', put('working')]]));
      consumer = added;
    },
    async commit(first, conflict?: Conflict) {
      await consumer?.apply(put(by));
      const made = conflict?.isOutdated() ? await conflict.remake() : first;
      made.publish();
    },
  };
  const tasks = await load(shared);
  const task = tasks.get('a') ?? expect.unreachable();
  task.observe({ ...STATE, taskId: 'a', status: 'failed', statusMessage: 'late' });
  await tasks.close();
  const stored = Array.from(consumer?.records() ?? [], ({ json }) => JSON.parse(json).status);
  expect(stored).toEqual([expected]);
});
