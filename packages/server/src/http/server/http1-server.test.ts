import { once } from 'node:events';
import { type AddressInfo, connect, Socket } from 'node:net';
import { connect as connectTls } from 'node:tls';
import { afterEach, describe, expect, it, onTestFinished, vi } from 'vitest';
import { readAll, responseParts } from '../../../../../test/fixtures/raw-exchange.ts';
import { localhostCertificate } from '../client/certificate.fixture.ts';
import { NO_TIMEOUTS } from './http1-server.fixture.ts';
import { createHttp1Server, type Http1ServerOptions } from './http1-server.ts';
import type { ServerRequest } from './request.ts';
import type { ServerResponse } from './response.ts';

type Serve = (request: ServerRequest, response: ServerResponse) => void;

/** Starts a server, and connects a client to it. */
async function connected(serve: Serve, options: Partial<Http1ServerOptions> = {}) {
  const server = createHttp1Server({ ...NO_TIMEOUTS, tls: undefined, connectStatus: 400, ...options }, serve);
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  onTestFinished(async () => {
    server.close();
    server.closeAllConnections();
    await once(server, 'close');
  });
  const { port } = server.address() as AddressInfo;
  const client = connect({ port, host: '127.0.0.1', allowHalfOpen: true });
  onTestFinished(() => void client.destroy());
  return { server, port, client };
}

/** Sends bytes and returns everything until the end of the connection. */
function exchange(client: Socket, bytes: string): Promise<string> {
  client.write(bytes, 'latin1');
  return readAll(client);
}

/** Waits until the client has received this. */
async function received(client: Socket, wanted: string): Promise<void> {
  let text = '';
  const collect = (chunk: Buffer): void => {
    text += chunk.toString('latin1');
  };
  client.on('data', collect);
  await vi.waitUntil(() => text.includes(wanted), { timeout: 20_000 });
  client.off('data', collect);
}

const CLOSE = 'Host: a\r\nConnection: close\r\n\r\n';
const TEXT = ['Content-Type', 'text/plain'];

/** Responds with the method, target and body of the request. */
const echo: Serve = (request, response) => {
  const chunks: Buffer[] = [];
  request.body.on('data', (chunk: Buffer) => void chunks.push(chunk));
  request.body.on('end', () => {
    const text = `${request.method} ${request.url} ${Buffer.concat(chunks)}`;
    response.writeHead(200, [...TEXT, 'Content-Length', String(Buffer.byteLength(text))]);
    response.end(text);
  });
};

afterEach(() => {
  vi.useRealTimers();
});

it('serves pipelined requests one after another, whatever their framing', async () => {
  const { client } = await connected(echo);
  const all = await exchange(
    client,
    'POST /1 HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\none\r\nPOST /2 HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n' +
      `3\r\ntwo\r\n0\r\nX: y\r\n\r\nGET /3 HTTP/1.1\r\n${CLOSE}`,
  );
  expect(all.match(/(POST|GET) \/\d [a-z]*/g)).toEqual(['POST /1 one', 'POST /2 two', 'GET /3 ']);
  expect(all.match(/Connection: [\w-]+/g)).toEqual([
    'Connection: keep-alive',
    'Connection: keep-alive',
    'Connection: close',
  ]);
});

const SAME = 'POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\none';

describe('an empty line after a body', () => {
  it.each([
    ['equal requests', SAME, SAME, SAME, SAME],
    [
      'chunks',
      SAME,
      'POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\none\r\n0\r\n\r\n',
      SAME,
      SAME,
    ],
    ['no body', SAME, 'GET / HTTP/1.1\r\nHost: a\r\n\r\n', SAME, 'GET / HTTP/1.1\r\nHost: a\r\n\r\n'],
  ])('is ignored on a connection with %s, in one piece and in single bytes', async (_name, ...requests) => {
    const last = `GET /last HTTP/1.1\r\n${CLOSE}`;
    const bytes = `\r\n${[...requests, last].join('\r\n')}`;
    const { client } = await connected(echo);
    expect((await exchange(client, bytes)).match(/HTTP\/1.1 \d+/g)).toEqual(Array(5).fill('HTTP/1.1 200'));

    const { client: slow } = await connected(echo);
    slow.setNoDelay(true);
    const all = readAll(slow);
    for (const byte of bytes) {
      slow.write(byte, 'latin1');
      await new Promise(setImmediate);
    }
    expect((await all).match(/HTTP\/1.1 \d+/g)).toEqual(Array(5).fill('HTTP/1.1 200'));
  });

  it.each([
    ['two empty lines', '\r\n\r\n'],
    ['an empty line that is LF', '\n'],
    ['an empty line that is CR', '\r'],
    ['an empty line and another CR', '\r\n\r'],
    ['an empty line and a space', '\r\n '],
    ['a line with a space', ' \r\n'],
  ])('is the only thing that is: not %s', async (_name, between) => {
    for (const requests of [[SAME], [SAME, SAME, SAME]]) {
      const { client } = await connected(echo);
      const all = await exchange(client, `${requests.join('\r\n')}${between}GET /smuggled HTTP/1.1\r\n${CLOSE}`);
      const statuses = [...Array(requests.length).fill('HTTP/1.1 200'), 'HTTP/1.1 400'];
      expect(all.match(/HTTP\/1.1 \d+/g)).toEqual(statuses);
      expect(all).not.toContain('smuggled');
    }
  });

  it('leaves the connection idle', async () => {
    // A client that had begun a request would get 408.
    const times = { headMs: 50, requestMs: 100, keepAliveMs: 150, checkMs: 20 };
    for (const end of ['\r\n', '\r']) {
      const { client } = await connected(echo, times);
      expect((await exchange(client, SAME + end)).match(/HTTP\/1.1 \d+/g)).toEqual(['HTTP/1.1 200']);
    }
  });
});

it('a response that is complete does not close the connection of the next one', async () => {
  let first: ServerResponse | undefined;
  const { client } = await connected((request, response) => {
    first?.destroy();
    first ??= response;
    echo(request, response);
  });
  client.write('GET /1 HTTP/1.1\r\nHost: a\r\n\r\n');
  await received(client, 'GET /1 ');
  expect(await exchange(client, `GET /2 HTTP/1.1\r\n${CLOSE}`)).toContain('GET /2 ');
});

it('writes the head like node:http', async () => {
  const { client } = await connected((_request, response) => response.writeHead(200, TEXT).end('é€'));
  const { statusLine, headers, body } = responseParts(await exchange(client, `GET / HTTP/1.1\r\n${CLOSE}`));
  expect([statusLine, ...headers]).toEqual([
    'HTTP/1.1 200 OK',
    'Content-Type: text/plain',
    expect.stringMatching(/^Date: \w{3}, \d\d \w{3} \d{4} \d\d:\d\d:\d\d GMT$/),
    'Connection: close',
    'Transfer-Encoding: chunked',
  ]);
  expect(body.toString()).toBe('é€');
});

it('has no body in responses to HEAD and of status 204 and 304, and no chunks in HTTP/1.0', async () => {
  for (const [line, status, rest] of [
    ['HEAD / HTTP/1.1', 200, ''],
    ['GET / HTTP/1.1', 204, ''],
    ['GET / HTTP/1.1', 304, ''],
    ['GET / HTTP/1.0', 200, 'ab'],
  ] as const) {
    const { client } = await connected((_request, response) => {
      response.writeHead(status, TEXT);
      response.write('a');
      response.end(Buffer.from('b'));
    });
    const response = await exchange(client, `${line}\r\n${CLOSE}`);
    expect(response.split('\r\n\r\n')[1]).toBe(rest);
    expect(response).not.toContain('chunked');
  }
});

it('keeps an HTTP/1.0 connection only if the client asks for it and the response has a length', async () => {
  const { client } = await connected(echo);
  const keep = 'GET /1 HTTP/1.0\r\nConnection: keep-alive\r\n\r\n';
  const all = await exchange(client, `${keep}GET /2 HTTP/1.0\r\n\r\n${keep}`);
  expect(all.match(/GET \/\d/g)).toEqual(['GET /1', 'GET /2']);
});

it('sends 100 Continue to a client that waits for it', async () => {
  const { client } = await connected(echo);
  const head = 'POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n';
  client.write(head);
  await received(client, 'HTTP/1.1 100 Continue\r\n\r\n');
  client.write('hi');
  await received(client, 'POST / hi');
  const all = await exchange(client, `${head}hiGET / HTTP/1.1\r\n${CLOSE}`);
  expect(all.match(/HTTP\/1.1 \d+/g)).toEqual(['HTTP/1.1 100', 'HTTP/1.1 200', 'HTTP/1.1 200']);
});

/** The response to bytes that are not a request. */
function rejection(status: string, message: string): string {
  const head = `HTTP/1.1 ${status}\r\nContent-Type: text/plain\r\nContent-Length: ${message.length}\r\nConnection: close`;
  return `${head}\r\n\r\n${message}`;
}

const BAD = '400 Bad Request';

it.each([
  ['an invalid head', 'GET / HTTP/1.1\r\nA : b\r\n\r\n', BAD, 'malformed request: invalid header name'],
  ['another protocol', '\x16\x03\x01', BAD, 'malformed request: invalid method'],
  ['CONNECT', `CONNECT a:1 HTTP/1.1\r\nHost: a:1\r\n\r\n`, '403 Forbidden', 'method CONNECT is not supported'],
  [
    'two lengths',
    'POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\nx',
    BAD,
    'malformed request: several Content-Lengths',
  ],
  [
    'an invalid chunk',
    'POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nx\r\n',
    BAD,
    'malformed request: invalid chunk size',
  ],
])('rejects %s with the reason, without calling the handler', async (_name, bytes, status, message) => {
  const serve = vi.fn<Serve>();
  const { client } = await connected(serve, { connectStatus: 403 });
  const response = await exchange(client, `${bytes}GET / HTTP/1.1\r\n${CLOSE}`);
  expect(response).toBe(rejection(status, message));
  expect(serve).not.toHaveBeenCalled();
});

it.each([
  ['a head', `A: ${'x'.repeat(17_000)}\r\n`, 'request headers too large: the limit is 16384 bytes, which is fixed'],
  ['the number of lines', 'A:\r\n'.repeat(2_001), 'too many header lines: the limit is 2000, which is fixed'],
])('names the limit that %s exceeds', async (_name, lines, text) => {
  const { client } = await connected(echo);
  const response = await exchange(client, `GET / HTTP/1.1\r\n${lines}\r\n`);
  expect(response).toBe(rejection('431 Request Header Fields Too Large', `malformed request: ${text}`));
});

it('finds the Origin of a head that is too large without blocking others', async () => {
  const { client } = await connected(echo);
  const response = await exchange(client, `GET / HTTP/1.1\r\nHost: a\r\nOrigin:${' '.repeat(60_000)}`);
  expect(response).toMatch(/^HTTP\/1\.1 431 /);
});

it('rejects a body that becomes invalid while its handler waits for it, and one that ends too early', async () => {
  for (const [rest, reason] of [
    ['x\r\n', 'invalid chunk size'],
    [undefined, 'incomplete'],
  ]) {
    const { promise: failed, resolve } = Promise.withResolvers<boolean>();
    const closed = vi.fn();
    const { client } = await connected((request, response) => {
      request.body.on('data', () => (rest === undefined ? client.end() : client.write(rest)));
      request.body.on('close', () => resolve(request.body.destroyed && !request.body.complete));
      response.on('close', closed);
    });
    const response = await exchange(
      client,
      'POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n',
    );
    expect(response).toBe(rejection(BAD, `malformed request: ${reason}`));
    expect(await failed).toBe(true);
    expect(closed).toHaveBeenCalledOnce();
  }
});

it.each([
  ['no head', '', 408],
  ['half a head', 'GET / HTTP/1.1\r\nHost', 408],
  ['half a second head', `GET / HTTP/1.1\r\nHost: a\r\n\r\nGET /`, 408],
  ['half a body', 'POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nx', 408],
  ['only whole requests', 'GET / HTTP/1.1\r\nHost: a\r\n\r\n', undefined],
] as const)('closes the connection of a client that sends %s', async (_name, bytes, status) => {
  const times = { headMs: 50, requestMs: 100, keepAliveMs: 150, checkMs: 20 };
  const { client } = await connected(echo, times);
  const statuses = (await exchange(client, bytes)).match(/HTTP\/1.1 \d+/g) ?? [];
  expect(statuses.filter((each) => each !== 'HTTP/1.1 200')).toEqual(status ? [`HTTP/1.1 ${status}`] : []);
});

it('does not limit the time of a response', async () => {
  const times = { headMs: 400, requestMs: 400, keepAliveMs: 400, checkMs: 5 };
  const { client } = await connected((_request, response) => {
    setTimeout(() => response.writeHead(200, ['Content-Length', '0']).end(), 600);
  }, times);
  client.write(`GET / HTTP/1.1\r\nHost: a\r\n\r\n`);
  expect(await readAll(client)).toMatch(/^HTTP\/1.1 200/);
});

it('does not read a body further than its handler', async () => {
  const { promise: began, resolve } = Promise.withResolvers<ServerRequest>();
  const { client } = await connected((request) => resolve(request));
  client.write('POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 20000000\r\n\r\n');
  const piece = Buffer.alloc(64_000, 'x');
  for (let piecesSent = 0; piecesSent < 313; piecesSent++) client.write(piece);
  const request = await began;
  // The rest stays with the client, however long it waits.
  await vi.waitUntil(() => request.socket.isPaused(), { timeout: 20_000 });
  expect(request.socket.bytesRead).toBeLessThan(1_000_000);
  let bytes = 0;
  request.body.on('data', (chunk: Buffer) => {
    bytes += chunk.length;
    request.body.pause();
    setImmediate(() => request.body.resume());
  });
  await new Promise<void>((done) => void request.body.on('end', done));
  expect(bytes).toBe(20_000_000);
});

it('reports when the client has read enough, and that all was written', async () => {
  const order: string[] = [];
  const { promise: closed, resolve } = Promise.withResolvers<boolean>();
  const { client } = await connected((_request, response) => {
    response.on('close', ({ isComplete }) => resolve(isComplete));
    response.writeHead(200, TEXT);
    let chunks = 0;
    const more = (): void => {
      while (chunks++ < 100) if (!response.write(Buffer.alloc(100_000, 'x'))) return void response.once('drain', more);
      order.push('ended');
      response.end();
    };
    more();
    order.push('first');
  });
  const all = await exchange(client, `GET / HTTP/1.1\r\n${CLOSE}`);
  expect(responseParts(all).body).toHaveLength(10_000_000);
  expect(order).toEqual(['first', 'ended']);
  expect(await closed).toBe(true);
});

it('sends responses that end in one turn, also those that are destroyed or whose client ends its side in that turn', async () => {
  const waiting: [ServerRequest, ServerResponse][] = [];
  const { client, port } = await connected((request, response) => {
    waiting.push([request, response]);
    if (waiting.length < 4) return;
    for (const [, each] of waiting) each.writeHead(200, [...TEXT, 'Content-Length', '2']).end('ok');
    waiting[1]?.[1].destroy();
    waiting[2]?.[0].socket.emit('end');
  });
  const others = Array.from({ length: 3 }, () => connect({ port, host: '127.0.0.1', allowHalfOpen: true }));
  for (const other of others) onTestFinished(() => void other.destroy());
  const answers = await Promise.all([client, ...others].map((each) => exchange(each, `GET / HTTP/1.1\r\n${CLOSE}`)));
  for (const answer of answers) expect(responseParts(answer).body.toString()).toBe('ok');
});

it('asks a sender of much text in one turn to wait, and sends text and bytes in their order', async () => {
  const { client } = await connected((_, response) => {
    response.writeHead(200, TEXT);
    let count = 0;
    const more = (): void => {
      if (++count > 3) return void response.end('end');
      const keepsUp = response.write('a'.repeat(70_000));
      response.write(Buffer.from('b'));
      response.write('é');
      if (!keepsUp) response.once('drain', more);
    };
    more();
  });
  const { body } = responseParts(await exchange(client, `GET / HTTP/1.1\r\n${CLOSE}`));
  expect(body.toString().replaceAll('a'.repeat(70_000), 'A')).toBe('AbéAbéAbéend');
});

it('does not collect responses for a client that does not read them', async () => {
  let served = 0;
  const { client } = await connected((_request, response) => {
    served++;
    response.writeHead(200, ['Content-Length', '30000']).end(Buffer.alloc(30_000, 'x'));
  });
  client.pause();
  client.write(`${'GET / HTTP/1.1\r\nHost: a\r\n\r\n'.repeat(999)}GET / HTTP/1.1\r\n${CLOSE}`);
  const isStalled = async () => {
    const before = served;
    for (let turns = 0; turns < 50; turns++) await new Promise(setImmediate);
    return served > 0 && served === before;
  };
  await vi.waitUntil(isStalled, { timeout: 20_000 });
  expect(served).toBeLessThan(500);
  client.resume();
  expect((await readAll(client)).match(/HTTP/g)).toHaveLength(1_000);
});

it('reports a client that disconnects before the response, during it, and after half of its request', async () => {
  for (const [bytes, started] of [
    [`GET / HTTP/1.1\r\n${CLOSE}`, false],
    [`GET / HTTP/1.1\r\n${CLOSE}`, true],
    ['POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nx', false],
  ] as const) {
    const { promise: closed, resolve } = Promise.withResolvers<unknown>();
    const { client } = await connected((_request, response) => {
      response.on('close', ({ isComplete }) => resolve([response.destroyed, isComplete, response.write('x')]));
      if (started) response.writeHead(200, TEXT).write('a');
      client.destroy();
    });
    client.write(bytes);
    expect(await closed).toEqual([true, false, false]);
  }
});

it('closes the connection of a response that does not have its Content-Length', async () => {
  for (const body of ['', 'x', 'xyz']) {
    const { client } = await connected((_request, response) => {
      response.writeHead(200, ['Content-Length', '2']).end(body);
    });
    client.write('GET / HTTP/1.1\r\nHost: a\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n');
    expect((await readAll(client)).match(/HTTP/g)?.length ?? 0).toBeLessThanOrEqual(1);
  }
});

it('rejects response headers that would change the framing or contain line breaks', async () => {
  const { client } = await connected((_request, response) => {
    for (const [name, value] of [
      ['X-A', 'a\r\nX-B: b'],
      ['X-A\r\nX-B', 'a'],
      ['X-A', '\u0100'],
      ['Content-Length', '1, 1'],
      ['Transfer-Encoding', 'chunked'],
      ['connection', 'close'],
    ]) {
      expect(() => response.writeHead(200, [name ?? '', value ?? ''])).toThrow(TypeError);
    }
    expect(() => response.writeHead(200, [], 'a\r\nb')).toThrow(TypeError);
    response.writeHead(200, ['Content-Length', '0']).end();
  });
  expect(await exchange(client, `GET / HTTP/1.1\r\n${CLOSE}`)).toMatch(/^HTTP\/1.1 200 OK\r\nContent-Length: 0\r\n/);
});

it('reads the rest of a request whose response came first, before the next one', async () => {
  const { client } = await connected((request, response) => {
    response.writeHead(200, ['Content-Length', '2']).end(request.url);
  });
  client.write('POST /1 HTTP/1.1\r\nHost: a\r\nContent-Length: 2000000\r\n\r\n');
  await received(client, '/1');
  client.write(Buffer.alloc(2_000_000, 'x'));
  expect(await exchange(client, `GET /2 HTTP/1.1\r\n${CLOSE}`)).toMatch(/\/2$/);
});

it('sends the last response to a client that is still sending', async () => {
  const { client } = await connected((request, response) => {
    request.persistent = false;
    response.writeHead(200, ['Content-Length', '2']).end('ok');
  });
  client.write('POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 20000000\r\n\r\n');
  for (let pieces = 0; pieces < 200; pieces++) client.write(Buffer.alloc(100_000, 'x'));
  expect(await readAll(client)).toMatch(/Connection: close\r\n\r\nok$/);
});

it('closes idle connections only', async () => {
  const { promise: began, resolve } = Promise.withResolvers<ServerResponse>();
  const { server, port, client } = await connected((request, response) =>
    request.url === '/slow' ? resolve(response) : void response.writeHead(204, []).end(),
  );
  const idle = connect(port, '127.0.0.1');
  onTestFinished(() => void idle.destroy());
  idle.write('GET / HTTP/1.1\r\nHost: a\r\n\r\n');
  await received(idle, ' 204 ');
  client.write(`GET /slow HTTP/1.1\r\nHost: a\r\n\r\n`);
  const response = await began;
  server.closeIdleConnections();
  await once(idle, 'close');
  response.writeHead(200, ['Content-Length', '4']).end('done');
  await received(client, 'done');
  server.closeIdleConnections();
  await once(client, 'end');
});

it('serves TLS', async () => {
  const { port } = await connected(echo, { tls: localhostCertificate });
  const client = connectTls({
    port,
    host: 'localhost',
    ca: localhostCertificate.cert,
    ALPNProtocols: ['h2', 'http/1.1'],
  });
  onTestFinished(() => void client.destroy());
  await once(client, 'secureConnect');
  expect(client.alpnProtocol).toBe('http/1.1');
  const body = 'x'.repeat(1_000_000);
  client.write(`POST /1 HTTP/1.1\r\n${CLOSE.replace('\r\n\r\n', `\r\nContent-Length: ${body.length}\r\n\r\n`)}${body}`);
  expect(responseParts(await readAll(client)).body.toString()).toBe(`POST /1 ${body}`);
});

it('sends what is written in a turn, or while corked, as one write', async () => {
  const write = vi.spyOn(Socket.prototype, 'write');
  onTestFinished(() => write.mockRestore());
  const written = () => write.mock.calls.map(([data]) => String(data)).filter((data) => data.includes('\r\n'));
  const seen: string[][] = [];
  const { client } = await connected((_request, response) => {
    write.mockClear();
    response.writeHead(200, TEXT);
    response.cork();
    response.write('one');
    response.write('two');
    seen.push(written());
    response.uncork();
    seen.push(written());
    response.write('three');
    response.write('four');
    seen.push(written());
    setImmediate(() => {
      seen.push(written());
      response.end();
    });
  });
  await exchange(client, `GET / HTTP/1.1\r\n${CLOSE}`);
  const head = expect.stringMatching(/^HTTP\/1\.1 200 OK[\s\S]+\r\n\r\n3\r\none\r\n3\r\ntwo\r\n$/);
  expect(seen).toEqual([[], [head], [head], [head, '5\r\nthree\r\n4\r\nfour\r\n']]);
});

describe('a socket is read through its handle', () => {
  /** Listeners of `data` of the socket that a request arrives on. */
  const listeners = async (): Promise<[response: string, listeners: number]> => {
    let found = -1;
    const { client } = await connected((request, response) => {
      found = request.socket.listenerCount('data');
      echo(request, response);
    });
    const response = await exchange(client, `POST /a HTTP/1.1\r\nContent-Length: 2\r\n${CLOSE}hi`);
    return [response.slice(-10), found];
  };

  it('which Node.js has, although that is not part of its API', async () => {
    expect(await listeners()).toEqual(['POST /a hi', 0]);
  });

  it('and through events without one', async () => {
    const { get } = Reflect;
    const spy = vi.spyOn(Reflect, 'get').mockImplementation((target, key) => {
      return key === '_handle' ? undefined : get(target, key);
    });
    onTestFinished(() => spy.mockRestore());
    expect(await listeners()).toEqual(['POST /a hi', 1]);
  });
});
