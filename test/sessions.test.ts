import { afterAll, beforeAll, expect, it } from 'vitest';
import { slowReaders } from './campaign/slow-reader.ts';
import { Soak } from './campaign/soak.ts';

let soak: Soak;

beforeAll(async () => {
  soak = await Soak.start();
});

afterAll(() => soak.close());

it('sessions whose calls ask their clients get each its own answers, and nothing of them is left', async () => {
  const { witness, forgotten, wrong } = await soak.run({
    sessions: 40,
    warmUpMs: 0,
    ms: 3_000,
    restMs: 1_000,
    forgetMs: 1_200,
    settleMs: 30_000,
    // Event streams stay for a while by design.
    classes: ['LiveSession', 'RelayedCall', 'UpstreamChannel', 'ServerResponse'],
  });
  expect(wrong).toEqual([]);
  expect(witness.ended).toBe(witness.opened);
  const { answered, cancelled, resumed, left } = witness;
  for (const count of [answered, cancelled, resumed, left, forgotten]) expect(count).toBeGreaterThan(0);
}, 120_000);

it('readers that do not read hold their upstream back, cost no memory and delay nobody, and lose nothing', async () => {
  const load = { readers: 2, messages: 12_000, bystanders: 8, ms: 1_000, longestMs: 10_000 };
  const { wrong } = await slowReaders(soak, load);
  expect(wrong).toEqual([]);
}, 120_000);
