import { afterAll, beforeAll, expect, it } from 'vitest';
import { SuspensionRun } from './campaign/suspended-run.ts';

/** With a timeout longer than the tests take. */
let run: SuspensionRun;
/** With a timeout shorter than some clients' pause. Its wave takes seconds and runs during the other tests. */
let shortTimeoutRun: SuspensionRun;
let completedWave: Promise<void>;

beforeAll(async () => {
  [run, shortTimeoutRun] = await Promise.all([
    SuspensionRun.start({ timeoutMs: 120_000 }),
    SuspensionRun.start({ timeoutMs: 10_000 }),
  ]);
  completedWave = shortTimeoutRun.wave(60);
  completedWave.catch(() => undefined);
});

afterAll(() => Promise.all([run.close(), shortTimeoutRun.close()]));

it('calls that are suspended when the gateway stops are canceled upstream', async () => {
  const round = await run.terminate(60);
  expect(run.tally.failures).toEqual([]);
  expect(round).toMatchObject({ suspended: 60, canceled: 60, notHeld: 60 });
});

it('calls that were suspended when the gateway was killed get the error not_held', async () => {
  const round = await run.kill(60);
  expect(run.tally.failures).toEqual([]);
  expect(round).toMatchObject({ suspended: 60, notHeld: 60 });
  await run.stop();
  expect(run.tally.failures).toEqual([]);
});

it('suspended calls belong to their own clients, end when abandoned, and leave no resources behind', async () => {
  await completedWave;
  expect(shortTimeoutRun.tally.failures).toEqual([]);
  const { calls, completed, expired, disconnected, rejected } = shortTimeoutRun.tally;
  expect(completed + expired + disconnected).toBe(calls);
  for (const count of [completed, expired, disconnected, rejected]) expect(count).toBeGreaterThan(0);
});
