import { connect } from 'node:net';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { startTestService, type TestService } from '../packages/server/testing/service.ts';
import { readAll, responseParts, sendBytes } from './fixtures/raw-exchange.ts';
import { startTappedBackend, type TappedBackend } from './fixtures/tapped-backend.ts';

/** An entry point of the service. Those with a prefix proxy requests under it. */
interface EntryPoint {
  readonly name: string;
  readonly listener: string;
  readonly path: string;
  readonly passesOn?: { readonly prefix: string; readonly added: string };
}

const FORWARDED = 'X-Forwarded-For: 127.0.0.1\r\nX-Forwarded-Proto: http\r\nX-Forwarded-Host: localhost\r\n';
const ENTRY_POINTS: readonly EntryPoint[] = [
  { name: 'the management API', listener: 'management', path: '/api/v1/tools' },
  {
    name: 'the legacy proxy',
    listener: 'management',
    path: '/api/v1/chat/x',
    passesOn: { prefix: '/base', added: FORWARDED },
  },
  { name: 'the MCP listener', listener: 'mcp', path: '/default/mcp' },
  { name: 'the inference listener', listener: 'inference', path: '/v1/x', passesOn: { prefix: '', added: '' } },
];
const PROXIES = ENTRY_POINTS.flatMap(({ passesOn, ...entry }) => (passesOn ? [{ ...entry, ...passesOn }] : []));

const HOST = 'Host: localhost\r\n';
const CLOSE = `${HOST}Connection: close\r\n`;
const CHUNKED = 'Transfer-Encoding: chunked\r\n';
const NO_CHUNKS = '0\r\n\r\n';
/** In the position of a body; a separate request to a parser that sees the end of the body before it. */
const SECOND = `GET @/smuggled HTTP/1.1\r\n${CLOSE}\r\n`;

/** A request with this in its head and behind it. */
const post = (head: string, rest = '', line = 'POST @ HTTP/1.1') => `${line}\r\n${HOST}${head}\r\n${rest}`;
const get = (line: string, head = CLOSE) => `${line}\r\n${head}\r\n`;

/** Rejected requests. `@` is the path of the entry point. */
const REJECTED: readonly (readonly [string, string])[] = [
  ['Content-Length before Transfer-Encoding', post(`Content-Length: 6\r\n${CHUNKED}`, `${NO_CHUNKS}${SECOND}`)],
  ['Transfer-Encoding before Content-Length', post(`${CHUNKED}Content-Length: 6\r\n`, `${NO_CHUNKS}${SECOND}`)],
  ['two Content-Lengths', post('Content-Length: 0\r\nContent-Length: 44\r\n', SECOND)],
  ['twice the same Content-Length', post('Content-Length: 3\r\nContent-Length: 3\r\n', 'abc')],
  ['a list of Content-Lengths', post('Content-Length: 3, 3\r\n', 'abc')],
  ['a negative Content-Length', post('Content-Length: -1\r\n', SECOND)],
  ['a Content-Length with a sign', post('Content-Length: +3\r\n', 'abc')],
  ['a hexadecimal Content-Length', post('Content-Length: 0x3\r\n', 'abc')],
  ['an empty Content-Length', post('Content-Length: \r\n', SECOND)],
  ['a Content-Length that exceeds 64 bits', post('Content-Length: 99999999999999999999999\r\n', SECOND)],
  ['a Content-Length that exceeds the safe integers', post('Content-Length: 9007199254740993\r\n', SECOND)],
  ['a folded header', post('X-A: a\r\n b\r\nContent-Length: 0\r\n', SECOND)],
  ['a folded Transfer-Encoding', post('Transfer-Encoding:\r\n chunked\r\n', `${NO_CHUNKS}${SECOND}`)],
  ['a folded Content-Length', post('Content-Length:\r\n 3\r\n', 'abc')],
  ['a first header that is folded', `POST @ HTTP/1.1\r\n X: y\r\n${HOST}Content-Length: 0\r\n\r\n`],
  ['two Hosts', get('GET @ HTTP/1.1', `${CLOSE}Host: localhost:1\r\n`)],
  ['twice the same Host', get('GET @ HTTP/1.1', `${CLOSE}host: localhost\r\n`)],
  ['no Host', get('GET @ HTTP/1.1', 'Connection: close\r\n')],
  ['an empty Host', get('GET @ HTTP/1.1', 'Host:\r\nConnection: close\r\n')],
  ['a Host with a path', get('GET @ HTTP/1.1', 'Host: localhost/@x\r\nConnection: close\r\n')],
  ['a Host with a user', get('GET @ HTTP/1.1', 'Host: localhost@evil.example\r\nConnection: close\r\n')],
  ['a Host with a blank', get('GET @ HTTP/1.1', 'Host: localhost evil.example\r\nConnection: close\r\n')],
  ['a list of Hosts', get('GET @ HTTP/1.1', 'Host: localhost, evil.example\r\nConnection: close\r\n')],
  ['a CR in a header', post('X: a\rTransfer-Encoding: chunked\r\nContent-Length: 0\r\n', SECOND)],
  ['an LF after a header', post('X: a\nContent-Length: 0\r\n', SECOND)],
  ['LFs for line ends', `POST @ HTTP/1.1\nHost: localhost\nContent-Length: 0\n\n${SECOND}`],
  ['a NUL in a header', post('X: a\0b\r\nContent-Length: 0\r\n', SECOND)],
  ['a blank before the colon', post('Content-Length : 44\r\n', SECOND)],
  ['a blank before the colon of Transfer-Encoding', post(`Transfer-Encoding : chunked\r\n`, `${NO_CHUNKS}${SECOND}`)],
  ['a header without a name', post(': x\r\nContent-Length: 0\r\n', SECOND)],
  ['a header without a colon', post('Content-Length\r\n', SECOND)],
  ...([
    'chunked, identity',
    'identity',
    'xchunked',
    'gzip, chunked',
    'gzip',
    'chunked, chunked',
    'chunked;q=1',
    '"chunked"',
    '\x0bchunked',
    '',
    ', chunked',
  ].map((coding) => [
    `Transfer-Encoding: ${JSON.stringify(coding)}`,
    post(`Transfer-Encoding: ${coding}\r\n`, `${NO_CHUNKS}${SECOND}`),
  ]) satisfies [string, string][]),
  ['two Transfer-Encodings', post(`${CHUNKED}${CHUNKED}`, `${NO_CHUNKS}${SECOND}`)],
  ['two Transfer-Encodings, one of them none', post(`Transfer-Encoding: x\r\n${CHUNKED}`, `${NO_CHUNKS}${SECOND}`)],
  ['chunks in HTTP/1.0', post(`${CHUNKED}Connection: keep-alive\r\n`, `${NO_CHUNKS}${SECOND}`, 'POST @ HTTP/1.0')],
  ['a chunk extension with a line end', post(CHUNKED, `3;a=\nb\r\nabc\r\n${NO_CHUNKS}${SECOND}`)],
  ['a chunk size that ends with LF', post(CHUNKED, `3\nabc\n0\n\n${SECOND}`)],
  ['a chunk size with a prefix', post(CHUNKED, `0x3\r\nabc\r\n${NO_CHUNKS}${SECOND}`)],
  ['a negative chunk size', post(CHUNKED, `-3\r\nabc\r\n${NO_CHUNKS}${SECOND}`)],
  ['a chunk size that exceeds 64 bits', post(CHUNKED, `fffffffffffffffff\r\nabc\r\n${NO_CHUNKS}${SECOND}`)],
  ['a chunk that is longer than its size', post(CHUNKED, `3\r\nabcd\r\n${NO_CHUNKS}${SECOND}`)],
  ['a trailer with a Content-Length', post(CHUNKED, `3\r\nabc\r\n0\r\nContent-Length: 50\r\n\r\n${SECOND}`)],
  ['the target of a proxy', get('GET http://user@localhost@ HTTP/1.1')],
  ['the target of a proxy, with another host', get('GET http://evil.example@ HTTP/1.1')],
  ['a host for a target', get('GET localhost:80 HTTP/1.1')],
  ['a star for a target', get('GET * HTTP/1.1')],
  ['CONNECT', `CONNECT localhost:80 HTTP/1.1\r\n${HOST}\r\n${SECOND}`],
  ['CONNECT with a path', `CONNECT @ HTTP/1.1\r\n${HOST}\r\n${SECOND}`],
  ['a preface of HTTP/2', 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'],
  ['a version that is none', get('GET @ HTTP/1.2')],
  ['HTTP/0.9', 'GET @\r\n\r\n'],
  ['tabs in the first line', get('GET\t@\tHTTP/1.1')],
  ['a method in lower case', get('get @ HTTP/1.1')],
  ['a head of 20 kB', get('GET @ HTTP/1.1', `${CLOSE}X: ${'x'.repeat(20_000)}\r\n`)],
  ['2001 headers before a length', post(`${'a:\r\n'.repeat(2_001)}Content-Length: 44\r\n`, SECOND)],
];

let backend: TappedBackend;
let service: TestService;
beforeAll(async () => {
  backend = await startTappedBackend();
  service = await startTestService({
    SERVICE_CLASSIC_URL: `${backend.url}/base`,
    SERVICE_INFERENCE_UPSTREAM: `127.0.0.1:${backend.port}`,
  });
});
beforeEach(() => backend.clear());
afterAll(async () => {
  await service.stop(0);
  backend.close();
});

const portOf = ({ listener }: Pick<EntryPoint, 'listener'>) => Number(service.addresses[listener]?.split(':').at(-1));
/** Status lines of all responses in a text. */
const answersIn = (text: string) => text.match(/HTTP\/1\.1 \d{3}/g) ?? [];

describe.for(ENTRY_POINTS)('$name', (proxy) => {
  test.for(REJECTED)('rejects %s with one response, and forwards nothing', async ([_name, bytes]) => {
    const response = await sendBytes(portOf(proxy), bytes.replaceAll('@', proxy.path));
    expect(answersIn(response)).toEqual([expect.stringMatching(/ 4\d\d$/)]);
    expect(backend.requests).toEqual([]);
    expect(backend.received).not.toContain('smuggled');
    // A valid client is still served, over a backend connection without leftover bytes.
    const path = `${proxy.path}?${encodeURIComponent(_name)}`;
    await sendBytes(portOf(proxy), get(`GET ${path} HTTP/1.1`));
    expect(backend.requests.map(({ target }) => target)).toEqual(proxy.passesOn ? [proxy.passesOn.prefix + path] : []);
  });
});

/** Proxied requests as sent and as received: end-to-end headers, and the bytes after the head. */
const PASSED: readonly (readonly [string, { sent: string; headers?: string; rest: string }])[] = [
  [
    'extensions of chunks',
    {
      sent: post(`Connection: close\r\n${CHUNKED}`, `3;a="b\\"c";d\r\nabc\r\n0;e\r\n\r\n`),
      rest: `${CHUNKED.toLowerCase()}\r\n3\r\nabc\r\n${NO_CHUNKS}`,
    },
  ],
  [
    'trailers',
    {
      sent: post(`Connection: close\r\nTrailer: X-T\r\n${CHUNKED}`, '3\r\nabc\r\n0\r\nX-T: 1\r\n\r\n'),
      rest: `${CHUNKED.toLowerCase()}\r\n3\r\nabc\r\n${NO_CHUNKS}`,
    },
  ],
  [
    'an offer of HTTP/2',
    {
      sent: post(
        'Connection: Upgrade, HTTP2-Settings, close\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA\r\nContent-Length: 3\r\n',
        'abc',
      ),
      rest: 'content-length: 3\r\n\r\nabc',
    },
  ],
  [
    'an offer of a web socket',
    {
      sent: post(
        'Connection: close, upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nContent-Length: 0\r\n',
      ),
      headers: 'Sec-WebSocket-Version: 13\r\n',
      rest: 'content-length: 0\r\n\r\n',
    },
  ],
  [
    'what Connection lists, but not the length or the host',
    {
      sent: post(
        'Connection: close, Content-Length, Host, X-Mine\r\nX-Mine: 1\r\nX-Other: 2\r\nContent-Length: 3\r\n',
        'abc',
      ),
      headers: 'X-Other: 2\r\n',
      rest: 'content-length: 3\r\n\r\nabc',
    },
  ],
  [
    'headers of the connection',
    {
      sent: post(
        'Connection: close\r\nKeep-Alive: timeout=5\r\nTE: trailers\r\nUpgrade: h2c\r\nTrailer: X\r\nProxy-Authorization: Basic YQ==\r\nProxy-Connection: keep-alive\r\nProxy-Odd: x\r\nContent-Length: 0\r\n',
      ),
      rest: 'content-length: 0\r\n\r\n',
    },
  ],
  [
    'a request in the body, as the body',
    {
      sent: post(`Connection: close\r\nContent-Length: ${SECOND.length}\r\n`, SECOND.replaceAll('@', '#')),
      rest: `content-length: ${SECOND.length}\r\n\r\n${SECOND.replaceAll('@', '#')}`,
    },
  ],
  [
    'a header that only looks like one of framing',
    {
      sent: post('Connection: close\r\nTransfer_Encoding: chunked\r\nContent-Length: 5\r\n', NO_CHUNKS),
      headers: 'Transfer_Encoding: chunked\r\n',
      rest: `content-length: 5\r\n\r\n${NO_CHUNKS}`,
    },
  ],
];

describe.for(PROXIES)('$name forwards', (proxy) => {
  test.for(PASSED)(
    '%s is forwarded as one request with the same meaning',
    async ([_name, { sent, headers = '', rest }]) => {
      const { path, prefix, added } = proxy;
      const response = await sendBytes(portOf(proxy), sent.replaceAll('@', path));
      expect(answersIn(response)).toEqual(['HTTP/1.1 200']);
      const line = `POST ${prefix}${path} HTTP/1.1\r\nhost: 127.0.0.1:${backend.port}\r\nconnection: keep-alive\r\n`;
      expect(backend.received).toBe(`${line}${headers}${added}${rest}`);
      expect(responseParts(response).body).toEqual(backend.requests[0]?.body);
    },
  );

  test('pipelined requests are forwarded one by one, each with its own body, with responses in order', async () => {
    const { path, prefix } = proxy;
    const one = `POST ${path}/1 HTTP/1.1\r\n${HOST}Content-Length: 3\r\n\r\none`;
    const two = `POST ${path}/2 HTTP/1.1\r\n${HOST}${CHUNKED}\r\n3\r\ntwo\r\n${NO_CHUNKS}`;
    const three = `POST ${path}/3 HTTP/1.1\r\n${CLOSE}Content-Length: 5\r\n\r\nthree`;
    const response = await sendBytes(portOf(proxy), one + two + three);
    expect(answersIn(response)).toHaveLength(3);
    expect(response.match(/one|two|three/g)).toEqual(['one', 'two', 'three']);
    const seen = backend.requests.map(({ target, body }) => `${target} ${body}`).sort();
    expect(seen).toEqual([`${prefix}${path}/1 one`, `${prefix}${path}/2 two`, `${prefix}${path}/3 three`]);
  });

  test('the next request after a rejected protocol upgrade is forwarded', async () => {
    const { path, prefix } = proxy;
    const socket = connect(portOf(proxy), '127.0.0.1');
    const all = readAll(socket);
    const responded = new Promise<void>((resolve) => socket.once('data', () => resolve()));
    socket.write(`GET ${path}/1 HTTP/1.1\r\n${HOST}Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n`);
    await responded;
    socket.write(`GET ${path}/2 HTTP/1.1\r\n${CLOSE}\r\n`);
    expect(answersIn(await all)).toEqual(['HTTP/1.1 200', 'HTTP/1.1 200']);
    expect(backend.requests.map(({ target }) => target)).toEqual([`${prefix}${path}/1`, `${prefix}${path}/2`]);
  });
});

test('a request with interrupted chunks is not forwarded, whatever follows', async () => {
  for (const proxy of PROXIES) {
    const bytes = post(CHUNKED, `ff\r\n${SECOND.replaceAll('@', proxy.path)}`).replaceAll('@', proxy.path);
    const socket = connect(portOf(proxy), '127.0.0.1');
    const all = readAll(socket);
    socket.end(bytes);
    expect(answersIn(await all)).toEqual(['HTTP/1.1 400']);
  }
  expect(backend.requests).toEqual([]);
});
