import { afterAll, beforeAll, expect, it } from 'vitest';
import { Soak } from './campaign/soak.ts';
import type { SessionTally } from './campaign/tally.ts';

let soak: Soak;

beforeAll(async () => {
  soak = await Soak.start();
});

afterAll(() => soak.close());

/** Events without which the run would show little. */
const counts = ({ completed, canceled, resumed, disconnected }: SessionTally, sessionResets: number) => [
  completed,
  canceled,
  resumed,
  disconnected,
  sessionResets,
];

it('sessions with server requests get their own responses and leave no objects behind', async () => {
  const { tally, sessionResets, failures } = await soak.run({
    sessions: 10,
    warmUpMs: 0,
    ms: 2_500,
    isEnough: (seen, resets) => counts(seen, resets).every((count) => count > 0),
    pauseMs: 1_000,
    resetMs: 1_200,
    settleMs: 60_000,
    // Event streams are buffered for a while by design.
    classes: ['ActiveSession', 'RelayedCall', 'NotificationBridge', 'ServerResponse'],
  });
  expect(failures).toEqual([]);
  expect(tally.ended).toBe(tally.opened);
  for (const count of counts(tally, sessionResets)) expect(count).toBeGreaterThan(0);
}, 180_000);
