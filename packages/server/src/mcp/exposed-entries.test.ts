import { describe, expect, it } from 'vitest';
import { reply } from '../../../../test/fixtures/raw-client.ts';
import { LIST_END, textResultText, toolList, toolText } from '../../../../test/fixtures/raw-upstream/texts.ts';
import { InteractiveClient, inputRequired, lastMessage } from '../../testing/interactive-client.ts';
import { listenTo } from '../../testing/listening-client.ts';
import { liveTests, notification } from '../../testing/live-tests.ts';
import { client, eras, errorOf } from '../../testing/relay.ts';
import { sessionClient } from '../../testing/session-client.ts';
import { startWatchedUpstream } from '../../testing/watched-upstream.ts';

const tests = liveTests();
const { live, onEnd, register, upstreamWith } = tests;

const CAPABILITIES = '"capabilities":{"tools":{},"prompts":{},"resources":{},"completions":{}}';
const scripts = {
  'tools/list': toolList(toolText('read_file'), toolText('read_secret'), toolText('write_file')),
  'tools/call': textResultText('done'),
  'prompts/list': `{"prompts":[{"name":"ask"},{"name":"Ask"}],${LIST_END}`,
  'prompts/get': `{"messages":[],"resultType":"complete"}`,
  'resources/list': `{"resources":[{"uri":"test://open","name":"o"},{"uri":"test://a/secret b","name":"s"}],${LIST_END}`,
  'resources/templates/list': `{"resourceTemplates":[{"uriTemplate":"test://a/{+path}","name":"t"},{"uriTemplate":"other://{id}","name":"x"}],${LIST_END}`,
  'resources/read': `{"contents":[{"uri":"x","text":"read"}],${LIST_END}`,
  'completion/complete': `{"completion":{"values":["x"]},"resultType":"complete"}`,
  initialize: `{"protocolVersion":"2025-11-25",${CAPABILITIES},"serverInfo":{"name":"s","version":"1"}}`,
  'server/discover': `{"supportedVersions":["2026-07-28"],${CAPABILITIES},"serverInfo":{"name":"s","version":"1"},${LIST_END}`,
};
const EXPOSE = {
  tools: { allow: ['read_*'], deny: ['*secret*'] },
  prompts: { allow: ['a?k'] },
  resources: { allow: ['test://*'], deny: ['*secret*'] },
};

async function change(url: string, body: object): Promise<{ readonly statusMessage?: string }> {
  const { status, data } = await tests.service.manage('PATCH', `/forwards/${nameIn(url)}`, body);
  expect(status).toBe(200);
  return Object(data);
}

/** Forward and namespace of an endpoint have the same name. */
function nameIn(url: string): string {
  return new URL(url).pathname.split('/')[1] ?? '';
}

describe.each(eras)('entries that a forward does not expose (%s)', (era) => {
  it('are in no list and not found by any method, whatever a uri comes from', async () => {
    const upstream = await upstreamWith(scripts);
    const url = await register(upstream.url, { expose: EXPOSE });
    const caller = await client(era, url);
    const call = (method: string, params: object) => caller.call(method, JSON.stringify(params));
    const names = async (method: string, member: string) =>
      JSON.parse(reply(await call(method, {}))).result[member].map((item: { name: string }) => item.name);
    expect(await names('tools/list', 'tools')).toEqual(['read_file']);
    expect(await names('prompts/list', 'prompts')).toEqual(['ask']);
    expect(await names('resources/list', 'resources')).toEqual(['o']);
    expect(await names('resources/templates/list', 'resourceTemplates')).toEqual(['t']);

    const seen = upstream.seen.length;
    const rejection = async (method: string, params: object) => errorOf(await call(method, params)).message;
    expect(await rejection('tools/call', { name: 'write_file' })).toBe('tool not found: write_file');
    expect(await rejection('prompts/get', { name: 'Ask' })).toBe('prompt not found: Ask');
    // By the exposed template, or since the forward is the only one with resources; encoded for the upstream to decode.
    const denied = ['test://a/secret b', 'test://a/%73ecret', 'test://a/%2573ecret', 'other://1', 'test%3A//open'];
    for (const uri of denied) {
      expect(await rejection('resources/read', { uri })).toBe(`resource not found: ${uri}`);
      if (era === 'legacy') expect(await rejection('resources/subscribe', { uri })).toBe(`resource not found: ${uri}`);
    }
    const argument = { name: 'id', value: 'x' };
    for (const uri of ['test://a/%73ecret', 'other://{id}']) {
      const ref = { type: 'ref/resource', uri };
      expect(errorOf(await call('completion/complete', { ref, argument })).code).toBe(-32602);
    }
    expect(await rejection('resources/read', { uri: `test://${'x'.repeat(10_000)}` })).toMatch(/^resource not found/);
    expect(upstream.seen.length).toBe(seen);
    for (const uri of ['test://open', 'test://a/other', 'test://a/%41']) {
      expect(reply(await call('resources/read', { uri }))).toContain('"text":"read"');
    }
  });

  it('disappear and return at once with a change of the rules, also while the upstream is down', async () => {
    const upstream = await upstreamWith(scripts);
    const url = await register(upstream.url);
    const caller = await client(era, url);
    const tools = async () => (reply(await caller.call('tools/list')).match(/"name":"[a-z]+_[a-z]+"/g) ?? []).length;
    expect(await tools()).toBe(3);
    await upstream.down();
    await change(url, { expose: { ...EXPOSE, resources: null } });
    expect(await tools()).toBe(1);
    expect(errorOf(await caller.call('tools/call', '{"name":"write_file"}')).message).toBe(
      'tool not found: write_file',
    );
    await upstream.up();
    const { statusMessage } = await change(url, { expose: { tools: { allow: null }, prompts: null } });
    expect(statusMessage).toBe('not exposed: 1 tool');
    expect(await tools()).toBe(2);
    expect(reply(await caller.call('tools/call', '{"name":"write_file"}'))).toContain('done');
  });
});

describe('a forward that disables new entries', () => {
  it('hides what appears after its first discovery, until an operator enables it', async () => {
    const upstream = await upstreamWith(scripts);
    const url = await register(upstream.url, { expose: { tools: { new: 'disabled' } } });
    const forward = nameIn(url);
    const { service } = tests;
    const refresh = () => service.manage('POST', `/forwards/${forward}/refreshes`);
    const enabled = async () => {
      const { data } = await service.manage('GET', `/tools?namespace=${forward}`);
      return Object.fromEntries(Object.values(Object(data)).map((tool) => [Object(tool).name, Object(tool).enabled]));
    };
    const first = { read_file: true, read_secret: true, write_file: true };
    expect(await enabled()).toEqual(first);
    // Marked before it is discovered, a tool is not new.
    const mark = { enabled: true, forward, names: ['marked'] };
    expect((await service.manage('POST', '/tools/enabled', mark)).status).toBe(200);
    const more = toolList(...['read_file', 'added', 'marked'].map((name) => toolText(name)));
    const other = await upstreamWith({ ...scripts, 'tools/list': more });
    await change(url, { address: other.url });
    expect(await enabled()).toEqual({ read_file: true, added: false, marked: true });
    const caller = await client('modern', url);
    expect(reply(await caller.call('tools/list'))).not.toContain('added');
    expect(errorOf(await caller.call('tools/call', '{"name":"added"}')).message).toBe('tool not found: added');

    await service.manage('POST', '/tools/enabled', { enabled: true, names: ['added'], namespace: forward });
    expect(reply(await caller.call('tools/call', '{"name":"added"}'))).toContain('done');
    // What an operator enabled stays enabled when it returns; anything else that returns is new.
    other.scripts['tools/list'] = toolList(toolText('marked'));
    await refresh();
    other.scripts['tools/list'] = more;
    await refresh();
    expect(await enabled()).toEqual({ read_file: false, added: true, marked: true });
  });
});

describe('subscriptions to what is hidden', () => {
  it('fall silent and continue later, for a modern client', async () => {
    const upstream = await startWatchedUpstream(['r://1', 'r://2']);
    onEnd(upstream.close);
    const url = await register(upstream.url);
    const listening = listenTo(url, { resourceSubscriptions: ['r://1', 'r://unlisted'] });
    await expect.poll(() => upstream.streams.length).toBe(1);
    upstream.streams[0]?.acknowledge('r://1', 'r://unlisted');
    const listener = await listening;
    onEnd(async () => listener.disconnect());
    await listener.first(1);
    await change(url, { expose: { resources: { deny: ['r://1', 'r://unlisted'] } } });
    upstream.streams[0]?.updated('r://unlisted');
    await expect.poll(() => upstream.streams[0]?.isDisconnected).toBe(true);
    expect(listener.events).toHaveLength(1);
    await change(url, { expose: null });
    await expect.poll(() => upstream.streams.length).toBe(2);
    upstream.streams[1]?.acknowledge('r://1', 'r://unlisted');
    // What it may have missed.
    await listener.first(3);
    upstream.streams[1]?.updated('r://unlisted');
    expect((await listener.first(4))[3]).toContain('r://unlisted');
  });

  it('fall silent and continue later, for a legacy client of a modern upstream', async () => {
    const upstream = await startWatchedUpstream(['r://1']);
    onEnd(upstream.close);
    const url = await register(upstream.url);
    const listener = await sessionClient(url);
    const stream = listener.listen();
    onEnd(async () => stream.disconnect());
    const subscribed = listener.request('resources/subscribe', '{"uri":"r://1"}');
    await expect.poll(() => upstream.streams.length).toBe(1);
    upstream.streams[0]?.acknowledge('r://1');
    expect(await subscribed).toMatchObject({ result: {} });
    await change(url, { expose: { resources: { deny: ['*'] } } });
    upstream.streams[0]?.updated('r://1');
    await expect.poll(() => upstream.streams[0]?.isDisconnected).toBe(true);
    expect(stream.text).not.toContain('r://1');
    await change(url, { expose: null });
    await expect.poll(() => upstream.streams.length).toBe(2);
    upstream.streams[1]?.acknowledge('r://1');
    await stream.matching(/updated.*r:\/\/1/);
  });

  it('fall silent and continue later, for a legacy client in a new session of its upstream', async () => {
    const { upstream, url } = await live({ uris: ['r://1'] });
    const listener = await sessionClient(url);
    const stream = listener.listen();
    onEnd(async () => stream.disconnect());
    expect(await listener.request('resources/subscribe', '{"uri":"r://1"}')).toMatchObject({ result: {} });
    const first = await upstream.streams.next();
    await change(url, { expose: { resources: { deny: ['*'] } } });
    first.send(notification('resources/updated', '{"uri":"r://1"}'));
    first.send(notification('example.com/next'));
    await stream.matching(/example\.com\/next/);
    expect(stream.text).not.toContain('r://1');
    // The new session is opened while the resource is hidden, and so without the subscription.
    upstream.forgetSessions();
    listener.call('"c"');
    (await upstream.calls.next()).json('done');
    await upstream.streams.next();
    const subscriptions = () => upstream.of('resources/subscribe').length;
    expect(subscriptions()).toBe(1);
    await change(url, { expose: null });
    await expect.poll(subscriptions).toBe(2);
    await stream.matching(/updated.*r:\/\/1/);
  });
});

describe('a suspended call', () => {
  it.each([
    ['denied', { expose: { tools: { deny: ['work'] } } }, undefined],
    ['disabled', undefined, { enabled: false, names: ['work'] }],
  ])('ends at once when its tool is %s', async (_, expose, mark) => {
    const { upstream, url } = await live();
    const caller = new InteractiveClient(url);
    const pending = caller.send();
    const call = await upstream.calls.next();
    call.begin();
    call.request('7', 'roots/list');
    const { state } = await inputRequired(pending);
    if (expose) await change(url, expose);
    if (mark) await tests.service.manage('POST', '/tools/enabled', { ...mark, namespace: nameIn(url) });
    await expect.poll(() => upstream.of('notifications/cancelled').length).toBe(1);
    expect(await lastMessage(caller.retry(state, '{}'))).toContain('tool not found: work');
    if (expose) await change(url, { expose: null });
    if (mark)
      await tests.service.manage('POST', '/tools/enabled', { enabled: true, namespace: nameIn(url), names: ['work'] });
    expect(await lastMessage(caller.retry(state, '{}'))).toContain('"kind":"not_held"');
  });
});

describe('the rules of a forward', () => {
  it('are part of its representation and its ETag, and validated as a whole', async () => {
    const { service } = tests;
    const url = await register((await upstreamWith(scripts)).url, { expose: { tools: {}, prompts: { deny: [] } } });
    const path = `${service.management}/api/v1/forwards/${nameIn(url)}`;
    const tag = async () => (await fetch(path)).headers.get('etag');
    const before = await tag();
    expect((await service.manage('GET', `/forwards/${nameIn(url)}`)).data).toMatchObject({
      expose: { prompts: { deny: [] } },
    });
    expect(await change(url, { expose: { tools: { allow: ['b', 'a'] }, prompts: { deny: null } } })).toMatchObject({
      expose: { tools: { allow: ['b', 'a'] } },
    });
    expect(await tag()).not.toBe(before);
    const invalid = [
      { tools: { alow: ['a'] } },
      { tool: {} },
      { tools: { allow: [''] } },
      { tools: { allow: ['x'.repeat(1_025)] } },
      { tools: { deny: Array.from({ length: 201 }, (_, at) => `t${at}`) } },
      { tools: { new: 'hidden' } },
      { resources: { deny: ['a\nb'] } },
    ];
    for (const expose of invalid) {
      const body = { labels: { a: 'b' }, expose: { prompts: { deny: ['*'] }, ...expose } };
      expect((await service.manage('PATCH', `/forwards/${nameIn(url)}`, body)).status, JSON.stringify(expose)).toBe(
        400,
      );
    }
    expect((await service.manage('GET', `/forwards/${nameIn(url)}`)).data).toMatchObject({
      labels: {},
      expose: { tools: { allow: ['b', 'a'] } },
    });
  });
});
