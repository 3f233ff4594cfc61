import { once } from 'node:events';
import { setTimeout as delay } from 'node:timers/promises';
import { MESSAGE_LIMITS } from '@sluice/protocol/mcp/message';
import { TokenSealer } from '@sluice/protocol/seal';
import { afterEach, describe, expect, it } from 'vitest';
import { listen } from '../../../../test/fixtures/http-server.ts';
import { messages, post, type RawResponse, send } from '../../../../test/fixtures/raw-client.ts';
import { textResultText, toolList, toolText } from '../../../../test/fixtures/raw-upstream/texts.ts';
import { rpc } from '../../testing/listener.ts';
import { lastCall, relayTests } from '../../testing/relay.ts';
import { openCall } from '../../testing/streamer.ts';
import { DEFAULT_LOG_FILTER } from '../app/config/environment.ts';
import { BodyBudget } from '../http/body-budget.ts';
import { compile } from '../http/chain.ts';
import { createHttpServer } from '../http/server.ts';
import { proxyHeaders } from '../identity/proxy-headers.ts';
import { createLogger } from '../telemetry/log.ts';
import { RequestMetrics } from '../telemetry/metrics/request-metrics.ts';
import { ServiceMetrics } from '../telemetry/metrics/service-metrics.ts';
import { RequestTelemetry } from '../telemetry/request-telemetry.ts';
import { McpExchange, type McpFilter } from './exchange.ts';
import { requestHandler } from './listener.ts';
import { mcp } from './methods/parse.ts';
import { OpenResponses } from './open-responses.ts';
import { EventStore } from './sessions/event-store.ts';

const tests = relayTests();
const url = () => tests.service.url();

const ONLY_JSON = { accept: 'application/json' };
const NO_BATCH = { code: -32600, message: 'batches are accepted only in 2025-03-26 sessions' };
const INITIALIZED = '{"jsonrpc":"2.0","method":"notifications/initialized"}';

/** The header of a new session of this version. */
async function session(version = '2025-03-26', at = url(), capabilities: object = {}): Promise<Record<string, string>> {
  const params = { protocolVersion: version, capabilities, clientInfo: { name: 'c', version: '1' } };
  const { headers } = await post(at, rpc('initialize', params));
  return { 'mcp-session-id': String(headers['mcp-session-id']) };
}

const batch = (...elements: readonly string[]) => `[${elements.join(',')}]`;
const answerOf = (text: string) => `{"content":[{"type":"text","text":"${text}"}],"resultType":"complete"}`;
const result = (id: string, value = '{}') => `{"jsonrpc":"2.0","id":${id},"result":${value}}`;
const error = (id: string, code: number, message: string) =>
  `{"jsonrpc":"2.0","id":${id},"error":${JSON.stringify({ code, message })}}`;
const ping = (id: string) => `{"jsonrpc":"2.0","id":${id},"method":"ping"}`;
const work = (id: string, meta = '') =>
  `{"jsonrpc":"2.0","id":${id},"method":"tools/call","params":{"name":"work","_meta":{${meta}}}}`;

/** A response that rejects the whole batch. */
function rejectionOf(response: RawResponse): [number, unknown] {
  const { id, error: reason } = JSON.parse(response.text);
  expect(id).toBeNull();
  return [response.status, reason];
}

/** Reads a response as it arrives; the messages of its events so far. */
async function reading(at: string, body: string, headers: Record<string, string>) {
  const response = await openCall(at, body, headers);
  let text = '';
  response.setEncoding('utf8').on('data', (chunk: string) => {
    text += chunk;
  });
  response.on('error', () => undefined);
  return {
    response,
    text: () => text,
    sofar: () =>
      messages({ status: 200, headers: response.headers, text: text.slice(0, text.lastIndexOf('\n\n') + 2) }),
  };
}

describe('a batch', () => {
  it('is answered with one stream of responses, in request order when none is delayed', async () => {
    const response = await post(
      url(),
      batch(ping('1'), INITIALIZED, ping('"b"'), rpc('no/such', {}, 3)),
      await session(),
    );
    expect([response.status, response.headers['content-type']]).toEqual([200, 'text/event-stream']);
    expect(messages(response)).toEqual([result('1'), result('"b"'), error('3', -32601, 'method not found: no/such')]);
  });

  it('is answered with one array for a client that does not accept streams', async () => {
    const body = `\n [ ${ping('1')} ,\t${INITIALIZED},${ping('2')}\n] `;
    const response = await post(url(), body, { ...(await session()), ...ONLY_JSON });
    expect([response.status, response.headers['content-type']]).toEqual([200, 'application/json']);
    expect(response.text).toBe(`[${result('1')},${result('2')}]`);
  });

  it.each(['1.0', '9223372036854775807', '"\\u0061\\/\\ud83d"', '"[{\\"id\\":2}]"'])(
    'echoes the id %s exactly as sent',
    async (id) => {
      const response = await post(
        url(),
        batch(ping(id), rpc('no/such').replace('"id":1', `"id":${id}`)),
        await session(),
      );
      expect(messages(response)).toEqual([result(id), error(id, -32601, 'method not found: no/such')]);
    },
  );

  it('carries the CORS headers, and no session or other header of a member', async () => {
    const headers = { ...(await session()), origin: 'http://localhost:3000' };
    for (const body of [batch(ping('1')), batch(INITIALIZED), batch('1'), '[]']) {
      const response = await post(url(), body, headers);
      expect(response.headers['access-control-allow-origin']).toBe('*');
      expect(response.headers['mcp-session-id']).toBeUndefined();
    }
  });

  it('may contain at most a hundred messages', async () => {
    const headers = await session();
    const pings = Array.from({ length: 101 }, (_, i) => ping(String(i)));
    const most = await post(url(), batch(...pings.slice(0, 100)), headers);
    expect(messages(most)).toEqual(Array.from({ length: 100 }, (_, i) => result(String(i))));
    expect(rejectionOf(await post(url(), batch(...pings), headers))).toEqual([
      400,
      { code: -32600, message: 'invalid request: batch of 101 messages; at most 100 are allowed' },
    ]);
  });

  it('that is empty is an invalid request', async () => {
    expect(rejectionOf(await post(url(), ' [ ] ', await session()))).toEqual([
      400,
      { code: -32600, message: 'invalid request: empty batch' },
    ]);
  });

  it.each([`[${ping('1')}`, `[${ping('1')},]`, `[${ping('1')}]]`, `${ping('1')},${ping('2')}`])(
    'that is not JSON is a parse error: %s',
    async (body) => {
      const [status, reason] = rejectionOf(await post(url(), body, await session()));
      expect([status, reason]).toEqual([400, expect.objectContaining({ code: -32700 })]);
    },
  );
});

describe('elements of a batch', () => {
  it.each([{}, ONLY_JSON])('rejects invalid messages one by one and serves the others (%o)', async (accept) => {
    const elements = [
      ping('1'),
      '{"jsonrpc":"1.0","id":"x","method":"ping"}',
      '{"jsonrpc":"2.0","id":{},"method":"ping"}',
      '{"jsonrpc":"2.0","id":4,"method":"ping","method":"tools/list"}',
      '7',
      'null',
      batch(ping('5')),
      '[]',
      rpc('tools/call', { name: 'none' }, 6),
      rpc('tools/call', {}, 7),
      ping('8'),
    ];
    const response = await post(url(), batch(...elements), { ...(await session()), ...accept });
    const bad = (id: string, reason: string) => error(id, -32600, `invalid request: ${reason}`);
    const expected = [
      result('1'),
      bad('"x"', 'member "jsonrpc" must be "2.0"'),
      bad('null', 'member "id" must be a string or an integer'),
      bad('null', 'duplicate member "method"'),
      bad('null', 'expected a JSON object'),
      bad('null', 'expected a JSON object'),
      bad('null', 'a batch in a batch'),
      bad('null', 'empty batch'),
      error('6', -32602, 'tool not found: none'),
      error('7', -32602, 'missing required parameter: name'),
      result('8'),
    ];
    expect(response.status).toBe(200);
    if (accept === ONLY_JSON) expect(response.text).toBe(batch(...expected));
    else expect(messages(response)).toEqual(expected);
  });

  it('cannot be initialize', async () => {
    const headers = await session();
    const opening = rpc('initialize', { protocolVersion: '2025-03-26', capabilities: {}, clientInfo: {} }, 'i');
    const response = await post(url(), batch(opening, ping('2')), headers);
    expect(messages(response)).toEqual([error('"i"', -32600, 'initialize must not be part of a batch'), result('2')]);
    expect(response.headers['mcp-session-id']).toBeUndefined();
  });

  it('without requests is accepted with 202', async () => {
    const headers = await session();
    const response = '{"jsonrpc":"2.0","id":5,"result":{}}';
    for (const body of [batch(INITIALIZED), batch(response), batch(INITIALIZED, response, response)]) {
      const result = await post(url(), body, headers);
      expect([result.status, result.text, result.headers['content-length']]).toEqual([202, '', '0']);
    }
  });

  it('without requests but with an error is 400 with the error', async () => {
    const response = await post(url(), batch(INITIALIZED, '7', '{"jsonrpc":"2.0","method":7}'), await session());
    expect([response.status, response.headers['content-type']]).toEqual([400, 'application/json']);
    expect(response.text).toBe(
      batch(
        error('null', -32600, 'invalid request: expected a JSON object'),
        error('null', -32600, 'invalid request: member "method" must be a string'),
      ),
    );
  });

  it('forwards messages unchanged, with the headers of the batch', async () => {
    const upstream = await tests.upstreamWith({
      'tools/call': ({ params }) => textResultText(JSON.stringify(params.arguments)),
    });
    const at = await tests.register(upstream.url);
    const headers = await session('2025-03-26', at);
    const call = (id: string, value: string) =>
      `{"jsonrpc":"2.0","id":${id},"method":"tools/call","params":{"name":"a","arguments":{"n": ${value}}}}`;
    const body = batch(call('1', '9223372036854775807'), call('2', '1.0'));
    const response = await post(at, body, { ...headers, 'x-service-hops': '3' });
    expect(
      messages(response)
        .map((one) => JSON.parse(one).id)
        .sort(),
    ).toEqual([1, 2]);
    expect(upstream.count('tools/call')).toBe(2);
    const texts = upstream.seen.filter(({ method }) => method === 'tools/call').map(({ body }) => body);
    expect(texts.some((text) => text.includes('{"n": 9223372036854775807}'))).toBe(true);
    expect(texts.some((text) => text.includes('{"n": 1.0}'))).toBe(true);
    expect(lastCall(upstream).headers['x-service-hops']).toBe('4');
    const looping = await post(at, body, { ...headers, 'x-service-hops': '8' });
    expect(messages(looping)).toEqual([error('1', -32603, 'forwarding loop'), error('2', -32603, 'forwarding loop')]);
    expect(upstream.count('tools/call')).toBe(2);
  });
});

describe('where batches are not accepted', () => {
  it.each(['2024-11-05', '2025-06-18', '2025-11-25'])('a session of %s is', async (version) => {
    const headers = await session(version);
    expect(rejectionOf(await post(url(), batch(ping('1')), headers))).toEqual([400, NO_BATCH]);
    // The client's protocol version header does not change the negotiated version.
    const claimed = { ...headers, 'mcp-protocol-version': '2025-03-26' };
    expect(rejectionOf(await post(url(), batch(ping('1')), claimed))).toEqual([400, NO_BATCH]);
  });

  it('no session and a modern request are', async () => {
    expect(rejectionOf(await post(url(), batch(ping('1'))))).toEqual([400, NO_BATCH]);
    const modern = { ...(await session()), 'mcp-protocol-version': '2026-07-28', 'mcp-method': 'ping' };
    expect(rejectionOf(await post(url(), batch(ping('1')), modern))).toEqual([400, NO_BATCH]);
  });

  it('runs no message of the batch', async () => {
    const upstream = await tests.upstreamWith();
    const at = await tests.register(upstream.url);
    const call = rpc('tools/call', { name: 'a' });
    await post(at, batch(call, call), await session('2025-06-18', at));
    await post(at, batch(call, call));
    expect(upstream.count('tools/call')).toBe(0);
  });

  it('returns 404 once for a session that is unknown, ended or of another namespace', async () => {
    const headers = await session();
    const other = await tests.register((await tests.upstreamWith()).url);
    const gone = [404, { code: -32600, message: 'session not found or ended: initialize again' }];
    const body = batch(ping('1'), ping('2'), INITIALIZED);
    expect(rejectionOf(await post(url(), body, { 'mcp-session-id': 'forged' }))).toEqual(gone);
    expect(rejectionOf(await post(other, body, headers))).toEqual(gone);
    // Also for `initialize`, which must be a request of its own.
    expect(rejectionOf(await post(url(), batch(rpc('initialize')), { 'mcp-session-id': 'forged' }))).toEqual(gone);
    await send(url(), 'DELETE', headers);
    expect(rejectionOf(await post(url(), body, headers))).toEqual(gone);
  });

  it('returns 404 once for a path without a namespace', async () => {
    const headers = await session();
    for (const at of [`${tests.service.mcp}/mcp`, tests.service.url('nowhere')]) {
      expect(rejectionOf(await post(at, batch(ping('1'), ping('2')), headers))[0]).toBe(404);
    }
  });
});

describe('calls in a batch', () => {
  it('run at the same time, and share the stream with their progress', async () => {
    const upstream = await tests.streamer();
    const at = await tests.register(upstream.url);
    const headers = await session('2025-03-26', at);
    const body = batch(work('"a"', '"progressToken":"ta"'), work('2', '"progressToken":7'), ping('3'));
    const opened = reading(at, body, headers);
    await expect.poll(() => upstream.calls.length).toBe(2);
    const [first, second] = upstream.calls;
    if (!first || !second) throw new Error('both have arrived');
    const { response, sofar, text } = await opened;
    expect(response.headers['content-type']).toBe('text/event-stream');
    // The response that has no dependency arrives first.
    await expect.poll(sofar).toEqual([result('3')]);

    expect(first.progressToken).not.toBe(second.progressToken);
    first.begin();
    second.begin();
    first.progress(0);
    await expect.poll(() => sofar().length).toBe(2);
    // On two connections: they need not arrive in the order in which they were sent.
    const [one, two] = sofar()[1]?.includes('"ta"') ? [first, second] : [second, first];
    const expected = [...sofar()];
    for (const [call, token, value] of [
      [one, '"ta"', 1],
      [two, '7', 1],
      [one, '"ta"', 2],
      [two, '7', 2],
    ] as const) {
      call.progress(value);
      expected.push(
        `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":${token},"progress":${value}}}`,
      );
      await expect.poll(sofar).toEqual(expected);
    }
    two.end('second');
    expected.push(result('2', answerOf('second')));
    await expect.poll(sofar).toEqual(expected);
    expect(response.readableEnded).toBe(false);
    one.end('first');
    await once(response, 'end');
    expect(sofar()).toEqual([...expected, result('"a"', answerOf('first'))]);
    // It cannot be resumed and has no event ids.
    expect(text()).not.toMatch(/^id:/m);
  });

  it('returns an array of responses without progress notifications', async () => {
    const upstream = await tests.streamer();
    const at = await tests.register(upstream.url);
    const headers = { ...(await session('2025-03-26', at)), ...ONLY_JSON };
    const responded = post(at, batch(work('1', '"progressToken":1'), work('2'), ping('3')), headers);
    await expect.poll(() => upstream.calls.length).toBe(2);
    const [one, two] = upstream.calls;
    one?.begin();
    one?.progress(1);
    two?.begin();
    two?.end('second');
    await expect.poll(() => two?.response.writableFinished).toBe(true);
    one?.end('first');
    const all: { id: unknown }[] = JSON.parse((await responded).text);
    expect(all.map(({ id }) => id).sort()).toEqual([1, 2, 3]);
    expect(all[0]?.id).toBe(3);
  });

  it('can be canceled by a notification in the same batch', async () => {
    const upstream = await tests.streamer();
    const at = await tests.register(upstream.url);
    const headers = await session('2025-03-26', at);
    // The upstream session exists.
    const first = upstream.next();
    const called = post(at, work('0'), headers);
    const call = await first;
    call.begin();
    call.end('x');
    await called;
    const cancel = '{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"a"}}';
    const response = await post(at, batch(work('"a"'), cancel, ping('2')), headers);
    expect(messages(response)).toEqual([result('2')]);
  });

  it('continue after the client disconnects', async () => {
    const upstream = await tests.streamer();
    const at = await tests.register(upstream.url);
    const headers = await session('2025-03-26', at);
    const opened = reading(at, batch(work('1', '"progressToken":1'), work('2', '"progressToken":2')), headers);
    await expect.poll(() => upstream.calls.length).toBe(2);
    const [one, two] = upstream.calls;
    one?.begin();
    two?.begin();
    one?.progress(1);
    const { response } = await opened;
    response.destroy();
    await once(response, 'close');
    // Enough round trips to detect a disconnect.
    for (let i = 0; i < 5; i++) await post(at, ping('9'), headers);
    one?.progress(2);
    one?.end('x');
    two?.end('x');
    await expect.poll(() => [one, two].map((call) => call?.response.writableFinished)).toEqual([true, true]);
    expect([one?.isDisconnected, two?.isDisconnected]).toEqual([false, false]);
    expect(tests.service.log.filter((line) => line.includes('request failed'))).toEqual([]);
  });

  it.each([true, false])(
    'start once the client has read the lists before them, or is gone (reads: %s)',
    async (reads) => {
      const tools = Array.from({ length: 4_000 }, (_, at) => toolText(`t${at}`, `,"x":"${'p'.repeat(300)}"`));
      const upstream = await tests.upstreamWith({ 'tools/list': toolList(tools.join(',')) });
      const at = await tests.register(upstream.url);
      const headers = await session('2025-03-26', at);
      // Large, and in memory.
      const { length } = (await post(at, rpc('tools/list'), headers)).text;
      const lists = Array.from({ length: 30 }, (_, id) => rpc('tools/list', {}, id));
      const response = await openCall(at, batch(...lists, rpc('tools/call', { name: 't1' }, 99)), headers);
      response.on('error', () => undefined);
      await delay(300);
      expect(upstream.count('tools/call')).toBe(0);
      if (reads) {
        const ids: number[] = [];
        let text = '';
        for await (const chunk of response) text += chunk;
        for (const one of messages({ status: 200, headers: response.headers, text })) ids.push(JSON.parse(one).id);
        expect(ids).toEqual([...lists.keys(), 99]);
        expect(text.length).toBeGreaterThan(30 * length);
      } else response.destroy();
      await expect.poll(() => upstream.count('tools/call')).toBe(1);
      const path = new URL(at).pathname;
      // The access log has all of them.
      const logged = () => tests.service.log.filter((line) => line.includes('"in_batch":true') && line.includes(path));
      await expect.poll(() => logged().length).toBe(31);
    },
  );

  it('support server requests, with client responses in a batch', async () => {
    const upstream = await tests.streamer();
    const at = await tests.register(upstream.url);
    const headers = await session('2025-03-26', at, { roots: {} });
    const opened = reading(at, batch(work('1'), work('2')), headers);
    await expect.poll(() => upstream.calls.length).toBe(2);
    const [one, two] = upstream.calls;
    one?.begin();
    two?.begin();
    one?.event('{"jsonrpc":"2.0","id":"q1","method":"roots/list"}');
    two?.event('{"jsonrpc":"2.0","id":"q2","method":"roots/list"}');
    const { response, sofar } = await opened;
    await expect.poll(() => sofar().length).toBe(2);
    const requested: { id: unknown; method: string }[] = sofar().map((text) => JSON.parse(text));
    expect(requested.map(({ method }) => method)).toEqual(['roots/list', 'roots/list']);
    const responses = requested.map(({ id }) => result(JSON.stringify(id), '{"roots":[]}'));
    const taken = await post(at, batch(...responses), headers);
    expect([taken.status, taken.text]).toEqual([202, '']);
    const received = upstream.posted.map(({ body }) => body);
    expect(received).toContain(result('"q1"', '{"roots":[]}'));
    expect(received).toContain(result('"q2"', '{"roots":[]}'));
    one?.end('x');
    two?.end('x');
    await once(response, 'end');
  });
});

describe('every message of a batch', () => {
  const ends: (() => void)[] = [];
  afterEach(() => {
    for (const end of ends.splice(0)) end();
  });

  /** Address of a listener whose chain accepts every batch and has this as its last filter. */
  async function listening(last: McpFilter): Promise<string> {
    const log = createLogger(DEFAULT_LOG_FILTER, () => undefined);
    const telemetry = new RequestTelemetry('mcp', 'service::mcp::access', {
      metrics: new RequestMetrics(),
      logger: log,
      tracing: undefined,
    });
    const options = {
      chain: compile(
        [
          { name: 'mcp', filter: mcp({ on_invalid: 'continue', max_body_bytes: 4096 }, MESSAGE_LIMITS, () => false) },
          { name: 'batches', filter: (exchange) => exchange.batch },
          { name: 'last', filter: last },
        ],
        new ServiceMetrics(),
      ),
      telemetry,
      mcp: {
        events: new EventStore(new TokenSealer(Buffer.alloc(32)), 'r'),
        openResponses: new OpenResponses(),
        maxRequestBytes: 1024,
        bodies: new BodyBudget(),
        namespaceAt: () => 'default',
        readsBody: () => true,
      },
      log: log.target('service::mcp'),
    };
    const connection = { authenticate: proxyHeaders(), tls: undefined, readTimeoutMs: 0, maxConnections: undefined };
    const server = createHttpServer(
      {
        ...connection,
        guard: () => undefined,
        telemetry,
        createExchange: (head, request, response) => new McpExchange(head, request, response),
      },
      requestHandler(options),
    );
    ends.push(() => {
      server.close();
      server.closeAllConnections();
    });
    return `http://127.0.0.1:${await listen(server, 0)}/x/mcp`;
  }

  it('runs each message through the chain as if it had been sent alone', async () => {
    const seen: unknown[] = [];
    const at = await listening(({ head, path, headers, message, metadata, session: opened }) => {
      seen.push([head.method, path, headers['x-a'], message?.text, metadata.get('mcp.method'), opened]);
      metadata.set('mcp.method', 'changed');
      return { kind: 'result', json: '{}', headers: ['X-B', 'b'] };
    });
    const response = await post(`${at}?q=1`, `[ ${ping('1')} , ${INITIALIZED} ]`, { 'x-a': 'a' });
    expect(seen).toEqual([
      ['POST', '/x/mcp', 'a', ping('1'), 'ping', undefined],
      ['POST', '/x/mcp', 'a', INITIALIZED, 'notifications/initialized', undefined],
    ]);
    expect(response.headers['x-b']).toBeUndefined();
  });

  it('has the principal of the request', async () => {
    const seen: unknown[] = [];
    const at = await listening(({ principal }) => {
      seen.push(principal);
      return { kind: 'result', json: '{}' };
    });
    await post(at, `[ ${ping('1')} , ${INITIALIZED} ]`, { 'x-forwarded-user': 'ann' });
    const [first] = seen;
    expect(first).toMatchObject({ key: 'user:ann' });
    expect(seen.map((each) => each === first)).toEqual([true, true]);
  });

  it('isolates a failing message from the others', async () => {
    const at = await listening(({ message }) => {
      const method = message && 'method' in message ? message.method : '';
      if (method === 'throw') throw new Error('secret');
      if (method === 'reject') return Promise.reject(new Error('secret'));
      const stream = {
        kind: 'deferred',
        start: () => {
          throw new Error('secret');
        },
      } as const;
      if (method === 'start') return stream;
      return method === 'wait'
        ? Promise.resolve({ kind: 'result', json: '"late"' })
        : { kind: 'result', json: '"now"' };
    });
    const methods = ['throw', 'reject', 'wait', 'start', 'other'];
    const response = await post(at, batch(...methods.map((method) => rpc(method, {}, method))));
    const failed = (id: string) => error(id, -32603, 'internal error');
    expect([...messages(response)].sort()).toEqual(
      [
        failed('"throw"'),
        failed('"reject"'),
        failed('"start"'),
        result('"wait"', '"late"'),
        result('"other"', '"now"'),
      ].sort(),
    );
  });
});
