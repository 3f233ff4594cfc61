import { expect, onTestFinished, test, vi } from 'vitest';
import { memoryLog } from '../../../registry/store/record-log.ts';
import { Task } from './task.ts';
import { record } from './task-record.fixture.ts';
import { Tasks } from './tasks.ts';
import { TaskPolls } from './watcher.ts';

test('a read that fails, such as without the database, is repeated', async () => {
  const read = vi.fn(async () => Promise.reject(new Error('PostgreSQL cannot be reached')));
  const tasks = new Tasks({ log: memoryLog() });
  onTestFinished(() => tasks.close());
  const task = new Task(tasks, record('task', { pollIntervalMs: 100 }), false);
  const stop = new TaskPolls(read).watch(task, [], () => true);
  await expect.poll(() => read.mock.calls.length, { timeout: 10_000 }).toBeGreaterThan(1);
  stop();
});
