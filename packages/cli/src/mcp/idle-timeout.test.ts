import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { createIdleTimeout } from './idle-timeout.ts';

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => {
  vi.useRealTimers();
});

const createTimeout = () => createIdleTimeout(1000, () => new Error('too long'));

it('ends after the time, with the given reason', () => {
  const { signal } = createTimeout();
  vi.advanceTimersByTime(999);
  expect(signal.aborted).toBe(false);
  vi.advanceTimersByTime(1);
  expect(signal.reason).toEqual(new Error('too long'));
});

it('restarts when the server sends a message', () => {
  const { signal, restart } = createTimeout();
  vi.advanceTimersByTime(900);
  restart();
  vi.advanceTimersByTime(900);
  expect(signal.aborted).toBe(false);
  vi.advanceTimersByTime(100);
  expect(signal.aborted).toBe(true);
});

it('pauses during prompts, and restarts after the last one', async () => {
  const { signal, restart, pauseDuring: pausedDuring } = createTimeout();
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

it('leaves no timer after its end', () => {
  const { restart, stop: end } = createTimeout();
  end();
  restart();
  expect(vi.getTimerCount()).toBe(0);
});
