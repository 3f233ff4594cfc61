import { describe, expect, it, vi } from 'vitest';
import { liveTests, notification, responseTo } from '../../../../testing/live-tests.ts';
import type { LiveCall, LiveResponse, LiveUpstream } from '../../../../testing/live-upstream.ts';
import { startTestService } from '../../../../testing/service.ts';
import {
  clientOf,
  type ResponseReader,
  type SessionClient,
  sessionClient,
} from '../../../../testing/session-client.ts';

const { live, onEnd } = liveTests();

/** A session with a call in flight whose stream has begun. */
async function calling(client: SessionClient, upstream: LiveUpstream, id = '"c"', meta = '') {
  const reading = client.call(id, meta);
  const call = await upstream.calls.next();
  call.begin();
  return { reading, call };
}

async function begun(): Promise<{
  upstream: LiveUpstream;
  client: SessionClient;
  call: LiveCall;
  reading: ResponseReader;
}> {
  const { upstream, url } = await live();
  const client = await sessionClient(url);
  return { upstream, client, ...(await calling(client, upstream)) };
}

const idOf = (message: string | undefined): unknown => JSON.parse(message ?? '{}').id;

describe('a server request of an upstream', () => {
  it.each([
    ['sampling/createMessage', '{"messages":[{"role":"user","content":{"type":"text","text":"ä"}}],"maxTokens":1.0}'],
    ['elicitation/create', '{"mode":"form","message":"m","requestedSchema":{"type":"object","properties":{}},"x":1e2}'],
    ['elicitation/create', '{"mode":"url","message":"m","url":"https://example.com/a","elicitationId":"e-1"}'],
    ['roots/list', '{}'],
    ['ping', '{}'],
    ['example.com/ask', '{"n":9223372036854775807}'],
  ])('is relayed to the client that called, and the response back: %s %s', async (method, params) => {
    const { upstream, client, call, reading } = await begun();
    for (const [number, id] of ['7', '"seven \\u00e4"', '7.0'].entries()) {
      call.request(id, method, params);
      const pending = await reading.message(number);
      expect(pending).toBe(
        `{"jsonrpc":"2.0","id":${JSON.stringify(idOf(pending))},"method":"${method}","params":${params}}`,
      );
      expect(idOf(pending)).toBeTypeOf('string');
      const rest = `"result":{"n":1.0,"big":9223372036854775807,"id":"x"},"unknown":[ 1 ]`;
      const response = await client.post(`{ "id" : ${JSON.stringify(idOf(pending))},"jsonrpc":"2.0",${rest}}`);
      expect([response.status, response.text]).toEqual([202, '']);
      expect(upstream.answers()[number]).toBe(`{ "id" : ${id},"jsonrpc":"2.0",${rest}}`);
    }
    call.end('done');
    expect(JSON.parse(await reading.message(3))).toMatchObject({ id: 'c', result: { content: [{ text: 'done' }] } });
    expect(await reading.ended).toBe(true);
  });

  it('may be answered with an error, which is returned unchanged', async () => {
    const { upstream, client, call, reading } = await begun();
    call.request('1', 'elicitation/create');
    const error = '"error":{"code":-1,"message":"User rejected","data":{"n":1.0}}';
    await client.post(responseTo(await reading.message(0), error));
    expect(upstream.answers()).toEqual([`{"jsonrpc":"2.0","id":1,${error}}`]);
  });

  it('is answered in the upstream’s own session', async () => {
    const { upstream, client, call, reading } = await begun();
    call.request('1', 'roots/list');
    await client.post(responseTo(await reading.message(0)));
    expect(upstream.posted.at(-1)).toMatchObject({ session: call.session, method: undefined });
    expect(upstream.posted.at(-1)?.headers['mcp-protocol-version']).toBe('2025-11-25');
  });

  it('is sent on the stream of the call that caused it, among other calls in flight, and the response to the right upstream call', async () => {
    const { upstream, url } = await live();
    const clients = await Promise.all(Array.from({ length: 8 }, () => sessionClient(url)));
    const calls = await Promise.all(
      clients.flatMap((client, at) =>
        Array.from({ length: 10 }, async (_, number) => ({
          at,
          client,
          name: `${at}/${number}`,
          reading: client.call(String(number), `"name":"${at}/${number}"`),
        })),
      ),
    );
    const arrived = new Map<string, LiveCall>();
    for (const _ of calls) {
      const call = await upstream.calls.next();
      const { name } = JSON.parse(JSON.stringify(call.params))._meta;
      arrived.set(name, call);
      call.begin();
    }
    // All with the same id: ids are unique per upstream session.
    for (const [name, call] of [...arrived].reverse()) call.request('1', 'elicitation/create', `{"message":"${name}"}`);
    const ids = new Set<unknown>();
    for (const { client, name, reading } of calls) {
      const pending = await reading.message(0);
      expect(JSON.parse(pending).params.message).toBe(name);
      ids.add(idOf(pending));
      expect((await client.post(responseTo(pending, `"result":{"name":"${name}"}`))).status).toBe(202);
      const { session, body } = upstream.posted.at(-1) ?? {};
      expect(session).toBe(arrived.get(name)?.session);
      expect(JSON.parse(body ?? '')).toEqual({ jsonrpc: '2.0', id: 1, result: { name } });
    }
    expect(ids.size).toBe(80);
    for (const [name, call] of arrived) call.end(name);
    for (const { name, reading } of calls) {
      expect(await reading.ended).toBe(true);
      expect(reading.messages).toHaveLength(2);
      expect(reading.messages[1]).toContain(`"text":"${name}"`);
    }
  });

  it('cannot be answered by another session, without a session, or twice', async () => {
    const { upstream, client, call, reading } = await begun();
    call.request('1', 'elicitation/create');
    const response = responseTo(await reading.message(0), '"result":{"from":"thief"}');
    const thief = await sessionClient(client.url);
    const sessionless = clientOf(client.url, { 'mcp-protocol-version': '2025-11-25' });
    for (const other of [thief, sessionless]) expect((await other.post(response)).status).toBe(202);
    // Also from a session that has a call of its own.
    await calling(thief, upstream);
    expect((await thief.post(response)).status).toBe(202);
    expect(upstream.answers()).toEqual([]);

    const own = responseTo(await reading.message(0), '"result":{"from":"owner"}');
    for (const _ of [1, 2]) expect((await client.post(own)).status).toBe(202);
    expect(upstream.answers()).toEqual(['{"jsonrpc":"2.0","id":1,"result":{"from":"owner"}}']);
  });

  it('that does not exist can be answered with 202, without effect', async () => {
    const { upstream, client } = await begun();
    for (const id of ['1', '"x"', '"replica.1"']) {
      expect((await client.post(`{"jsonrpc":"2.0","id":${id},"result":{}}`)).status).toBe(202);
    }
    expect(upstream.answers()).toEqual([]);
  });

  it('whose response does not reach the upstream is answered with 502', async () => {
    const { upstream, client, call, reading } = await begun();
    call.request('1', 'roots/list');
    const response = responseTo(await reading.message(0));
    upstream.shut();
    const { status, text } = await client.post(response);
    expect(status).toBe(502);
    expect(JSON.parse(text)).toMatchObject({ id: null, error: { code: -32603 } });
  });

  it.each([400, 404, 500])('whose response the upstream rejects with %i is answered with an error', async (status) => {
    const { upstream, client, call, reading } = await begun();
    call.request('1', 'roots/list');
    const response = responseTo(await reading.message(0));
    if (status === 404) upstream.forgetSessions();
    else upstream.acceptStatus = status;
    expect((await client.post(response)).status).toBe(502);
  });

  it('beyond 32 pending ones is rejected', async () => {
    const { upstream, client, call, reading } = await begun();
    for (let number = 1; number <= 34; number++) call.request(String(number), 'roots/list');
    await expect.poll(() => upstream.answers().length).toBe(2);
    // Two connections: the order of arrival is not fixed.
    expect(
      upstream
        .answers()
        .map((response) => JSON.parse(response))
        .sort((a, b) => a.id - b.id),
    ).toEqual([33, 34].map((id) => ({ jsonrpc: '2.0', id, error: { code: -32601, message: expect.any(String) } })));
    await reading.message(31);
    expect(reading.messages).toHaveLength(32);
    // A response frees one of the 32.
    await client.post(responseTo(await reading.message(0)));
    call.request('35', 'roots/list');
    await reading.message(32);
  });

  it('is rejected for a client that accepts no streams or has no session', async () => {
    const { upstream, url } = await live();
    const client = await sessionClient(url);
    const json = client.call('1', '', { accept: 'application/json' });
    const first = await upstream.calls.next();
    const stateless = clientOf(url, { 'mcp-protocol-version': '2025-11-25' }).call('1');
    const second = await upstream.calls.next();
    for (const [call, reading] of [
      [first, json],
      [second, stateless],
    ] as const) {
      const before = upstream.answers().length;
      call.begin();
      call.request('"q"', 'sampling/createMessage');
      call.request('2', 'ping');
      await expect.poll(() => upstream.answers().length).toBe(before + 2);
      const responses = upstream.answers().slice(before);
      expect(responses).toContain('{"jsonrpc":"2.0","id":2,"result":{}}');
      expect(responses.map((response) => JSON.parse(response))).toContainEqual({
        jsonrpc: '2.0',
        id: 'q',
        error: { code: -32601, message: expect.any(String) },
      });
      call.end('done');
      expect(await reading.ended).toBe(true);
      expect(reading.text).not.toContain('sampling');
      expect(reading.text).toContain('done');
    }
  });

  it('canceled by the upstream is canceled with our id', async () => {
    const { upstream, client, call, reading } = await begun();
    call.request('"a"', 'elicitation/create');
    call.request('"b"', 'elicitation/create');
    const [a, b] = [await reading.message(0), await reading.message(1)];
    call.send(notification('cancelled', '{"requestId":"a","reason":"r","x":1.0}'));
    expect(await reading.message(2)).toBe(
      notification('cancelled', `{"requestId":${JSON.stringify(idOf(a))},"reason":"r","x":1.0}`),
    );
    expect((await client.post(responseTo(a))).status).toBe(202);
    expect(upstream.answers()).toEqual([]);
    await client.post(responseTo(b));
    expect(upstream.answers()).toEqual(['{"jsonrpc":"2.0","id":"b","result":{}}']);
    // For a request that is no longer pending, or never was.
    call.send(notification('cancelled', '{"requestId":"b"}'));
    call.send(notification('cancelled', '{"requestId":"c"}'));
    call.end('done');
    await reading.ended;
    expect(reading.messages).toHaveLength(4);
  });

  it('is canceled if its call ends before the response', async () => {
    const { upstream, client, call, reading } = await begun();
    call.request('1', 'elicitation/create');
    const pending = await reading.message(0);
    call.end('done');
    await reading.ended;
    expect(reading.messages.map((text) => JSON.parse(text))).toEqual([
      expect.anything(),
      {
        jsonrpc: '2.0',
        method: 'notifications/cancelled',
        params: { requestId: idOf(pending), reason: expect.any(String) },
      },
      expect.objectContaining({ id: 'c', result: expect.anything() }),
    ]);
    expect((await client.post(responseTo(pending))).status).toBe(202);
    expect(upstream.answers()).toEqual([]);
  });

  it('gets the client’s progress with the upstream’s own token', async () => {
    const { upstream, client, call, reading } = await begun();
    call.request('1', 'sampling/createMessage', '{"_meta":{"x":1.0,"progressToken":"t"},"maxTokens":1}');
    const pending = JSON.parse(await reading.message(0));
    const token = pending.params._meta.progressToken;
    expect(token).not.toBe('t');
    const progress = (of: unknown) =>
      notification('progress', `{"progressToken":${JSON.stringify(of)},"progress":0.50,"x":1.0}`);
    expect((await client.post(progress(token))).status).toBe(202);
    await expect.poll(() => upstream.of('notifications/progress').length).toBe(1);
    expect(upstream.of('notifications/progress')[0]).toMatchObject({ body: progress('t'), session: call.session });
    // Of no other request.
    await (await sessionClient(client.url)).post(progress(token));
    await client.post(progress('t'));
    await client.post(responseTo(JSON.stringify(pending)));
    await client.post(progress(token));
    expect(upstream.of('notifications/progress')).toHaveLength(1);
  });

  it('suspends the silence limit until it is answered', async () => {
    vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval', 'performance'] });
    const hasty = await startTestService({ SERVICE_UPSTREAM_IDLE_TIMEOUT_MS: '300' });
    onEnd(() => hasty.stop(0));
    onEnd(async () => void vi.useRealTimers());
    const { upstream, url } = await live({}, hasty);
    const client = await sessionClient(url);
    const { call, reading } = await calling(client, upstream);
    call.request('1', 'elicitation/create');
    const pending = await reading.message(0);
    // A call of the same age without server requests ends first, then another one that began when that one ended.
    for (const id of ['"x"', '"y"']) {
      const other = client.call(id);
      await upstream.calls.next();
      vi.advanceTimersByTime(400);
      expect(await other.ended).toBe(true);
      expect(other.text).toContain('sent nothing for 0.3 s');
    }
    expect(call.isDisconnected).toBe(false);
    await client.post(responseTo(pending));
    vi.advanceTimersByTime(300);
    await client.request('ping');
    expect(reading.messages).toHaveLength(1);
    vi.advanceTimersByTime(100);
    expect(await reading.message(1)).toContain('sent nothing for 0.3 s');
  });

  it('fails when the client’s session ends', async () => {
    const { upstream, client, call, reading } = await begun();
    call.request('1', 'elicitation/create');
    await reading.message(0);
    expect(await client.end()).toBe(204);
    await expect
      .poll(() => upstream.answers().map((response) => JSON.parse(response)))
      .toEqual([{ jsonrpc: '2.0', id: 1, error: { code: expect.any(Number), message: expect.any(String) } }]);
    call.end('done');
    await expect.poll(() => upstream.sessions.size).toBe(0);
  });
});

describe('a server request on the upstream’s notification stream', () => {
  it('is sent on the client’s notification stream, and the response returned', async () => {
    const { upstream, url } = await live();
    const [client, other] = [await sessionClient(url), await sessionClient(url)];
    const [listening, others] = [client.listen(), other.listen()];
    const streams: LiveResponse[] = [];
    for (const each of [client, other]) {
      const { reading, call } = await calling(each, upstream);
      call.end('done');
      await reading.ended;
      streams.push(await upstream.streams.next());
    }
    const [stream] = streams;
    if (!stream) throw new Error('both have a stream');
    stream.send('{"jsonrpc":"2.0","id":5,"method":"roots/list"}');
    const pending = await listening.message(0);
    expect(JSON.parse(pending)).toEqual({ jsonrpc: '2.0', id: expect.any(String), method: 'roots/list' });
    await other.post(responseTo(pending));
    expect(upstream.answers()).toEqual([]);
    await client.post(responseTo(pending, '"result":{"roots":[]}'));
    expect(upstream.answers()).toEqual(['{"jsonrpc":"2.0","id":5,"result":{"roots":[]}}']);
    expect(upstream.posted.at(-1)?.session).toBe(stream.session);
    expect(others.messages).toEqual([]);

    stream.send('{"jsonrpc":"2.0","id":6,"method":"roots/list"}');
    const second = await listening.message(1);
    stream.send(notification('cancelled', '{"requestId":6}'));
    expect(JSON.parse(await listening.message(2)).params.requestId).toBe(idOf(second));
    listening.disconnect();
    others.disconnect();
  });

  it('is one of at most 32; some more are rejected at a time, and the rest is not answered', async () => {
    const { upstream, url } = await live();
    const client = await sessionClient(url);
    const listening = client.listen();
    const { reading, call } = await calling(client, upstream);
    call.end('done');
    await reading.ended;
    const stream = await upstream.streams.next();
    upstream.acceptStatus = 0;
    for (let id = 1; id <= 100; id++) stream.send(`{"jsonrpc":"2.0","id":${id},"method":"ping"}`);
    stream.send(notification('example.com/last'));
    await listening.matching(/example\.com\/last/);
    expect(listening.messages).toHaveLength(33);
    const rejected = Array.from({ length: 16 }, (_, at) => `{"jsonrpc":"2.0","id":${33 + at},"result":{}}`);
    await expect.poll(() => upstream.answers().toSorted()).toEqual(rejected);
    await client.request('ping');
    expect(upstream.answers()).toHaveLength(16);
    listening.disconnect();
  });
});
