import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { authenticated } from '../identity/authenticator.ts';
import { createUser } from '../identity/principal.ts';
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

  it('end when their credential expires, also after longer than a timer can wait, and not once they have ended', () => {
    vi.setSystemTime(0);
    const streams = new OpenStreams();
    const opened = (expiresAt?: number) => ({
      ...stream(),
      by: authenticated(createUser('ann', 'corp'), undefined, expiresAt),
    });
    const day = 24 * 60 * 60 * 1_000;
    const [soon, expired, late, never, removed] = [
      opened(5_000),
      opened(-1),
      opened(60 * day),
      opened(),
      opened(5_000),
    ];
    for (const each of [soon, expired, late, never]) streams.add(each);
    streams.add(removed)();
    const ended = () => [soon, expired, late, never, removed].map(({ counts }) => counts.ended);
    expect(ended()).toEqual([0, 0, 0, 0, 0]);
    vi.advanceTimersByTime(1);
    expect(ended()).toEqual([0, 1, 0, 0, 0]);
    vi.advanceTimersByTime(4_998);
    expect(ended()).toEqual([0, 1, 0, 0, 0]);
    vi.advanceTimersByTime(1);
    expect([...ended(), streams.size]).toEqual([1, 1, 0, 0, 0, 2]);
    vi.advanceTimersByTime(60 * day - 5_001);
    expect(ended()).toEqual([1, 1, 0, 0, 0]);
    vi.advanceTimersByTime(1);
    expect([...ended(), streams.size]).toEqual([1, 1, 1, 0, 0, 1]);
    streams.endAll();
    expect([...ended(), vi.getTimerCount()]).toEqual([1, 1, 1, 1, 0, 0]);
  });

  it('of a sign-in end when it is to be confirmed at its issuer, which the next request does', () => {
    vi.setSystemTime(0);
    const streams = new OpenStreams();
    const of = (expiresAt: number) => ({
      ...stream(),
      by: authenticated(createUser('ann', 'corp'), { kind: 'sign_in', id: 'id' }, expiresAt),
    });
    const [long, short] = [of(12 * 60 * 60 * 1_000), of(60_000)];
    for (const each of [long, short]) streams.add(each);
    const ended = () => [long, short].map(({ counts }) => counts.ended);
    vi.advanceTimersByTime(60_000);
    expect(ended()).toEqual([0, 1]);
    vi.advanceTimersByTime(4 * 60_000 - 1);
    expect(ended()).toEqual([0, 1]);
    vi.advanceTimersByTime(1);
    expect(ended()).toEqual([1, 1]);
  });
});
