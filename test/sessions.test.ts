import { afterAll, beforeAll, expect, it } from 'vitest';
import { Soak } from './campaign/soak.ts';

let soak: Soak;

beforeAll(async () => {
  soak = await Soak.start();
});

afterAll(() => soak.close());

it('sessions whose calls ask their clients get each its own answers, and nothing of them is left', async () => {
  const { witness, forgotten, wrong } = await soak.run({
    sessions: 30,
    warmUpMs: 0,
    ms: 2_500,
    restMs: 1_000,
    forgetMs: 1_200,
    settleMs: 60_000,
    // Event streams stay for a while by design.
    classes: ['ActiveSession', 'RelayedCall', 'NotificationBridge', 'ServerResponse'],
  });
  expect(wrong).toEqual([]);
  expect(witness.ended).toBe(witness.opened);
  const { answered, cancelled, resumed, left } = witness;
  for (const count of [answered, cancelled, resumed, left, forgotten]) expect(count).toBeGreaterThan(0);
}, 120_000);
