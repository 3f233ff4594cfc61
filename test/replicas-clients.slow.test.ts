import { expect, test } from 'vitest';
import { Soak } from './campaign/soak.ts';
import { SuspensionRun } from './campaign/suspended-run.ts';
import { startBalancedGateway } from './fixtures/balanced-gateway.ts';

// What holds for the clients of one process holds for those of three replicas, of which each request reaches the next one.

test('sessions with server requests get their own responses and leave no objects behind', async () => {
  const soak = await Soak.start(startBalancedGateway);
  const { tally, sessionResets, failures } = await soak.run({
    sessions: 20,
    warmUpMs: 0,
    ms: 20_000,
    pauseMs: 1_000,
    resetMs: 4_000,
    settleMs: 60_000,
    classes: ['ActiveSession', 'RelayedCall', 'NotificationBridge', 'ServerResponse'],
  });
  await soak.close();
  expect(failures).toEqual([]);
  expect(tally.ended).toBe(tally.opened);
  const { completed, canceled, resumed, disconnected } = tally;
  for (const count of [completed, canceled, resumed, disconnected, sessionResets]) expect(count).toBeGreaterThan(0);
}, 300_000);

test('suspended calls belong to their own clients, end when abandoned, and leave no resources behind', async () => {
  const run = await SuspensionRun.start({ timeoutMs: 10_000, start: startBalancedGateway });
  await run.wave(60);
  await run.stop();
  await run.close();
  expect(run.tally.failures).toEqual([]);
  const { calls, completed, expired, disconnected, rejected } = run.tally;
  expect(completed + expired + disconnected).toBe(calls);
  for (const count of [completed, expired, disconnected, rejected]) expect(count).toBeGreaterThan(0);
}, 300_000);
