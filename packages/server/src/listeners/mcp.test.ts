import { once } from 'node:events';
import { request } from 'node:http';
import { connect } from 'node:net';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import {
  LEGACY,
  legacyClient,
  modernClient,
  post,
  type RawAnswer,
  send,
} from '../../../../test/fixtures/raw-client.ts';
import { toolList, toolText } from '../../../../test/fixtures/raw-upstream/texts.ts';
import { type RawUpstream, startRawUpstream } from '../../../../test/fixtures/raw-upstream.ts';
import { startTestService, type TestService } from '../testing/service.ts';

const LIST = '{"jsonrpc":"2.0","id":1,"method":"tools/list"}';
const PING = '{"jsonrpc":"2.0","id":1,"method":"ping"}';
const MIB = 1024 * 1024;

let service: TestService;
let upstream: RawUpstream;
beforeAll(async () => {
  service = await startTestService();
  upstream = await startRawUpstream({ scripts: { 'tools/list': toolList(toolText('known')) } });
  await service.register('forwards', { name: 'up', address: upstream.url });
  await service.register('namespaces', { name: 'finance' });
});
afterAll(async () => {
  await service.stop();
  await upstream.close();
});

/** Posts bytes, in one piece with their length or in chunks without. */
async function postBytes(url: string, pieces: readonly Buffer[]): Promise<RawAnswer> {
  const headers = {
    'content-type': 'application/json',
    ...(pieces.length === 1 && { 'content-length': pieces[0]?.length }),
  };
  const req = request(url, { method: 'POST', headers, agent: false });
  const answered = once(req, 'response');
  for (const piece of pieces) req.write(piece);
  req.end();
  const [res] = await answered;
  const chunks: Buffer[] = [];
  for await (const chunk of res) chunks.push(chunk);
  return { status: res.statusCode, headers: res.headers, text: Buffer.concat(chunks).toString('utf8') };
}

function errorOf(answer: RawAnswer): { code: number; message: string; data?: unknown; id: unknown } {
  expect(answer.headers['content-type']).toBe('application/json');
  const { id, error } = JSON.parse(answer.text);
  return { ...error, id };
}

function rpc(method: string, params: unknown = {}, id: unknown = 1): string {
  return JSON.stringify({ jsonrpc: '2.0', id, method, params });
}

describe('the path', () => {
  it.each(['/default/mcp', '/default/mcp/', '/default/mcp?a=1&b', '/default/mcp/?x=/other/mcp', '/finance/mcp'])(
    '%s is served',
    async (path) => {
      const answer = await post(service.mcp + path, LIST);
      expect(answer.status).toBe(200);
      expect(JSON.parse(answer.text).result.tools).toHaveLength(path.startsWith('/default') ? 1 : 0);
    },
  );

  it.each([
    '/',
    '/mcp',
    '/mcp/',
    '/finance',
    '/default',
    '/default/mcp/tools',
    '/default/mcp//',
    '//mcp',
    '/a/default/mcp',
    '/default/MCP',
    '/default/mcpx',
    '/?/default/mcp',
  ])('%s is 404 and named in the words of the right one, with the id echoed', async (path) => {
    const answer = await post(service.mcp + path, rpc('tools/list', {}, 'abc'));
    expect(answer.status).toBe(404);
    expect(errorOf(answer)).toEqual({ code: -32600, message: expect.stringContaining('/{namespace}/mcp'), id: 'abc' });
  });

  it.each([
    ['nowhere', 'nowhere'],
    ['DEFAULT', 'DEFAULT'],
    ['-x', '-x'],
    ['a_b', 'a_b'],
    ['%64efault', 'default'],
    ['a%2Fb', 'a/b'],
    ['%zz', '%zz'],
    ['a'.repeat(64), 'a'.repeat(64)],
    ['..%2f', '../'],
    ['__proto__', '__proto__'],
  ])('a namespace that is unknown or invalid, %s, is 404 with the id echoed', async (segment, shown) => {
    const answer = await post(`${service.mcp}/${segment}/mcp`, rpc('tools/list', {}, 7));
    expect(answer.status).toBe(404);
    expect(errorOf(answer)).toEqual({ code: -32600, message: `namespace not found: ${shown}`, id: 7 });
  });

  it('is judged before the method, and after the message', async () => {
    expect(errorOf(await post(service.url('nowhere'), rpc('initialize')))).toMatchObject({ code: -32600, id: 1 });
    expect(errorOf(await post(service.url('nowhere'), '{'))).toMatchObject({ code: -32700, id: null });
    expect((await post(service.url('nowhere'), '{"jsonrpc":"2.0","method":"notifications/initialized"}')).status).toBe(
      404,
    );
  });

  it.each(['GET', 'DELETE', 'PUT'])('is judged for %s too', async (method) => {
    const bare = await send(`${service.mcp}/mcp`, method);
    expect([bare.status, errorOf(bare)]).toEqual([404, expect.objectContaining({ code: -32600, id: null })]);
    const unknown = await send(service.url('nowhere'), method);
    expect([unknown.status, errorOf(unknown).message]).toEqual([404, 'namespace not found: nowhere']);
  });

  it('is judged for a modern client too', async () => {
    const answer = await modernClient(service.url('nowhere')).call('tools/list');
    expect([answer.status, errorOf(answer)]).toEqual([
      404,
      { code: -32600, message: 'namespace not found: nowhere', id: 1 },
    ]);
  });
});

describe('the message', () => {
  it.each([
    ['no body', ''],
    ['half an object', '{"jsonrpc":"2.0","id":1'],
    ['two messages', `${PING}${PING}`],
    ['a byte order mark', `\ufeff${PING}`],
    ['text that is no JSON', 'ping'],
    ['a number that JSON does not have', '{"jsonrpc":"2.0","id":01,"method":"ping"}'],
  ])('that is %s is a parse error', async (_what, body) => {
    const answer = await post(service.url(), body);
    expect(answer.status).toBe(400);
    expect(errorOf(answer)).toEqual({ code: -32700, message: expect.stringMatching(/^parse error/), id: null });
  });

  it('that is not UTF-8 is a parse error', async () => {
    const text = Buffer.from(rpc('tools/call', { name: 'x' }));
    text[text.indexOf('x')] = 0xff;
    const answer = await postBytes(service.url(), [text]);
    expect([answer.status, errorOf(answer).code]).toEqual([400, -32700]);
  });

  it('may be cut anywhere, inside a character too', async () => {
    const text = Buffer.from(rpc('tools/call', { name: 'grüß😀' }));
    const answer = await postBytes(
      service.url(),
      [...text].map((byte) => Buffer.of(byte)),
    );
    expect(errorOf(answer)).toMatchObject({ code: -32602, message: 'tool not found: grüß😀' });
  });

  it.each([
    ['a batch', `[${PING}]`, 'null'],
    ['an empty batch', '[]', 'null'],
    ['text', '"ping"', 'null'],
    ['null', 'null', 'null'],
    ['a number beyond doubles', '9223372036854775807', 'null'],
    ['without jsonrpc', '{"id":3,"method":"ping"}', '3'],
    ['of JSON-RPC 1.0', '{"jsonrpc":"1.0","id":3,"method":"ping"}', '3'],
    ['with jsonrpc as a number', '{"jsonrpc":2.0,"id":3,"method":"ping"}', '3'],
    ['with id null', '{"jsonrpc":"2.0","id":null,"method":"ping"}', 'null'],
    ['with an object as id', '{"jsonrpc":"2.0","id":{},"method":"ping"}', 'null'],
    ['with an array as id', '{"jsonrpc":"2.0","id":[1],"method":"ping"}', 'null'],
    ['with a boolean as id', '{"jsonrpc":"2.0","id":true,"method":"ping"}', 'null'],
    ['with a fraction as id', '{"jsonrpc":"2.0","id":1.5,"method":"ping"}', 'null'],
    ['with an infinite id', '{"jsonrpc":"2.0","id":1e400,"method":"ping"}', 'null'],
    ['without method', '{"jsonrpc":"2.0","id":"m"}', '"m"'],
    ['with a method that is no string', '{"jsonrpc":"2.0","id":"m","method":7}', '"m"'],
    ['with params in an array', '{"jsonrpc":"2.0","id":"m","method":"ping","params":[]}', '"m"'],
    ['with params null', '{"jsonrpc":"2.0","id":"m","method":"ping","params":null}', '"m"'],
    ['with two ids', '{"jsonrpc":"2.0","id":1,"method":"ping","id":2}', 'null'],
    ['with two ids, one escaped', '{"jsonrpc":"2.0","id":1,"method":"ping","\\u0069d":2}', 'null'],
    ['with two methods', '{"jsonrpc":"2.0","id":1,"method":"ping","method":"tools/list"}', 'null'],
    ['with two params', '{"jsonrpc":"2.0","id":1,"method":"ping","params":{},"params":{}}', 'null'],
    [
      'with two names in params',
      '{"jsonrpc":"2.0","id":4,"method":"tools/call","params":{"name":"a","name":"b"}}',
      '4',
    ],
  ])('%s is an invalid request', async (_what, body, id) => {
    const answer = await post(service.url(), body);
    expect(answer.status).toBe(400);
    expect(errorOf(answer).code).toBe(-32600);
    expect(answer.text).toContain(`"id":${id},`);
  });

  it.each(['1.0', '-0', '1E2', '9223372036854775807', '"\\u0061\\/\\ud83d"', '"grüße"', '""', '"\\"id\\":2"'])(
    'has its id %s echoed exactly as it is spelled',
    async (id) => {
      const [ok, unknown, malformed] = await Promise.all([
        post(service.url(), `{"jsonrpc":"2.0", "id" : ${id} ,"method":"ping"}`),
        post(service.url(), `{"id":${id},"jsonrpc":"2.0","method":"no/such"}`),
        post(service.url(), `{"id":${id},"jsonrpc":"1.0","method":"ping"}`),
      ]);
      expect(ok.text).toBe(`{"jsonrpc":"2.0","id":${id},"result":{}}`);
      for (const answer of [ok, unknown, malformed]) {
        expect(answer.text).toContain(`{"jsonrpc":"2.0","id":${id},`);
        expect(Number(answer.headers['content-length'])).toBe(Buffer.byteLength(answer.text));
      }
    },
  );

  it('may carry a hundred members in its params', async () => {
    const params = Object.fromEntries(Array.from({ length: 100 }, (_, i) => [`x${i}`, i]));
    expect((await post(service.url(), rpc('tools/list', params))).status).toBe(200);
    const twice = rpc('tools/list', params).replace('"x99"', '"x98"');
    expect(errorOf(await post(service.url(), twice)).message).toContain('"x98"');
  });

  it('may be nested as deeply as its size allows', async () => {
    const deep = '['.repeat(500_000) + ']'.repeat(500_000);
    const answer = await post(service.url(), `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"x":${deep}}}`);
    expect(answer.status).toBe(200);
  });

  it('that is an answer or a notification is taken without a word', async () => {
    for (const body of [
      '{"jsonrpc":"2.0","method":"notifications/initialized"}',
      '{"jsonrpc":"2.0","method":"notifications/no-such","params":{"a":1}}',
      '{"jsonrpc":"2.0","id":5,"result":{}}',
      '{"jsonrpc":"2.0","id":5,"error":{"code":-1,"message":"no"}}',
    ]) {
      const answer = await post(service.url(), body);
      expect([answer.status, answer.text]).toEqual([202, '']);
    }
  });
});

describe('a body', () => {
  const padded = (bytes: number): Buffer => Buffer.from(PING.slice(0, -1).padEnd(bytes - 1) + PING.slice(-1));

  it('of exactly the limit is served', async () => {
    expect((await postBytes(service.url(), [padded(4 * MIB)])).status).toBe(200);
  });

  it('whose announced length is over the limit is refused before it is sent', async () => {
    const req = request(service.url(), {
      method: 'POST',
      headers: { 'content-length': String(4 * MIB + 1) },
      agent: false,
    });
    req.on('error', () => undefined);
    req.flushHeaders();
    const [res] = await once(req, 'response');
    const chunks: Buffer[] = [];
    for await (const chunk of res) chunks.push(chunk);
    expect(res.statusCode).toBe(413);
    expect(JSON.parse(Buffer.concat(chunks).toString())).toEqual({
      jsonrpc: '2.0',
      id: null,
      error: { code: -32600, message: 'request body too large' },
    });
    req.destroy();
  });

  it.each(['with its length', 'in chunks'])(
    'over the limit, sent whole %s, costs neither the answer nor the connection',
    async (how) => {
      const body = padded(4 * MIB + 64 * 1024);
      const { hostname, port } = new URL(service.mcp);
      const socket = connect(Number(port), hostname);
      const head = `POST /default/mcp HTTP/1.1\r\nHost: ${hostname}\r\n`;
      if (how === 'in chunks') {
        socket.write(`${head}Transfer-Encoding: chunked\r\n\r\n`);
        for (let at = 0; at < body.length; at += 65_536) {
          const piece = body.subarray(at, at + 65_536);
          socket.write(`${piece.length.toString(16)}\r\n`);
          socket.write(piece);
          socket.write('\r\n');
        }
        socket.write('0\r\n\r\n');
      } else {
        socket.write(`${head}Content-Length: ${body.length}\r\n\r\n`);
        socket.write(body);
      }
      socket.write(`${head}Connection: close\r\nContent-Length: ${PING.length}\r\n\r\n${PING}`);
      let answers = '';
      for await (const chunk of socket) answers += chunk;
      expect(answers.match(/HTTP\/1.1 \d+/g)).toEqual(['HTTP/1.1 413', 'HTTP/1.1 200']);
      expect(answers).toContain(
        '{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"request body too large"}}',
      );
      expect(answers).toContain('{"jsonrpc":"2.0","id":1,"result":{}}');
    },
  );

  it('over the limit that goes on and on is cut off', async () => {
    const { hostname, port } = new URL(service.mcp);
    const socket = connect(Number(port), hostname);
    socket.on('error', () => undefined).resume();
    const closed = new Promise((resolve) => {
      socket.once('close', resolve);
    });
    socket.write(`POST /default/mcp HTTP/1.1\r\nHost: ${hostname}\r\nTransfer-Encoding: chunked\r\n\r\n`);
    const piece = Buffer.concat([Buffer.from('40000\r\n'), Buffer.alloc(0x40000, ' '), Buffer.from('\r\n')]);
    const more = () => socket.write(piece, () => setTimeout(more, 20));
    more();
    await closed;
  });

  it('that its client never finishes is nobody else’s trouble', async () => {
    const req = request(service.url(), { method: 'POST', headers: { 'content-length': '100' }, agent: false });
    req.on('error', () => undefined);
    req.write('{"jsonrpc"');
    expect((await post(service.url(), PING)).status).toBe(200);
    req.destroy();
    expect((await post(service.url(), PING)).status).toBe(200);
  });
});

describe('HTTP methods', () => {
  it.each(['GET', 'DELETE', 'PUT', 'PATCH', 'HEAD'])(
    '%s without a session is 405 and names those allowed',
    async (method) => {
      const answer = await send(service.url(), method);
      expect(answer.status).toBe(405);
      expect(answer.headers.allow).toMatch(/\bPOST\b/);
      expect(answer.text).toBe('');
    },
  );

  it.each(['GET', 'DELETE'])('%s with the modern version is 405, whatever session it names', async (method) => {
    const { headers } = await legacyClient(service.url());
    for (const session of [headers['mcp-session-id'] ?? '', 'forged']) {
      const answer = await send(service.url(), method, {
        'mcp-session-id': session,
        'mcp-protocol-version': '2026-07-28',
      });
      expect(answer.status).toBe(405);
    }
    expect((await post(service.url(), LIST, headers)).status).toBe(200);
  });

  it('PUT with a session is 405 and ends nothing', async () => {
    const { headers } = await legacyClient(service.url());
    expect((await send(service.url(), 'PUT', headers)).status).toBe(405);
    expect((await post(service.url(), LIST, headers)).status).toBe(200);
  });
});

describe('CORS', () => {
  const ORIGIN = { origin: 'http://localhost:3000' };

  it('answers a preflight with everything that clients send', async () => {
    const answer = await send(service.url(), 'OPTIONS', {
      ...ORIGIN,
      'access-control-request-method': 'POST',
      'access-control-request-headers': 'content-type,mcp-param-Region,mcp-param-x,x-other,mcp-param-"bad"',
    });
    expect([answer.status, answer.text]).toEqual([204, '']);
    expect(answer.headers['access-control-allow-origin']).toBe('*');
    expect(answer.headers['access-control-max-age']).toBe('86400');
    expect(words(answer, 'access-control-allow-methods')).toEqual(['get', 'post', 'delete', 'options']);
    const allowed = words(answer, 'access-control-allow-headers');
    for (const name of [
      'content-type',
      'accept',
      'authorization',
      'mcp-session-id',
      'mcp-protocol-version',
      'mcp-method',
      'mcp-name',
      'last-event-id',
      'x-request-id',
      'x-conversation-id',
      'mcp-param-region',
      'mcp-param-x',
    ]) {
      expect(allowed).toContain(name);
    }
    expect(allowed).not.toContain('x-other');
    expect(allowed.join()).not.toContain('bad');
  });

  it('answers a preflight on any path', async () => {
    expect((await send(`${service.mcp}/mcp`, 'OPTIONS', ORIGIN)).status).toBe(204);
  });

  it.each([
    ['a result', PING, 200],
    ['an error of the method', rpc('no/such'), 200],
    ['a parse error', '{', 400],
    ['a taken notification', '{"jsonrpc":"2.0","method":"notifications/initialized"}', 202],
  ])('puts its headers on %s', async (_what, body, status) => {
    const answer = await post(service.url(), body, ORIGIN);
    expect(answer.status).toBe(status);
    expect(answer.headers['access-control-allow-origin']).toBe('*');
    expect(words(answer, 'access-control-expose-headers')).toContain('mcp-session-id');
  });

  it('puts its headers on a wrong path and a refused method', async () => {
    expect((await post(`${service.mcp}/mcp`, PING, ORIGIN)).headers['access-control-allow-origin']).toBe('*');
    expect((await send(service.url(), 'PUT', ORIGIN)).headers['access-control-allow-origin']).toBe('*');
  });

  function words(answer: RawAnswer, header: string): string[] {
    return String(answer.headers[header]).toLowerCase().split(', ');
  }
});

describe('Origin and Host', () => {
  it.each(['https://evil.example', 'null', 'http://localhost.evil.example'])(
    'refuse the foreign origin %s',
    async (origin) => {
      for (const method of ['POST', 'OPTIONS', 'GET']) {
        const answer = await send(service.url(), method, { origin }, method === 'POST' ? PING : undefined);
        expect(answer.status).toBe(403);
        expect(errorOf(answer)).toMatchObject({ code: -32600, id: null, message: expect.stringContaining('Origin') });
        expect(answer.headers['access-control-allow-origin']).toBeUndefined();
      }
    },
  );

  it('let loopback origins and the listener’s own pass', async () => {
    for (const origin of ['http://localhost:5173', 'http://127.0.0.1', 'https://[::1]:1', service.mcp]) {
      expect((await post(service.url(), PING, { origin })).status).toBe(200);
    }
  });

  it.each(['evil.example', 'localhost.evil.example:8081', '10.0.0.1'])(
    'refuse the name %s that was bound to loopback',
    async (host) => {
      const answer = await post(service.url(), PING, { host });
      expect(answer.status).toBe(403);
      expect(errorOf(answer)).toMatchObject({ code: -32600, id: null, message: expect.stringContaining(host) });
      // The page that such a name came with would be of the same origin.
      expect((await post(service.url(), PING, { host, origin: `http://${host}` })).status).toBe(403);
    },
  );

  it('refuse a request over the limit before its body is read', async () => {
    const answer = await send(
      service.url(),
      'POST',
      { origin: 'https://evil.example', 'content-length': '9' },
      'x'.repeat(9),
    );
    expect(answer.status).toBe(403);
  });

  it('follow SERVICE_ALLOWED_HOSTS and SERVICE_CORS_ORIGIN', async () => {
    const strict = await startTestService({
      SERVICE_ALLOWED_HOSTS: 'gateway.example',
      SERVICE_CORS_ORIGIN: 'https://console.example',
    });
    try {
      const url = strict.url();
      expect((await post(url, PING, { host: 'gateway.example:8081' })).status).toBe(200);
      expect((await post(url, PING)).status).toBe(200);
      expect((await post(url, PING, { host: 'evil.example' })).status).toBe(403);

      const configured = await post(url, PING, { origin: 'https://console.example' });
      expect(configured.status).toBe(200);
      expect(configured.headers['access-control-allow-origin']).toBe('https://console.example');
      expect(configured.headers.vary).toBe('Origin');
      expect((await post(url, PING, { origin: 'https://evil.example' })).status).toBe(403);
      // Same origin: the guard lets it pass, and a browser needs no CORS headers for it.
      const own = await post(url, PING, { host: 'gateway.example', origin: 'https://gateway.example' });
      expect([own.status, own.headers['access-control-allow-origin']]).toEqual([200, undefined]);
    } finally {
      await strict.stop();
    }
  });

  it('let every origin pass when SERVICE_CORS_ORIGIN says * in so many words', async () => {
    const open = await startTestService({ SERVICE_CORS_ORIGIN: '*' });
    try {
      const answer = await post(open.url(), PING, { origin: 'https://evil.example' });
      expect([answer.status, answer.headers['access-control-allow-origin']]).toEqual([200, '*']);
      expect((await post(open.url(), PING, { host: 'evil.example' })).status).toBe(403);
    } finally {
      await open.stop();
    }
  });
});

describe('the modern era', () => {
  const VERSION = 'io.modelcontextprotocol/protocolVersion';
  const CAPABILITIES = 'io.modelcontextprotocol/clientCapabilities';
  const META = { [VERSION]: '2026-07-28', [CAPABILITIES]: {} };
  const HEADERS = { 'mcp-protocol-version': '2026-07-28', 'mcp-method': 'tools/list' };
  const list = (meta: unknown, headers: Record<string, string> = HEADERS) =>
    post(service.url(), rpc('tools/list', { _meta: meta }, 'm'), headers);

  it('is served without a session, and ignores one', async () => {
    const answer = await modernClient(service.url()).call('tools/list', '{}', { 'mcp-session-id': 'forged' });
    expect(answer.status).toBe(200);
    expect(JSON.parse(answer.text).result).toMatchObject({ resultType: 'complete', tools: [{ name: 'known' }] });
    expect(answer.headers['mcp-session-id']).toBeUndefined();
  });

  it('discovers the server', async () => {
    const answer = await modernClient(service.url()).call('server/discover');
    expect(JSON.parse(answer.text).result).toMatchObject({
      resultType: 'complete',
      supportedVersions: ['2026-07-28'],
      capabilities: { tools: {}, resources: {}, prompts: {} },
      ttlMs: 0,
      _meta: { 'io.modelcontextprotocol/serverInfo': { name: 'sluice', version: expect.any(String) } },
    });
  });

  it.each([
    ['without MCP-Protocol-Version', { 'mcp-method': 'tools/list' }, 'MCP-Protocol-Version'],
    ['with another MCP-Protocol-Version', { ...HEADERS, 'mcp-protocol-version': LEGACY }, 'MCP-Protocol-Version'],
    ['without Mcp-Method', { 'mcp-protocol-version': '2026-07-28' }, 'Mcp-Method'],
    ['with another Mcp-Method', { ...HEADERS, 'mcp-method': 'tools/call' }, 'Mcp-Method'],
    ['with Mcp-Method in another case', { ...HEADERS, 'mcp-method': 'Tools/List' }, 'Mcp-Method'],
  ])('refuses a request %s', async (_what, headers, named) => {
    const answer = await list(META, headers);
    expect(answer.status).toBe(400);
    expect(errorOf(answer)).toEqual({ code: -32020, message: expect.stringContaining(named), id: 'm' });
  });

  it.each([
    ['tools/call', '{"name":"known"}'],
    ['prompts/get', '{"name":"known"}'],
    ['resources/read', '{"uri":"known"}'],
  ])('wants %s to be named in Mcp-Name', async (method, params) => {
    const client = modernClient(service.url());
    const plain = { _meta: META, ...JSON.parse(params) };
    const headers = { 'mcp-protocol-version': '2026-07-28', 'mcp-method': method };
    const missing = await post(service.url(), rpc(method, plain), headers);
    const wrong = await client.call(method, params, { 'mcp-name': 'other' });
    const garbled = await client.call(method, params, { 'mcp-name': '=?base64?%%%?=' });
    for (const answer of [missing, wrong, garbled]) {
      expect([answer.status, errorOf(answer).code]).toEqual([400, -32020]);
      expect(errorOf(answer).message).toContain('Mcp-Name');
    }
  });

  it.each(['grüße an alle', ' led by a blank', '=?base64?aGk=?=', 'known'])(
    'reads the name %j from Mcp-Name in its Base64 form',
    async (name) => {
      const encoded = `=?base64?${Buffer.from(name).toString('base64')}?=`;
      const answer = await modernClient(service.url()).call('tools/call', JSON.stringify({ name }), {
        'mcp-name': encoded,
      });
      if (name === 'known') expect(errorOf(answer).message).toContain('Method not found');
      else expect(errorOf(answer)).toMatchObject({ code: -32602, message: `tool not found: ${name}` });
    },
  );

  it.each(['2027-01-01', '2024-11-05', '1.0', ''])('refuses version %j and names those it speaks', async (version) => {
    const answer = await list({ ...META, [VERSION]: version }, { ...HEADERS, 'mcp-protocol-version': version });
    expect(answer.status).toBe(400);
    const { code, data, id } = errorOf(answer);
    expect([code, id]).toEqual([-32022, 'm']);
    expect(data).toEqual({ requested: version, supported: expect.arrayContaining(['2026-07-28']) });
  });

  it('refuses a version in the header alone that nobody speaks', async () => {
    const answer = await post(service.url(), LIST, { 'mcp-protocol-version': '1999-01-01' });
    expect([answer.status, errorOf(answer).code]).toEqual([400, -32022]);
  });

  it.each([
    ['is missing', undefined],
    ['is no object', 'x'],
    ['lacks capabilities', { [VERSION]: '2026-07-28' }],
    ['lacks the version', { [CAPABILITIES]: {} }],
    ['has capabilities that are no object', { ...META, [CAPABILITIES]: [] }],
    ['has a version that is no string', { ...META, [VERSION]: 20260728 }],
    ['has client info that is no object', { ...META, 'io.modelcontextprotocol/clientInfo': 'me' }],
  ])('refuses an envelope that %s', async (_what, meta) => {
    const answer = await list(meta);
    expect(answer.status).toBe(400);
    expect(errorOf(answer)).toMatchObject({ code: -32602, id: 'm' });
  });

  it.each(['no/such', 'initialize', 'logging/setLevel'])(
    'answers 404 to the method %s, which it does not have',
    async (method) => {
      const answer = await modernClient(service.url()).call(method);
      expect(answer.status).toBe(404);
      expect(errorOf(answer)).toEqual({ code: -32601, message: `method not found: ${method}`, id: 1 });
    },
  );

  it('keeps HTTP 200 for errors that have no status of their own', async () => {
    const answer = await modernClient(service.url()).call('tools/call', '{"name":"unknown"}');
    expect([answer.status, errorOf(answer)]).toEqual([
      200,
      { code: -32602, message: 'tool not found: unknown', id: 1 },
    ]);
  });
});

describe('the legacy era', () => {
  it('answers 200 to a method that it does not have, -32601 inside', async () => {
    for (const method of ['no/such', 'server/discover', 'toString', 'constructor']) {
      const answer = await post(service.url(), rpc(method));
      expect([answer.status, errorOf(answer)]).toEqual([
        200,
        { code: -32601, message: `method not found: ${method}`, id: 1 },
      ]);
    }
  });

  it.each(['2025-11-25', '2025-06-18', '2025-03-26', '2024-11-05'])(
    'speaks version %s with a client of it',
    async (version) => {
      const params = { protocolVersion: version, capabilities: {}, clientInfo: { name: 'c', version: '1' } };
      const answer = await post(service.url(), rpc('initialize', params));
      expect(JSON.parse(answer.text).result).toMatchObject({
        protocolVersion: version,
        capabilities: { tools: {}, resources: {}, prompts: {} },
        serverInfo: { name: 'sluice', version: expect.any(String) },
      });
      const session = String(answer.headers['mcp-session-id']);
      expect(session.length).toBeLessThanOrEqual(4096);
      expect(session).toMatch(/^[!-~]+$/);
      const listed = await post(service.url(), LIST, { 'mcp-session-id': session, 'mcp-protocol-version': version });
      expect(listed.status).toBe(200);
    },
  );

  it.each(['2099-01-01', '2026-07-28', ''])(
    'offers its latest version to a client that asks for %j',
    async (version) => {
      const params = { protocolVersion: version, capabilities: {}, clientInfo: { name: 'c', version: '1' } };
      const answer = await post(service.url(), rpc('initialize', params), {
        'mcp-protocol-version': version || '2099-01-01',
      });
      expect(JSON.parse(answer.text).result.protocolVersion).toBe('2025-11-25');
    },
  );

  it.each([
    ['no version', {}],
    ['a version that is no string', { protocolVersion: 1 }],
    ['capabilities that are no object', { protocolVersion: LEGACY, capabilities: [] }],
    ['client info that is no object', { protocolVersion: LEGACY, clientInfo: 'me' }],
    ['client info too large for a session id', { protocolVersion: LEGACY, clientInfo: { name: 'x'.repeat(4096) } }],
    [
      'capabilities too large for a session id',
      { protocolVersion: LEGACY, capabilities: { experimental: { x: 'x'.repeat(4096) } } },
    ],
  ])('refuses initialize with %s', async (_what, params) => {
    const answer = await post(service.url(), rpc('initialize', params));
    expect([answer.status, errorOf(answer).code]).toEqual([200, -32602]);
    expect(answer.headers['mcp-session-id']).toBeUndefined();
  });

  it('serves without a session what needs none', async () => {
    const listed = await post(service.url(), LIST, { 'mcp-protocol-version': LEGACY });
    expect(JSON.parse(listed.text).result).toEqual({ tools: [expect.objectContaining({ name: 'known' })] });
    expect((await post(service.url(), PING)).text).toBe('{"jsonrpc":"2.0","id":1,"result":{}}');
  });

  it.each(['tools/call', 'prompts/get', 'resources/read'])('asks %s for its missing name', async (method) => {
    const member = method === 'resources/read' ? 'uri' : 'name';
    for (const params of [{}, { [member]: 7 }, { [member]: null }]) {
      const answer = await post(service.url(), rpc(method, params));
      expect([answer.status, errorOf(answer)]).toEqual([
        200,
        { code: -32602, message: `missing required parameter: ${member}`, id: 1 },
      ]);
    }
  });

  it('says which tool, resource or prompt it does not know', async () => {
    const message = async (method: string, params: object) => errorOf(await post(service.url(), rpc(method, params)));
    expect(await message('tools/call', { name: 'constructor' })).toMatchObject({
      code: -32602,
      message: 'tool not found: constructor',
    });
    expect(await message('prompts/get', { name: 'p' })).toMatchObject({ code: -32602, message: 'prompt not found: p' });
    expect(await message('resources/read', { uri: 'x://r' })).toMatchObject({
      code: -32602,
      message: 'resource not found: x://r',
    });
  });
});

describe('a session id', () => {
  const gone = (answer: RawAnswer) => {
    expect(answer.status).toBe(404);
    expect(errorOf(answer)).toMatchObject({ code: -32600, id: 1, message: expect.stringContaining('initialize') });
  };
  const use = (session: string, headers: Record<string, string> = {}, url = service.url()) =>
    post(url, LIST, { 'mcp-session-id': session, ...headers });
  const open = async (url = service.url(), headers: Record<string, string> = {}): Promise<string> => {
    const params = { protocolVersion: LEGACY, capabilities: {}, clientInfo: { name: 'c', version: '1' } };
    return String((await post(url, rpc('initialize', params), headers)).headers['mcp-session-id']);
  };

  it('opens its session again and again', async () => {
    const session = await open();
    for (let i = 0; i < 3; i++) expect((await use(session)).status).toBe(200);
  });

  it('is of no use when it is forged or altered', async () => {
    const session = await open();
    const other = (character = '') => (character === 'A' ? 'B' : 'A');
    for (const forged of [
      'x',
      'null',
      session.slice(0, -1),
      `${session}A`,
      session.slice(0, -1) + other(session.at(-1)),
      other(session[0]) + session.slice(1),
    ]) {
      gone(await use(forged));
    }
    gone(await use('x'.repeat(5000)));
    expect((await use(session)).status).toBe(200);
  });

  it('is of no use in another namespace', async () => {
    const session = await open();
    gone(await use(session, {}, service.url('finance')));
    expect((await use(session)).status).toBe(200);
    gone(await use(session, {}, service.url('finance')));
  });

  it('is of no use to another user, or to none', async () => {
    const session = await open(service.url(), { 'x-forwarded-user': 'ann' });
    expect((await use(session, { 'x-forwarded-user': 'ann' })).status).toBe(200);
    gone(await use(session, { 'x-forwarded-user': 'bob' }));
    gone(await use(session));
    gone(await use(await open(), { 'x-forwarded-user': 'ann' }));
  });

  it('may be sent along when its client initialises anew', async () => {
    expect(await open(service.url(), { 'mcp-session-id': 'forgotten' })).toMatch(/^[!-~]{20,}$/);
  });

  it('is of no use after DELETE, and others go on', async () => {
    const [one, two] = [await open(), await open()];
    const ended = await send(service.url(), 'DELETE', { 'mcp-session-id': one });
    expect([ended.status, ended.text]).toEqual([204, '']);
    gone(await use(one));
    expect((await send(service.url(), 'DELETE', { 'mcp-session-id': one })).status).toBe(404);
    expect((await send(service.url(), 'GET', { 'mcp-session-id': one })).status).toBe(404);
    expect((await use(two)).status).toBe(200);
  });

  it('cannot be ended from another namespace or by another user', async () => {
    const session = await open(service.url(), { 'x-forwarded-user': 'ann' });
    const headers = { 'mcp-session-id': session };
    expect((await send(service.url(), 'DELETE', headers)).status).toBe(404);
    expect((await send(service.url('finance'), 'DELETE', { ...headers, 'x-forwarded-user': 'ann' })).status).toBe(404);
    expect((await use(session, { 'x-forwarded-user': 'ann' })).status).toBe(200);
  });

  it('is told that there is no notification stream to open', async () => {
    const answer = await send(service.url(), 'GET', { 'mcp-session-id': await open(), accept: 'text/event-stream' });
    expect([answer.status, answer.headers.allow]).toEqual([405, expect.stringContaining('POST')]);
  });

  it('is good for every process that has the same SERVICE_SESSION_KEY, and for no other', async () => {
    const key = { SERVICE_SESSION_KEY: 'ab'.repeat(32) };
    const [one, two] = await Promise.all([startTestService(key), startTestService(key)]);
    try {
      const session = await open(one.url());
      expect((await use(session, {}, two.url())).status).toBe(200);
      expect((await use(await open(two.url()), {}, one.url())).status).toBe(200);
      gone(await use(session));
    } finally {
      await Promise.all([one.stop(), two.stop()]);
    }
  });
});
