import { beforeAll, expect, it } from 'vitest';
import { measureStall } from './campaign/stalls.ts';
import { testSeed } from './fixtures/seed.ts';
import { type HostileRun, startHostileRun } from './hostile/hostile-run.ts';
import { stallCases } from './hostile/stall-cases.ts';

/**
 * Longest turn in milliseconds of CPU time. The campaign has an absolute limit of 50 ms on an idle machine; without its limits
 * the service takes several times as long as this.
 */
const MAX_TURN_MS = 90;
/** A garbage collection may be due in one run, but not in each. */
const ATTEMPTS = 4;

let run: HostileRun;

beforeAll(async () => {
  run = await startHostileRun(testSeed(), false);
  return () => run[Symbol.asyncDispose]();
}, 120_000);

it.each([
  '400 kB to the MCP listener, in chunks of 1 B',
  'clientInfo: many escaped keys',
  '1,000 templates: a long uri',
  '1,000 templates: a subscription to 1,000 uris',
])('a message does not hold the event loop: %s', expectShortTurns);

it.each([
  '400 kB with PUT to the management listener, in chunks of 1 B',
  'a message in short data lines of a modern upstream',
  'a result of a legacy upstream, in chunks of 1 B',
  'notifications/cancelled of a client: many escaped keys',
  '400 kB to the inference listener, in chunks of 1 B',
  '1000 kB to the legacy backend, in chunks of 1 B',
  '4 MiB of empty lines that end with CR of a legacy upstream',
  'a stream of comments in chunks of 1 B of a modern upstream',
  'calls of 20 clients that have gone, with streams of ":\\n"',
  'the name of a tool: empty objects',
  'a request state: many small objects',
  'the argument of a completion: many escaped keys',
  'a batch with a call: many small objects',
  '1,000 templates: a completion for a long uri',
  '1,000 templates: a batch of 100 long uris',
])('a message does not hold the event loop: %s', { tags: ['slow'] }, expectShortTurns);

async function expectShortTurns(name: string): Promise<void> {
  const hostile = stallCases(testSeed()).find((candidate) => candidate.name === name);
  if (!hostile) throw new Error(`no such case: ${name}`);
  const { longestMs, problem } = await measureStall(run, hostile, MAX_TURN_MS, ATTEMPTS);
  expect(problem).toBeUndefined();
  expect(longestMs).toBeGreaterThan(0);
}
