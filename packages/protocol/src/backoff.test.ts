import { describe, expect, it } from 'vitest';
import { Backoff } from './timing.ts';

describe('Backoff', () => {
  it('stays between 0.25 and 1.5 s for ten minutes, then grows to 30 s, and resets after a success', () => {
    let now = 5_000;
    let random = 0;
    const backoff = new Backoff(
      () => random,
      () => now,
    );
    expect(backoff.next()).toBe(250);
    random = 0.999999;
    expect(backoff.next()).toBe(1500);
    now += 10 * 60_000 - 1;
    expect(backoff.next()).toBe(1500);
    now += 1;
    expect(Array.from({ length: 6 }, () => backoff.next())).toEqual([3000, 6000, 12000, 24000, 30000, 30000]);
    random = 0;
    expect(backoff.next()).toBe(15000);
    backoff.reset();
    expect(backoff.next()).toBe(250);
  });
});
