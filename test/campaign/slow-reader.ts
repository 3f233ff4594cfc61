import { setTimeout as delay } from 'node:timers/promises';
import { type FloodingUpstream, startFloodingUpstream } from '../fixtures/flooding-upstream.ts';
import { parseObject } from '../fixtures/raw-upstream/message.ts';
import type { Reading } from './event-reader.ts';
import type { SessionClient } from './session-client.ts';
import type { Soak } from './soak.ts';
import { quantile, Witness } from './witness.ts';

/** How much is offered to how many slow readers. */
export interface SlowReaderOptions {
  /** Clients that read nothing: half of them on a call's stream, half on their notification stream. */
  readonly readers: number;
  /** Messages of 4 KiB offered to each. */
  readonly messages: number;
  /** Clients that make calls all the while, and milliseconds that they do so before and during the flood. */
  readonly bystanders: number;
  readonly ms: number;
  /** No call of theirs may take longer (default 2000 ms). */
  readonly longestMs?: number;
}

/** What was seen of it. Sizes in bytes, times in milliseconds. */
export interface SlowReaderResult {
  readonly offered: number;
  /** What the upstream had got rid of while nobody read: what buffers on the way hold. */
  readonly taken: number;
  /** Main memory of the gateway before, and the most while nobody read. */
  readonly rss: { readonly before: number; readonly peak: number };
  /** Calls of the others. */
  readonly calls: { readonly before: CallTimes; readonly during: CallTimes };
  readonly wrong: readonly string[];
}

interface CallTimes {
  readonly count: number;
  readonly p50: number;
  readonly p99: number;
  readonly longest: number;
}

const MESSAGE_BYTES = 4_096;
/** The gateway may not grow by more. */
const GROWTH = 96 * 1024 * 1024;
/** How long readers may take to read all of it afterwards. */
const READ_MS = 60_000;

/**
 * Clients that stop reading while an upstream sends all it can: the upstream must be held back, the gateway must not
 * keep what they do not read, and others must not notice. Then they read on, and must get every message.
 */
export async function slowReaders(soak: Soak, options: SlowReaderOptions): Promise<SlowReaderResult> {
  const upstream = await startFloodingUpstream();
  try {
    await soak.gateway.forward('flooding', upstream.url);
    return await flood(soak, upstream, options);
  } finally {
    await soak.gateway.api('DELETE', '/api/v1/forwards/flooding');
    await upstream.close();
  }
}

async function flood(soak: Soak, upstream: FloodingUpstream, options: SlowReaderOptions): Promise<SlowReaderResult> {
  const { readers, messages, bystanders, ms, longestMs = 2_000 } = options;
  const others = await Promise.all(Array.from({ length: bystanders }, () => opened(soak.client(new Witness()))));
  // Sessions with the upstreams are opened at the first call, which is none of those that are measured.
  await Promise.all(others.map((client) => client.interview('interview', 'patient')));
  const wrong: string[] = [];
  const before = await callsOf(others, ms, wrong);

  const rssBefore = await soak.probe.rss();
  let peak = rssBefore;
  const watching = setInterval(async () => {
    peak = Math.max(peak, await soak.probe.rss());
  }, 100);
  const slow = await Promise.all(
    Array.from({ length: readers }, (_, index) => SlowReader.start(soak, index % 2 === 0, messages)),
  );
  const during = await callsOf(others, ms, wrong);
  // Until all buffers on the way are full.
  let taken = 0;
  for (let before = -1; taken !== before; taken = await upstream.taken()) {
    before = taken;
    await delay(500);
  }
  clearInterval(watching);

  const read = await Promise.all(slow.map((reader) => reader.readOn()));
  wrong.push(...read.flat());
  await Promise.all([...others, ...slow.map(({ client }) => client)].map((client) => client.end()));

  const offered = readers * messages * MESSAGE_BYTES;
  if (taken > offered / 2) wrong.push(`${taken} of ${offered} bytes were taken from the upstream and read by nobody`);
  if (peak - rssBefore > GROWTH) wrong.push(`the gateway grew by ${peak - rssBefore} bytes`);
  if (during.longest > longestMs) wrong.push(`a call of another client took ${Math.round(during.longest)} ms`);
  return { offered, taken, rss: { before: rssBefore, peak }, calls: { before, during }, wrong };
}

/** One client that stops reading as soon as something comes. */
class SlowReader {
  readonly client: SessionClient;
  readonly #messages: number;
  readonly #wrong: string[] = [];
  readonly #all = Promise.withResolvers<void>();
  #reading: Reading | undefined = undefined;
  #reads = false;
  #seen = 0;

  private constructor(client: SessionClient, messages: number) {
    this.client = client;
    this.#messages = messages;
  }

  /** `own`: on the stream of the call itself, else on the notification stream. */
  static async start(soak: Soak, own: boolean, messages: number): Promise<SlowReader> {
    const reader = new SlowReader(soak.client(new Witness()), messages);
    const { client } = reader;
    client.onNotice = (data) => reader.#onMessage(data);
    const listening = await client.open();
    const body = (name: string, count: number) =>
      JSON.stringify({
        jsonrpc: '2.0',
        id: name,
        method: 'tools/call',
        params: { name, arguments: { messages: count } },
      });
    if (own) {
      reader.#reading = await client.post(body('flood', messages), ({ data }) => data && reader.#onMessage(data));
      return reader;
    }
    reader.#reading = listening;
    // The first call opens the session upstream, whose notification stream is then opened beside the next.
    await (await client.post(body('flood', 0))).text;
    await (await client.post(body('flood_aside', messages))).text;
    return reader;
  }

  /** Reads all of it; a line for everything that is missing. */
  async readOn(): Promise<string[]> {
    this.#reads = true;
    this.#reading?.resume();
    const late = setTimeout(() => {
      this.#wrong.push(`${this.client.name}: has read ${this.#seen} of ${this.#messages} messages`);
      this.#all.resolve();
    }, READ_MS);
    await this.#all.promise;
    clearTimeout(late);
    return this.#wrong;
  }

  #onMessage(data: string): void {
    const { method, params } = parseObject(data);
    if (method !== 'notifications/message') return;
    const { number } = parseObject(parseObject(params).data);
    this.#seen++;
    if (number !== this.#seen) this.#wrong.push(`${this.client.name}: got message ${number} as number ${this.#seen}`);
    if (!this.#reads) this.#reading?.pause();
    if (this.#seen === this.#messages) this.#all.resolve();
  }
}

async function opened(client: SessionClient): Promise<SessionClient> {
  await client.open();
  return client;
}

/** How long calls take that these clients make one after another. */
async function callsOf(clients: readonly SessionClient[], ms: number, wrong: string[]): Promise<CallTimes> {
  const over = performance.now() + ms;
  const from = clients.map(({ witness }) => witness.times.length);
  await Promise.all(
    clients.map(async (client) => {
      while (performance.now() < over) {
        await client.interview('interview', 'patient');
        await delay(50 + Math.random() * 100);
      }
    }),
  );
  const times = clients.flatMap(({ witness }, index) => witness.times.slice(from[index]));
  wrong.push(...clients.flatMap(({ witness }) => witness.wrong.splice(0)));
  return {
    count: times.length,
    p50: quantile(times, 0.5),
    p99: quantile(times, 0.99),
    longest: times.reduce((longest, time) => Math.max(longest, time), 0),
  };
}
