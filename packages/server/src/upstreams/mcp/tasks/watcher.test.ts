import { expect, test, vi } from 'vitest';
import { ANONYMOUS, toStored } from '../../../identity/principal.ts';
import type { CoreTask } from './task-record.ts';
import { TaskPolls } from './watcher.ts';

const RECORD: CoreTask = {
  id: 'task',
  upstreamId: 'upstream-task',
  kind: 'core',
  clientEra: 'modern',
  session: { protocolVersion: '2025-11-25' },
  questions: [],
  states: [],
  status: 'working',
  namespace: 'default',
  forward: 'forward',
  address: 'http://localhost/mcp',
  tool: { key: 'tool' },
  principal: toStored(ANONYMOUS),
  holder: { namespace: 'default', name: 'user' },
  created: 0,
  createdAt: '2026-01-01T00:00:00.000Z',
  lastUpdatedAt: '2026-01-01T00:00:00.000Z',
  ttlMs: 60_000,
  expires: Number.POSITIVE_INFINITY,
  pollIntervalMs: 100,
};

test('a read that fails, such as without the database, is repeated', async () => {
  const read = vi.fn(async () => Promise.reject(new Error('PostgreSQL cannot be reached')));
  const tasks = { latest: <Kind>(record: Kind) => record, onChange: () => () => undefined, pollTurn: async () => true };
  const stop = new TaskPolls(tasks, read).watch(RECORD, [], () => true);
  await expect.poll(() => read.mock.calls.length, { timeout: 10_000 }).toBeGreaterThan(1);
  stop();
});
