import { once } from 'node:events';
import { createServer, type IncomingMessage, request, type ServerResponse } from 'node:http';
import { connect, type Socket } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { describe, expect, it } from 'vitest';
import { listen } from './client/listening.fixture.ts';
import { settled } from './client/settled.fixture.ts';
import { startProxy } from './proxy.fixture.ts';

const MEGABYTE = 1024 * 1024;
const SIZE = 100 * MEGABYTE;
const PIECE = Buffer.alloc(64 * 1024, 'x');

/** Starts a proxy in front of an upstream that does this with a request. */
async function proxied(handle: (incoming: IncomingMessage, response: ServerResponse) => void) {
  const upstream = createServer(handle);
  return startProxy(`http://127.0.0.1:${await listen(upstream)}/`);
}

/** Opens a request to the proxy; the test observes its connection. */
function open(port: number, method = 'POST') {
  const call = request({ port, host: '127.0.0.1', method });
  call.on('error', () => undefined);
  return call;
}

/** Writes this many bytes with backpressure; reports the count to `step`. */
async function pour(to: NodeJS.WritableStream, bytes: number, step: (written: number) => unknown): Promise<void> {
  for (let written = PIECE.length; written <= bytes; written += PIECE.length) {
    if (!to.write(PIECE)) await once(to, 'drain');
    await step(written);
  }
  to.end();
}

/** Memory in use by buffers, without garbage. */
function heldBytes(): number {
  setFlagsFromString('--expose-gc');
  const collect: () => void = runInNewContext('gc');
  collect();
  const { heapUsed, external } = process.memoryUsage();
  return heapUsed + external;
}

/** A delay after every megabyte, so that this side is slower than the other. */
const slowly = (bytes: number) => (bytes % MEGABYTE === 0 ? delay(2) : undefined);

describe('backpressure of the proxy', () => {
  it.each([
    ['a slow reader above', 'up', 'reader'],
    ['a slow writer below', 'up', 'writer'],
    ['a slow reader below', 'down', 'reader'],
    ['a slow writer above', 'down', 'writer'],
  ])('needs no memory for 100 MB with %s', async (_what, way, slow) => {
    let arrived = 0;
    let most = 0;
    const read = async (stream: AsyncIterable<Buffer>) => {
      for await (const piece of stream) {
        const before = Math.floor(arrived / MEGABYTE);
        arrived += piece.length;
        const megabytes = Math.floor(arrived / MEGABYTE);
        if (megabytes === before) continue;
        if (slow === 'reader') await delay(2);
        if (megabytes % 10 === 0) most = Math.max(most, heldBytes());
      }
    };
    const write = (to: NodeJS.WritableStream) => pour(to, SIZE, slow === 'writer' ? slowly : () => undefined);
    const proxy = await proxied(async (incoming, response) => {
      if (way === 'up') await read(incoming).then(() => response.end());
      else await write(response);
    });
    const before = heldBytes();
    const call = open(proxy.port, way === 'up' ? 'POST' : 'GET');
    const responded = once(call, 'response');
    if (way === 'up') await write(call);
    else call.end();
    const [response] = await responded;
    if (way === 'up') response.resume();
    else await read(response);
    expect(arrived).toBe(SIZE);
    expect((most - before) / MEGABYTE).toBeLessThan(55);
    expect(proxy.errors).toEqual([]);
  });

  it('pauses a client whose upstream does not read', async () => {
    const arrived = Promise.withResolvers<IncomingMessage>();
    const proxy = await proxied((incoming, response) => {
      arrived.resolve(incoming);
      incoming.on('end', () => response.end('all'));
    });
    let written = 0;
    const call = open(proxy.port);
    const responded = once(call, 'response');
    const poured = pour(call, 64 * MEGABYTE, (bytes) => {
      written = bytes;
    });
    const incoming = await arrived.promise;
    expect(await settled(() => written)).toBeLessThan(40 * MEGABYTE);
    incoming.resume();
    await poured;
    expect((await responded)[0].statusCode).toBe(200);
  });

  it('pauses an upstream whose client does not read', async () => {
    let written = 0;
    const proxy = await proxied(async (_incoming, response) => {
      await pour(response, 64 * MEGABYTE, (bytes) => {
        written = bytes;
      });
    });
    const [response] = await once(open(proxy.port, 'GET').end(), 'response');
    expect(await settled(() => written)).toBeLessThan(40 * MEGABYTE);
    let received = 0;
    for await (const piece of response) received += piece.length;
    expect(received).toBe(64 * MEGABYTE);
  });

  it('forwards every chunk immediately in both directions', async () => {
    const proxy = await proxied((incoming, response) => {
      response.flushHeaders();
      incoming.on('data', (piece) => response.write(piece)).on('end', () => response.end('.'));
    });
    const call = open(proxy.port);
    call.flushHeaders();
    const [response] = await once(call, 'response');
    for (const piece of ['one', 'two', 'three']) {
      call.write(piece);
      expect(String((await once(response, 'data'))[0])).toBe(piece);
    }
    const ended = once(response, 'end');
    call.end();
    expect(String((await once(response, 'data'))[0])).toBe('.');
    await ended;
  });

  it.each(['while it sends', 'while it reads'])(
    'cancels the upstream request when the client disconnects %s',
    async (when) => {
      const left = Promise.withResolvers<boolean>();
      const arrived = Promise.withResolvers<void>();
      const proxy = await proxied((incoming, response) => {
        incoming.on('error', () => undefined).on('data', () => arrived.resolve());
        response.on('close', () => left.resolve(response.writableFinished));
        if (when === 'while it reads') response.write('a');
      });
      const call = open(proxy.port, when === 'while it reads' ? 'GET' : 'POST');
      if (when === 'while it reads') {
        const responded = once(call, 'response');
        call.end();
        await once((await responded)[0], 'data');
      } else {
        call.write('a');
        await arrived.promise;
      }
      call.destroy();
      expect(await left.promise).toBe(false);
    },
  );

  it.each([
    ['a partial response', (response: ServerResponse) => response.write('half')],
    ['no response', () => true],
  ])('aborts the response when the upstream fails with %s', async (_what, begin) => {
    const proxy = await proxied((incoming, response) => {
      incoming.once('data', () => {
        begin(response);
        setImmediate(() => response.destroy());
      });
    });
    const call = open(proxy.port);
    call.write('a');
    const [response] = await once(call, 'response');
    if (response.statusCode !== 502) {
      let text = '';
      await expect(
        (async () => {
          for await (const piece of response) text += piece;
        })(),
      ).rejects.toThrow('aborted');
      expect(text).toBe('half');
    }
    expect(proxy.errors).toMatchObject([{ kind: 'dropped' }]);
  });

  it('forwards a response that arrives before the end of the request body, and drains the body', async () => {
    const sockets = new Set<Socket>();
    const proxy = await proxied((incoming, response) => {
      sockets.add(incoming.socket);
      response.writeHead(413, { connection: 'close' }).end('too large');
    });
    for (let round = 1; round <= 10; round++) {
      // Not Node's own client, which stops sending once the response has arrived.
      const client = connect(proxy.port, '127.0.0.1').setEncoding('latin1');
      let text = '';
      client.on('data', (piece) => {
        text += piece;
      });
      client.write(`PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: ${8 * MEGABYTE}\r\n\r\n`);
      for (let piece = 0; piece < 8 * MEGABYTE; piece += PIECE.length) {
        if (!client.write(PIECE)) await once(client, 'drain');
      }
      client.write('GET /again HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n');
      await once(client, 'end');
      expect({ round, statuses: text.match(/HTTP\/1.1 \d+/g) }).toEqual({
        round,
        statuses: ['HTTP/1.1 413', 'HTTP/1.1 413'],
      });
      expect(sockets.size).toBe(2 * round);
    }
    expect(proxy.errors).toEqual([]);
  });
});
