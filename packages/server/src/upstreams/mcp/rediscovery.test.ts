import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { DiscoveryDebouncer } from './forward-controller.ts';

let runs: PromiseWithResolvers<void>[];
let rediscovery: DiscoveryDebouncer;
beforeEach(() => {
  vi.useFakeTimers();
  runs = [];
  rediscovery = new DiscoveryDebouncer(() => {
    const run = Promise.withResolvers<void>();
    runs.push(run);
    return run.promise;
  });
});
afterEach(() => {
  rediscovery.end();
  vi.useRealTimers();
});

it('a run begins shortly after the first of several notices, once for all of them', async () => {
  for (let count = 0; count < 100; count++) rediscovery.notice();
  await vi.advanceTimersByTimeAsync(19);
  expect(runs).toHaveLength(0);
  await vi.advanceTimersByTimeAsync(1);
  expect(runs).toHaveLength(1);
  runs[0]?.resolve();
  await vi.advanceTimersByTimeAsync(60_000);
  expect(runs).toHaveLength(1);
});

it('notices during a run cause exactly one more after it, also when the run fails', async () => {
  rediscovery.notice();
  await vi.advanceTimersByTimeAsync(20);
  rediscovery.notice();
  rediscovery.notice();
  await vi.advanceTimersByTimeAsync(5_000);
  expect(runs).toHaveLength(1);
  runs[0]?.reject(new Error('down'));
  await vi.advanceTimersByTimeAsync(20);
  expect(runs).toHaveLength(2);
  runs[1]?.resolve();
  await vi.advanceTimersByTimeAsync(60_000);
  expect(runs).toHaveLength(2);
});

it('a flood of notices causes two runs a second', async () => {
  for (let at = 0; at < 10_000; at += 10) {
    rediscovery.notice();
    await vi.advanceTimersByTimeAsync(10);
    runs.at(-1)?.resolve();
  }
  expect(runs.length).toBeGreaterThanOrEqual(20);
  expect(runs.length).toBeLessThanOrEqual(23);
});

it('a second and a third change are followed as soon as the first, until there are too many', async () => {
  const times: number[] = [];
  for (let count = 0; count < 5; count++) {
    const noticedAt = performance.now();
    rediscovery.notice();
    while (runs.length === count) await vi.advanceTimersByTimeAsync(5);
    runs.at(-1)?.resolve();
    await vi.advanceTimersByTimeAsync(0);
    times.push(performance.now() - noticedAt);
  }
  expect(Math.max(...times.slice(0, 3))).toBeLessThanOrEqual(30);
  expect(Math.min(...times.slice(3))).toBeGreaterThan(400);
});

it('nothing begins after its end, and no timer is left', async () => {
  rediscovery.notice();
  rediscovery.end();
  rediscovery.notice();
  expect(vi.getTimerCount()).toBe(0);
  await vi.advanceTimersByTimeAsync(1_000);
  expect(runs).toHaveLength(0);
});
