// Reads many event streams at once, as a process of its own:
//   node bench/stream-reader.ts <file with a StreamPlan as JSON>
// Every stream is checked: each event in its turn, under its own progress token, and the result as the last one. Prints
// what it saw while all streams were flowing as one JSON line; a stream that is not as it should be ends it with exit
// code 1 and a line that says why.
import { readFileSync } from 'node:fs';
import { Agent, type IncomingMessage, request } from 'node:http';
import { at, parseJson } from './json.ts';
import { type Message, streamToken } from './messages.ts';
import { percentile } from './statistics.ts';
import type { StreamPlan, StreamsSeen } from './stream-load.ts';
import { cpuSeconds } from './usage.ts';

/** Streams that take so much longer than they should stand still, in milliseconds. */
const patienceMs = 30_000;

/** The streams flow so long before they are counted, in milliseconds: connections and sessions have been opened. */
const settleMs = 300;

const plan: StreamPlan = JSON.parse(readFileSync(process.argv[2] ?? '', 'utf8'));
const agent = new Agent({ keepAlive: true });
const clock = () => Number(process.hrtime.bigint());

let flowing = 0;
let ended = 0;
let chunks = 0;
const delaysMs: number[] = [];
/** Set while chunks are counted. */
let from: { readonly time: number; readonly cpu: number } | undefined;
let seen: StreamsSeen | undefined;

const cpu = () => (plan.pid === undefined ? Number.NaN : cpuSeconds(plan.pid));

function fail(index: number, what: string): never {
  console.error(`stream ${index} of ${plan.messages.length} at ${plan.url}: ${what}`);
  process.exit(1);
}

function open(message: Message, index: number): void {
  const headers = { ...message.headers, 'Content-Length': Buffer.byteLength(message.body) };
  const outgoing = request(plan.url, { method: 'POST', agent, headers }, (res) => read(res, index));
  outgoing.on('error', (error) => fail(index, error.message));
  outgoing.end(message.body);
}

function read(res: IncomingMessage, index: number): void {
  const type = res.headers['content-type'];
  if (res.statusCode !== 200 || type !== 'text/event-stream') fail(index, `answered ${res.statusCode} with ${type}`);
  const token = streamToken(index);
  let rest = '';
  let progress = 0;
  let over = false;
  res.on('data', (piece: Buffer) => {
    const arrived = clock();
    const events = `${rest}${piece.toString('latin1')}`.split('\n\n');
    rest = events.pop() ?? '';
    for (const event of events) {
      const data = /^data: (.+)$/m.exec(event)?.[1];
      // A comment, or an event that carries an id and nothing else.
      if (data === undefined) continue;
      const value = parseJson(data);
      const params = at(value, 'params');
      if (params === undefined) {
        if (at(value, 'id') !== index || at(value, 'result') === undefined) fail(index, `unexpected event: ${event}`);
        if (progress !== plan.events) fail(index, `ended after ${progress} of ${plan.events} events`);
        over = true;
      } else {
        const right = at(params, 'progressToken') === token && at(params, 'progress') === progress + 1;
        if (!right) fail(index, `unexpected event after ${progress}: ${event}`);
        if (++progress === 1 && ++flowing === plan.messages.length) setTimeout(startCounting, settleMs);
        if (from === undefined || seen !== undefined) continue;
        chunks++;
        delaysMs.push((arrived - Number.parseInt(String(at(params, 'message')), 10)) / 1e6);
      }
    }
  });
  res.on('end', () => {
    if (!over) fail(index, `ended after ${progress} of ${plan.events} events, without its result`);
    seen ??= counted(index);
    if (++ended === plan.messages.length) {
      console.log(JSON.stringify(seen));
      process.exit(0);
    }
  });
  res.on('error', (error) => fail(index, error.message));
}

function startCounting(): void {
  from = { time: clock(), cpu: cpu() };
}

/** The first stream has ended: from here on not all are flowing. */
function counted(index: number): StreamsSeen {
  if (from === undefined) return fail(index, 'had ended before all others flowed');
  const seconds = (clock() - from.time) / 1e9;
  return {
    chunks,
    perSecond: chunks / seconds,
    cpuPerChunkUs: ((cpu() - from.cpu) * 1e6) / chunks,
    p50Ms: percentile(delaysMs, 0.5),
    p99Ms: percentile(delaysMs, 0.99),
  };
}

plan.messages.forEach(open);
setTimeout(
  () => {
    console.error(`${plan.messages.length - ended} of ${plan.messages.length} streams at ${plan.url} stand still`);
    process.exit(1);
  },
  plan.events * plan.everyMs + patienceMs,
);
