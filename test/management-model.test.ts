import { expect, it } from 'vitest';
import { givenSeed } from './campaign/model.ts';
import { checkModel } from './model/property.ts';

it('random calls of the management API, with restarts between them, leave service and model agreed', async () => {
  const { tally, failure } = await checkModel({
    runs: 100,
    steps: 40,
    ms: 15_000,
    seed: givenSeed(),
    shrinkMs: 60_000,
  });
  // As an error its lines stay readable.
  if (failure !== undefined) throw new Error(failure);
  const { runs, comparisons, shadowed, restarts, statuses } = tally;
  for (const count of [shadowed, restarts.SIGTERM + restarts.SIGKILL, statuses[201], statuses[409]]) {
    expect(count).toBeGreaterThan(0);
  }
  expect(comparisons).toBeGreaterThan(runs * 20);
}, 180_000);
