import { expect, it } from 'vitest';
import { backupUnderLoad } from './campaign/backup.ts';

it('backups while 50 clients write are consistent, and restored byte for byte', async () => {
  const { failures, restarted, during } = await backupUnderLoad({ seconds: 8, tools: 2_000 });
  expect(failures).toEqual([]);
  // Writes during backups; how many there are of both depends on the machine.
  expect(during.length).toBeGreaterThan(10);
  expect(restarted).toBe(2);
});
