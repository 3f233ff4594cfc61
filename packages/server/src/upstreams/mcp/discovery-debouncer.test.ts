import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { DiscoveryDebouncer } from './discovery-debouncer.ts';

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
  rediscovery.close();
  vi.useRealTimers();
});

it('a run starts shortly after the first of several notifications, one for all of them', async () => {
  for (let count = 0; count < 100; count++) rediscovery.trigger();
  await vi.advanceTimersByTimeAsync(19);
  expect(runs).toHaveLength(0);
  await vi.advanceTimersByTimeAsync(1);
  expect(runs).toHaveLength(1);
  runs[0]?.resolve();
  await vi.advanceTimersByTimeAsync(60_000);
  expect(runs).toHaveLength(1);
});

it('notifications during a run cause exactly one more after it, also if the run fails', async () => {
  rediscovery.trigger();
  await vi.advanceTimersByTimeAsync(20);
  rediscovery.trigger();
  rediscovery.trigger();
  await vi.advanceTimersByTimeAsync(5_000);
  expect(runs).toHaveLength(1);
  runs[0]?.reject(new Error('down'));
  await vi.advanceTimersByTimeAsync(20);
  expect(runs).toHaveLength(2);
  runs[1]?.resolve();
  await vi.advanceTimersByTimeAsync(60_000);
  expect(runs).toHaveLength(2);
});

it('continuous notifications cause two runs per second', async () => {
  for (let at = 0; at < 10_000; at += 10) {
    rediscovery.trigger();
    await vi.advanceTimersByTimeAsync(10);
    runs.at(-1)?.resolve();
  }
  expect(runs.length).toBeGreaterThanOrEqual(20);
  expect(runs.length).toBeLessThanOrEqual(23);
});

it('the first three changes are discovered at once, later ones at intervals', async () => {
  const times: number[] = [];
  for (let count = 0; count < 5; count++) {
    const noticedAt = performance.now();
    rediscovery.trigger();
    while (runs.length === count) await vi.advanceTimersByTimeAsync(5);
    runs.at(-1)?.resolve();
    await vi.advanceTimersByTimeAsync(0);
    times.push(performance.now() - noticedAt);
  }
  expect(Math.max(...times.slice(0, 3))).toBeLessThanOrEqual(30);
  expect(Math.min(...times.slice(3))).toBeGreaterThan(400);
});

it('no run starts after close, and no timer is left', async () => {
  rediscovery.trigger();
  rediscovery.close();
  rediscovery.trigger();
  expect(vi.getTimerCount()).toBe(0);
  await vi.advanceTimersByTimeAsync(1_000);
  expect(runs).toHaveLength(0);
});
