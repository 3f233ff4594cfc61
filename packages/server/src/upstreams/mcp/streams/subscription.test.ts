import { describe, expect, it } from 'vitest';
import { startDualEra } from '../../../../../../test/fixtures/dual-era.ts';
import { LIST_END } from '../../../../../../test/fixtures/raw-upstream/texts.ts';
import { startRawUpstream } from '../../../../../../test/fixtures/raw-upstream.ts';
import { connect } from '../../../../../../test/fixtures/sdk-client.ts';
import { type ListeningClient, type ListenOptions, listenTo } from '../../../../testing/listening-client.ts';
import { liveTests, notification } from '../../../../testing/live-tests.ts';

const tests = liveTests();
const { live, onEnd, register } = tests;

const META = (id: string) => `"_meta":{"io.modelcontextprotocol/subscriptionId":${id}}`;
const acknowledged = (granted: object, id = '1') =>
  notification('subscriptions/acknowledged', `{${META(id)},"notifications":${JSON.stringify(granted)}}`);
const updated = (uri: string, id = '1') => notification('resources/updated', `{${META(id)},"uri":"${uri}"}`);
const legacyUpdated = (uri: string) => notification('resources/updated', `{"uri":"${uri}"}`);

async function listen(url: string, filter: unknown, options?: ListenOptions): Promise<ListeningClient> {
  const client = await listenTo(url, filter, options);
  onEnd(async () => client.disconnect());
  return client;
}

describe('a modern client subscribed to resources of a legacy upstream', () => {
  it('gets the upstream’s notifications through a dedicated session until it disconnects', async () => {
    const { upstream, url } = await live({ uris: ['a://1', 'a://2', 'a://3'] });
    upstream.results['resources/subscribe'] = () =>
      upstream.of('resources/subscribe').at(-1)?.params.uri === 'a://2'
        ? '"error":{"code":-32602,"message":"no"}'
        : '{}';
    const clients: ListeningClient[] = [];
    for (const id of ['"x"', '2']) {
      const client = await listen(url, { resourceSubscriptions: ['a://1', 'a://2', 'a://3'] }, { id });
      expect(await client.first(1)).toEqual([acknowledged({ resourceSubscriptions: ['a://1', 'a://3'] }, id)]);
      clients.push(client);
    }
    const [first, second] = [await upstream.streams.next(), await upstream.streams.next()];
    expect(first.session).not.toBe(second.session);
    const opening = upstream.of('initialize').at(-1);
    expect(opening?.params).toMatchObject({ capabilities: {}, clientInfo: { name: 'listener', version: '1' } });
    first.send(` { "method":"notifications/resources/updated","jsonrpc":"2.0","params":{"uri":"a://1","n":1.0}}`);
    // A uri that was not granted, one with the same prefix, and one that was not requested.
    for (const uri of ['a://2', 'a://11', 'b://1']) first.send(legacyUpdated(uri));
    first.send(notification('message', '{"level":"error","data":1}'));
    first.send(legacyUpdated('a://3/part'));
    expect((await clients[0]?.first(3))?.slice(1)).toEqual([
      ` { "method":"notifications/resources/updated","jsonrpc":"2.0","params":{${META('"x"')},"uri":"a://1","n":1.0}}`,
      updated('a://3/part', '"x"'),
    ]);
    second.send(legacyUpdated('a://1'));
    expect((await clients[1]?.first(2))?.at(-1)).toBe(updated('a://1', '2'));
    for (const client of clients) client.disconnect();
    await expect.poll(() => upstream.sessions.size).toBe(0);
  });

  it('gets one update for each after the upstream was down', async () => {
    const { upstream, url } = await live({ uris: ['a://1', 'a://2'] });
    const client = await listen(url, { resourceSubscriptions: ['a://1', 'a://2'] });
    await client.first(1);
    const before = await upstream.streams.next();
    // A short retry time for a fast test.
    before.send(legacyUpdated('a://1'), { retry: 50 });
    await client.first(2);
    await upstream.down();
    await upstream.up();
    expect((await client.first(4)).slice(2)).toEqual([updated('a://1'), updated('a://2')]);
    const after = await upstream.streams.next();
    after.send(legacyUpdated('a://2'));
    expect((await client.first(5)).at(-1)).toBe(updated('a://2'));
    expect(upstream.sessions.size).toBe(1);
  });

  it('loses its stream when the upstream revokes a grant', async () => {
    const { upstream, url } = await live({ uris: ['a://1'] });
    const client = await listen(url, { resourceSubscriptions: ['a://1'] });
    await client.first(1);
    const stream = await upstream.streams.next();
    stream.send(legacyUpdated('a://1'), { retry: 50 });
    await client.first(2);
    upstream.results['resources/subscribe'] = '"error":{"code":-32602,"message":"gone"}';
    upstream.forgetSessions();
    stream.response.end();
    const [last, end] = (await client.first(4)).slice(2);
    expect(last).toBe(updated('a://1'));
    expect(JSON.parse(end ?? '')).toMatchObject({ id: 1, result: { resultType: 'complete' } });
    await client.ended;
    await expect.poll(() => upstream.sessions.size).toBe(0);
  });

  it('is notified of changed lists', async () => {
    const { upstream, url } = await live({ uris: ['a://1'] });
    const client = await listen(url, { toolsListChanged: true, resourceSubscriptions: ['a://1'] });
    await client.first(1);
    upstream.results['tools/list'] = '{"tools":[{"name":"other","inputSchema":{"type":"object"}}]}';
    (await upstream.streams.next()).send(notification('tools/list_changed'));
    expect((await client.first(2)).at(-1)).toBe(notification('tools/list_changed', `{${META('1')}}`));
  });

  it('gets no grant from an upstream without a stream, and no session is left there', async () => {
    const upstream = await startRawUpstream({
      eras: ['legacy'],
      scripts: {
        initialize: '{"protocolVersion":"2025-11-25","capabilities":{"resources":{"subscribe":true}},"serverInfo":{}}',
        'resources/list': `{"resources":[{"uri":"a://1","name":"a"}],${LIST_END}`,
        'resources/subscribe': '{}',
        GET: { kind: 'http', status: 405, type: 'text/plain', body: '' },
      },
    });
    onEnd(upstream.close);
    const client = await listen(await register(upstream.url), { resourceSubscriptions: ['a://1'] });
    expect(await client.first(1)).toEqual([acknowledged({})]);
    expect(upstream.count('resources/subscribe')).toBe(0);
    await expect.poll(upstream.sessions).toBe(0);
  });

  it('has its session closed when the forward is deleted', async () => {
    const { upstream, url } = await live({ uris: ['a://1'] });
    const client = await listen(url, { resourceSubscriptions: ['a://1'] });
    await client.first(1);
    const name = new URL(url).pathname.split('/')[1];
    await tests.service.manage('DELETE', `/forwards/${name}`);
    await expect.poll(() => upstream.sessions.size).toBe(0);
    expect((await client.first(2)).at(-1)).toBe(updated('a://1'));
  });
});

describe('an upstream of both eras', () => {
  const declares = (subscribe: boolean) => `{"resources":{"subscribe":${subscribe}}}`;
  const both = async (legacy: boolean, modern: boolean) => {
    const upstream = await startRawUpstream({
      scripts: {
        initialize: `{"protocolVersion":"2025-11-25","capabilities":${declares(legacy)},"serverInfo":{}}`,
        'server/discover': `{"supportedVersions":["2026-07-28"],"capabilities":${declares(modern)},${LIST_END}`,
        'resources/list': `{"resources":[{"uri":"a://1","name":"a"}],${LIST_END}`,
        'resources/subscribe': '{}',
      },
    });
    onEnd(upstream.close);
    const url = await register(upstream.url);
    // With a legacy client, both eras become known.
    const { close } = await connect(url, 'legacy');
    onEnd(close);
    const client = await listen(url, { resourceSubscriptions: ['a://1'] });
    expect(await client.first(1)).toEqual([acknowledged({ resourceSubscriptions: ['a://1'] })]);
    return [upstream.count('subscriptions/listen'), upstream.count('resources/subscribe')];
  };

  it('is used in the client’s era, else in the one that declares subscriptions', async () => {
    expect(await both(true, true)).toEqual([1, 0]);
    expect(await both(true, false)).toEqual([0, 1]);
  });
});

it('the official client subscribes to a resource of an official legacy server', async () => {
  const upstream = await startDualEra({ eras: 'legacy' });
  onEnd(upstream.close);
  const { client, close } = await connect(await register(upstream.url), 'modern');
  onEnd(close);
  expect(client.getServerCapabilities()?.resources).toMatchObject({ subscribe: true });
  const resourceSubscriptions = ['test://watched-resource'];
  const subscription = await client.listen({ resourceSubscriptions });
  expect(subscription.honoredFilter).toEqual({ resourceSubscriptions });
  const updatedUris: string[] = [];
  client.setNotificationHandler('notifications/resources/updated', ({ params }) => void updatedUris.push(params.uri));
  upstream.updateResource('test://watched-resource');
  await expect.poll(() => updatedUris).toEqual(resourceSubscriptions);
  // The session was lost, so the resource may have changed.
  await upstream.forgetSessions();
  await expect.poll(() => updatedUris, { timeout: 10_000 }).toHaveLength(2);
  expect(new Set(updatedUris)).toEqual(new Set(resourceSubscriptions));
});
