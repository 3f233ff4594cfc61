import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { createIdleTimeout } from './idle-timeout.ts';

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => {
  vi.useRealTimers();
});

const patience = () => createIdleTimeout(1000, () => new Error('too long'));

it('ends after the time, with the reason that was given', () => {
  const { signal } = patience();
  vi.advanceTimersByTime(999);
  expect(signal.aborted).toBe(false);
  vi.advanceTimersByTime(1);
  expect(signal.reason).toEqual(new Error('too long'));
});

it('begins anew when the server is heard of', () => {
  const { signal, restart } = patience();
  vi.advanceTimersByTime(900);
  restart();
  vi.advanceTimersByTime(900);
  expect(signal.aborted).toBe(false);
  vi.advanceTimersByTime(100);
  expect(signal.aborted).toBe(true);
});

it('does not run out while somebody is asked, and begins anew when all have answered', async () => {
  const { signal, restart, pauseDuring: pausedDuring } = patience();
  const [first, second] = [Promise.withResolvers<string>(), Promise.withResolvers<string>()];
  const both = [pausedDuring(first.promise), pausedDuring(second.promise)];
  first.resolve('a');
  await both[0];
  restart();
  vi.advanceTimersByTime(3_600_000);
  expect(signal.aborted).toBe(false);
  second.resolve('b');
  expect(await Promise.all(both)).toEqual(['a', 'b']);
  vi.advanceTimersByTime(1000);
  expect(signal.aborted).toBe(true);
});

it('keeps nothing running after its end', () => {
  const { restart, stop: end } = patience();
  end();
  restart();
  expect(vi.getTimerCount()).toBe(0);
});
