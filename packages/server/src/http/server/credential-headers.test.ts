import { once } from 'node:events';
import { type AddressInfo, connect } from 'node:net';
import { describe, expect, it, onTestFinished, test } from 'vitest';
import { readAll } from '../../../../../test/fixtures/raw-exchange.ts';
import { testSeed } from '../../../../../test/fixtures/seed.ts';
import { NO_CREDENTIALS } from '../../identity/authenticator.ts';
import { comparableName, filterHeaders } from '../header-lines.ts';
import { mutated, oneOf, random } from '../message-fuzz.fixture.ts';
import { MalformedMessage } from '../message-parser.ts';
import { withAuthorization } from '../proxy.ts';
import { NO_TIMEOUTS } from './http1-server.fixture.ts';
import { createHttp1Server } from './http1-server.ts';
import { createRequestParser, type RequestHead, type RequestParserOptions } from './request-parser.ts';

const credentialHeaders = new Set(['authorization', 'cookie', 'x-forwarded-user', 'x-sluice-authorization']);

/** Heads and bodies of the requests in a text. */
function parse(text: string, options: RequestParserOptions = { credentialHeaders }) {
  const heads: RequestHead[] = [];
  let body = '';
  const parser = createRequestParser(
    {
      onHead: (head) => void heads.push(head),
      onBody: (buffer, start, end) => {
        body += buffer.toString('latin1', start, end);
      },
    },
    options,
  );
  const bytes = Buffer.from(text, 'latin1');
  for (let at = 0; at < bytes.length; parser.reset()) {
    at = parser.execute(bytes, at, bytes.length);
    if (!parser.done) break;
  }
  return { heads, body };
}

function parseHead(lines: readonly string[], options?: RequestParserOptions): RequestHead {
  const [head] = parse(
    `GET / HTTP/1.1\r\nHost: a\r\n${lines.map((line) => `${line}\r\n`).join('')}\r\n`,
    options,
  ).heads;
  if (head === undefined) throw new Error('incomplete');
  return head;
}

describe('lines of credentials are taken out of the headers', () => {
  it.each<[what: string, lines: string[], taken: Record<string, string[]>]>([
    ['one', ['Authorization: Bearer x'], { authorization: ['Bearer x'] }],
    ['any case', ['aUTHORIZATION: a', 'x-Forwarded-USER: b'], { authorization: ['a'], 'x-forwarded-user': ['b'] }],
    [
      'underscores',
      ['X_Forwarded_User: a', 'x-forwarded_user: b'],
      { x_forwarded_user: ['a'], 'x-forwarded_user': ['b'] },
    ],
    [
      'all notations in their order',
      ['X-Forwarded-User: a', 'Accept: */*', 'X_FORWARDED-USER: b', 'x-forwarded-user: a'],
      { 'x-forwarded-user': ['a', 'a'], 'x_forwarded-user': ['b'] },
    ],
    [
      'repeated, where only the first line counts otherwise',
      ['authorization: a', 'Authorization: b'],
      { authorization: ['a', 'b'] },
    ],
    ['cookies, unjoined', ['Cookie: a=1', 'cookie: b=2; c=3'], { cookie: ['a=1', 'b=2; c=3'] }],
    ['without a value, or with blanks only', ['Authorization:', 'Authorization: \t '], { authorization: ['', ''] }],
    ['values with other bytes', ['Authorization:\tBearer \xe9\xff, x '], { authorization: ['Bearer \xe9\xff, x'] }],
    [
      'listed as hop-by-hop',
      ['Connection: authorization, x_forwarded_user', 'Authorization: a', 'x_forwarded_user: b'],
      { authorization: ['a'], x_forwarded_user: ['b'] },
    ],
  ])('%s', (_what, lines, taken) => {
    const { credentials, headers, rawHeaders } = parseHead(lines);
    expect(Object.fromEntries(credentials)).toEqual(taken);
    const others = lines.filter((line) => /^(accept|connection):/i.test(line));
    const pairs = others.map((line) => line.split(': '));
    expect(rawHeaders).toEqual(['Host', 'a', ...pairs.flat()]);
    expect(headers).toEqual({
      host: 'a',
      ...Object.fromEntries(pairs.map(([name = '', value]) => [name.toLowerCase(), value])),
    });
  });
});

test.each([
  'X-Forwarded-User2: a',
  'XForwarded-User: a',
  'X-Forwarded--User: a',
  'X-Forwarded.User: a',
  'X-Forwarded-User-: a',
  '_Authorization: a',
  'Authorization_: a',
  'Proxy-Authorization: a',
  '__proto__: authorization',
  'constructor: a',
])('another header stays: %s', (line) => {
  const { credentials, rawHeaders } = parseHead([line]);
  expect(credentials).toBe(NO_CREDENTIALS);
  expect(rawHeaders).toEqual(['Host', 'a', ...line.split(': ')]);
});

test('names that objects have are names like others', () => {
  const options = { credentialHeaders: new Set(['constructor', '--proto--']) };
  const { credentials, headers, rawHeaders } = parseHead(['Constructor: a', '__proto__: b', 'toString: c'], options);
  expect([...credentials]).toEqual([
    ['constructor', ['a']],
    ['__proto__', ['b']],
  ]);
  expect(rawHeaders).toEqual(['Host', 'a', 'toString', 'c']);
  expect(headers).toEqual({ host: 'a', tostring: 'c' });
});

test('without names, credentials are headers like others', () => {
  const { credentials, headers } = parseHead(['Authorization: a', 'X_Forwarded_User: b'], {});
  expect(credentials).toBe(NO_CREDENTIALS);
  expect(headers).toEqual({ host: 'a', authorization: 'a', x_forwarded_user: 'b' });
});

test.each([
  ['a folded line', 'Authorization: a\r\n b'],
  ['a folded line of another header', 'X: a\r\n Authorization: b'],
  ['a blank before the colon', 'Authorization : a'],
  ['a blank before the name', ' Authorization: a'],
  ['no colon', 'Authorization'],
  ['a control character', 'Authorization: a\0'],
  ['a line feed alone', 'X: a\nAuthorization: b'],
])('%s is malformed, and not in the message', (_what, line) => {
  expect(() => parseHead([line])).toThrow(MalformedMessage);
  expect(() => parseHead([line])).not.toThrow(/Authorization/);
});

test('lines of replicas are taken out, too, and those that others forge are dropped', () => {
  const lines = ['Sluice-Peer-Principal: a', 'Authorization: b', 'X: c'];
  const ofReplica = parseHead(lines, { credentialHeaders, isForReplicas: true });
  expect(ofReplica.rawHeaders).toEqual(['Host', 'a', 'Sluice-Peer-Principal', 'a', 'X', 'c']);
  const forged = parseHead(lines);
  expect(forged.rawHeaders).toEqual(['Host', 'a', 'X', 'c']);
  for (const { credentials } of [ofReplica, forged]) expect([...credentials]).toEqual([['authorization', ['b']]]);
});

test('HTTP/1.0 is no exception, and a trailer is no credential', () => {
  const { heads } = parse('GET / HTTP/1.0\r\nAuthorization: a\r\n\r\n');
  expect(heads.map(({ credentials, rawHeaders }) => [...credentials, rawHeaders])).toEqual([
    [['authorization', ['a']], []],
  ]);
  const chunked =
    'POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\nAuthorization: a\r\n\r\n';
  const withTrailer = parse(chunked);
  expect(withTrailer.body).toBe('x');
  expect(withTrailer.heads[0]?.credentials).toBe(NO_CREDENTIALS);
});

test('requests with equal heads share one, and those with another credential do not', () => {
  const request = (token: string) => `GET / HTTP/1.1\r\nHost: a\r\nAuthorization: ${token}\r\n\r\n`;
  const { heads } = parse(['a', 'a', 'b', 'a', 'a'].map(request).join(''));
  expect(heads.map(({ credentials }) => credentials.get('authorization'))).toEqual([['a'], ['a'], ['b'], ['a'], ['a']]);
  expect(heads[1]).toBe(heads[0]);
  expect(heads[3]).not.toBe(heads[0]);
  expect(heads[4]).toBe(heads[3]);
});

test.each([
  '',
  'X-User',
  'x_user',
  'x user',
  'x\r\ny',
  'host',
  'origin',
  'content-length',
  'transfer-encoding',
  'connection',
  'sluice-peer-principal',
])('the header %j cannot be a credential', (name) => {
  const options = { ...NO_TIMEOUTS, tls: undefined, connectStatus: 400, credentialHeaders: new Set([name]) } as const;
  expect(() => createHttp1Server(options, () => undefined)).toThrow(TypeError);
});

test('everything else is parsed as without credentials, whatever clients send', () => {
  const next = random(testSeed() + 43);
  const names = [
    'Authorization',
    'X_Forwarded_User',
    'x-forwarded-user',
    'Cookie',
    'X-A',
    'Accept',
    'Expect',
    'Set-Cookie',
  ];
  const starts = ['Authorization: a\r\n', '\r\nX_forwarded-user:b', 'Content_Length: 1\r\n', 'Cookie:\r\n'];
  const outcome = (text: string, options: RequestParserOptions) => {
    try {
      return parse(text, options);
    } catch (error) {
      if (error instanceof MalformedMessage) return error.message;
      throw error;
    }
  };
  let taken = 0;
  for (let round = 0; round < 2_000; round++) {
    const lines = Array.from(
      { length: next(6) },
      () => `${oneOf(next, ...names)}: ${oneOf(next, 'a', 'b, c', '')}\r\n`,
    );
    const framing = oneOf(
      next,
      '\r\n',
      'Content-Length: 3\r\n\r\nabc',
      'Transfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n',
    );
    const valid = `POST / HTTP/1.1\r\nHost: a\r\n${lines.join('')}${framing}`;
    const text = (next(3) === 0 ? valid : mutated(next, valid, starts)) + valid;
    const [all, rest] = [outcome(text, {}), outcome(text, { credentialHeaders })];
    if (typeof all === 'string' || typeof rest === 'string') {
      expect(rest, JSON.stringify(text)).toBe(all);
      continue;
    }
    const isOther = (name: string) => !credentialHeaders.has(comparableName(name));
    const expected = all.heads.map((head) => ({
      ...head,
      rawHeaders: filterHeaders(head.rawHeaders, isOther),
      headers: Object.fromEntries(Object.entries(head.headers).filter(([name]) => isOther(name))),
      credentials: Map.groupBy(
        head.rawHeaders.flatMap((name, at) => (at % 2 === 0 ? [{ name, value: head.rawHeaders[at + 1] ?? '' }] : [])),
        ({ name }) => (isOther(name) ? '' : name.toLowerCase()),
      ),
    }));
    for (const head of expected) head.credentials.delete('');
    const flat = rest.heads.map(({ credentials, ...head }) => ({
      ...head,
      credentials: [...credentials].flatMap(([name, values]) => values.map((value) => [name, value])),
    }));
    expect(flat, JSON.stringify(text)).toEqual(
      expected.map(({ credentials, ...head }) => ({
        ...head,
        credentials: [...credentials].flatMap(([name, found]) => found.map(({ value }) => [name, value])),
      })),
    );
    expect(rest.body).toBe(all.body);
    taken += flat.filter(({ credentials }) => credentials.length > 0).length;
  }
  expect(taken).toBeGreaterThan(500);
});

test('pipelined requests have their own credentials', async () => {
  const options = { ...NO_TIMEOUTS, tls: undefined, connectStatus: 400, credentialHeaders } as const;
  const server = createHttp1Server(options, ({ head, headers }, response) => {
    const text = JSON.stringify([...head.credentials, Object.keys(headers)]);
    response.writeHead(200, ['Content-Length', String(text.length)]);
    response.end(text);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  onTestFinished(() => {
    server.close();
    server.closeAllConnections();
  });
  const client = connect((server.address() as AddressInfo).port, '127.0.0.1');
  const request = (line: string) => `GET / HTTP/1.1\r\nHost: a\r\n${line}\r\n`;
  const lines = [
    'Authorization: a\r\n',
    '',
    'authorization: b\r\n',
    'X_Forwarded_User: c\r\n',
    'Connection: close\r\n',
  ];
  client.write(lines.map(request).join(''));
  expect((await readAll(client)).match(/\[.*\]/g)?.map((text) => JSON.parse(text))).toEqual([
    [['authorization', ['a']], ['host']],
    [['host']],
    [['authorization', ['b']], ['host']],
    [['x_forwarded_user', ['c']], ['host']],
    [['host', 'connection']],
  ]);
});

test('other credential headers count from the next head on, although the same one was parsed before', async () => {
  let credentialHeaders: ReadonlySet<string> | undefined;
  const options = {
    ...NO_TIMEOUTS,
    tls: undefined,
    connectStatus: 400,
    get credentialHeaders() {
      return credentialHeaders;
    },
  } as const;
  const server = createHttp1Server(options, ({ head, headers }, response) => {
    const text = JSON.stringify([[...head.credentials.keys()], Object.keys(headers)]);
    credentialHeaders = head.credentials.has('x-user') ? new Set(['x-name']) : new Set(['x-user']);
    response.writeHead(200, ['Content-Length', String(text.length)]);
    response.end(text);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  onTestFinished(() => {
    server.close();
    server.closeAllConnections();
  });
  const client = connect((server.address() as AddressInfo).port, '127.0.0.1');
  const request = 'GET / HTTP/1.1\r\nHost: a\r\nX-User: ann\r\nX-Name: bob\r\n';
  for (const line of ['', '', '', 'Connection: close\r\n']) client.write(`${request}${line}\r\n`);
  const replies = (await readAll(client)).match(/\[.*\]/g)?.map((text) => JSON.parse(text));
  expect(replies).toEqual([
    [[], ['host', 'x-user', 'x-name']],
    [['x-user'], ['host', 'x-name']],
    [['x-name'], ['host', 'x-user']],
    [['x-user'], ['host', 'x-name', 'connection']],
  ]);
});

test('an upstream that verifies it gets every line of Authorization but keys of this service, and no other credential', () => {
  const head = parseHead(['Authorization: a', 'Cookie: c', 'X: d', 'authorization: b']);
  expect(withAuthorization(head)).toEqual(['Host', 'a', 'X', 'd', 'Authorization', 'a', 'Authorization', 'b']);
  const key = parseHead(['Authorization: a', `Authorization: bearer  slk_${'b'.repeat(43)}`, 'X: d']);
  expect(withAuthorization(key)).toEqual(['Host', 'a', 'X', 'd', 'Authorization', 'a']);
  const without = parseHead(['Cookie: c', 'X: d']);
  expect(withAuthorization(without)).toBe(without.rawHeaders);
});

describe('the cookies of a sign-in', () => {
  const names = new Set(['authorization']);
  it.each<[what: string, lines: string[], own: string[] | undefined, others: string | undefined]>([
    ['alone', ['Cookie: sluice=a'], ['sluice=a'], undefined],
    ['among others', ['cookie: x=1; __Host-sluice=a; y=2'], [' __Host-sluice=a'], 'x=1; y=2'],
    [
      'first and last',
      ['Cookie: sluice-login=a; x=1;__Host-sluice-login=b'],
      ['sluice-login=a', '__Host-sluice-login=b'],
      'x=1',
    ],
    ['in several lines', ['Cookie: sluice=a', 'Cookie: x=1', 'COOKIE: sluice=b'], ['sluice=a', 'sluice=b'], 'x=1'],
    ['without a value', ['Cookie: sluice; x=1'], ['sluice'], 'x=1'],
    ['with spaces', ['Cookie: x=1 ;\t sluice = a'], ['\t sluice = a'], 'x=1'],
  ])('are taken out: %s', (_what, lines, own, others) => {
    const { credentials, headers, rawHeaders } = parseHead(lines, { credentialHeaders: names });
    expect([credentials.get('cookie'), headers.cookie]).toEqual([own, others]);
    expect(rawHeaders.slice(2)).toEqual(others === undefined ? [] : [expect.stringMatching(/^cookie$/i), others]);
  });

  it('have these names only', () => {
    const value = 'Sluice=a; sluice2=b; x=sluice; __Secure-sluice=c; sluice-loginx=d';
    expect(parseHead([`Cookie: ${value}`], { credentialHeaders: names }).headers.cookie).toBe(value);
  });

  it('stay where nothing is a credential', () => {
    const { credentials, headers } = parseHead(['Cookie: sluice=a'], {});
    expect([credentials, headers.cookie]).toEqual([NO_CREDENTIALS, 'sluice=a']);
  });
});
