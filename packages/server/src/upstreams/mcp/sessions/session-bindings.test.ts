import { createServer } from 'node:http';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { listen, readBody } from '../../../../../../test/fixtures/http-server.ts';
import { liveTests, notification } from '../../../../testing/live-tests.ts';
import type { LiveUpstream } from '../../../../testing/live-upstream.ts';
import { type SessionClient, sessionClient } from '../../../../testing/session-client.ts';

const tests = liveTests();
const { live, onEnd, register } = tests;

const subscribe = (client: SessionClient, uri: string) =>
  client.request('resources/subscribe', JSON.stringify({ uri }));
const unsubscribe = (client: SessionClient, uri: string) =>
  client.request('resources/unsubscribe', JSON.stringify({ uri }));
const updated = (uri: string) => notification('resources/updated', `{"uri":"${uri}"}`);
const list = (count: number) => Array.from({ length: count }, (_, n) => `a://${n}`);

afterEach(() => {
  vi.useRealTimers();
});

/** Calls the upstream's tool, and returns its response. */
async function call(client: SessionClient, upstream: LiveUpstream): Promise<string> {
  const reading = client.call('"x"');
  const arrived = await upstream.calls.next();
  arrived.json('x');
  await reading.ended;
  return arrived.session;
}

/** Params of the calls of a method in the sessions of clients, in order. */
function pending(upstream: LiveUpstream, method: string, param: string): unknown[] {
  return upstream.of(method).map(({ params }) => params[param]);
}

interface Streamless {
  readonly url: string;
  /** Sessions that were opened for clients, with the time. */
  readonly opened: { readonly session: string; readonly at: number }[];
  readonly deleted: string[];
  /** Requests in the sessions of clients, by method; `GET` for streams. */
  count(method: string): number;
}

/** An upstream that answers 404 to the notification stream; `forgets`: to `ping` too. */
async function streamless(kind: 'with sessions' | 'without sessions' | 'forgets'): Promise<Streamless> {
  const opened: Streamless['opened'] = [];
  const deleted: string[] = [];
  const seen: (string | undefined)[] = [];
  const results: Record<string, string> = {
    initialize:
      '{"protocolVersion":"2025-11-25","capabilities":{"tools":{},"resources":{"subscribe":true}},"serverInfo":{"name":"s","version":"1"}}',
    ping: '{}',
    'tools/list': '{"tools":[{"name":"work","inputSchema":{"type":"object"}}]}',
    'tools/call': '{"content":[]}',
    'resources/list': '{"resources":[{"uri":"a://0","name":"a"}]}',
    'resources/templates/list': '{"resourceTemplates":[]}',
    'resources/subscribe': '{}',
  };
  const server = createServer(async (request, response) => {
    const body = await readBody(request);
    const { id, method = request.method, params } = body === '' ? {} : JSON.parse(body);
    const session = String(request.headers['mcp-session-id']);
    const mine = opened.some((each) => each.session === session) || kind === 'without sessions';
    if (mine) seen.push(method);
    if (method === 'DELETE' && mine) deleted.push(session);
    if (method === 'GET' || (kind === 'forgets' && mine && method === 'ping'))
      return void response.writeHead(404).end();
    if (id === undefined) return void response.writeHead(202).end();
    const result = results[method];
    const reply = result === undefined ? '"error":{"code":-32601,"message":"no"}' : `"result":${result}`;
    const name = method === 'initialize' ? `s-${opened.length}-${Math.random()}` : undefined;
    if (name !== undefined && params.clientInfo.name === 'raw') opened.push({ session: name, at: performance.now() });
    response.writeHead(200, {
      'content-type': 'application/json',
      ...(name !== undefined && kind !== 'without sessions' && { 'mcp-session-id': name }),
    });
    response.end(`{"jsonrpc":"2.0","id":${JSON.stringify(id)},${reply}}`);
  });
  const port = await listen(server, 0);
  onEnd(async () => {
    server.close();
    server.closeAllConnections();
  });
  const count = (method: string) => seen.filter((each) => each === method).length;
  return { url: `http://127.0.0.1:${port}/mcp`, opened, deleted, count };
}

describe('an upstream that responds 404 to the notification stream', () => {
  it.each(['with sessions', 'without sessions'] as const)('keeps the client’s session (%s)', async (kind) => {
    const upstream = await streamless(kind);
    const client = await sessionClient(await register(upstream.url));
    const listening = client.listen();
    await listening.event(0);
    expect(await subscribe(client, 'a://0')).toMatchObject({ result: {} });
    if (kind === 'with sessions') await expect.poll(() => upstream.count('ping')).toBeGreaterThan(0);
    for (const id of ['1', '2', '3']) expect(await client.call(id).ended).toBe(true);
    expect([upstream.opened.length, upstream.count('GET'), upstream.deleted]).toEqual([1, 1, []]);
    listening.disconnect();
  });

  it('and loses every session is retried with backoff, and gets each session closed', async () => {
    const upstream = await streamless('forgets');
    const client = await sessionClient(await register(upstream.url));
    const listening = client.listen();
    await listening.event(0);
    await subscribe(client, 'a://0');
    await expect.poll(() => upstream.opened.length, { timeout: 10_000 }).toBeGreaterThan(2);
    const [first, second, third] = upstream.opened;
    const pauses = [(second?.at ?? 0) - (first?.at ?? 0), (third?.at ?? 0) - (second?.at ?? 0)];
    for (const pause of pauses) expect(pause).toBeGreaterThan(240);
    await expect.poll(() => upstream.deleted).toEqual(expect.arrayContaining([first?.session, second?.session]));
    await client.end();
    await listening.ended;
  });
});

describe('an upstream session that is reopened', () => {
  it('restores its subscriptions a few at a time, while calls continue', async () => {
    const { upstream, url } = await live({ uris: list(20) });
    const client = await sessionClient(url);
    const listening = client.listen();
    await listening.event(0);
    for (const uri of list(20)) await subscribe(client, uri);
    await upstream.streams.next();
    upstream.forgetSessions();
    const blocked = Promise.withResolvers<string>();
    upstream.results['resources/subscribe'] = () => blocked.promise;
    const session = await call(client, upstream);
    const again = () => upstream.of('resources/subscribe').filter((each) => each.session === session);
    await expect.poll(() => again().length).toBe(8);
    // One in-flight call, and one queued.
    await Promise.all([unsubscribe(client, 'a://0'), unsubscribe(client, 'a://19')]);
    expect(listening.messages).toEqual([]);
    blocked.resolve('{}');
    await listening.message(17);
    // Eight at a time: the order of arrival is not fixed.
    expect(
      again()
        .map(({ params }) => params.uri)
        .sort(),
    ).toEqual(list(19).sort());
    const ended = pending(upstream, 'resources/unsubscribe', 'uri');
    expect([...ended].sort()).toEqual(['a://0', 'a://0', 'a://19']);
    expect(listening.messages).toEqual(list(19).slice(1).map(updated));
    listening.disconnect();
  });

  it('does not wait long for the log level, and the latest level is set last', async () => {
    const { upstream, url } = await live();
    const client = await sessionClient(url);
    await client.request('logging/setLevel', '{"level":"debug"}');
    const blocked = Promise.withResolvers<string>();
    upstream.results['logging/setLevel'] = () => blocked.promise;
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
    const calling = call(client, upstream);
    const levels = () => pending(upstream, 'logging/setLevel', 'level');
    await vi.waitUntil(() => levels().length === 1, { timeout: 10_000 });
    vi.advanceTimersByTime(5_000);
    await calling;
    vi.useRealTimers();
    upstream.results['logging/setLevel'] = '{}';
    await client.request('logging/setLevel', '{"level":"error"}');
    expect(levels()).toEqual(['debug', 'error']);
    blocked.resolve('{}');
    await expect.poll(levels).toEqual(['debug', 'error', 'error']);
  });
});

/** The namespace of an endpoint, and its forward. */
const nameIn = (url: string) => new URL(url).pathname.split('/')[1] ?? '';

describe('a forward that is moved to another namespace', () => {
  const move = async (forward: string, namespace: string) => {
    if (namespace !== forward) await tests.service.register('namespaces', { name: namespace });
    expect((await tests.service.manage('PATCH', `/forwards/${forward}`, { namespace })).status).toBe(200);
  };

  it('ends its sessions of clients of the first one, which do not reach it any more', async () => {
    const { upstream, url } = await live({ uris: ['a://0'] });
    const client = await sessionClient(url);
    const listening = client.listen();
    await listening.event(0);
    await subscribe(client, 'a://0');
    const stream = await upstream.streams.next();
    stream.send(updated('a://0'));
    expect(await listening.message(0)).toBe(updated('a://0'));
    const name = nameIn(url);
    await move(name, `${name}-later`);
    await expect.poll(() => [stream.isDisconnected, upstream.sessions.size]).toEqual([true, 0]);

    const posted = upstream.posted.length;
    await client.post(notification('vendor'));
    expect(await unsubscribe(client, 'a://0')).toMatchObject({ result: {} });
    expect(await unsubscribe(client, 'a://0')).toMatchObject({ error: { message: 'resource not found: a://0' } });
    const again = client.listen();
    await again.event(0);
    await client.request('logging/setLevel', '{"level":"debug"}');
    expect(upstream.posted.slice(posted)).toEqual([]);
    expect(listening.messages.filter((text) => !text.includes('list_changed'))).toEqual([updated('a://0')]);
    for (const each of [listening, again]) each.disconnect();
  });

  it('restores the subscriptions of a client that listens again once it is back', async () => {
    const { upstream, url } = await live({ uris: ['a://0'] });
    const client = await sessionClient(url);
    const listening = client.listen();
    await listening.event(0);
    await subscribe(client, 'a://0');
    await upstream.streams.next();
    const name = nameIn(url);
    await move(name, `${name}-later`);
    await move(name, name);
    listening.disconnect();
    await listening.ended;
    const again = client.listen();
    const stream = await upstream.streams.next();
    stream.send(updated('a://0'));
    await expect.poll(() => again.messages).toContain(updated('a://0'));
    again.disconnect();
  });
});

describe('a client that listens again without an event id', () => {
  it('is notified of its subscriptions if the upstream’s stream was closed meanwhile', async () => {
    const { upstream, url } = await live({ uris: ['a://0'] });
    // A version whose streams cannot be resumed before the first message.
    const client = await sessionClient(url, { version: '2025-06-18' });
    const first = client.listen();
    await subscribe(client, 'a://0');
    const stream = await upstream.streams.next();
    first.disconnect();
    await expect.poll(() => stream.isDisconnected).toBe(true);
    const second = client.listen();
    expect(await second.message(0)).toBe(updated('a://0'));
    await upstream.streams.next();
    expect(upstream.sessions.size).toBe(1);
    second.disconnect();
  });

  it('is notified of everything if messages went to a stream that it does not resume', async () => {
    const { upstream, url } = await live({ uris: list(2) });
    const client = await sessionClient(url);
    const first = client.listen();
    await first.event(0);
    for (const uri of list(2)) await subscribe(client, uri);
    const stream = await upstream.streams.next();
    first.disconnect();
    await first.ended;
    // No messages were missed: no notification is expected.
    const second = client.listen();
    await second.event(0);
    await client.request('ping');
    expect(second.messages).toEqual([]);
    second.disconnect();
    await second.ended;
    const received = async () => {
      // Repeated until a message is sent while nothing is read.
      stream.send(updated('a://0'));
      const again = client.listen();
      await again.event(0);
      await client.request('ping');
      again.disconnect();
      await again.ended;
      return again.messages;
    };
    const lists = ['tools', 'resources', 'prompts'].map((list) => expect.stringContaining(`/${list}/list_changed`));
    await expect.poll(received, { timeout: 10_000 }).toEqual(expect.arrayContaining([...lists, updated('a://1')]));
  });
});

describe('an upstream that sends requests on its notification stream', () => {
  it('is paused while the client reads slowly', async () => {
    const { upstream, url } = await live();
    const client = await sessionClient(url);
    const listening = client.listen();
    await call(client, upstream);
    const stream = await upstream.streams.next();
    (await listening.head).pause();
    const padding = 'x'.repeat(512 * 1024);
    let sent = 0;
    let quiet = 0;
    while (quiet < 20 && sent < 200) {
      const before = sent;
      if (!stream.response.writableNeedDrain) {
        const params = `{"padding":"${padding}"}`;
        stream.send(`{"jsonrpc":"2.0","id":${++sent},"method":"sampling/createMessage","params":${params}}`);
      }
      await client.request('ping');
      quiet = sent === before ? quiet + 1 : 0;
    }
    expect(sent).toBeLessThan(100);
    await client.end();
  });

  it('gets a few rejections at a time if too many requests are pending', async () => {
    const { upstream, url } = await live();
    const client = await sessionClient(url);
    const listening = client.listen();
    await call(client, upstream);
    const stream = await upstream.streams.next();
    upstream.acceptStatus = 0;
    for (let id = 1; id <= 32 + 40; id++) stream.send(`{"jsonrpc":"2.0","id":${id},"method":"roots/list"}`);
    stream.send(notification('example.com/last'));
    expect(await listening.message(32)).toBe(notification('example.com/last'));
    await expect.poll(() => upstream.answers().length).toBe(16);
    upstream.acceptStatus = 202;
    await client.end();
  });
});
