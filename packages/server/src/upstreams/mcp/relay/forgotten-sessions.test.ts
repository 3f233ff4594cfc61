import { once } from 'node:events';
import { createServer } from 'node:http';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { readBody } from '../../../../../../test/fixtures/http-server.ts';
import { legacyClient, modernClient, post, type RawClient, reply } from '../../../../../../test/fixtures/raw-client.ts';
import { propertyRuns, testSeed } from '../../../../../../test/fixtures/seed.ts';
import { liveTests } from '../../../../testing/live-tests.ts';
import { errorOf } from '../../../../testing/relay.ts';

const tests = liveTests();
const { register, onEnd } = tests;

/** How an upstream responds; `$id` in the body is the id of the request. */
interface Reply {
  readonly status: number;
  readonly type: string;
  readonly body: string;
  /** The connection is reset after so many bytes of the body, or the body never ends. */
  readonly ends?: 'reset' | 'never';
}

const TOOL = '{"name":"a","inputSchema":{"type":"object"}}';

/**
 * A legacy upstream with sessions. `rejection` is its response to a request in an unknown session, `onCall` that to a call,
 * which it has executed by then.
 */
async function statefulUpstream(rejection: Reply, onCall?: () => Reply | undefined, rejected: readonly string[] = []) {
  const rejects = new Set(rejected);
  const sessions = new Set<string>();
  const seen: { readonly method: string; readonly session: string }[] = [];
  let tools = TOOL;
  const server = createServer(async (request, response) => {
    const body = await readBody(request);
    const { id, method = request.method ?? '' } = body === '' ? {} : JSON.parse(body);
    const session = String(request.headers['mcp-session-id'] ?? '');
    seen.push({ method, session });
    const send = ({ status, type, body: text, ends }: Reply) => {
      const content = text.replaceAll('$id', String(id));
      response.writeHead(status, { 'content-type': type });
      if (!ends) return response.end(content);
      return response.write(content, () => {
        if (ends === 'reset') setImmediate(() => response.destroy());
      });
    };
    const result = (json: string) =>
      send({ status: 200, type: 'application/json', body: `{"jsonrpc":"2.0","id":$id,"result":${json}}` });
    if (request.headers['mcp-protocol-version'] === '2026-07-28') {
      return send({
        status: 404,
        type: 'application/json',
        body: '{"jsonrpc":"2.0","id":$id,"error":{"code":-32601,"message":"no"}}',
      });
    }
    if (rejects.has(method)) return send({ status: 403, type: 'text/plain', body: 'forbidden' });
    if (method === 'initialize') {
      const opened = `s-${sessions.size}-${seen.length}`;
      sessions.add(opened);
      response.setHeader('mcp-session-id', opened);
      return result(
        '{"protocolVersion":"2025-11-25","capabilities":{"tools":{"listChanged":true}},"serverInfo":{"name":"s","version":"1"}}',
      );
    }
    if (!sessions.has(session)) return send(rejection);
    if (request.method === 'GET')
      return response.writeHead(200, { 'content-type': 'text/event-stream' }).flushHeaders();
    if (request.method === 'DELETE' || id === undefined) return response.writeHead(202).end();
    if (method === 'tools/list') return result(`{"tools":[${tools}]}`);
    if (method !== 'tools/call') return result('{}');
    const scripted = onCall?.();
    return scripted ? send(scripted) : result(`{"content":[{"type":"text","text":"${session}"}]}`);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  onEnd(async () => {
    server.closeAllConnections();
    server.close();
  });
  const address = server.address();
  return {
    url: `http://127.0.0.1:${typeof address === 'object' ? address?.port : 0}/mcp`,
    seen,
    /** Methods that get 403. */
    rejects,
    count: (method: string) => seen.filter((one) => one.method === method).length,
    /** Forgets all sessions, as in a restart. */
    restart: (newTools = TOOL) => {
      sessions.clear();
      tools = newTools;
    },
  };
}

/** A client without a session of its own. */
function statelessClient(url: string): RawClient {
  const headers = { 'mcp-protocol-version': '2025-11-25' };
  const call: RawClient['call'] = (method, params = '{}') =>
    post(url, `{"jsonrpc":"2.0","id":1,"method":"${method}","params":${params}}`, headers);
  return { headers, call };
}

const CLIENTS: readonly (readonly [string, (url: string) => RawClient | Promise<RawClient>])[] = [
  ['a client with a session', (url) => legacyClient(url)],
  ['a client without a session', statelessClient],
  ['a modern client', (url) => modernClient(url)],
];

/** Responses of servers to a session that they do not know. */
const REJECTIONS: readonly (readonly [string, Reply])[] = [
  ['404', { status: 404, type: 'text/plain', body: '' }],
  ['404 and a web page', { status: 404, type: 'text/html', body: '<!doctype html><title>Not Found</title>' }],
  [
    '404 and JSON-RPC',
    {
      status: 404,
      type: 'application/json',
      body: '{"jsonrpc":"2.0","id":$id,"error":{"code":-32001,"message":"Session not found"}}',
    },
  ],
  ['400 without a type', { status: 400, type: '', body: 'Bad Request: No valid session ID provided' }],
  ['400 and text', { status: 400, type: 'text/plain', body: 'Invalid or missing session ID' }],
  ['400 and JSON', { status: 400, type: 'application/json', body: '{"error":"Invalid session ID"}' }],
  [
    '400 and a problem',
    {
      status: 400,
      type: 'application/problem+json',
      body: '{"title":"Bad Request","detail":"Session has been terminated"}',
    },
  ],
  [
    '400 and the JSON of a web framework',
    {
      status: 400,
      type: 'application/json',
      body: '{"statusCode":400,"message":"Session has expired. Please re-initialize!","error":"Bad Request"}',
    },
  ],
  ['400 and a code', { status: 400, type: 'application/json', body: '{"error":"SessionNotFound"}' }],
  ['400 and other words', { status: 400, type: 'text/plain', body: 'No such session' }],
  [
    '400 and JSON-RPC of a server',
    {
      status: 400,
      type: 'application/json',
      body: '{"jsonrpc":"2.0","id":"server-error","error":{"code":-32600,"message":"Bad Request: Invalid or expired session ID"}}',
    },
  ],
  [
    '400 and JSON-RPC',
    {
      status: 400,
      type: 'application/json',
      body: '{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"Bad Request: No valid session ID provided"}}',
    },
  ],
];

describe.each(REJECTIONS)('an upstream that responds to a lost session with %s', (_name, rejection) => {
  it.each(CLIENTS)('gets the call of %s again in a new session, once', async (_who, open) => {
    const upstream = await statefulUpstream(rejection);
    const client = await open(await register(upstream.url));
    expect(reply(await client.call('tools/call', '{"name":"a"}'))).toContain('"text":"s-');
    upstream.restart();
    const before = upstream.count('tools/call');
    expect(reply(await client.call('tools/call', '{"name":"a"}'))).toContain('"text":"s-');
    expect(reply(await client.call('tools/call', '{"name":"a"}'))).toContain('"text":"s-');
    expect(upstream.count('tools/call')).toBe(before + 3);
  });

  it('is watched and discovered again', async () => {
    const upstream = await statefulUpstream(rejection);
    const url = await register(upstream.url);
    const namespace = new URL(url).pathname.split('/')[1] ?? '';
    await expect.poll(() => upstream.count('GET')).toBeGreaterThan(0);
    upstream.restart(TOOL.replace('"a"', '"b"'));
    const { status } = await post(`${tests.service.management}/api/v1/forwards/${namespace}/refreshes`, '{}');
    expect(status).toBe(200);
    expect(reply(await modernClient(url).call('tools/list'))).toContain('"name":"b"');
  });
});

/** Errors of an upstream that has executed the call, and lost the session or says so of another one. */
const LOST: readonly (readonly [string, Reply])[] = [
  [
    '-32602 that names the session',
    {
      status: 200,
      type: 'application/json',
      body: '{"jsonrpc":"2.0","id":$id,"error":{"code":-32602,"message":"Invalid params: Invalid or expired session"}}',
    },
  ],
  [
    '-32001',
    {
      status: 200,
      type: 'application/json',
      body: '{"jsonrpc":"2.0","id":$id,"error":{"code":-32001,"message":"Session not found"}}',
    },
  ],
  [
    '-32600',
    {
      status: 200,
      type: 'application/json',
      body: '{"jsonrpc":"2.0","id":$id,"error":{"code":-32600,"message":"Server not initialized"}}',
    },
  ],
  [
    'an event',
    {
      status: 200,
      type: 'text/event-stream',
      body: 'data: {"jsonrpc":"2.0","id":$id,"error":{"code":-32001,"message":"Session not found"}}\n\n',
    },
  ],
  [
    '410',
    {
      status: 410,
      type: 'application/json',
      body: '{"jsonrpc":"2.0","id":$id,"error":{"code":-32001,"message":"gone"}}',
    },
  ],
];

it.each(LOST)(
  'an error that names the session (%s) is relayed, and the next call is in a new session',
  async (_name, error) => {
    let isLost = false;
    const upstream = await statefulUpstream(error, () => (isLost ? error : undefined));
    const client = await legacyClient(await register(upstream.url));
    const first = reply(await client.call('tools/call', '{"name":"a"}'));
    isLost = true;
    const before = upstream.count('tools/call');
    const failed = await client.call('tools/call', '{"name":"a"}');
    expect(errorOf(failed).code).toBe(
      JSON.parse(/\{.*\}/.exec(error.body)?.[0].replace('$id', '1') ?? '{}').error.code,
    );
    expect(upstream.count('tools/call')).toBe(before + 1);
    isLost = false;
    const next = reply(await client.call('tools/call', '{"name":"a"}'));
    expect(next).toContain('"text":"s-');
    expect(next).not.toBe(first);
  },
);

/** Responses that may say that a call was executed, if they are read to their end. */
const CUT_OFF: readonly (readonly [string, Reply])[] = [
  [
    '404 and a part of an error',
    {
      status: 404,
      type: 'application/json',
      body: '{"jsonrpc":"2.0","id":$id,"error":{"code":-32002,"message":"Custo',
      ends: 'reset',
    },
  ],
  ['404 without the body', { status: 404, type: 'application/json', body: '', ends: 'reset' }],
  ['400 and a part of a text', { status: 400, type: 'text/plain', body: 'Invalid session', ends: 'reset' }],
];

it.each(CUT_OFF)('a call is not sent again after a response that is cut off (%s)', async (_name, cut) => {
  let isCut = false;
  const upstream = await statefulUpstream(cut, () => (isCut ? cut : undefined));
  const client = await legacyClient(await register(upstream.url));
  await client.call('tools/call', '{"name":"a"}');
  isCut = true;
  const before = upstream.count('tools/call');
  expect(errorOf(await client.call('tools/call', '{"name":"a"}')).code).toBe(-32603);
  expect(upstream.count('tools/call')).toBe(before + 1);
});

it('an error with the id of its call has run, whatever its form', async () => {
  const error: Reply = {
    status: 404,
    type: 'application/json',
    body: '{"jsonrpc":"2.0","id":$id,"error":"Customer 4711 not found"}',
  };
  const upstream = await statefulUpstream(error, () => error);
  const client = await legacyClient(await register(upstream.url));
  expect(errorOf(await client.call('tools/call', '{"name":"a"}')).message).toContain('Customer 4711 not found');
  expect(upstream.count('tools/call')).toBe(1);
});

it('a session works on whose upstream rejects pings, and nothing is replaced', async () => {
  const failure: Reply = { status: 500, type: 'text/plain', body: 'broken' };
  let fails = false;
  const upstream = await statefulUpstream(failure, () => (fails ? failure : undefined), ['ping']);
  const client = await legacyClient(await register(upstream.url));
  const first = JSON.parse(reply(await client.call('tools/call', '{"name":"a"}'))).result;
  fails = true;
  await client.call('tools/call', '{"name":"a"}');
  fails = false;
  expect(JSON.parse(reply(await client.call('tools/call', '{"name":"a"}'))).result).toEqual(first);
});

it('an upstream that opens no session during a check does not end the service', async () => {
  const failure: Reply = { status: 500, type: 'text/plain', body: 'broken' };
  const upstream = await statefulUpstream(failure, undefined, []);
  const client = await legacyClient(await register(upstream.url));
  await client.call('tools/call', '{"name":"a"}');
  upstream.restart();
  upstream.rejects.add('initialize');
  expect(errorOf(await client.call('tools/call', '{"name":"a"}')).code).toBe(-32603);
  await expect.poll(() => upstream.count('initialize')).toBeGreaterThan(1);
  upstream.rejects.delete('initialize');
  await client.call('tools/call', '{"name":"a"}');
  expect((await fetch(`${tests.service.management}/healthz`)).status).toBe(200);
});

/** Responses that do not name the session. */
const UNNAMED: readonly Reply[] = [
  { status: 401, type: 'text/plain', body: 'Unauthorized' },
  { status: 403, type: 'application/json', body: '{"error":"forbidden"}' },
  { status: 500, type: 'text/html', body: '<h1>Internal Server Error</h1>' },
  {
    status: 500,
    type: 'application/json',
    body: '{"jsonrpc":"2.0","id":$id,"error":{"code":-32603,"message":"cannot read properties of undefined"}}',
  },
];

describe.each(UNNAMED)('a response that does not name the session ($status, $type)', (unnamed) => {
  it('leads to a new session if the upstream has lost it', async () => {
    const upstream = await statefulUpstream(unnamed);
    const client = await legacyClient(await register(upstream.url));
    await client.call('tools/call', '{"name":"a"}');
    upstream.restart();
    const before = upstream.count('tools/call');
    expect(errorOf(await client.call('tools/call', '{"name":"a"}')).code).toBe(-32603);
    expect(upstream.count('tools/call')).toBe(before + 1);
    expect(reply(await client.call('tools/call', '{"name":"a"}'))).toContain('"text":"s-');
  });

  it('does not lose a session that works', async () => {
    let fails = false;
    const upstream = await statefulUpstream(unnamed, () => (fails ? unnamed : undefined));
    const client = await legacyClient(await register(upstream.url));
    const first = JSON.parse(reply(await client.call('tools/call', '{"name":"a"}'))).result;
    fails = true;
    for (let count = 0; count < 3; count++) await client.call('tools/call', '{"name":"a"}');
    fails = false;
    expect(JSON.parse(reply(await client.call('tools/call', '{"name":"a"}'))).result).toEqual(first);
  });
});

/** Responses that reject a session in words that may also be those of an upstream's business. */
const OTHER_WORDS: readonly Reply[] = ['$id', 'null', '"server-error"'].flatMap((id) =>
  [400, 422, 200].map((status) => ({
    status,
    type: 'application/json',
    body: `{"jsonrpc":"2.0","id":${id},"error":{"code":-32000,"message":"No live session for this client"}}`,
  })),
);

describe.each(OTHER_WORDS)('a rejection in other words ($status, $body)', (rejection) => {
  it.each(CLIENTS)('is relayed to %s, and the next call is in a new session', async (_who, open) => {
    const upstream = await statefulUpstream(rejection);
    const client = await open(await register(upstream.url));
    await client.call('tools/call', '{"name":"a"}');
    upstream.restart();
    const before = upstream.count('tools/call');
    expect(errorOf(await client.call('tools/call', '{"name":"a"}'))).toMatchObject({
      code: -32000,
      message: 'No live session for this client',
    });
    expect(upstream.count('tools/call')).toBe(before + 1);
    expect(reply(await client.call('tools/call', '{"name":"a"}'))).toContain('"text":"s-');
  });

  it('of the business does not lose a session that works', async () => {
    let fails = false;
    const upstream = await statefulUpstream(rejection, () => (fails ? rejection : undefined));
    const client = await legacyClient(await register(upstream.url));
    const first = JSON.parse(reply(await client.call('tools/call', '{"name":"a"}'))).result;
    fails = true;
    const before = upstream.count('tools/call');
    for (let count = 0; count < 3; count++) await client.call('tools/call', '{"name":"a"}');
    expect(upstream.count('tools/call')).toBe(before + 3);
    fails = false;
    expect(JSON.parse(reply(await client.call('tools/call', '{"name":"a"}'))).result).toEqual(first);
  });
});

/** Texts, and whether they reject a session of the protocol and nothing else. */
const TEXTS: readonly (readonly [string, boolean])[] = [
  ['Session not found', true],
  ['Bad Request: No valid session ID provided', true],
  ['Invalid or missing session ID', true],
  ['MCP session has expired', true],
  ['Not Found: session terminated', true],
  ['Session is no longer valid', true],
  ['Session could not be found', true],
  ['No transport found for sessionId', true],
  ['Session with ID "7" could not be found', false],
  ['Session could not be closed', false],
  ['Session cannot be terminated', false],
  ['Cannot initialize session', false],
  ['Please initialize the session', false],
  ['Session timed out', false],
  ['Payment provider rejected the card', false],
  ['Customer 4711 not found', false],
  ['checkout session expired', false],
  ['Browser session 7 not found', false],
  ['The chat session has been closed by the agent', false],
  ['No valid coupon provided', false],
  ['invalid id', false],
  ['session', false],
  ['', false],
];

const combination = fc.record({
  status: fc.constantFrom(200, 202, 400, 401, 402, 403, 404, 405, 409, 410, 418, 422, 429, 500, 501, 502, 503),
  type: fc.constantFrom(
    'application/json',
    'text/plain',
    '',
    'text/html',
    'text/event-stream',
    'application/problem+json',
  ),
  text: fc.constantFrom(...TEXTS),
  form: fc.constantFrom('text', 'error', 'message', 'rpc', 'rpc', 'rpc'),
  id: fc.constantFrom('$id', '$id', 'null', '"server-error"', '0', '"$id"'),
  code: fc.constantFrom(-32000, -32001, -32600, -32602, -32603, 4711),
  client: fc.nat(2),
});

it('a call is executed exactly once, unless the upstream has rejected its session', { timeout: 240_000 }, async () => {
  let response: Reply | undefined;
  const upstream = await statefulUpstream({ status: 404, type: '', body: '' }, () => response);
  const url = await register(upstream.url);
  await fc.assert(
    fc.asyncProperty(combination, async ({ status, type, text: [text, isRejection], form, id, code, client }) => {
      const quoted = JSON.stringify(text);
      const rpc = `{"jsonrpc":"2.0","id":${id},"error":{"code":${code},"message":${quoted}}}`;
      const content = { text, error: `{"error":${quoted}}`, message: `{"message":${quoted}}`, rpc }[form] ?? '';
      const body = type === 'text/event-stream' ? `data: ${content}\n\n` : content;
      const isOwn = form === 'rpc' && id.includes('$id');
      const isStream = type === 'text/event-stream' && content !== '';
      const isRead = !isStream || (form === 'rpc' && id !== '0');
      const isUnknown = (status === 404 && (!isOwn || isRejection)) || (status === 400 && isRejection && isRead);
      response = undefined;
      const open = CLIENTS[client]?.[1] ?? statelessClient;
      const caller = await open(url);
      response = { status, type, body };
      const before = upstream.count('tools/call');
      await caller.call('tools/call', '{"name":"a"}');
      expect(upstream.count('tools/call') - before).toBe(isUnknown ? 2 : 1);
    }),
    { numRuns: propertyRuns(5_000), seed: testSeed() },
  );
});
