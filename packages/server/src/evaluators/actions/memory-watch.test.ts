import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { type HostsState, MemoryWatch } from './memory-watch.ts';

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

it('looks often while hosts work, seldom when they idle, and never when there are none', () => {
  let state: HostsState = 'none';
  let looks = 0;
  const watch = new MemoryWatch(
    () => state,
    () => looks++,
  );
  /** Looks in so many milliseconds. */
  const within = (ms: number) => {
    const before = looks;
    vi.advanceTimersByTime(ms);
    return looks - before;
  };
  watch.update();
  expect([within(1_000), vi.getTimerCount()]).toEqual([0, 0]);
  state = 'working';
  watch.update();
  expect(within(1_000)).toBe(100);
  // Runs that follow each other do not put it off.
  for (let at = 0; at < 10; at++) {
    watch.update();
    vi.advanceTimersByTime(5);
  }
  expect(looks).toBe(105);
  state = 'idle';
  // The last look at those that work finds out.
  expect(within(10)).toBe(1);
  expect(within(59_000)).toBe(1_180);
  expect(within(62_000)).toBeLessThan(90);
  expect(within(10_000)).toBe(10);
  state = 'working';
  watch.update();
  expect(within(1_000)).toBe(100);
  state = 'none';
  expect([within(10), vi.getTimerCount()]).toEqual([1, 0]);
});

it('ends when it is stopped', () => {
  const watch = new MemoryWatch(
    () => 'idle',
    () => undefined,
  );
  watch.update();
  expect(vi.getTimerCount()).toBe(1);
  watch.stop();
  expect(vi.getTimerCount()).toBe(0);
});
