import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { diskFiles } from '../../../registry/store/files.ts';
import { FileTaskStore } from './file-task-store.ts';
import { record } from './task-record.fixture.ts';

let folder: string;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'sluice-tasks-'));
});
const opened: FileTaskStore[] = [];
afterEach(async () => {
  for (const store of opened.splice(0)) await store.close().catch(() => undefined);
  await rm(folder, { recursive: true });
});

const log = { warn: () => undefined, error: () => undefined };
function open(): FileTaskStore {
  const store = new FileTaskStore({ folder, files: diskFiles(), log });
  opened.push(store);
  return store;
}

it('has the records of the process before, whether that was closed or killed', async () => {
  const store = open();
  expect(await store.load()).toEqual([]);
  await Promise.all(['a', 'b', 'c'].map((id) => store.put(record(id))));
  await Promise.all([store.change('b', { status: 'completed', statusMessage: 'done' }), store.remove('a')]);
  await store.change('unknown', { status: 'failed' });
  const expected = [record('b', { status: 'completed', statusMessage: 'done' }), record('c')];
  const killed = open();
  expect(await killed.load()).toEqual(expected);
  await killed.put(record('d'));
  await killed.close();
  expect(await open().load()).toEqual([...expected, record('d')]);
  expect(JSON.parse(await readFile(join(folder, 'tasks.json'), 'utf8')).tasks).toHaveLength(3);
});

it('compacts a journal that has become long', async () => {
  const store = open();
  await store.load();
  const statusMessage = 'x'.repeat(1000);
  const ids = Array.from({ length: 400 }, (_, at) => String(at));
  await Promise.all(ids.map((id) => store.put(record(id, { statusMessage }))));
  await Promise.all(ids.map((id) => store.remove(id)));
  await store.put(record('last'));
  await store.close();
  expect((await readFile(join(folder, 'tasks.json'))).length).toBeLessThan(2_000);
  expect(await open().load()).toEqual([record('last')]);
});

it('names a file that is damaged', async () => {
  await writeFile(join(folder, 'tasks.json'), '{"version":2,"tasks":[{}]}');
  await expect(open().load()).rejects.toThrow(
    `${folder}/tasks.json is not valid; repair it, or remove it to start without the tasks in it`,
  );
});
