import { expect, it } from 'vitest';
import { ReconnectDelay } from './timing.ts';

function delays(delay: ReconnectDelay, count: number): number[] {
  return Array.from({ length: count }, () => delay.next());
}

it('the delay doubles from a second to half a minute while attempts fail, and resets after a success', () => {
  const delay = new ReconnectDelay({ random: () => 0.999_999 });
  expect(delays(delay, 7)).toEqual([1_100, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000]);
  delay.reset();
  expect(delay.next()).toBe(1_100);
});

it('jitter reduces a delay by up to half, except the first one', () => {
  const delay = new ReconnectDelay({ random: () => 0 });
  expect(delays(delay, 7)).toEqual([1_000, 1_000, 2_000, 4_000, 8_000, 15_000, 15_000]);
});

it("the upstream's retry interval is the minimum, within limits", () => {
  const delay = new ReconnectDelay({ random: () => 0 });
  delay.setRetryMs(500);
  expect(delays(delay, 3)).toEqual([500, 500, 1_000]);
  delay.setRetryMs(45_000);
  expect(delays(delay, 2)).toEqual([45_000, 45_000]);
  delay.reset();
  delay.setRetryMs(0);
  expect(delay.next()).toBe(50);
  delay.reset();
  delay.setRetryMs(Number.MAX_SAFE_INTEGER);
  expect(delay.next()).toBe(3_600_000);
});
