import { setTimeout as delay } from 'node:timers/promises';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { startDualEra } from '../../../../../../test/fixtures/dual-era.ts';
import { freePort } from '../../../../../../test/fixtures/free-port.ts';
import { connect } from '../../../../../../test/fixtures/sdk-client.ts';
import { atService, liveTests, notification } from '../../../../testing/live-tests.ts';
import {
  clientOf,
  type ResponseReader,
  type SessionClient,
  sessionClient,
} from '../../../../testing/session-client.ts';
import {
  startWatchedUpstream,
  type WatchedStream,
  type WatchedUpstream,
} from '../../../../testing/watched-upstream.ts';

const tests = liveTests();
const { onEnd, register } = tests;

const subscribe = (client: SessionClient, uri: string) =>
  client.request('resources/subscribe', JSON.stringify({ uri }));
const unsubscribe = (client: SessionClient, uri: string) =>
  client.request('resources/unsubscribe', JSON.stringify({ uri }));
const updated = (uri: string) => notification('resources/updated', `{"uri":"${uri}"}`);
const OK = { result: {} };
const WAIT = { timeout: 10_000, interval: 5 };

afterEach(() => {
  vi.useRealTimers();
});

async function watched(...uris: readonly string[]): Promise<WatchedUpstream> {
  const upstream = await startWatchedUpstream(uris);
  onEnd(upstream.close);
  return upstream;
}

/** Waits for an upstream's next stream. */
async function stream(upstream: WatchedUpstream, at: number): Promise<WatchedStream> {
  await expect.poll(() => upstream.streams[at], WAIT).toBeDefined();
  const found = upstream.streams[at];
  if (!found) throw new Error('no stream');
  return found;
}

/** The same, with the milliseconds until it is open. */
async function later(upstream: WatchedUpstream, at: number): Promise<[WatchedStream, number]> {
  let ms = 0;
  while (!upstream.streams[at]) {
    // Everything sent so far has been read.
    await delay(5);
    vi.advanceTimersByTime(50);
    ms += 50;
  }
  return [await stream(upstream, at), ms];
}

/** Waits for an upstream's next stream and grants its uris. */
async function granted(upstream: WatchedUpstream, at: number, ...less: readonly string[]): Promise<WatchedStream> {
  const found = await stream(upstream, at);
  found.acknowledge(...requestedUris(found).filter((uri) => !less.includes(uri)));
  return found;
}

function requestedUris({ params }: WatchedStream): string[] {
  const filter = params.notifications;
  const uris =
    typeof filter === 'object' && filter && 'resourceSubscriptions' in filter && filter.resourceSubscriptions;
  return Array.isArray(uris) ? uris.map(String) : [];
}

/** Open streams of an upstream. */
const open = (upstream: WatchedUpstream) =>
  upstream.streams
    .filter(({ isDisconnected, response }) => !isDisconnected && !response.writableEnded)
    .map(requestedUris);

/** A client with a notification stream, and its messages. */
async function listening(url: string): Promise<{ client: SessionClient; reading: ResponseReader }> {
  // A version whose streams cannot be resumed before the first message.
  const client = await sessionClient(url, { version: '2025-06-18' });
  const reading = client.listen();
  await reading.matching(/\n\n/);
  return { client, reading };
}

/** Subscribes to these one after the other and returns the resulting upstream stream. */
async function subscribed(client: SessionClient, upstream: WatchedUpstream, ...uris: readonly string[]) {
  let last: WatchedStream | undefined;
  for (const uri of uris) {
    const pending = subscribe(client, uri);
    last = await granted(upstream, upstream.streams.length);
    expect(await pending).toMatchObject(OK);
  }
  if (!last) throw new Error('nothing to subscribe to');
  return last;
}

describe('a legacy client’s subscription at a modern upstream', () => {
  it('is granted by the upstream, with the headers of the client’s calls', async () => {
    const upstream = await watched('a://1');
    const client = await sessionClient(await register(upstream.url), { capabilities: '{"sampling":{},"tasks":{}}' });
    const pending = client.post('{"jsonrpc":"2.0","id":"s","method":"resources/subscribe","params":{"uri":"a://1"}}');
    const first = await stream(upstream, 0);
    expect(first.params).toMatchObject({
      notifications: { resourceSubscriptions: ['a://1'] },
      _meta: {
        'io.modelcontextprotocol/clientInfo': { name: 'raw', version: '1' },
        'io.modelcontextprotocol/clientCapabilities': { sampling: {} },
      },
    });
    expect(first.headers).toMatchObject({ 'x-service-hops': '1', 'mcp-method': 'subscriptions/listen' });
    first.acknowledge('a://1');
    expect((await pending).text).toBe('{"jsonrpc":"2.0","id":"s","result":{}}');
    // Without a listener there is no upstream stream.
    await expect.poll(() => first.isDisconnected, WAIT).toBe(true);
  });

  it.each<[string, (stream: WatchedStream) => void, number, string]>([
    ['does not grant it', (one) => one.acknowledge('a://2'), -32602, 'does not support subscriptions to a://1'],
    [
      'does not know such requests',
      ({ response, id }) =>
        response
          .writeHead(404, { 'content-type': 'application/json' })
          .end(`{"jsonrpc":"2.0","id":${id},"error":{"code":-32601,"message":"no"}}`),
      -32602,
      'does not support subscriptions to a://1',
    ],
    ['is busy', ({ response }) => response.writeHead(503).end(), -32603, 'forwarded subscription failed: upstream'],
    ['breaks off', ({ response }) => response.destroy(), -32603, 'forwarded subscription failed: upstream'],
    [
      'is silent',
      () => void vi.advanceTimersByTime(5_000),
      -32603,
      'did not acknowledge subscriptions/listen within 5 s',
    ],
  ])('is rejected, and not stored, when the upstream %s', async (_what, answer, code, message) => {
    const upstream = await watched('a://1');
    const { client } = await listening(await register(upstream.url));
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
    const pending = subscribe(client, 'a://1');
    answer(await stream(upstream, 0));
    expect(await pending).toMatchObject({ error: { code, message: expect.stringContaining(message) } });
    vi.useRealTimers();
    await expect.poll(() => open(upstream), WAIT).toEqual([]);
    await subscribed(client, upstream, 'a://2');
    expect(open(upstream)).toEqual([['a://2']]);
  });

  it('shares one upstream stream per session', async () => {
    const upstream = await watched('a://1', 'a://2', 'a://3');
    const url = await register(upstream.url);
    const { client, reading } = await listening(url);
    const other = await listening(url);
    const first = await subscribed(client, upstream, 'a://1');
    const theirs = await subscribed(other.client, upstream, 'a://1');
    const pending = subscribe(client, 'a://2');
    const second = await stream(upstream, 2);
    expect(requestedUris(second)).toEqual(['a://1', 'a://2']);
    // The old stream stays active until the new one is granted.
    expect(first.isDisconnected).toBe(false);
    first.updated('a://1', '"n":1');
    expect(await reading.message(0)).toBe(notification('resources/updated', '{"uri":"a://1","n":1}'));
    second.acknowledge('a://1', 'a://2');
    expect(await pending).toMatchObject(OK);
    await expect.poll(() => first.isDisconnected, WAIT).toBe(true);
    expect(open(upstream)).toEqual([['a://1'], ['a://1', 'a://2']]);
    second.updated('a://2');
    theirs.updated('a://1', '"n":2');
    expect(await reading.message(1)).toBe(updated('a://2'));
    expect(await other.reading.message(0)).toBe(notification('resources/updated', '{"uri":"a://1","n":2}'));
    // An active uri is granted at once.
    expect(await subscribe(client, 'a://1')).toMatchObject(OK);
    expect([upstream.streams.length, reading.messages.length]).toEqual([3, 2]);
  });

  it('delivers the upstream’s text without its subscription id', async () => {
    const upstream = await watched('a://1');
    const { client, reading } = await listening(await register(upstream.url));
    const held = await subscribed(client, upstream, 'a://1');
    const id = `"io.modelcontextprotocol/subscriptionId":${held.id}`;
    held.send(
      ` { "method":"notifications/resources/updated","params":{"uri":"a://1", "n":1.0,"_meta": { ${id} , "x" : 9223372036854775807}},"jsonrpc":"2.0"}`,
    );
    held.updated('a://12');
    held.send(notification('tools/list_changed'));
    held.updated('a://1/part');
    await reading.message(1);
    expect(reading.messages).toEqual([
      ` { "method":"notifications/resources/updated","params":{"uri":"a://1", "n":1.0,"_meta": { "x" : 9223372036854775807}},"jsonrpc":"2.0"}`,
      updated('a://1/part'),
    ]);
  });

  it('is requested together with concurrent ones', async () => {
    const uris = Array.from({ length: 20 }, (_, n) => `a://${n}`);
    const upstream = await watched(...uris);
    const { client } = await listening(await register(upstream.url));
    const pending = uris.map((uri) => subscribe(client, uri));
    const first = await stream(upstream, 0);
    // The first is sent alone; the others wait for it.
    await client.request('ping');
    const grant = (one: WatchedStream) => one.acknowledge(...requestedUris(one).filter((uri) => uri !== 'a://19'));
    grant(first);
    let answered = false;
    const answers = Promise.all(pending).finally(() => {
      answered = true;
    });
    for (let at = 1; !answered; ) {
      const next = upstream.streams[at];
      if (next) grant(next);
      if (next) at++;
      else await client.request('ping');
    }
    const all = await answers;
    expect(all.slice(0, -1)).toEqual(uris.slice(0, -1).map(() => expect.objectContaining(OK)));
    expect(all.at(-1)).toMatchObject({ error: { code: -32602 } });
    expect(upstream.streams.length).toBeLessThan(10);
  });

  it('ends with resources/unsubscribe, the last one with the stream', async () => {
    const upstream = await watched('a://1', 'a://2');
    const { client, reading } = await listening(await register(upstream.url));
    const both = await subscribed(client, upstream, 'a://1', 'a://2');
    expect(await unsubscribe(client, 'a://1')).toMatchObject(OK);
    both.updated('a://1');
    both.updated('a://2');
    const one = await granted(upstream, 2);
    expect(requestedUris(one)).toEqual(['a://2']);
    await expect.poll(() => both.isDisconnected, WAIT).toBe(true);
    one.updated('a://2', '"n":1');
    expect(await unsubscribe(client, 'a://3')).toMatchObject(OK);
    expect(await unsubscribe(client, 'a://2')).toMatchObject(OK);
    await expect.poll(() => open(upstream), WAIT).toEqual([]);
    const last = await reading.message(1);
    expect([reading.messages[0], last]).toEqual([
      updated('a://2'),
      notification('resources/updated', '{"uri":"a://2","n":1}'),
    ]);
  });

  it('is neither stored nor subscribed upstream beyond the limit per session', async () => {
    const upstream = await watched('a://1');
    const { client } = await listening(await register(upstream.url));
    await subscribed(client, upstream, 'a://1');
    const long = `a://${'x'.repeat(300 * 1024)}`;
    const pending = subscribe(client, long);
    await granted(upstream, 1);
    expect(await pending).toMatchObject({ error: { code: -32600 } });
    const again = await granted(upstream, 2);
    expect(requestedUris(again)).toEqual(['a://1']);
    await expect.poll(() => open(upstream), WAIT).toEqual([['a://1']]);
  });
});

describe('the subscriptions of a session at a modern upstream', () => {
  it('are active while the client listens, with an update when it begins to', async () => {
    const upstream = await watched('a://1', 'a://2');
    const client = await sessionClient(await register(upstream.url));
    await subscribed(client, upstream, 'a://1', 'a://2');
    await expect.poll(() => open(upstream), WAIT).toEqual([]);
    const reading = client.listen();
    const held = await granted(upstream, 2);
    expect(requestedUris(held)).toEqual(['a://1', 'a://2']);
    held.updated('a://2', '"n":1');
    await reading.message(2);
    expect(reading.messages).toEqual([
      updated('a://1'),
      updated('a://2'),
      notification('resources/updated', '{"uri":"a://2","n":1}'),
    ]);
  });

  it('pause while the client is disconnected', async () => {
    const upstream = await watched('a://1');
    const { client, reading } = await listening(await register(upstream.url));
    const before = await subscribed(client, upstream, 'a://1');
    reading.disconnect();
    await expect.poll(() => before.isDisconnected, WAIT).toBe(true);
    const again = client.listen();
    const after = await granted(upstream, 1);
    expect(await again.message(0)).toBe(updated('a://1'));
    after.updated('a://1', '"n":1');
    expect(await again.message(1)).toContain('"n":1');
    expect(upstream.streams).toHaveLength(2);
  });

  it('pause when the client disconnects while it subscribes', async () => {
    const upstream = await watched('a://1', 'a://2');
    const { client, reading } = await listening(await register(upstream.url));
    const before = await subscribed(client, upstream, 'a://1');
    const pending = subscribe(client, 'a://2');
    const next = await stream(upstream, 1);
    reading.disconnect();
    await expect.poll(() => before.isDisconnected, WAIT).toBe(true);
    const again = client.listen();
    await again.matching(/\n\n/);
    next.acknowledge('a://1', 'a://2');
    expect(await pending).toMatchObject(OK);
    expect(await again.message(0)).toBe(updated('a://1'));
    expect(open(upstream)).toEqual([['a://1', 'a://2']]);
  });

  it('are updated when the client does not resume the stream that updates went to', async () => {
    const upstream = await watched('a://1', 'a://2');
    const client = await sessionClient(await register(upstream.url));
    const first = client.listen();
    await first.event(0);
    const held = await subscribed(client, upstream, 'a://1', 'a://2');
    first.disconnect();
    await first.ended;
    const updates = async () => {
      // Repeated until it arrives on an unread stream.
      held.updated('a://1');
      const again = client.listen();
      await again.event(0);
      await client.request('ping');
      again.disconnect();
      await again.ended;
      return again.messages;
    };
    await expect.poll(updates, WAIT).toEqual(expect.arrayContaining([updated('a://1'), updated('a://2')]));
    expect(upstream.streams).toHaveLength(2);
  });

  it('continue after a reconnect, with one update for what may have been missed', async () => {
    const upstream = await watched('a://1', 'a://2');
    const { client, reading } = await listening(await register(upstream.url));
    const before = await subscribed(client, upstream, 'a://1', 'a://2');
    // A short retry time for a fast test.
    before.response.end('retry: 50\n\n');
    const after = await granted(upstream, 2);
    after.updated('a://1', '"n":1');
    await reading.message(2);
    expect(reading.messages).toEqual([
      updated('a://1'),
      updated('a://2'),
      notification('resources/updated', '{"uri":"a://1","n":1}'),
    ]);
  });

  it('are updated as well if another uri is added before the reconnect', async () => {
    const upstream = await watched('a://1', 'a://2');
    const { client, reading } = await listening(await register(upstream.url));
    const before = await subscribed(client, upstream, 'a://1');
    // A long retry time prevents a reconnect during the test.
    before.response.end('retry: 60000\n\n');
    for (let turn = 0; turn < 5; turn++) await client.request('ping');
    await subscribed(client, upstream, 'a://2');
    expect(await reading.message(0)).toBe(updated('a://1'));
    expect(upstream.streams.map(requestedUris)).toEqual([['a://1'], ['a://1', 'a://2']]);
  });

  it('continue after a restart of the gateway', async () => {
    const { service, restart } = await tests.persistent();
    const upstream = await watched('a://1', 'a://2');
    await service.register('forwards', { name: 'up', address: upstream.url });
    const { client, reading } = await listening(service.url());
    await subscribed(client, upstream, 'a://1', 'a://2');
    const moved = clientOf(atService(await restart(), service.url()), client.headers);
    await reading.ended;
    await expect.poll(() => open(upstream), WAIT).toEqual([]);
    const again = moved.listen();
    const held = await granted(upstream, 2);
    expect(new Set(requestedUris(held))).toEqual(new Set(['a://1', 'a://2']));
    await again.message(1);
    expect(new Set(again.messages)).toEqual(new Set([updated('a://1'), updated('a://2')]));
    again.disconnect();
  });

  it('are retried when the upstream revokes a grant', async () => {
    const upstream = await watched('a://1');
    const { client, reading } = await listening(await register(upstream.url));
    const before = await subscribed(client, upstream, 'a://1');
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
    before.response.end('retry: 50\n\n');
    (await later(upstream, 1))[0].response.writeHead(405).end();
    const [again, first] = await later(upstream, 2);
    again.response.writeHead(404).end();
    const [, second] = await later(upstream, 3);
    const after = await granted(upstream, 3);
    // After at least a second each.
    expect(Math.min(first, second)).toBeGreaterThanOrEqual(1_000);
    expect(await reading.message(0)).toBe(updated('a://1'));
    after.updated('a://1', '"n":1');
    expect(await reading.message(1)).toContain('"n":1');
    expect(open(upstream)).toEqual([['a://1']]);
  });

  it('are retried for the rejected part while the rest stays active', async () => {
    const upstream = await watched('a://1', 'a://2');
    const { client, reading } = await listening(await register(upstream.url));
    const before = await subscribed(client, upstream, 'a://1', 'a://2');
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
    before.response.end('retry: 50\n\n');
    const part = await granted(upstream, 2, 'a://2');
    expect(await reading.message(0)).toBe(updated('a://1'));
    part.updated('a://1', '"n":1');
    const [, ms] = await later(upstream, 3);
    expect(ms).toBeGreaterThanOrEqual(1_000);
    const whole = await granted(upstream, 3);
    expect(requestedUris(whole)).toEqual(['a://1', 'a://2']);
    whole.updated('a://2', '"n":2');
    await reading.message(3);
    expect(reading.messages.slice(1)).toEqual([
      notification('resources/updated', '{"uri":"a://1","n":1}'),
      updated('a://2'),
      notification('resources/updated', '{"uri":"a://2","n":2}'),
    ]);
    await expect.poll(() => part.isDisconnected, WAIT).toBe(true);
  });

  it('end with the session and with the forward', async () => {
    const upstream = await watched('a://1');
    const url = await register(upstream.url);
    const [one, two] = [await listening(url), await listening(url)];
    for (const { client } of [one, two]) await subscribed(client, upstream, 'a://1');
    expect(open(upstream)).toHaveLength(2);
    expect(await one.client.end()).toBe(204);
    await expect.poll(() => open(upstream), WAIT).toHaveLength(1);
    const waiting = subscribe(two.client, 'a://2');
    await stream(upstream, 2);
    await tests.service.manage('DELETE', `/forwards/${new URL(url).pathname.split('/')[1]}`);
    expect(await waiting).toMatchObject({ error: { code: -32603 } });
    await expect.poll(() => open(upstream), WAIT).toEqual([]);
  });

  it('apply backpressure of the client without loss', async () => {
    const upstream = await watched('a://1');
    const { client, reading } = await listening(await register(upstream.url));
    const held = await subscribed(client, upstream, 'a://1');
    (await reading.head).pause();
    const padding = 'x'.repeat(512 * 1024);
    const total = 96;
    for (let n = 1; n <= total; n++) held.updated('a://1', `"padding":"${padding}","n":${n}`);
    let before = -1;
    const moved = () => {
      const since = before - held.response.writableLength;
      before = held.response.writableLength;
      return since;
    };
    await expect.poll(moved, { interval: 200, timeout: 10_000 }).toBe(0);
    expect(before).toBeGreaterThan((total / 4) * padding.length);
    (await reading.head).resume();
    await reading.message(total - 1);
    expect(reading.messages.map((text) => JSON.parse(text).params.n)).toEqual(
      Array.from({ length: total }, (_, n) => n + 1),
    );
  });
});

describe('an upstream that changes its era', () => {
  const uri = 'test://watched-resource';

  it.each([
    ['modern', 'legacy'],
    ['legacy', 'modern'],
  ] as const)('from %s to %s keeps what clients that listen are subscribed to', async (first, second) => {
    let upstream = await startDualEra({ eras: first, port: await freePort() });
    onEnd(() => upstream.close());
    const url = await register(upstream.url);
    const { client, reading } = await listening(url);
    expect(await subscribe(client, uri)).toMatchObject(OK);
    await upstream.close();
    upstream = await startDualEra({ eras: second, port: upstream.port });
    expect(
      (await tests.service.manage('POST', `/forwards/${new URL(url).pathname.split('/')[1]}/refreshes`)).status,
    ).toBe(200);
    await expect.poll(() => reading.messages, { timeout: 15_000 }).toContain(updated(uri));
  });

  it('to both is used once, in the client’s own era as soon as it is available', async () => {
    let upstream = await startDualEra({ eras: 'modern', port: await freePort() });
    onEnd(() => upstream.close());
    const url = await register(upstream.url);
    const { client, reading } = await listening(url);
    expect(await subscribe(client, uri)).toMatchObject(OK);
    await upstream.close();
    upstream = await startDualEra({ port: upstream.port });
    const refreshed = await tests.service.manage('POST', `/forwards/${new URL(url).pathname.split('/')[1]}/refreshes`);
    expect(refreshed.status).toBe(200);
    const updates = () => reading.messages.filter((message) => message === updated(uri)).length;
    // One update after the broken connection.
    await expect.poll(updates, WAIT).toBe(1);
    expect((await client.request('tools/call', '{"name":"session_counter","arguments":{}}')).error).toBeUndefined();
    // Another one after the session was opened.
    await expect.poll(updates, WAIT).toBe(2);
    const before = reading.messages.length;
    upstream.updateResource(uri);
    upstream.addTool('last');
    await expect
      .poll(() => reading.messages.slice(before), WAIT)
      .toEqual(expect.arrayContaining([updated(uri), expect.stringContaining('tools/list_changed')]));
    expect(reading.messages.slice(before).filter((message) => message.includes(uri))).toHaveLength(1);
  });
});

it('the official legacy client subscribes at an official modern server', async () => {
  const upstream = await startDualEra({ eras: 'modern' });
  onEnd(upstream.close);
  const { client, close } = await connect(await register(upstream.url), 'legacy');
  onEnd(close);
  expect(client.getServerCapabilities()?.resources).toMatchObject({ subscribe: true });
  const uri = 'test://watched-resource';
  const updatedUris: string[] = [];
  client.setNotificationHandler('notifications/resources/updated', ({ params }) => void updatedUris.push(params.uri));
  await client.subscribeResource({ uri });
  // The client opens its notification stream asynchronously.
  const updates = () => {
    upstream.updateResource(uri);
    return updatedUris.length;
  };
  await expect.poll(updates, WAIT).toBeGreaterThan(3);
  expect(new Set(updatedUris)).toEqual(new Set([uri]));
  await client.unsubscribeResource({ uri });
});
