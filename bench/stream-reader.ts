// Process that reads and validates concurrent event streams:
//   node bench/stream-reader.ts <file with a StreamPlan as JSON>
// Prints a StreamResult as one JSON line. Exits with code 1 and an error message if a stream is invalid.
import { readFileSync } from 'node:fs';
import { Agent, type IncomingMessage, request } from 'node:http';
import { treeCpuSeconds } from './child.ts';
import { percentile } from './figures.ts';
import type { Message } from './messages.ts';
import { checkStream, type StreamCheck } from './stream-events.ts';
import type { StreamPlan, StreamResult } from './streams.ts';

/** Time after the expected end until streams count as stalled, in milliseconds. */
const stalledMs = 30_000;

/** Delay between the start of the last stream and the measurement, in milliseconds. */
const settleMs = 300;

const plan: StreamPlan = JSON.parse(readFileSync(process.argv[2] ?? '', 'utf8'));
const agent = new Agent({ keepAlive: true });
const clock = () => Number(process.hrtime.bigint());

let flowing = 0;
let ended = 0;
let chunks = 0;
const delaysMs: number[] = [];
/** Set during the measurement. */
let from: { readonly time: number; readonly cpu: number } | undefined;
let result: StreamResult | undefined;
const checks = plan.messages.map((_, index) => checkStream(plan.kind, index, plan.events));

const cpu = () => (plan.pid === undefined ? Number.NaN : treeCpuSeconds(plan.pid));

function fail(index: number, what: string): never {
  console.error(`stream ${index} of ${plan.messages.length} at ${plan.url}: ${what}`);
  process.exit(1);
}

function open(message: Message, index: number, check: StreamCheck): void {
  const headers = { ...message.headers, 'Content-Length': Buffer.byteLength(message.body) };
  const outgoing = request(plan.url, { method: 'POST', agent, headers }, (res) => read(res, index, check));
  outgoing.on('error', (error) => fail(index, error.message));
  outgoing.end(message.body);
}

function read(res: IncomingMessage, index: number, check: StreamCheck): void {
  const type = res.headers['content-type'];
  if (res.statusCode !== 200 || type !== 'text/event-stream') fail(index, `status ${res.statusCode} with ${type}`);
  let rest = '';
  res.on('data', (piece: Buffer) => {
    const arrived = clock();
    const events = `${rest}${piece.toString('latin1')}`.split('\n\n');
    rest = events.pop() ?? '';
    for (const event of events) {
      const data = /^data: (.+)$/m.exec(event)?.[1];
      // Comments and events with only an id have no data.
      if (data !== undefined) take(check, index, data, arrived);
    }
  });
  res.on('end', () => {
    if (!check.over) fail(index, `ended after ${check.count} of ${plan.events} events, without its last one`);
    result ??= counted(index);
    if (++ended === plan.messages.length) {
      console.log(JSON.stringify(result));
      process.exit(0);
    }
  });
  res.on('error', (error) => fail(index, error.message));
}

function take(check: StreamCheck, index: number, data: string, arrived: number): void {
  try {
    const sent = check.take(data);
    if (sent === undefined) return;
    if (check.count === 1 && ++flowing === plan.messages.length) setTimeout(startCounting, settleMs);
    if (from === undefined || result !== undefined) return;
    chunks++;
    delaysMs.push((arrived - sent) / 1e6);
  } catch (error) {
    fail(index, error instanceof Error ? error.message : String(error));
  }
}

function startCounting(): void {
  from = { time: clock(), cpu: cpu() };
}

/** Ends the measurement when the first stream ends. */
function counted(index: number): StreamResult {
  if (from === undefined) return fail(index, 'ended before all other streams had started');
  const seconds = (clock() - from.time) / 1e9;
  return {
    perSecond: chunks / seconds,
    cpuUs: ((cpu() - from.cpu) * 1e6) / chunks,
    p50Ms: percentile(delaysMs, 0.5),
    p99Ms: percentile(delaysMs, 0.99),
  };
}

for (const [index, check] of checks.entries()) {
  const message = plan.messages[index];
  if (message !== undefined) open(message, index, check);
}
setTimeout(
  () => {
    console.error(`${plan.messages.length - ended} of ${plan.messages.length} streams at ${plan.url} stalled`);
    process.exit(1);
  },
  plan.events * plan.everyMs + stalledMs,
);
