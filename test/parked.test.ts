import { afterAll, beforeAll, expect, it } from 'vitest';
import { ParkedRun } from './campaign/parked-run.ts';

let run: ParkedRun;

beforeAll(async () => {
  run = await ParkedRun.start({ timeoutMs: 5_000 });
});

afterAll(() => run.close());

it('parked calls are their own clients’ alone, end when nobody comes back, and leave nothing', async () => {
  await run.wave(60);
  expect(run.witness.wrong).toEqual([]);
  const { calls, answered, expired, left, refused } = run.witness;
  expect(answered + expired + left).toBe(calls);
  for (const count of [answered, expired, left, refused]) expect(count).toBeGreaterThan(0);
});

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
