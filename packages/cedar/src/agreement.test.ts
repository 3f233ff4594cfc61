import { seeded } from '@sluice/protocol/json/fixtures/documents';
import { expect, test } from 'vitest';
import { RandomCases } from './fixtures/random-cases.ts';
import { decide, decideByReference } from './fixtures/reference.ts';

test('decisions, determining and failing policies are those of the reference implementation', () => {
  const cases = new RandomCases(below(seeded(1)));
  const seen = { compared: 0, allowed: 0, failing: 0 };
  for (let count = 0; count < 5_000; count++) {
    const random = cases.next();
    const reference = decideByReference(random);
    if (!reference) continue;
    expect({ ...decide(random), random }).toEqual({ ...reference, random });
    seen.compared++;
    seen.allowed += reference.isAllowed ? 1 : 0;
    seen.failing += reference.failing.length > 0 ? 1 : 0;
  }
  // Neither side says the same to everything.
  expect(seen.compared).toBeGreaterThan(4_500);
  expect(seen.allowed).toBeGreaterThan(500);
  expect(seen.failing).toBeGreaterThan(500);
});

function below(random: () => number): (limit: number) => number {
  return (limit) => Math.floor(random() * limit);
}
