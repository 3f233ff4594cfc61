import { afterAll, beforeAll, expect, it } from 'vitest';
import { Soak } from './campaign/soak.ts';

let soak: Soak;

beforeAll(async () => {
  soak = await Soak.start();
});

afterAll(() => soak.close());

it('sessions with server requests get their own responses and leave no objects behind', async () => {
  const { tally, sessionResets, failures } = await soak.run({
    sessions: 10,
    warmUpMs: 0,
    ms: 2_500,
    pauseMs: 1_000,
    resetMs: 1_200,
    settleMs: 60_000,
    // Event streams are buffered for a while by design.
    classes: ['ActiveSession', 'RelayedCall', 'NotificationBridge', 'ServerResponse'],
  });
  expect(failures).toEqual([]);
  expect(tally.ended).toBe(tally.opened);
  const { completed, canceled, resumed, disconnected } = tally;
  for (const count of [completed, canceled, resumed, disconnected, sessionResets]) expect(count).toBeGreaterThan(0);
}, 120_000);
