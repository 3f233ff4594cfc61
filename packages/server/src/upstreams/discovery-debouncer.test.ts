import { afterEach, beforeEach, expect, it, onTestFinished, vi } from 'vitest';
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

/** Runs that end at once; each is followed by a notification after `delayMs`. */
function notifiedAfterRuns(delayMs: number, foundChanges: (run: number) => boolean) {
  const paced: number[] = [];
  const starts: number[] = [];
  const debouncer = new DiscoveryDebouncer(
    async () => {
      debouncer.onReading();
      starts.push(performance.now());
      debouncer.onRead(foundChanges(starts.length));
      setTimeout(() => debouncer.trigger(), delayMs);
    },
    { onPaced: (distanceMs) => paced.push(distanceMs) },
  );
  onTestFinished(() => debouncer.close());
  debouncer.trigger();
  return { starts, paced };
}

it('runs without anything new that are followed by a notification each become rare', async () => {
  const { starts, paced } = notifiedAfterRuns(300, () => false);
  await vi.advanceTimersByTimeAsync(60_000);
  expect(paced).toEqual([5_000, 10_000, 20_000, 40_000]);
  expect(starts.length).toBeLessThan(12);
});

it.each([
  ['find something', 300, () => true],
  ['find something from time to time', 300, (run: number) => run % 5 === 0],
  ['are followed by it later', 1_100, () => false],
])('runs that %s are as frequent as the notifications', async (_what, delayMs, foundChanges) => {
  const { starts, paced } = notifiedAfterRuns(delayMs, foundChanges);
  await vi.advanceTimersByTimeAsync(30_000);
  expect(paced).toEqual([]);
  expect(starts.length).toBeGreaterThan(25);
});
