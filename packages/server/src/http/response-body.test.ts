import { once } from 'node:events';
import { connect } from 'node:net';
import { Readable } from 'node:stream';
import { expect, it, onTestFinished, vi } from 'vitest';
import { readAll, responseParts } from '../../../../test/fixtures/raw-exchange.ts';
import { sendBody } from './response-body.ts';
import { startHttp1Server } from './server/http1-server.fixture.ts';
import type { ServerResponse } from './server/response.ts';

const CHUNK = Buffer.alloc(100_000, 'x');

/** A body of `count` chunks that counts those that were read. */
class Chunks extends Readable {
  count = 0;
  readonly #total: number;

  constructor(total: number) {
    super();
    this.#total = total;
  }

  override _read(): void {
    this.push(this.count < this.#total ? CHUNK : null);
    this.count++;
  }
}

/** A client whose request waits for the response. */
async function begin() {
  const { promise, resolve } = Promise.withResolvers<ServerResponse>();
  const client = connect(await startHttp1Server((_request, response) => resolve(response)), '127.0.0.1');
  onTestFinished(() => void client.destroy());
  client.write('GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n');
  const response = await promise;
  response.writeHead(200, []);
  return { client, response };
}

it('sends a body as fast as the client reads it', async () => {
  const { client, response } = await begin();
  const body = new Chunks(200);
  const sent = sendBody(body, response);
  // Buffers of both sockets, the body and the response.
  await vi.waitUntil(() => body.isPaused(), { timeout: 20_000 });
  expect(body.count).toBeLessThan(100);
  expect(responseParts(await readAll(client)).body).toHaveLength(200 * CHUNK.length);
  await sent;
});

it('reads no more of the body when the client has disconnected', async () => {
  const { client, response } = await begin();
  const body = new Chunks(Number.POSITIVE_INFINITY);
  const sent = sendBody(body, response);
  await once(client, 'data');
  client.destroy();
  await sent;
  expect(body.destroyed).toBe(true);

  const late = new Chunks(1);
  await sendBody(late, response);
  expect([late.destroyed, late.count]).toEqual([true, 0]);
});

it('closes the connection when the body fails, so that the client sees that it is incomplete', async () => {
  const { client, response } = await begin();
  const body = new Readable({ read() {} });
  const sent = sendBody(body, response);
  body.push('begun');
  await vi.waitUntil(() => client.bytesRead > 0, { timeout: 20_000 });
  body.destroy(new Error('unreadable'));
  await expect(sent).rejects.toThrow('unreadable');
  const text = await readAll(client);
  expect(text).toContain('begun');
  expect(text).not.toContain('0\r\n\r\n');
});
