import { afterAll, beforeAll, expect, it } from 'vitest';
import { ParkedRun } from './campaign/parked-run.ts';

/** Holds calls longer than the tests take. */
let run: ParkedRun;
/** Holds them no longer than some clients wait. Its wave takes seconds: the other tests go on meanwhile. */
let brief: ParkedRun;
let waved: Promise<void>;

beforeAll(async () => {
  [run, brief] = await Promise.all([ParkedRun.start({ timeoutMs: 120_000 }), ParkedRun.start({ timeoutMs: 10_000 })]);
  waved = brief.wave(60);
  waved.catch(() => undefined);
});

afterAll(() => Promise.all([run.close(), brief.close()]));

it('calls that are parked when the gateway ends are cancelled upstream', async () => {
  const round = await run.terminate(60);
  expect(run.witness.wrong).toEqual([]);
  expect(round).toMatchObject({ parked: 60, cancelled: 60, notHeld: 60 });
});

it('calls that were parked when the gateway was killed are known not to be held any more', async () => {
  const round = await run.kill(60);
  expect(run.witness.wrong).toEqual([]);
  expect(round).toMatchObject({ parked: 60, notHeld: 60 });
  await run.end();
  expect(run.witness.wrong).toEqual([]);
});

it('parked calls are their own clients’ alone, end when nobody comes back, and leave nothing', async () => {
  await waved;
  expect(brief.witness.wrong).toEqual([]);
  const { calls, answered, expired, left, refused } = brief.witness;
  expect(answered + expired + left).toBe(calls);
  for (const count of [answered, expired, left, refused]) expect(count).toBeGreaterThan(0);
});
