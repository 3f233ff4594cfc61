import { describe, expect, it } from 'vitest';
import { startDualEra } from '../../../../../test/fixtures/dual-era.ts';
import { post } from '../../../../../test/fixtures/raw-client.ts';
import { connect } from '../../../../../test/fixtures/sdk-client.ts';
import { atService, liveTests, notification } from '../../../testing/live-tests.ts';
import { type LiveUpstream, type LiveUpstreamOptions, startLiveUpstream } from '../../../testing/live-upstream.ts';
import { clientOf, type SessionClient, sessionClient } from '../../../testing/session-client.ts';

const tests = liveTests();
const { live, onEnd, register } = tests;

const subscribe = (client: SessionClient, uri: string) =>
  client.request('resources/subscribe', JSON.stringify({ uri }));
const unsubscribe = (client: SessionClient, uri: string) =>
  client.request('resources/unsubscribe', JSON.stringify({ uri }));
const updated = (uri: string) => notification('resources/updated', `{"uri":"${uri}"}`);
const OK = { result: {} };

function requestsOf(upstream: LiveUpstream, method = 'resources/subscribe') {
  return upstream.of(method).map(({ params, session }) => ({ uri: params.uri, session }));
}
const uris = (upstream: LiveUpstream, method?: string) => requestsOf(upstream, method).map(({ uri }) => uri);

/** Two forwards in one namespace. */
async function twoForwards(first: LiveUpstreamOptions, second: LiveUpstreamOptions) {
  const { upstream, url } = await live(first);
  const other = await startLiveUpstream({ tool: 'other', ...second });
  onEnd(other.close);
  const namespace = new URL(url).pathname.split('/')[1];
  await tests.service.register('forwards', { name: `${namespace}-b`, address: other.url, namespace });
  return { upstream, other, url };
}

describe('resources/subscribe', () => {
  it("is forwarded to the forward of the resource in the client's own session, and its response is returned", async () => {
    const { upstream, other, url } = await twoForwards(
      { uris: ['a://1', 'both://1'] },
      { uris: ['b://1', 'both://1'], templates: ['t://{id}/x'] },
    );
    const client = await sessionClient(url);
    other.results['resources/subscribe'] = '{"_meta":{"n":1.0}}';
    const reply = await client.post(
      '{"jsonrpc":"2.0","id":"s","method":"resources/subscribe","params":{"uri":"b://1"}}',
    );
    expect(reply.text).toBe('{"jsonrpc":"2.0","id":"s","result":{"_meta":{"n":1.0}}}');
    expect(await subscribe(client, 't://7/x')).toMatchObject(OK);
    expect(await subscribe(client, 'a://1')).toMatchObject(OK);
    // A resource offered by two forwards belongs to the first one.
    expect(await subscribe(client, 'both://1')).toMatchObject(OK);
    expect(uris(other)).toEqual(['b://1', 't://7/x']);
    expect(uris(upstream)).toEqual(['a://1', 'both://1']);
    expect(new Set(requestsOf(other).map(({ session }) => session)).size).toBe(1);
    // Both have one session for this client, and no other.
    expect([upstream.sessions.size, other.sessions.size]).toEqual([1, 1]);
  });

  it('for an unlisted uri is forwarded to the only forward with resources or the one that linked to it, else rejected', async () => {
    const alone = await twoForwards({ uris: ['a://1'] }, {});
    const first = await sessionClient(alone.url);
    expect(await subscribe(first, 'unlisted://1')).toMatchObject(OK);
    expect(uris(alone.upstream)).toEqual(['unlisted://1']);

    const { other, upstream, url } = await twoForwards({ uris: ['a://1'] }, { uris: ['b://1'] });
    const client = await sessionClient(url);
    expect(await subscribe(client, 'linked://1')).toMatchObject({
      error: { code: -32602, message: 'resource not found: linked://1', data: { uri: 'linked://1' } },
    });
    const calling = client.post('{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"other"}}');
    const call = await other.calls.next();
    const result = '{"content":[{"type":"resource_link","uri":"linked://1","name":"l"}]}';
    call.response
      .writeHead(200, { 'content-type': 'application/json' })
      .end(`{"jsonrpc":"2.0","id":${call.id},"result":${result}}`);
    await calling;
    expect(await subscribe(client, 'linked://1')).toMatchObject(OK);
    expect([uris(other), uris(upstream)]).toEqual([['linked://1'], []]);
  });

  it('delivers updates only to the session that subscribed', async () => {
    const { upstream, url } = await live({ uris: ['a://1'] });
    const clients = [await sessionClient(url), await sessionClient(url)];
    const listening = clients.map((client) => client.listen());
    for (const [at, client] of clients.entries()) {
      await listening[at]?.event(0);
      await subscribe(client, 'a://1');
      const stream = await upstream.streams.next();
      expect(stream.session).toBe(requestsOf(upstream)[at]?.session);
      stream.send(updated(`a://1#${at}`));
      expect(await listening[at]?.message(0)).toBe(updated(`a://1#${at}`));
    }
    expect(listening.map(({ messages }) => messages.length)).toEqual([1, 1]);
  });

  it('rejected by the upstream returns its error and is not stored', async () => {
    const { service, restart } = await tests.persistent();
    const { upstream, url } = await live({ uris: ['a://1', 'a://2'] }, service);
    const client = await sessionClient(url);
    upstream.results['resources/subscribe'] = '"error":{"code":-32050,"message":"no","data":{"n":1}}';
    expect(await subscribe(client, 'a://1')).toMatchObject({ error: { code: -32050, message: 'no', data: { n: 1 } } });
    upstream.results['resources/subscribe'] = '{}';
    await subscribe(client, 'a://2');
    const moved = clientOf(atService(await restart(), url), client.headers);
    const listening = moved.listen();
    expect(await listening.message(0)).toBe(updated('a://2'));
    expect(uris(upstream)).toEqual(['a://1', 'a://2', 'a://2']);
    listening.disconnect();
  });

  it('requires a session, a uri and a reachable upstream', async () => {
    const { upstream, url } = await live({ uris: ['a://1'] });
    const sessionless = clientOf(url, { 'mcp-protocol-version': '2025-11-25' });
    expect(await subscribe(sessionless, 'a://1')).toMatchObject({ error: { code: -32600 } });
    const client = await sessionClient(url);
    for (const method of ['resources/subscribe', 'resources/unsubscribe']) {
      for (const params of ['{}', '{"uri":1}']) {
        expect(await client.request(method, params)).toMatchObject({ error: { code: -32602 } });
      }
    }
    expect(requestsOf(upstream)).toEqual([]);
    await upstream.down();
    expect(await subscribe(client, 'a://1')).toMatchObject({
      error: { code: -32603, message: expect.stringContaining('forwarded subscription failed: upstream') },
    });
  });

  it('reopens an expired upstream session with all of its subscriptions', async () => {
    const { upstream, url } = await live({ uris: ['a://1', 'a://2'] });
    const client = await sessionClient(url);
    await subscribe(client, 'a://1');
    upstream.forgetSessions();
    expect(await subscribe(client, 'a://2')).toMatchObject(OK);
    const [first] = requestsOf(upstream);
    const again = () => requestsOf(upstream).filter(({ session }) => session !== first?.session);
    await expect
      .poll(() =>
        again()
          .map(({ uri }) => uri)
          .toSorted(),
      )
      .toEqual(['a://1', 'a://2']);
    expect(new Set(again().map(({ session }) => session)).size).toBe(1);
  });

  it('is limited to a thousand, and a rejected one is removed upstream', async () => {
    const { upstream, url } = await live({ uris: ['a://1'] });
    const client = await sessionClient(url);
    const subscribeTo = async (from: number, to: number) => {
      for (let n = from; n < to; n++) expect(await subscribe(client, `a://x/${n}`)).toMatchObject(OK);
    };
    await Promise.all([subscribeTo(0, 250), subscribeTo(250, 500), subscribeTo(500, 750), subscribeTo(750, 1_000)]);
    expect(await subscribe(client, 'a://one-more')).toMatchObject({
      error: { code: -32600, message: expect.stringContaining('1000') },
    });
    await expect.poll(() => uris(upstream, 'resources/unsubscribe')).toEqual(['a://one-more']);
    // A duplicate is not counted.
    expect(await subscribe(client, 'a://x/1')).toMatchObject(OK);
    await unsubscribe(client, 'a://x/1');
    expect(await subscribe(client, 'a://one-more')).toMatchObject(OK);
  });
});

describe('a subscription', () => {
  it('is restored after a restart, with one notification for possibly missed updates', async () => {
    const { service, restart } = await tests.persistent();
    const { upstream, url } = await live({ uris: ['a://1', 'a://2'] }, service);
    const client = await sessionClient(url);
    await subscribe(client, 'a://1');
    await subscribe(client, 'a://2');
    const listening = client.listen();
    await listening.event(0);
    const [before] = requestsOf(upstream);
    await upstream.streams.next();
    const moved = clientOf(atService(await restart(), url), client.headers);
    const again = moved.listen();
    const stream = await upstream.streams.next();
    expect(stream.session).not.toBe(before?.session);
    await again.message(1);
    // Several are sent concurrently.
    const made = requestsOf(upstream)
      .slice(2)
      .toSorted((a, b) => (String(a.uri) < String(b.uri) ? -1 : 1));
    expect(made).toEqual(['a://1', 'a://2'].map((uri) => ({ uri, session: stream.session })));
    stream.send(updated('a://1'));
    await again.message(2);
    expect(again.messages).toEqual([updated('a://1'), updated('a://2'), updated('a://1')]);
    again.disconnect();
  });

  it('outlives a restart of the upstream, for a client that listens', async () => {
    const { upstream, url } = await live({ uris: ['a://1'] });
    const client = await sessionClient(url);
    const listening = client.listen();
    await listening.event(0);
    await subscribe(client, 'a://1');
    const first = await upstream.streams.next();
    // Sends a short retry interval, so that the test need not wait long.
    first.send(notification('example.com/x'), { retry: 50 });
    await listening.message(0);
    await upstream.down();
    await upstream.up();
    expect(await listening.message(1)).toBe(updated('a://1'));
    const stream = await upstream.streams.next();
    expect(requestsOf(upstream).at(-1)).toEqual({ uri: 'a://1', session: stream.session });
    stream.send(updated('a://1'));
    await listening.message(2);
    expect(listening.messages.slice(1)).toEqual([updated('a://1'), updated('a://1')]);
    expect(upstream.sessions.size).toBe(1);
  });

  it('is restored when a call finds the upstream session expired', async () => {
    const { upstream, url } = await live({ uris: ['a://1'] });
    const client = await sessionClient(url);
    const listening = client.listen();
    await listening.event(0);
    await subscribe(client, 'a://1');
    const first = await upstream.streams.next();
    upstream.forgetSessions();
    const reading = client.call('1');
    const call = await upstream.calls.next();
    expect(call.session).not.toBe(first.session);
    expect(await listening.message(0)).toBe(updated('a://1'));
    expect(requestsOf(upstream).at(-1)).toEqual({ uri: 'a://1', session: call.session });
    await expect.poll(() => first.isDisconnected).toBe(true);
    call.json('done');
    await reading.ended;
    const stream = await upstream.streams.next();
    expect(stream.session).toBe(call.session);
    stream.send(updated('a://1'));
    await listening.message(1);
    expect(listening.messages).toHaveLength(2);
    expect(upstream.sessions.size).toBe(1);
  });

  it('ends after resources/unsubscribe, at the forward where it was created', async () => {
    const { service, restart } = await tests.persistent();
    const { upstream, url } = await live({ uris: ['a://1', 'a://2'] }, service);
    const client = await sessionClient(url);
    await subscribe(client, 'a://1');
    await subscribe(client, 'a://2');
    // It belongs to another forward now.
    const namespace = new URL(url).pathname.split('/')[1];
    const other = await startLiveUpstream({ tool: 'other', uris: ['a://1'] });
    onEnd(other.close);
    await service.register('forwards', { name: 'other', address: other.url, namespace });
    upstream.results['resources/list'] = '{"resources":[{"uri":"a://2","name":"2"},{"uri":"a://3","name":"3"}]}';
    expect((await service.manage('POST', `/forwards/${namespace}/refreshes`)).status).toBeLessThan(300);
    expect(await unsubscribe(client, 'a://1')).toMatchObject(OK);
    expect(requestsOf(upstream, 'resources/unsubscribe')).toEqual([
      { uri: 'a://1', session: requestsOf(upstream)[0]?.session },
    ]);
    expect(requestsOf(other, 'resources/unsubscribe')).toEqual([]);
    const moved = clientOf(atService(await restart(), url), client.headers);
    const listening = moved.listen();
    expect(await listening.message(0)).toBe(updated('a://2'));
    expect(uris(upstream)).toEqual(['a://1', 'a://2', 'a://2']);
    listening.disconnect();
  });

  it('can be ended although the upstream is unreachable', async () => {
    const { service, restart } = await tests.persistent();
    const { upstream, url } = await live({ uris: ['a://1'] }, service);
    const client = await sessionClient(url);
    await subscribe(client, 'a://1');
    await upstream.down();
    expect(await unsubscribe(client, 'a://1')).toMatchObject({ error: { code: -32603 } });
    await upstream.up();
    const moved = clientOf(atService(await restart(), url), client.headers);
    const listening = moved.listen();
    await listening.event(0);
    const calling = moved.call('1');
    (await upstream.calls.next()).json('x');
    await calling.ended;
    expect(uris(upstream)).toEqual(['a://1']);
    listening.disconnect();
  });

  it('ends with its session', async () => {
    const { upstream, url } = await live({ uris: ['a://1'] });
    const client = await sessionClient(url);
    await subscribe(client, 'a://1');
    expect(await client.end()).toBe(204);
    await expect.poll(() => upstream.sessions.size).toBe(0);
    const late = JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'resources/subscribe', params: { uri: 'a://1' } });
    expect((await post(url, late, client.headers)).status).toBe(404);
  });

  it('is opened once for all streams that the client opens while the upstream is down', async () => {
    const { service, restart } = await tests.persistent();
    const { upstream, url } = await live({ uris: ['a://1'] }, service);
    const client = await sessionClient(url);
    await subscribe(client, 'a://1');
    const restarted = await restart();
    const before = upstream.of('initialize').length;
    const initialized = String(upstream.results.initialize);
    upstream.results.initialize = '"error":{"code":-32603,"message":"not now"}';
    const moved = clientOf(atService(restarted, url), client.headers);
    for (let number = 0; number < 20; number++) {
      const listening = moved.listen();
      await listening.event(0);
      listening.disconnect();
      await listening.ended;
    }
    const last = moved.listen();
    upstream.results.initialize = initialized;
    expect(await last.message(0)).toBe(updated('a://1'));
    // One attempt at a time: not one for each stream.
    expect(upstream.of('initialize').length - before).toBeLessThan(20);
    last.disconnect();
  });
});

it('the official client subscribes at the official server', async () => {
  const upstream = await startDualEra();
  onEnd(upstream.close);
  const { client, close } = await connect(await register(upstream.url), 'legacy');
  onEnd(close);
  expect(client.getServerCapabilities()?.resources).toMatchObject({ subscribe: true });
  await client.subscribeResource({ uri: 'test://watched-resource' });
  await client.unsubscribeResource({ uri: 'test://watched-resource' });
});
