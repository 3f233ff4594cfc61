import { expect, test } from 'vitest';
import { replicasUnderFaults } from './campaign/replicas.ts';

// In full: `npm run campaign -- replicas`.

test('replicas under faults lose no acknowledged write, and carry out no call twice or after its tool was disabled', async () => {
  const { tally, faults } = await replicasUnderFaults(20, console.error);
  expect(tally.failures).toEqual([]);
  expect(faults.size).toBeGreaterThan(1);
  // How many there are of each depends on the machine.
  expect(tally.writes.acknowledged).toBeGreaterThan(5);
  expect(tally.reads).toBeGreaterThan(5);
  expect(tally.calls).toBeGreaterThan(20);
}, 300_000);
