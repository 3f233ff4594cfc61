import { expect, it } from 'vitest';
import { oncePerInterrupt } from './timing.ts';

it('a Ctrl-C that arrives again within a second is the same one, and later ones are not', () => {
  let now = 0;
  const counted: number[] = [];
  const interrupt = oncePerInterrupt(
    () => counted.push(now),
    () => now,
  );
  // Pressed all the time from 0 to 2.1 s.
  for (now of [0, 1, 500, 999, 1_000, 1_900, 2_100]) interrupt();
  expect(counted).toEqual([0, 1_000, 2_100]);
});
