import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { createServer as createTcpServer, type Server, type Socket } from 'node:net';
import { afterEach, describe, expect, it } from 'vitest';
import type { RawHeaders, ResponseHeaders, UpstreamTransport } from './client.ts';
import type { UpstreamError } from './errors.ts';
import { createTransport } from './pool.ts';

const closers: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of closers.splice(0).reverse()) await close();
});

async function listen(server: Server): Promise<number> {
  const sockets = new Set<Socket>();
  server.on('connection', (socket) => sockets.add(socket));
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  closers.push(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  const address = server.address();
  if (address === null || typeof address === 'string') throw new Error('not a TCP address');
  return address.port;
}

function http(handle: (request: IncomingMessage, response: ServerResponse) => void): Promise<number> {
  return listen(createServer(handle));
}

function transport(address: string, options?: Parameters<typeof createTransport>[1]): UpstreamTransport {
  const made = createTransport(address, options);
  closers.push(() => made.destroy());
  return made;
}

interface Heard {
  status?: number;
  headers?: ResponseHeaders;
  raw?: RawHeaders;
  body: string;
  error?: UpstreamError;
}

/** Sends one request and collects the callbacks. */
function send(to: UpstreamTransport, request: Partial<Parameters<UpstreamTransport['dispatch']>[0]> = {}) {
  const heard: Heard = { body: '' };
  const { promise, resolve } = Promise.withResolvers<Heard>();
  const head = Promise.withResolvers<void>();
  const call = to.dispatch(
    { method: 'POST', headers: ['content-type', 'application/json'], body: '{}', ...request },
    {
      onHead(status, headers, raw) {
        Object.assign(heard, { status, headers, raw });
        head.resolve();
      },
      onData(chunk) {
        heard.body += chunk.toString();
        return true;
      },
      onEnd: () => resolve(heard),
      onError(error) {
        heard.error = error;
        resolve(heard);
      },
    },
  );
  return { call, done: promise, head: head.promise, heard };
}

describe('UpstreamTransport', () => {
  it('sends the request as given and returns head and body', async () => {
    let seen: { url: string | undefined; headers: string[]; body: string } | undefined;
    const port = await http(async (request, response) => {
      let body = '';
      for await (const chunk of request) body += chunk;
      seen = { url: request.url, headers: request.rawHeaders, body };
      response.writeHead(200, { 'Content-Type': 'application/json', 'Mcp-Session-Id': 's1' }).end('{"ok":true}');
    });
    const received = await send(transport(`http://127.0.0.1:${port}/mcp?key=1`), {
      headers: ['content-type', 'application/json', 'X-Odd-Case', '1'],
      body: '{"name":"é"}',
    }).done;
    expect(received).toMatchObject({ status: 200, body: '{"ok":true}' });
    expect(received.headers).toMatchObject({ 'content-type': 'application/json', 'mcp-session-id': 's1' });
    expect(received.raw?.map(String)).toContain('Mcp-Session-Id');
    expect(seen?.url).toBe('/mcp?key=1');
    expect(seen?.body).toBe('{"name":"é"}');
    expect(seen?.headers).toEqual(
      expect.arrayContaining(['host', `127.0.0.1:${port}`, 'content-length', '13', 'X-Odd-Case', '1']),
    );
  });

  it('opens a connection per in-flight request and reuses idle ones', async () => {
    const pending: ServerResponse[] = [];
    const connections = new Set<number | undefined>();
    const all = Promise.withResolvers<void>();
    const port = await http((request, response) => {
      connections.add(request.socket.remotePort);
      if (request.url === '/now') response.end();
      else if (pending.push(response) === 40) all.resolve();
    });
    const to = transport(`http://127.0.0.1:${port}/`);
    const calls = Array.from({ length: 40 }, () => send(to));
    await all.promise;
    expect(connections.size).toBe(40);
    for (const response of pending) response.end('done');
    for (const call of calls) expect((await call.done).body).toBe('done');
    for (let n = 0; n < 10; n++) await send(to, { path: '/now' }).done;
    expect(connections.size).toBeLessThan(43);
  });

  it('pauses the upstream while the handler is paused', async () => {
    let written = 0;
    let closed = false;
    const port = await http((_request, response) => {
      const piece = Buffer.alloc(64 * 1024);
      const push = () => {
        while (written < 64 * 1024 * 1024) {
          written += piece.length;
          if (!response.write(piece)) {
            response.once('drain', push);
            return;
          }
        }
        response.end();
      };
      response.on('close', () => {
        closed = true;
      });
      push();
    });
    const paused = Promise.withResolvers<void>();
    const ended = Promise.withResolvers<void>();
    let received = 0;
    let flowing = false;
    const call = transport(`http://127.0.0.1:${port}/`).dispatch(
      { method: 'GET', headers: [] },
      {
        onHead: () => undefined,
        onData(chunk) {
          received += chunk.length;
          if (!flowing) paused.resolve();
          return flowing;
        },
        onEnd: () => ended.resolve(),
        onError: (error) => ended.reject(error),
      },
    );
    await paused.promise;
    // Wait until the kernel's buffers are full: the number of written bytes stops growing.
    let before = -1;
    while (before !== written) {
      before = written;
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
    expect(written).toBeLessThan(32 * 1024 * 1024);
    expect(received).toBeLessThan(1024 * 1024);
    expect(closed).toBe(false);
    flowing = true;
    call.resume();
    await ended.promise;
    expect(received).toBe(64 * 1024 * 1024);
  });

  it('abort cancels the upstream request without a callback', async () => {
    const left = Promise.withResolvers<void>();
    const port = await http((_request, response) => {
      response.on('close', () => left.resolve());
      response.write('data: 1\n\n');
    });
    const { call, head, heard } = send(transport(`http://127.0.0.1:${port}/`));
    await head;
    call.abort();
    call.abort();
    await left.promise;
    expect(heard.error).toBeUndefined();
  });

  it('abort before the connection is established sends nothing', async () => {
    let requests = 0;
    const port = await http((_request, response) => {
      requests++;
      response.end('x');
    });
    const to = transport(`http://127.0.0.1:${port}/`);
    const { call, heard } = send(to);
    call.abort();
    expect((await send(to).done).body).toBe('x');
    expect(requests).toBe(1);
    expect(heard).toEqual({ body: '' });
  });

  it('reports redirects with their target and does not follow them', async () => {
    let requests = 0;
    const port = await http((_request, response) => {
      requests++;
      response.writeHead(307, { location: 'https://user:secret@elsewhere.example/mcp?token=1' }).end('moved');
    });
    const { error } = await send(transport(`http://127.0.0.1:${port}/mcp`)).done;
    expect(error).toMatchObject({ kind: 'redirect', status: 307 });
    expect(error?.message).toContain('redirects to https://elsewhere.example/mcp (HTTP 307)');
    expect(error?.message).not.toContain('secret');
    expect(requests).toBe(1);
  });

  it('reports a refused connection after dispatch has returned, without credentials', async () => {
    const { error } = await send(transport('http://user:secret@127.0.0.1:1/mcp?token=secret')).done;
    expect(error).toMatchObject({
      kind: 'refused',
      message: expect.stringMatching(
        /^upstream http:\/\/127\.0\.0\.1:1\/mcp refused the connection \(ECONNREFUSED\); check that it runs/,
      ),
    });
    expect(error?.cause).toBeInstanceOf(Error);
  });

  it('stops connecting at the connect timeout', async () => {
    // A listener without TLS: the connection is established, the handshake is not.
    const port = await listen(createTcpServer());
    const { error } = await send(transport(`https://127.0.0.1:${port}/`, { connectTimeoutMs: 60 })).done;
    expect(error).toMatchObject({ kind: 'refused' });
    expect(error?.message).toContain('did not accept a connection within 0.06 s');
  });

  it.each([
    ['a connection closed without a response', '', 'dropped'],
    ['a response shorter than declared', 'HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc', 'dropped'],
    ['a truncated chunked response', 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n', 'dropped'],
    ['a response that is not HTTP', 'SSH-2.0-OpenSSH_9.6\r\n', 'invalid'],
    ['a head that is too large', `HTTP/1.1 200 OK\r\nX-Large: ${'x'.repeat(40_000)}\r\n\r\n`, 'too-large'],
  ])('reports %s', async (_what, response, kind) => {
    const port = await listen(createTcpServer((socket) => socket.once('data', () => socket.end(response))));
    const { error } = await send(transport(`http://127.0.0.1:${port}/`)).done;
    expect(error).toMatchObject({ kind });
    expect(error?.message).toContain(`upstream http://127.0.0.1:${port}/ `);
  });

  it.each([
    ['ends', 'end', undefined],
    ['is reset', 'resetAndDestroy', { kind: 'dropped' }],
  ] as const)('reads a response that is delimited by the end of its connection: it %s', async (_what, how, failed) => {
    const responded = Promise.withResolvers<Socket>();
    const port = await listen(
      createTcpServer((socket) =>
        socket.once('data', () => socket.write('HTTP/1.1 200 OK\r\n\r\nbody', () => responded.resolve(socket))),
      ),
    );
    const { heard, done } = send(transport(`http://127.0.0.1:${port}/`));
    const socket = await responded.promise;
    while (heard.body !== 'body') await new Promise(setImmediate);
    socket[how]();
    const { status, body, error } = await done;
    expect({ status, body }).toEqual({ status: 200, body: 'body' });
    if (failed === undefined) expect(error).toBeUndefined();
    else expect(error).toMatchObject(failed);
  });

  it('reports a header that cannot be sent, after dispatch has returned', async () => {
    const port = await http((_request, response) => response.end());
    const { done, heard } = send(transport(`http://127.0.0.1:${port}/`), { headers: ['x-bad', 'a\r\nb: c'] });
    expect(heard.error).toBeUndefined();
    expect((await done).error).toMatchObject({ kind: 'invalid' });
  });

  it('skips interim responses', async () => {
    const port = await listen(
      createTcpServer((socket) =>
        socket.once('data', () =>
          socket.end('HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok'),
        ),
      ),
    );
    expect(await send(transport(`http://127.0.0.1:${port}/`)).done).toMatchObject({ status: 200, body: 'ok' });
  });

  it('close waits for in-flight requests, destroy aborts them', async () => {
    const responses: ServerResponse[] = [];
    const port = await http((_request, response) => {
      responses.push(response);
      response.write('a');
    });
    const closing = transport(`http://127.0.0.1:${port}/`);
    const first = send(closing);
    await first.head;
    const closed = closing.close();
    expect((await send(closing).done).error).toMatchObject({ kind: 'aborted' });
    responses[0]?.end('b');
    expect((await first.done).body).toBe('ab');
    await closed;

    const destroyed = transport(`http://127.0.0.1:${port}/`);
    const second = send(destroyed);
    await second.head;
    await destroyed.destroy();
    expect((await second.done).error).toMatchObject({ kind: 'aborted' });
  });

  it('accepts http and https URLs only', () => {
    expect(() => createTransport('ftp://example.com/')).toThrow(TypeError);
    expect(() => createTransport('not a url')).toThrow(TypeError);
  });
});
