// Process that makes calls at a steady rate, whether or not earlier ones were answered:
//   node bench/paced-caller.ts <file with a PacedPlan as JSON>
// Prints a PacedResult as one JSON line. Exits with code 1 and an error message if a call fails.
import { readFileSync } from 'node:fs';
import { makeCaller } from './caller.ts';
import { percentile } from './figures.ts';
import type { PacedPlan, PacedResult } from './latency.ts';
import { makePacer } from './pacer.ts';

/** Maximum time that a response waits because this process sleeps until the next call, in milliseconds. */
const longestWaitMs = 0.05;

const { url, message, connections, perSecond, seconds, answerBytes }: PacedPlan = JSON.parse(
  readFileSync(process.argv[2] ?? '', 'utf8'),
);
const target = new URL(url);
const pacer = makePacer(longestWaitMs);
const timesMs: number[] = [];

/** Makes calls on one connection. A call that is due while an earlier one is in flight waits, and its time counts. */
async function connection(): Promise<void> {
  using caller = makeCaller();
  const call = async () => {
    const { status, body } = await caller.post(target, message);
    if (status !== 200 || body.length < answerBytes) throw new Error(`status ${status}: ${body.slice(0, 200)}`);
  };
  // Opens the connection.
  await call();
  const calls: Promise<void>[] = [];
  const end = performance.now() + seconds * 1_000;
  await new Promise<void>((resolve) => {
    pacer.add((connections * 1_000) / perSecond, (due) => {
      if (due >= end) {
        resolve();
        return false;
      }
      calls.push(call().then(() => void timesMs.push(performance.now() - due)));
      return true;
    });
  });
  await Promise.all(calls);
}

try {
  await Promise.all(Array.from({ length: connections }, connection));
  const result: PacedResult = {
    calls: timesMs.length,
    p50Ms: percentile(timesMs, 0.5),
    p99Ms: percentile(timesMs, 0.99),
  };
  console.log(JSON.stringify(result));
} catch (error) {
  console.error(`steady calls at ${url}: ${error instanceof Error ? error.message : error}`);
  process.exit(1);
}
