import { expect, it } from 'vitest';
import type { SharedLog } from '../../../registry/store/postgres/shared-log.ts';
import type { Commit } from '../../../registry/store/store.ts';
import { PostgresTaskStore } from './postgres-task-store.ts';
import { record } from './task-record.fixture.ts';
import type { TaskRecord } from './task-record.ts';

const WORKING = record('a');
const put = (stored: TaskRecord) => ({ section: 'tasks', id: stored.id, json: JSON.stringify(stored) });

it.each([
  ['completed', 'completed'],
  ['working', 'failed'],
] as const)('stores a status unless another replica has stored an end meanwhile: %s', async (by, expected) => {
  const log = {
    add: async () => undefined,
    readRecord: (_section: string, json: string, read: (json: string) => unknown) => read(json),
    async update(make: () => Commit, isOutdated: () => boolean) {
      const first = make();
      await store.apply([put({ ...WORKING, status: by })]);
      (isOutdated() ? make() : first).publish();
    },
  } as unknown as SharedLog;
  const store = new PostgresTaskStore(log);
  await store.apply([put(WORKING)]);
  await store.change('a', { status: 'failed', statusMessage: 'late' });
  expect((await store.load()).map(({ status }) => status)).toEqual([expected]);
});
