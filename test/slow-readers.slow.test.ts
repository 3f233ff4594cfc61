import { expect, it, onTestFinished } from 'vitest';
import { slowReaders } from './campaign/slow-reader.ts';
import { Soak } from './campaign/soak.ts';

it('readers that do not read hold their upstream back, cost no memory and delay nobody, and lose nothing', async () => {
  const soak = await Soak.start();
  onTestFinished(() => soak.close());
  const load = { readers: 2, messages: 12_000, bystanders: 8, ms: 1_000, longestMs: 10_000 };
  const { wrong } = await slowReaders(soak, load);
  expect(wrong).toEqual([]);
}, 120_000);
