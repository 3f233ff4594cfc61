import { expect, test } from 'vitest';
import { replicasUnderFaults } from './campaign/replicas.ts';

// In full: `npm run campaign -- replicas`.

test('replicas under faults lose no acknowledged write, and carry out no call twice or after its tool was disabled', async () => {
  const { tally, faults } = await replicasUnderFaults(20, console.error);
  expect(tally.failures).toEqual([]);
  expect(faults.size).toBeGreaterThan(1);
  expect(tally.writes.acknowledged).toBeGreaterThan(20);
  expect(tally.reads).toBeGreaterThan(20);
  expect(tally.calls).toBeGreaterThan(100);
}, 300_000);
