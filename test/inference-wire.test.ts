import { once } from 'node:events';
import { connect } from 'node:net';
import { beforeAll, describe, expect, test } from 'vitest';
import { type FaultyProxy, openFaultyProxy } from '../packages/server/testing/faulty-proxy.ts';
import { startTestService, type TestService } from '../packages/server/testing/service.ts';

/** Response of the upstream, and the request that it has received. */
let result: string;
let received: string;
let upstream: FaultyProxy;
let service: TestService;
beforeAll(async () => {
  upstream = await openFaultyProxy((near) => {
    received = '';
    near.on('data', (bytes) => {
      received += bytes.toString('latin1');
      if (isWhole(received)) near.end(result, 'latin1');
    });
  });
  service = await startTestService({ SERVICE_INFERENCE_UPSTREAM: `127.0.0.1:${upstream.port}` });
  return async () => {
    await service.stop(0);
    upstream.close();
  };
});

/** Returns a request; its body, if any, is `abc`. */
const isWhole = (text: string) => {
  const chunked = /^transfer-encoding/im.test(text);
  const end = chunked ? '\r\nabc\r\n0\r\n\r\n' : /^content-length: 3/im.test(text) ? '\r\n\r\nabc' : '\r\n\r\n';
  return text.endsWith(end);
};

/** Sends bytes; returns the bytes of the response up to its expected end. */
async function exchange(request: string, end: string): Promise<string> {
  const [host, port] = service.addresses.inference?.split(':') ?? [];
  const socket = connect(Number(port), host);
  socket.write(request, 'latin1');
  let text = '';
  while (!text.endsWith(end)) {
    const [bytes] = await once(socket, 'data');
    text += bytes.toString('latin1');
  }
  socket.destroy();
  return text;
}

/** Returns the lines of a head without those that node:http adds for its connection. */
const linesOf = (text: string) =>
  (text.split('\r\n\r\n', 1)[0] ?? '').split('\r\n').filter((line) => !/^(?:connection|keep-alive|host):/i.test(line));

const OK = 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok';

describe('a request', () => {
  test('is proxied without hop-by-hop headers; all others are unchanged', async () => {
    result = OK;
    const head = [
      'POST /v1/x%2fy?a=%20b HTTP/1.1',
      'Host: localhost',
      'AUTHORIZATION: Bearer s',
      'X-Tab: a\tb  c',
      'x-latin: \xe9',
      'X-Empty:',
      'X-Twice: 1',
      'X-Twice: 2',
      'Cookie: a=1',
      'Cookie: b=2',
    ];
    const hopByHopHeaders = [
      'Connection: keep-alive, X-Hop',
      'X-Hop: 1',
      'Keep-Alive: timeout=5',
      'Proxy-Authorization: Basic x',
      'Proxy-Connection: keep-alive',
      'TE: trailers',
      'Trailer: X-T',
      'Upgrade: websocket',
      'Transfer-Encoding: chunked',
    ];
    await exchange([...head, ...hopByHopHeaders, '', '3\r\nabc\r\n0', '', ''].join('\r\n'), 'ok');
    expect(linesOf(received)).toEqual([
      head[0],
      ...head.slice(2, 5),
      'X-Empty: ',
      ...head.slice(6),
      'transfer-encoding: chunked',
    ]);
    expect(/^host: (.*)$/m.exec(received)?.[1]).toBe(`127.0.0.1:${upstream.port}`);
    expect(received.endsWith('\r\n\r\n3\r\nabc\r\n0\r\n\r\n')).toBe(true);
  });

  test.for([
    ['a GET has no body', 'GET / HTTP/1.1\r\nHost: localhost\r\n\r\n', []],
    ['a POST without a body has Content-Length 0', 'POST / HTTP/1.1\r\nHost: localhost\r\n\r\n', ['content-length: 0']],
    [
      'a GET may have a body',
      'GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\n\r\nabc',
      ['content-length: 3'],
    ],
    ['an unknown method is proxied', 'PROPFIND / HTTP/1.1\r\nHost: localhost\r\n\r\n', []],
    ['a method that no standard has is proxied', 'X-FOO /a HTTP/1.1\r\nHost: localhost\r\n\r\n', []],
  ] as const)('%s', async ([, request, lines]) => {
    result = OK;
    await exchange(request, 'ok');
    expect(linesOf(received)).toEqual([request.slice(0, request.indexOf('\r\n')), ...lines]);
  });

  test.for([
    ['GET http://localhost/v1/models?x=1 HTTP/1.1', 'GET /v1/models?x=1 HTTP/1.1'],
    ['GET HTTP://LocalHost HTTP/1.1', 'GET / HTTP/1.1'],
    ['GET http://localhost?x HTTP/1.1', 'GET /?x HTTP/1.1'],
  ] as const)('with an absolute target is proxied in origin form: %s', async ([sent, line]) => {
    result = OK;
    await exchange(`${sent}\r\nHost: localhost\r\n\r\n`, 'ok');
    expect(linesOf(received)[0]).toBe(line);
  });

  const OTHERS = ['http://other/v1', 'http://user@localhost/', 'ftp://localhost/', '*'].map(
    (target) => `GET ${target}`,
  );
  test.each([...OTHERS, `${'X'.repeat(33)} /`])(
    'with a target that is none of the server, or a method of more than 32 characters, is not proxied: %s',
    async (line) => {
      const before = upstream.accepted;
      const response = await exchange(`${line} HTTP/1.1\r\nHost: localhost\r\n\r\n`, '"type":"bad_request"}}');
      expect(response).toMatch(/^HTTP\/1\.1 400 /);
      expect(upstream.accepted).toBe(before);
    },
  );

  test('with Expect: 100-continue receives 100 Continue', async () => {
    result = OK;
    const text = 'POST / HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\nabc';
    expect(await exchange(text, 'ok')).toMatch(/^HTTP\/1\.1 100 Continue\r\n\r\nHTTP\/1\.1 200 OK\r\n/);
    expect(received).not.toMatch(/expect/i);
  });

  test('with ambiguous framing is not proxied', async () => {
    const before = upstream.accepted;
    const framed = 'POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n';
    const reason = 'malformed request: both Content-Length and Transfer-Encoding","type":"bad_request"}}';
    expect(await exchange(`${framed}3\r\nabc\r\n0\r\n\r\n`, reason)).toMatch(/^HTTP\/1\.1 400 /);
    expect(upstream.accepted).toBe(before);
  });
});

describe('a response', () => {
  const GET = 'GET / HTTP/1.1\r\nHost: localhost\r\n\r\n';

  test('is proxied without hop-by-hop headers; all others are unchanged', async () => {
    const own = ['X-Latin: \xe9', 'SET-Cookie: a=1', 'Set-Cookie: b=2', 'Content-Length: 2'];
    result = [
      'HTTP/1.1 200 OK',
      ...own,
      'Connection: close, X-Hop',
      'X-Hop: 1',
      'Keep-Alive: timeout=5',
      'Proxy-Authenticate: Basic',
      'Trailer: X-T',
      'Upgrade: h2c',
      '',
      'ok',
    ].join('\r\n');
    expect(linesOf(await exchange(GET, 'ok'))).toEqual(['HTTP/1.1 200 OK', ...own]);
  });

  test.for([
    ['HEAD', 'HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n', ['HTTP/1.1 200 OK', 'Content-Length: 5']],
    ['DELETE', 'HTTP/1.1 204 Gone it is\r\nX-A: 1\r\n\r\n', ['HTTP/1.1 204 Gone it is', 'X-A: 1']],
    ['GET', 'HTTP/1.1 304 Not Modified\r\nETag: "a"\r\n\r\n', ['HTTP/1.1 304 Not Modified', 'ETag: "a"']],
    [
      'GET',
      'HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 302 Found\r\nLocation: /y\r\nContent-Length: 0\r\n\r\n',
      ['HTTP/1.1 302 Found', 'Location: /y', 'Content-Length: 0'],
    ],
  ] as const)('to %s without a body is its head only: %j', async ([method, text, lines]) => {
    result = text;
    const response = await exchange(GET.replace('GET', method), '\r\n\r\n');
    expect(linesOf(response)).toEqual(lines);
    expect(response.split('\r\n\r\n')[1]).toBe('');
  });

  test.for([
    ['ends with the connection', 'HTTP/1.0 200 OK\r\n\r\nabc'],
    ['has trailers', 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nX-T: 1\r\n\r\n'],
  ] as const)('with a body that %s is proxied in chunks', async ([, text]) => {
    result = text;
    expect(await exchange(GET, '\r\n0\r\n\r\n')).toMatch(
      /\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n$/,
    );
  });

  test.for(['SSH-2.0-x\r\n', 'HTTP/1.1 200 OK\r\nContent-Le', ''])('that is not HTTP causes 502: %j', async (text) => {
    result = text;
    expect(await exchange(GET, '"bad_gateway"}}')).toMatch(/^HTTP\/1\.1 502 Bad Gateway\r\n/);
  });
});
