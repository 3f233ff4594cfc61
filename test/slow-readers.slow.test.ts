import { expect, it, onTestFinished } from 'vitest';
import { slowReaders } from './campaign/slow-readers.ts';
import { Soak } from './campaign/soak.ts';

it('clients that stop reading cause backpressure, use no memory, do not delay other clients, and lose nothing', async () => {
  const soak = await Soak.start();
  onTestFinished(() => soak.close());
  const load = { readers: 2, messages: 12_000, otherClients: 8, ms: 1_000, maxLatencyMs: 10_000 };
  const { failures } = await slowReaders(soak, load);
  expect(failures).toEqual([]);
}, 120_000);
