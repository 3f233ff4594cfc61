import { expect, test } from 'vitest';
import { FairLimiter, WaitBudget } from './fair-queue.ts';

const budget = () => new WaitBudget('n', 'u');

test('as many jobs run at a time as the limit says, each failed or canceled one makes room, and a canceled one never runs', async () => {
  const limiter = new FairLimiter(10, 1);
  const ran: string[] = [];
  const first = Promise.withResolvers<void>();
  const run = (name: string, job: () => Promise<unknown>, signal?: AbortSignal) => {
    const recorded = () => {
      ran.push(name);
      return job();
    };
    return limiter.run(recorded, budget(), '', signal);
  };
  const running = run('first', () => first.promise);
  const cancel = new AbortController();
  const canceled = run('canceled', async () => undefined, cancel.signal);
  const throwing = run('throws', () => {
    throw new Error('at once');
  });
  const failing = run('fails', () => Promise.reject(new Error('later')));
  const last = run('last', async () => 'done');
  cancel.abort(new Error('gone'));
  await expect(canceled).rejects.toThrow('gone');
  expect(ran).toEqual(['first']);
  first.resolve();
  await running;
  await expect(throwing).rejects.toThrow('at once');
  await expect(failing).rejects.toThrow('later');
  expect(await last).toBe('done');
  expect(ran).toEqual(['first', 'throws', 'fails', 'last']);
});
