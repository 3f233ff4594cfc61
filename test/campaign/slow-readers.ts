import { setTimeout as delay } from 'node:timers/promises';
import { type FloodingUpstream, startFloodingUpstream } from '../fixtures/flooding-upstream.ts';
import { parseObject } from '../fixtures/raw-upstream/message.ts';
import type { OpenResponse } from './event-reader.ts';
import type { SessionClient } from './session-client.ts';
import type { Soak } from './soak.ts';
import { quantile, SessionTally } from './tally.ts';

/** Workload with slow readers. */
export interface SlowReaderOptions {
  /** Clients that stop reading: half of them on a call's stream, half on their notification stream. */
  readonly readers: number;
  /** Messages of 4 KiB for each. */
  readonly messages: number;
  /** Clients that make calls meanwhile, and milliseconds of their calls before and during the flood. */
  readonly otherClients: number;
  readonly ms: number;
  /** Maximum latency of their calls (default 2000 ms). */
  readonly maxLatencyMs?: number;
}

/** Result. Sizes in bytes, times in milliseconds. */
export interface SlowReaderResult {
  readonly sentBytes: number;
  /** Data that the upstream could write while no client read: the contents of all buffers. */
  readonly read: number;
  /** RSS of the gateway before, and its maximum while no client read. */
  readonly rss: { readonly before: number; readonly peak: number };
  /** Calls of the other clients. */
  readonly calls: { readonly before: CallTimes; readonly during: CallTimes };
  readonly failures: readonly string[];
}

interface CallTimes {
  readonly count: number;
  readonly p50: number;
  readonly p99: number;
  readonly max: number;
}

const MESSAGE_BYTES = 4_096;
/** Limit for the growth of the gateway's RSS. */
const MAX_GROWTH = 96 * 1024 * 1024;
/** Timeout for reading everything afterwards, in milliseconds. */
const READ_MS = 60_000;

/**
 * Clients stop reading while an upstream sends as much as it can: there must be backpressure on the upstream, the gateway
 * must not buffer the unread data, and other clients must not be affected. Then they resume, and must receive every message.
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
  const { readers, messages, otherClients, ms, maxLatencyMs = 2_000 } = options;
  const otherSessions = await Promise.all(
    Array.from({ length: otherClients }, () => open(soak.client(new SessionTally()))),
  );
  // The first call opens the upstream sessions; it is not measured.
  await Promise.all(otherSessions.map((client) => client.interview('interview', 'patient')));
  const failures: string[] = [];
  const before = await callsOf(otherSessions, ms, failures);

  const rssBefore = await soak.probe.rss();
  let peak = rssBefore;
  const sampling = setInterval(async () => {
    peak = Math.max(peak, await soak.probe.rss());
  }, 100);
  const slow = await Promise.all(
    Array.from({ length: readers }, (_, index) => SlowReader.start(soak, index % 2 === 0, messages)),
  );
  const during = await callsOf(otherSessions, ms, failures);
  // Until all buffers are full.
  let written = 0;
  for (let before = -1; written !== before; written = await upstream.taken()) {
    before = written;
    await delay(500);
  }
  clearInterval(sampling);

  const missing = await Promise.all(slow.map((reader) => reader.resume()));
  failures.push(...missing.flat());
  await Promise.all([...otherSessions, ...slow.map(({ client }) => client)].map((client) => client.end()));

  const sentBytes = readers * messages * MESSAGE_BYTES;
  if (written > sentBytes / 2)
    failures.push(`${written} of ${sentBytes} bytes were read from the upstream without a reader`);
  if (peak - rssBefore > MAX_GROWTH) failures.push(`the gateway's RSS grew by ${peak - rssBefore} bytes`);
  if (during.max > maxLatencyMs) failures.push(`a call of another client took ${Math.round(during.max)} ms`);
  return { sentBytes, read: written, rss: { before: rssBefore, peak }, calls: { before, during }, failures };
}

/** A client that stops reading at the first message. */
class SlowReader {
  readonly client: SessionClient;
  readonly #messages: number;
  readonly #failures: string[] = [];
  readonly #complete = Promise.withResolvers<void>();
  #response: OpenResponse | undefined = undefined;
  #isReading = false;
  #received = 0;

  private constructor(client: SessionClient, messages: number) {
    this.client = client;
    this.#messages = messages;
  }

  /** `isCallStream`: on the stream of the call, else on the notification stream. */
  static async start(soak: Soak, isCallStream: boolean, messages: number): Promise<SlowReader> {
    const reader = new SlowReader(soak.client(new SessionTally()), messages);
    const { client } = reader;
    client.onNotification = (data) => reader.#onMessage(data);
    const stream = await client.open();
    const body = (name: string, count: number) =>
      JSON.stringify({
        jsonrpc: '2.0',
        id: name,
        method: 'tools/call',
        params: { name, arguments: { messages: count } },
      });
    if (isCallStream) {
      reader.#response = await client.post(body('flood', messages), ({ data }) => data && reader.#onMessage(data));
      return reader;
    }
    reader.#response = stream;
    // The first call opens the upstream session; its notification stream opens with the next call.
    await (await client.post(body('flood', 0))).text;
    await (await client.post(body('flood_aside', messages))).text;
    return reader;
  }

  /** Reads everything; returns one line per missing or misplaced message. */
  async resume(): Promise<string[]> {
    this.#isReading = true;
    this.#response?.resume();
    const timer = setTimeout(() => {
      this.#failures.push(`${this.client.name}: received ${this.#received} of ${this.#messages} messages`);
      this.#complete.resolve();
    }, READ_MS);
    await this.#complete.promise;
    clearTimeout(timer);
    return this.#failures;
  }

  #onMessage(data: string): void {
    const { method, params } = parseObject(data);
    if (method !== 'notifications/message') return;
    const { number } = parseObject(parseObject(params).data);
    this.#received++;
    if (number !== this.#received)
      this.#failures.push(`${this.client.name}: received message ${number} as number ${this.#received}`);
    if (!this.#isReading) this.#response?.pause();
    if (this.#received === this.#messages) this.#complete.resolve();
  }
}

async function open(client: SessionClient): Promise<SessionClient> {
  await client.open();
  return client;
}

/** Measures the latency of sequential calls of these clients. */
async function callsOf(clients: readonly SessionClient[], ms: number, failures: string[]): Promise<CallTimes> {
  const deadline = performance.now() + ms;
  const from = clients.map(({ tally }) => tally.times.length);
  await Promise.all(
    clients.map(async (client) => {
      while (performance.now() < deadline) {
        await client.interview('interview', 'patient');
        await delay(50 + Math.random() * 100);
      }
    }),
  );
  const times = clients.flatMap(({ tally }, index) => tally.times.slice(from[index]));
  failures.push(...clients.flatMap(({ tally }) => tally.failures.splice(0)));
  return {
    count: times.length,
    p50: quantile(times, 0.5),
    p99: quantile(times, 0.99),
    max: times.reduce((max, time) => Math.max(max, time), 0),
  };
}
