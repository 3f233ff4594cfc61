import { describe, expect, it } from 'vitest';
import { startDualEra } from '../../../../../../test/fixtures/dual-era.ts';
import { LIST_END } from '../../../../../../test/fixtures/raw-upstream/texts.ts';
import { startRawUpstream } from '../../../../../../test/fixtures/raw-upstream.ts';
import { connect } from '../../../../../../test/fixtures/sdk-client.ts';
import { type ListeningClient, type ListenOptions, listenTo } from '../../../../testing/listening-client.ts';
import { liveTests, notification } from '../../../../testing/live.ts';

const tests = liveTests();
const { live, onEnd, register } = tests;

const META = (id: string) => `"_meta":{"io.modelcontextprotocol/subscriptionId":${id}}`;
const acknowledged = (granted: object, id = '1') =>
  notification('subscriptions/acknowledged', `{${META(id)},"notifications":${JSON.stringify(granted)}}`);
const updated = (uri: string, id = '1') => notification('resources/updated', `{${META(id)},"uri":"${uri}"}`);
const legacyUpdated = (uri: string) => notification('resources/updated', `{"uri":"${uri}"}`);

async function listen(url: string, filter: unknown, options?: ListenOptions): Promise<ListeningClient> {
  const client = await listenTo(url, filter, options);
  onEnd(async () => client.leave());
  return client;
}

describe('a modern client that watches resources of a legacy upstream', () => {
  it('is told of them in the upstream’s words, in a session of its own, until it leaves', async () => {
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
    // What was not granted, what only begins like it, what nobody has asked for.
    for (const uri of ['a://2', 'a://11', 'b://1']) first.send(legacyUpdated(uri));
    first.send(notification('message', '{"level":"error","data":1}'));
    first.send(legacyUpdated('a://3/part'));
    expect((await clients[0]?.first(3))?.slice(1)).toEqual([
      ` { "method":"notifications/resources/updated","jsonrpc":"2.0","params":{${META('"x"')},"uri":"a://1","n":1.0}}`,
      updated('a://3/part', '"x"'),
    ]);
    second.send(legacyUpdated('a://1'));
    expect((await clients[1]?.first(2))?.at(-1)).toBe(updated('a://1', '2'));
    for (const client of clients) client.leave();
    await expect.poll(() => upstream.sessions.size).toBe(0);
  });

  it('is told once of each when the upstream was away', async () => {
    const { upstream, url } = await live({ uris: ['a://1', 'a://2'] });
    const client = await listen(url, { resourceSubscriptions: ['a://1', 'a://2'] });
    await client.first(1);
    const before = await upstream.streams.next();
    // Says when to come back, so that the test need not wait long.
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

  it('has its stream ended when the upstream takes back what it has granted', async () => {
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

  it('is told of lists that have changed upstream, as it sees them', async () => {
    const { upstream, url } = await live({ uris: ['a://1'] });
    const client = await listen(url, { toolsListChanged: true, resourceSubscriptions: ['a://1'] });
    await client.first(1);
    upstream.results['tools/list'] = '{"tools":[{"name":"other","inputSchema":{"type":"object"}}]}';
    (await upstream.streams.next()).send(notification('tools/list_changed'));
    expect((await client.first(2)).at(-1)).toBe(notification('tools/list_changed', `{${META('1')}}`));
  });

  it('gets nothing of an upstream that cannot tell, and no session is left there', async () => {
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

  it('ends its session there when the forward is deleted', async () => {
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
    // A legacy client: from now on both eras are known.
    const { close } = await connect(url, 'legacy');
    onEnd(close);
    const client = await listen(url, { resourceSubscriptions: ['a://1'] });
    expect(await client.first(1)).toEqual([acknowledged({ resourceSubscriptions: ['a://1'] })]);
    return [upstream.count('subscriptions/listen'), upstream.count('resources/subscribe')];
  };

  it('is asked in the client’s own, or else in the one that declares subscriptions', async () => {
    expect(await both(true, true)).toEqual([1, 0]);
    expect(await both(true, false)).toEqual([0, 1]);
  });
});

it('the official client watches a resource of an official server of the legacy era', async () => {
  const upstream = await startDualEra({ eras: 'legacy' });
  onEnd(upstream.close);
  const { client, close } = await connect(await register(upstream.url), 'modern');
  onEnd(close);
  expect(client.getServerCapabilities()?.resources).toMatchObject({ subscribe: true });
  const resourceSubscriptions = ['test://watched-resource'];
  const subscription = await client.listen({ resourceSubscriptions });
  expect(subscription.honoredFilter).toEqual({ resourceSubscriptions });
  const told: string[] = [];
  client.setNotificationHandler('notifications/resources/updated', ({ params }) => void told.push(params.uri));
  upstream.updateResource('test://watched-resource');
  await expect.poll(() => told).toEqual(resourceSubscriptions);
  // The session in which it was subscribed to is gone: it may have changed.
  await upstream.forgetSessions();
  await expect.poll(() => told, { timeout: 10_000 }).toHaveLength(2);
  expect(new Set(told)).toEqual(new Set(resourceSubscriptions));
});
