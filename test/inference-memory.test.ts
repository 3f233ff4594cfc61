import { once } from 'node:events';
import { readFile, writeFile } from 'node:fs/promises';
import { createServer, type IncomingMessage, request, type ServerResponse } from 'node:http';
import { setTimeout as delay } from 'node:timers/promises';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { BodyHasher } from './fixtures/chat/body-hash.ts';
import { type Gateway, startGateway } from './fixtures/gateway.ts';
import { listen } from './fixtures/http-server.ts';

const MEGABYTE = 1024 * 1024;
const BODY = 100 * MEGABYTE;
/** Bytes in flight: socket buffers on four ends, 20 MB and more depending on the system, and those of the service. */
const IN_FLIGHT = 48 * MEGABYTE;

let gateway: Gateway;
let inference: string;
/** Handles the requests of a test at the upstream. */
let handle: (incoming: IncomingMessage, response: ServerResponse) => void;
const upstream = createServer((incoming, response) => handle(incoming, response));
beforeAll(async () => {
  const port = await listen(upstream, 0);
  const env = { SERVICE_PERSIST_BACKEND: 'none', SERVICE_INFERENCE_UPSTREAM: `127.0.0.1:${port}` };
  gateway = await startGateway({ env });
  inference = `http://${gateway.logs.find(({ msg }) => msg === 'listening')?.inference}`;
  handle = echo;
  // From here on the service has the memory that it needs, with the recorded 4 MiB of each direction.
  for (let warm = 0; warm < 3; warm++) await exchange(16 * MEGABYTE);
});
afterAll(async () => {
  await gateway.close();
  upstream.close();
  upstream.closeAllConnections();
});
beforeEach(() => gateway.api('DELETE', '/api/v1/interactions'));

/** Responds with the body of the request. */
function echo(incoming: IncomingMessage, response: ServerResponse): void {
  response.writeHead(200, { 'content-type': 'application/json' });
  incoming.pipe(response);
}

const HEAD = Buffer.from('{"model":"m","messages":[{"role":"user","content":"');
const TAIL = Buffer.from('"}]}');

/** Yields a completion request of this size; all chunks differ. */
function* completionBody(bytes: number): Generator<Buffer> {
  yield HEAD;
  let left = bytes - HEAD.length - TAIL.length;
  for (let at = 0; left > 0; at++) {
    const piece = Buffer.alloc(Math.min(left, 64 * 1024), `${at} `);
    left -= piece.length;
    yield piece;
  }
  yield TAIL;
}

/** Writes the chunks with backpressure, and ends. */
async function sendChunks(to: NodeJS.WritableStream, pieces: Iterable<Buffer>, hasher: BodyHasher): Promise<void> {
  for (const piece of pieces) {
    hasher.add(piece);
    if (!to.write(piece)) await once(to, 'drain');
  }
  to.end();
}

async function readAll(from: AsyncIterable<Buffer>, hasher: BodyHasher): Promise<void> {
  for await (const piece of from) hasher.add(piece);
}

/** Sends a completion request of this size; returns request and response. */
async function exchange(bytes: number) {
  const sent = new BodyHasher();
  const received = new BodyHasher();
  const call = request(`${inference}/v1/chat/completions`, { method: 'POST', agent: false });
  const responded = once(call, 'response');
  const sentBytes = sendChunks(call, completionBody(bytes), sent);
  const [response] = await responded;
  await Promise.all([sentBytes, readAll(response, received)]);
  return { sent: sent.soFar, received: received.soFar };
}

/** Resets the peak memory of the service. */
const resetPeak = () => writeFile(`/proc/${gateway.pid()}/clear_refs`, '5');

/** Resident and peak memory of the service in bytes. */
async function memory() {
  const status = await readFile(`/proc/${gateway.pid()}/status`, 'utf8');
  const read = (name: string) => Number(new RegExp(`^${name}:\\s+(\\d+) kB`, 'm').exec(status)?.[1]) * 1024;
  return { now: read('VmRSS'), most: read('VmHWM') };
}

/** Returns the peak memory of `run`, in addition to that before. */
async function growth(run: () => Promise<unknown>): Promise<number> {
  await resetPeak();
  const before = await memory();
  await run();
  return (await memory()).most - before.now;
}

/** Waits until the number stops growing: all buffers are full. */
async function settled(count: () => number): Promise<number> {
  let before = -1;
  while (before !== count() || before === 0) {
    before = count();
    await delay(100);
  }
  return before;
}

describe('bodies of 100 MB', { timeout: 120_000 }, () => {
  test('are proxied in both directions at once with little memory', async () => {
    handle = echo;
    let passed: Awaited<ReturnType<typeof exchange>> | undefined;
    const grown = await growth(async () => {
      passed = await exchange(BODY);
    });
    expect(passed?.sent.bytes).toBe(BODY);
    expect(passed?.received).toEqual(passed?.sent);
    expect(grown).toBeLessThan(64 * MEGABYTE);
    const { body } = await gateway.api('GET', '/api/v1/interactions');
    const { data }: { data: Record<string, unknown>[] } = Object(body);
    expect(data).toHaveLength(1);
    expect(data.at(-1)).toMatchObject({ status_code: 200, request_truncated: true, response_truncated: true });
    expect(String(data.at(-1)?.request_body).length).toBe(4 * MEGABYTE);
  });

  test('are read as fast as a slow client reads', { tags: ['slow'] }, async () => {
    const sent = new BodyHasher();
    handle = async (incoming, response) => {
      await readAll(incoming, new BodyHasher());
      response.writeHead(200, { 'content-type': 'text/event-stream' });
      await sendChunks(response, completionBody(BODY), sent);
    };
    const received = new BodyHasher();
    const grown = await growth(async () => {
      const call = request(`${inference}/v1/chat/completions`, { method: 'POST', agent: false });
      call.end('{"messages":[]}');
      const [response] = await once(call, 'response');
      expect(await settled(() => sent.soFar.bytes)).toBeLessThan(IN_FLIGHT);
      await readAll(response, received);
    });
    expect(received.soFar).toEqual(sent.soFar);
    expect(received.soFar.bytes).toBe(BODY);
    expect(grown).toBeLessThan(64 * MEGABYTE);
  });

  test('are no longer read when a slow client disconnects', { tags: ['slow'] }, async () => {
    const left = Promise.withResolvers<void>();
    const sent = new BodyHasher();
    handle = (incoming, response) => {
      incoming.resume();
      response.once('close', left.resolve);
      sendChunks(response, completionBody(BODY), sent).catch(() => undefined);
    };
    const call = request(`${inference}/v1/chat/completions`, { method: 'POST', agent: false });
    call.end('{"messages":[]}');
    const [result] = await once(call, 'response');
    await settled(() => sent.soFar.bytes);
    result.destroy();
    await left.promise;
    expect(sent.soFar.bytes).toBeLessThan(IN_FLIGHT);
  });

  test('are sent as fast as a slow upstream reads', { tags: ['slow'] }, async () => {
    const received = new BodyHasher();
    const reading = Promise.withResolvers<void>();
    handle = async (incoming, response) => {
      await reading.promise;
      await readAll(incoming, received);
      response.end('{}');
    };
    const sent = new BodyHasher();
    const grown = await growth(async () => {
      const call = request(`${inference}/v1/chat/completions`, { method: 'POST', agent: false });
      const responded = once(call, 'response');
      const poured = sendChunks(call, completionBody(BODY), sent);
      expect(await settled(() => sent.soFar.bytes)).toBeLessThan(IN_FLIGHT);
      reading.resolve();
      await poured;
      const [response] = await responded;
      response.resume();
    });
    expect(received.soFar).toEqual(sent.soFar);
    expect(grown).toBeLessThan(64 * MEGABYTE);
  });
});
