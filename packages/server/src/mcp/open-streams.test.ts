import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { OpenStreams } from './open-streams.ts';

function stream() {
  const counts = { kept: 0, ended: 0 };
  return { counts, keepAlive: () => void counts.kept++, end: () => void counts.ended++ };
}

describe('long streams', () => {
  beforeEach(() => {
    vi.useFakeTimers();
  });
  afterEach(() => {
    vi.useRealTimers();
  });

  it('get a keep-alive comment every 15 s from one timer, which ends with the last stream', () => {
    const streams = new OpenStreams();
    const [one, two] = [stream(), stream()];
    const removeOne = streams.add(one);
    const removeTwo = streams.add(two);
    vi.advanceTimersByTime(15_000);
    removeOne();
    vi.advanceTimersByTime(15_000);
    expect([one.counts.kept, two.counts.kept, vi.getTimerCount()]).toEqual([1, 2, 1]);
    removeTwo();
    removeTwo();
    expect([streams.size, vi.getTimerCount()]).toEqual([0, 0]);
  });

  it('end together, and later ones immediately', () => {
    const streams = new OpenStreams();
    const [one, two, late] = [stream(), stream(), stream()];
    const removeOne = streams.add({
      ...one,
      end: () => {
        one.end();
        // Like an ending stream does.
        removeOne();
      },
    });
    streams.add(two);
    streams.endAll();
    streams.add(late)();
    streams.endAll();
    expect([one.counts.ended, two.counts.ended, late.counts.ended]).toEqual([1, 1, 1]);
    expect([streams.size, vi.getTimerCount()]).toEqual([0, 0]);
  });
});
