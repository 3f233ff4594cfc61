import { expect, it } from 'vitest';
import { testSeed } from './fixtures/seed.ts';
import { checkModel } from './model/property.ts';
import type { Tally } from './model/run.ts';

/** Events that must have occurred for the runs to be meaningful. */
const counts = ({ shadowed, restarts, statuses }: Tally) => [
  shadowed,
  restarts.SIGTERM + restarts.SIGKILL,
  statuses[201] ?? 0,
  statuses[409] ?? 0,
];

it('random management calls, with restarts between them, leave service and model equal', async () => {
  const { tally, failure } = await checkModel({
    runs: 20,
    steps: 40,
    // The campaign runs for minutes.
    ms: 0,
    atLeast: 3,
    enough: (seen) => counts(seen).every((count) => count > 0),
    seed: testSeed(),
    shrinkMs: 60_000,
  });
  // Keeps the lines of an error readable.
  if (failure !== undefined) throw new Error(failure);
  for (const count of counts(tally)) expect(count).toBeGreaterThan(0);
  expect(tally.comparisons).toBeGreaterThan(tally.runs * 20);
}, 180_000);
