import fc from 'fast-check';
import { expect, it } from 'vitest';
import { testSeed } from './fixtures/seed.ts';

it('random tests try the same values in each run', () => {
  const tried = (): number[] => {
    const values: number[] = [];
    fc.assert(fc.property(fc.integer(), (value) => void values.push(value)));
    return values;
  };
  expect(tried()).toEqual(tried());
  expect(fc.readConfigureGlobal()).toMatchObject({ seed: testSeed() });
});
