import { beforeAll, expect, it } from 'vitest';
import { testSeed } from './fixtures/seed.ts';
import { type HostileRun, startHostileRun } from './hostile/hostile-run.ts';
import { hostileCases } from './hostile/variants.ts';

let run: HostileRun;
/** CPU time of a turn in which the service parses 4 MiB of small values at once, in milliseconds. */
let blockedMs: number;

beforeAll(async () => {
  run = await startHostileRun(testSeed(), false);
  ({ longestMs: blockedMs } = await run.measured.blockedTurns());
  return () => run[Symbol.asyncDispose]();
}, 120_000);

// The campaign has the others, with an absolute limit.
it.each([
  'a nested argument',
  'one escaped key before many small values',
  'short escaped strings, evaluated',
  '20 MiB with one escaped key',
  'an event of 30 MiB',
  'an event of 30 MiB, for a client of the other era',
  'a reply of 4 MB of escapes',
  'a code stream of 64 MiB in small replies',
  'batches of 100 requests for 4 MiB of tools, unread and read',
])(
  'the event loop never takes half as long as for parsing 4 MiB: %s',
  async (name) => {
    const hostile = hostileCases(testSeed()).find((candidate) => candidate.name === name);
    if (!hostile) throw new Error(`no such case: ${name}`);
    const { longestMs, isFailed, outcome, latencies } = await run.measure(hostile);
    expect(isFailed, outcome).toBe(false);
    expect(longestMs).toBeGreaterThan(0);
    expect(longestMs).toBeLessThan(blockedMs / 2);
    // Others were served meanwhile.
    expect(latencies.list.length).toBeGreaterThan(0);
    expect(latencies.failures).toBe(0);
  },
  60_000,
);

it('a service that parses a large text at once is noticed', () => {
  expect(blockedMs).toBeGreaterThan(50);
});
