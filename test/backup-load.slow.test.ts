import { expect, it } from 'vitest';
import { backupUnderLoad } from './campaign/backup.ts';

it('backups under 200 writes per second are consistent, and restored byte for byte', async () => {
  const { failures, backups, writesPerSecond, restarted, during } = await backupUnderLoad({ seconds: 8, tools: 2_000 });
  expect(failures).toEqual([]);
  // On a machine that does nothing else it is 200.
  expect(writesPerSecond).toBeGreaterThan(100);
  expect(backups.length).toBeGreaterThan(3);
  expect(during.length).toBeGreaterThan(10);
  expect(restarted).toBe(2);
});
