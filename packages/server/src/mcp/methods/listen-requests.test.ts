import { describe, expect, it } from 'vitest';
import { startDualEra } from '../../../../../test/fixtures/dual-era.ts';
import { legacyClient, post } from '../../../../../test/fixtures/raw-client.ts';
import { LIST_END, toolList, toolText } from '../../../../../test/fixtures/raw-upstream/texts.ts';
import { startRawUpstream } from '../../../../../test/fixtures/raw-upstream.ts';
import { connect } from '../../../../../test/fixtures/sdk-client.ts';
import {
  LISTEN_HEADERS,
  type ListeningClient,
  type ListenOptions,
  listenText,
  listenTo,
} from '../../../testing/listening-client.ts';
import { errorOf, relayTests } from '../../../testing/relay.ts';
import { startTestService } from '../../../testing/service.ts';
import { startWatchedUpstream, type WatchedStream, type WatchedUpstream } from '../../../testing/watched-upstream.ts';
import { settled } from '../../http/client/settled.fixture.ts';

const relay = relayTests();
const { onEnd, register, upstreamWith } = relay;

const ALL_LISTS = { toolsListChanged: true, promptsListChanged: true, resourcesListChanged: true };
const TOOLS = '{"jsonrpc":"2.0","method":"notifications/tools/list_changed","params":{"_meta":ID}}';
const PROMPTS = '{"jsonrpc":"2.0","method":"notifications/prompts/list_changed","params":{"_meta":ID}}';
const RESOURCES = '{"jsonrpc":"2.0","method":"notifications/resources/list_changed","params":{"_meta":ID}}';
const COMPLETE = '{"jsonrpc":"2.0","id":1,"result":{"resultType":"complete","_meta":ID}}';

/** These messages with the subscription's id in place of `ID`. */
const named = (text: string, id = '1') => text.replace('ID', `{"io.modelcontextprotocol/subscriptionId":${id}}`);
const acknowledged = (granted: object, id = '1') =>
  `{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"_meta":${named('ID', id)},"notifications":${JSON.stringify(granted)}}}`;
const updated = (uri: string, id = '1') =>
  named(`{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"_meta":ID,"uri":"${uri}"}}`, id);

let namespaces = 0;
/** A separate namespace with one tool. */
async function namespace(): Promise<{ name: string; url: string }> {
  const name = `listened${++namespaces}`;
  await relay.service.register('tools', tool(name, 'first'));
  onEnd(() => relay.service.manage('DELETE', `/namespaces/${name}?cascade=true`));
  return { name, url: relay.service.url(name) };
}

function tool(name: string, key: string) {
  return { name: key, namespace: name, description: 'd', uri: 'http://localhost', toolType: 'rest', inputSchema: {} };
}

const prompt = (name: string) => ({ name: 'p', namespace: name, template: 't' });
const resource = (name: string) => ({ name: 'r', namespace: name, location: 'r://r', type: 'file' });

async function listen(url: string, filter: unknown, options?: ListenOptions): Promise<ListeningClient> {
  const client = await listenTo(url, filter, options);
  onEnd(async () => client.disconnect());
  return client;
}

async function watched(...uris: readonly string[]): Promise<WatchedUpstream> {
  const upstream = await startWatchedUpstream(uris);
  onEnd(upstream.close);
  return upstream;
}

/** Resolves with an upstream's next stream. */
async function stream(upstream: WatchedUpstream, at = 0): Promise<WatchedStream> {
  await expect.poll(() => upstream.streams[at], { interval: 5 }).toBeDefined();
  const found = upstream.streams[at];
  if (!found) throw new Error('no stream');
  return found;
}

describe('subscriptions/listen', () => {
  it('reports a tool added through the API promptly', async () => {
    const { name, url } = await namespace();
    const client = await listen(url, ALL_LISTS);
    expect(client.response.headers).toMatchObject({
      'content-type': 'text/event-stream',
      'x-accel-buffering': 'no',
    });
    expect(await client.first(1)).toEqual([acknowledged(ALL_LISTS)]);
    const before = performance.now();
    await relay.service.register('tools', tool(name, 'second'));
    expect(await client.first(2)).toContain(named(TOOLS));
    expect(performance.now() - before).toBeLessThan(5_000);
  });

  it('reports only the requested kinds of changes', async () => {
    const { name, url } = await namespace();
    const promptsOnly = await listen(url, { promptsListChanged: true, toolsListChanged: false });
    const resourcesOnly = await listen(url, { resourcesListChanged: true });
    await Promise.all([promptsOnly.first(1), resourcesOnly.first(1)]);
    await relay.service.register('tools', tool(name, 'second'));
    await relay.service.register('resources', resource(name));
    expect(await resourcesOnly.first(2)).toEqual([acknowledged({ resourcesListChanged: true }), named(RESOURCES)]);
    await relay.service.register('prompts', prompt(name));
    expect(await promptsOnly.first(2)).toEqual([acknowledged({ promptsListChanged: true }), named(PROMPTS)]);
  });

  it('identifies each stream by the exact id of its request', async () => {
    const { name, url } = await namespace();
    const ids = ['1', '"a\\u00e9"', '9007199254740993'];
    const clients = await Promise.all(ids.map((id) => listen(url, { toolsListChanged: true }, { id })));
    await Promise.all(clients.map((client) => client.first(1)));
    await relay.service.register('tools', tool(name, 'second'));
    for (const [at, client] of clients.entries()) {
      const id = ids[at];
      expect(await client.first(2)).toEqual([acknowledged({ toolsListChanged: true }, id), named(TOOLS, id)]);
    }
  });

  it('does not report a refresh without differences, nor a label', async () => {
    const upstream = await upstreamWith();
    const url = await register(upstream.url);
    const name = new URL(url).pathname.split('/')[1];
    const client = await listen(url, ALL_LISTS);
    await client.first(1);
    expect(await relay.service.manage('POST', `/forwards/${name}/refreshes`)).toMatchObject({ status: 200 });
    const { data } = await relay.service.manage('GET', `/tools/a?namespace=${name}`);
    const labeled = { ...Object(data), labels: { team: 'a' } };
    expect(await relay.service.manage('PUT', `/tools/a?namespace=${name}`, labeled)).toMatchObject({ status: 200 });
    await relay.service.register('prompts', prompt(String(name)));
    expect(await client.first(2)).toEqual([acknowledged(ALL_LISTS), named(PROMPTS)]);
    upstream.scripts['tools/list'] = toolList(toolText('b'));
    await relay.service.manage('POST', `/forwards/${name}/refreshes`);
    expect((await client.first(3)).at(-1)).toBe(named(TOOLS));
  });

  it('ends with a result when the service stops or the namespace is deleted', async () => {
    const upstream = await watched('r://a');
    const service = await startTestService();
    onEnd(() => service.stop());
    await service.register('forwards', { name: 'up', address: upstream.url });
    await service.register('namespaces', { name: 'short' });
    const lists = await listen(service.url('short'), { toolsListChanged: true });
    const opening = listen(service.url(), { resourceSubscriptions: ['r://a'] });
    (await stream(upstream)).acknowledge('r://a');
    const watching = await opening;
    await Promise.all([lists.first(1), watching.first(1)]);

    await service.manage('DELETE', '/namespaces/short');
    expect(await lists.first(2)).toEqual([acknowledged({ toolsListChanged: true }), named(COMPLETE)]);
    await lists.ended;

    const before = performance.now();
    await service.stop(20_000);
    expect(performance.now() - before).toBeLessThan(10_000);
    expect((await watching.first(2)).at(-1)).toBe(named(COMPLETE));
    await watching.ended;
    await expect.poll(() => upstream.streams[0]?.isDisconnected).toBe(true);
  });

  it('is acknowledged before it is completed, whenever it ends', async () => {
    const upstream = await watched('r://a');
    const service = await startTestService();
    onEnd(() => service.stop());
    await service.register('forwards', { name: 'up', address: upstream.url });
    const opening = listen(service.url(), { toolsListChanged: true, resourceSubscriptions: ['r://a'] });
    await stream(upstream);
    await service.stop();
    expect(await (await opening).first(2)).toEqual([acknowledged({ toolsListChanged: true }), named(COMPLETE)]);
  });

  it.each([
    ['no filter', null],
    ['a filter that is not an object', ['tools']],
    ['uris that are not strings', { resourceSubscriptions: [1] }],
    [
      'too long uris',
      { resourceSubscriptions: Array.from({ length: 17 }, (_, at) => `r://${at}/${'a'.repeat(4_000)}`) },
    ],
    ['too many uris', { resourceSubscriptions: Array.from({ length: 1001 }, (_, at) => `r://${at}`) }],
  ])('rejects %s', async (_what, filter) => {
    const { url } = await namespace();
    const response = await post(url, listenText(filter), LISTEN_HEADERS);
    expect(errorOf(response)).toMatchObject({ code: -32602, message: expect.stringContaining('notifications') });
  });

  it('passes at most eight gateways', async () => {
    const { url } = await namespace();
    const response = await post(url, listenText(ALL_LISTS), { ...LISTEN_HEADERS, 'x-service-hops': '8' });
    expect(errorOf(response)).toEqual({ code: -32603, message: 'forwarding loop' });
  });

  it('is not a method of the legacy era', async () => {
    const client = await legacyClient((await namespace()).url);
    const response = await client.call('subscriptions/listen', '{"notifications":{"toolsListChanged":true}}');
    expect([response.status, errorOf(response).code]).toEqual([200, -32601]);
  });
});

describe('watched resources', () => {
  it('are forwarded unchanged from the forward that serves the resource', async () => {
    const one = await watched('r://a', 'r://b');
    const two = await watched('s://b');
    two.templates = ['s://t/{x}'];
    const url = await register(one.url);
    const name = new URL(url).pathname.split('/')[1];
    await relay.service.register('forwards', { name: `${name}-two`, address: two.url, namespace: name });
    const uris = ['r://a', 's://b', 's://t/1', 'r://gone'];
    const opening = listen(url, { resourceSubscriptions: uris }, { id: '"x"' });
    const [first, second] = await Promise.all([stream(one), stream(two)]);
    expect(first.params.notifications).toEqual({ resourceSubscriptions: ['r://a'] });
    expect(second.params.notifications).toEqual({ resourceSubscriptions: ['s://b', 's://t/1'] });
    expect(first.params._meta).toMatchObject({
      'io.modelcontextprotocol/clientInfo': { name: 'listener', version: '1' },
      'io.modelcontextprotocol/clientCapabilities': {},
    });
    expect(first.headers['x-service-hops']).toBe('1');

    second.acknowledge('s://b', 's://t/1');
    first.acknowledge('r://a');
    const client = await opening;
    await client.first(1);
    first.updated('r://b');
    second.updated('r://a');
    first.send('{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}');
    first.updated('r://a', '"n":1.0,"z":[9223372036854775807]');
    second.send('{ "method":"notifications/resources/updated","jsonrpc":"2.0", "params":{"uri":"s://t/1"}}');
    // A sub-resource of the subscribed uri, and a uri with the same prefix only.
    second.updated('s://bb');
    second.updated('s://b/part');
    const all = await client.first(4);
    expect(all[0]).toBe(acknowledged({ resourceSubscriptions: ['r://a', 's://b', 's://t/1'] }, '"x"'));
    expect([...all.slice(1)].sort()).toEqual(
      [
        named(
          '{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"r://a","_meta":ID,"n":1.0,"z":[9223372036854775807]}}',
          '"x"',
        ),
        named(
          '{ "method":"notifications/resources/updated","jsonrpc":"2.0", "params":{"_meta":ID,"uri":"s://t/1"}}',
          '"x"',
        ),
        named(
          '{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"s://b/part","_meta":ID}}',
          '"x"',
        ),
      ].sort(),
    );
    client.disconnect();
    await expect.poll(() => [first.isDisconnected, second.isDisconnected]).toEqual([true, true]);
  });

  it('wait for the acknowledgment, like all other notifications', async () => {
    const upstream = await watched('r://a', 'r://b');
    const url = await register(upstream.url);
    const name = String(new URL(url).pathname.split('/')[1]);
    const requested = { toolsListChanged: true, resourceSubscriptions: ['r://a', 'r://b'] };
    const opening = listen(url, requested);
    const watching = await stream(upstream);
    await relay.service.register('tools', tool(name, 'new'));
    // Another client is notified meanwhile.
    const other = await listen(url, { toolsListChanged: true }, { id: '2' });
    await relay.service.register('tools', tool(name, 'newer'));
    await other.first(2);
    watching.acknowledge('r://b');
    watching.updated('r://b');
    const events = await (await opening).first(3);
    expect(events).toEqual([
      acknowledged({ toolsListChanged: true, resourceSubscriptions: ['r://b'] }),
      named(TOOLS),
      named('{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"r://b","_meta":ID}}'),
    ]);
  });

  it('are excluded when the forward does not support them', async () => {
    const legacy = await startRawUpstream({
      eras: ['legacy'],
      scripts: { 'resources/list': `{"resources":[{"uri":"l://a","name":"a"}],${LIST_END}` },
    });
    onEnd(legacy.close);
    const rejecting = await watched('r://a');
    const url = await register(legacy.url);
    const name = new URL(url).pathname.split('/')[1];
    await relay.service.register('forwards', { name: `${name}-two`, address: rejecting.url, namespace: name });
    const opening = listen(url, { resourceSubscriptions: ['l://a', 'r://a'] });
    const { response, id } = await stream(rejecting);
    response.writeHead(404, { 'content-type': 'application/json' });
    response.end(`{"jsonrpc":"2.0","id":${id},"error":{"code":-32601,"message":"no"}}`);
    expect(await (await opening).first(1)).toEqual([acknowledged({})]);
  });

  it('are all sent after the upstream was unreachable for a while', async () => {
    const upstream = await watched('r://a', 'r://b');
    const url = await register(upstream.url);
    const opening = listen(url, { resourceSubscriptions: ['r://a', 'r://b'] });
    const before = await stream(upstream);
    before.acknowledge('r://a', 'r://b');
    // Retry interval, so that the test need not wait long.
    before.response.write('retry: 50\n\n');
    const client = await opening;
    await client.first(1);
    before.response.destroy();
    const after = await stream(upstream, 1);
    after.acknowledge('r://a', 'r://b');
    expect((await client.first(3)).slice(1)).toEqual([updated('r://a'), updated('r://b')]);
    after.updated('r://b');
    expect((await client.first(4)).at(-1)).toContain('"uri":"r://b"');
  });

  it('end the stream when the upstream revokes a subscription, which is requested again', async () => {
    const upstream = await watched('r://a');
    const url = await register(upstream.url);
    const opening = listen(url, { toolsListChanged: true, resourceSubscriptions: ['r://a'] });
    const before = await stream(upstream);
    before.acknowledge('r://a');
    const client = await opening;
    await client.first(1);
    // Retry interval, so that the test need not wait long.
    before.response.end('retry: 50\n\n');
    const after = await stream(upstream, 1);
    after.response.writeHead(405).end();
    expect((await client.first(3)).slice(1)).toEqual([updated('r://a'), named(COMPLETE)]);
    await client.ended;
    const again = listen(url, { toolsListChanged: true, resourceSubscriptions: ['r://a'] });
    (await stream(upstream, 2)).response.writeHead(405).end();
    expect(await (await again).first(1)).toEqual([acknowledged({ toolsListChanged: true })]);
  });

  it('follow a resource to another forward', async () => {
    const one = await watched('r://a', 'r://stays');
    const two = await watched('r://a');
    const url = await register(one.url);
    const name = new URL(url).pathname.split('/')[1];
    await relay.service.register('forwards', { name: `${name}-two`, address: two.url, namespace: name });
    const opening = listen(url, { resourceSubscriptions: ['r://a', 'r://stays'] });
    const first = await stream(one);
    first.acknowledge('r://a', 'r://stays');
    const client = await opening;
    await client.first(1);

    one.uris = ['r://stays'];
    await relay.service.manage('POST', `/forwards/${name}/refreshes`);
    const second = await stream(two);
    second.acknowledge('r://a');
    expect((await client.first(2)).at(-1)).toBe(updated('r://a'));
    first.updated('r://a');
    first.updated('r://stays');
    expect((await client.first(3)).at(-1)).toContain('"uri":"r://stays"');
    second.updated('r://a');
    expect((await client.first(4)).at(-1)).toContain('"uri":"r://a"');
    expect([first.isDisconnected, one.streams.length]).toEqual([false, 1]);

    await relay.service.manage('DELETE', `/forwards/${name}-two`);
    await expect.poll(() => second.isDisconnected).toBe(true);
    expect((await client.first(5)).at(-1)).toBe(updated('r://a'));
  });

  it('are subscribed with the headers that the operator passes through', async () => {
    const upstream = await watched('r://a');
    const service = await startTestService({ SERVICE_FORWARD_HEADERS: 'x-tenant' });
    onEnd(() => service.stop());
    await service.register('forwards', { name: 'up', address: upstream.url });
    const headers = { 'x-tenant': 't1', 'x-other': 'o', 'x-service-hops': '3' };
    const opening = listen(service.url(), { resourceSubscriptions: ['r://a'] }, { headers });
    const subscription = await stream(upstream);
    expect(subscription.headers).toMatchObject({ 'x-tenant': 't1', 'x-service-hops': '4' });
    expect(subscription.headers['x-other']).toBeUndefined();
    subscription.acknowledge('r://a');
    await opening;
  });

  it("apply the client's backpressure to the upstream", async () => {
    const upstream = await watched('r://a');
    const url = await register(upstream.url);
    const opening = listen(url, { resourceSubscriptions: ['r://a'] });
    const subscription = await stream(upstream);
    subscription.acknowledge('r://a');
    const client = await opening;
    await client.first(1);
    client.response.pause();
    const padding = 'x'.repeat(1024 * 1024);
    const updates = 64;
    for (let at = 1; at <= updates; at++) subscription.updated('r://a', `"padding":"${padding}","at":${at}`);
    // Data in transit fills the sockets' buffers, then nothing moves.
    const { response } = subscription;
    expect(await settled(() => response.writableLength)).toBeGreaterThan((updates / 4) * padding.length);
    client.response.resume();
    await expect.poll(() => client.events.at(-1)?.endsWith(`"at":${updates}}}`), { timeout: 20_000 }).toBe(true);
  });

  it('do not delay a shutdown when the client does not read', async () => {
    const upstream = await watched('r://a');
    const service = await startTestService();
    onEnd(() => service.stop());
    await service.register('forwards', { name: 'up', address: upstream.url });
    const opening = listen(service.url(), { resourceSubscriptions: ['r://a'] });
    const subscription = await stream(upstream);
    subscription.acknowledge('r://a');
    const client = await opening;
    await client.first(1);
    client.response.pause();
    const padding = 'x'.repeat(1024 * 1024);
    for (let at = 1; at <= 48; at++) subscription.updated('r://a', `"padding":"${padding}"`);
    expect(await settled(() => subscription.response.writableLength)).toBeGreaterThan(0);
    const before = performance.now();
    await service.stop(20_000);
    expect(performance.now() - before).toBeLessThan(10_000);
  });
});

describe('the official client', () => {
  it('receives upstream changes and the end of the stream through the gateway', async () => {
    const upstream = await startDualEra();
    onEnd(upstream.close);
    const service = await startTestService();
    onEnd(() => service.stop());
    await service.register('forwards', { name: 'up', address: upstream.url });
    const { client, close } = await connect(service.url(), 'modern');
    onEnd(close);
    const changed = new Promise<void>((resolve) => {
      client.setNotificationHandler('notifications/tools/list_changed', () => resolve());
    });
    const resourceSubscriptions = ['test://watched-resource'];
    const subscription = await client.listen({
      toolsListChanged: true,
      resourceSubscriptions: [...resourceSubscriptions, 'test://nowhere/else'],
    });
    expect(subscription.honoredFilter).toEqual({ toolsListChanged: true, resourceSubscriptions: expect.any(Array) });
    expect(subscription.honoredFilter.resourceSubscriptions).toContain('test://watched-resource');
    const before = performance.now();
    upstream.addTool('fresh');
    await changed;
    expect(performance.now() - before).toBeLessThan(5_000);
    await service.stop();
    expect(await subscription.closed).toBe('graceful');
  });
});
