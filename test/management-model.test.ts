import { expect, it } from 'vitest';
import { testSeed } from './fixtures/seed.ts';
import { checkModel } from './model/property.ts';
import type { Tally } from './model/run.ts';

/** What has to have come about, or the runs say little. */
const counts = ({ shadowed, restarts, statuses }: Tally) => [
  shadowed,
  restarts.SIGTERM + restarts.SIGKILL,
  statuses[201] ?? 0,
  statuses[409] ?? 0,
];

it('random calls of the management API, with restarts between them, leave service and model agreed', async () => {
  const { tally, failure } = await checkModel({
    runs: 100,
    steps: 40,
    ms: 4_000,
    atLeast: 5,
    enough: (seen) => counts(seen).every((count) => count > 0),
    seed: testSeed(),
    shrinkMs: 60_000,
  });
  // As an error its lines stay readable.
  if (failure !== undefined) throw new Error(failure);
  for (const count of counts(tally)) expect(count).toBeGreaterThan(0);
  expect(tally.comparisons).toBeGreaterThan(tally.runs * 20);
}, 180_000);
