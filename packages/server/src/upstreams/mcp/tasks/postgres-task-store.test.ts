import { expect, it } from 'vitest';
import { ANONYMOUS, toStored } from '../../../identity/principal.ts';
import type { SharedLog } from '../../../registry/store/postgres/shared-log.ts';
import type { Commit } from '../../../registry/store/store.ts';
import { PostgresTaskStore } from './postgres-task-store.ts';
import type { TaskRecord } from './task-record.ts';

const WORKING: TaskRecord = {
  id: 'a',
  namespace: 'default',
  principal: toStored(ANONYMOUS),
  holder: { namespace: 'default', name: 'address:127.0.0.1' },
  address: 'http://upstream/mcp',
  kind: 'call',
  replica: 'r',
  clientEra: 'modern',
  states: [],
  tool: { key: 'tool' },
  status: 'working',
  createdAt: '2026-01-01T00:00:00Z',
  lastUpdatedAt: '2026-01-01T00:00:00Z',
  ttlMs: 60_000,
  created: 1,
  expires: 2,
};
const put = (record: TaskRecord) => ({ section: 'tasks', id: record.id, json: JSON.stringify(record) });

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
