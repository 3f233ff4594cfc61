import { describe, expect, it } from 'vitest';
import { reply } from '../../../../test/fixtures/raw-client.ts';
import { LIST_END, textResultText, toolList, toolText } from '../../../../test/fixtures/raw-upstream/texts.ts';
import { listenTo } from '../../testing/listening-client.ts';
import { client, eras, errorOf, relayTests } from '../../testing/relay.ts';
import { startWatchedUpstream } from '../../testing/watched-upstream.ts';

const relay = relayTests();
const { onEnd, register, upstreamWith } = relay;

const scripts = {
  'tools/list': toolList(toolText('echo'), toolText('delete_database')),
  'tools/call': textResultText('done'),
  'prompts/list': `{"prompts":[{"name":"ask"},{"name":"secret"}],${LIST_END}`,
  'prompts/get': `{"messages":[],"resultType":"complete"}`,
  'resources/list': `{"resources":[{"uri":"test://open","name":"o"},{"uri":"test://t/a b","name":"s"}],${LIST_END}`,
  'resources/templates/list': `{"resourceTemplates":[{"uriTemplate":"test://t/{id}","name":"t"},{"uriTemplate":"test://vault/{+path}","name":"v"}],${LIST_END}`,
  'resources/read': `{"contents":[{"uri":"x","text":"read"}],${LIST_END}`,
  'completion/complete': `{"completion":{"values":["x"]},"resultType":"complete"}`,
  initialize:
    '{"protocolVersion":"2025-11-25","capabilities":{"tools":{},"prompts":{},"resources":{},"completions":{}},"serverInfo":{"name":"s","version":"1"}}',
  'server/discover': `{"supportedVersions":["2026-07-28"],"capabilities":{"tools":{},"prompts":{},"resources":{},"completions":{}},"serverInfo":{"name":"s","version":"1"},${LIST_END}`,
};

async function setEnabled(kind: string, body: object): Promise<void> {
  expect((await relay.service.manage('POST', `/${kind}/enabled`, body)).status).toBe(200);
}

describe.each(eras)('disabled entries (%s)', (era) => {
  it('are in no list and not found by any method, and come back when enabled', async () => {
    const upstream = await upstreamWith(scripts);
    const url = await register(upstream.url);
    const namespace = new URL(url).pathname.split('/')[1] ?? '';
    const caller = await client(era, url);
    const call = (method: string, params: object) => caller.call(method, JSON.stringify(params));
    const names = async (method: string, member: string) =>
      JSON.parse(reply(await call(method, {}))).result[member].map((item: { name: string }) => item.name);

    await setEnabled('tools', { enabled: false, names: ['delete_database'], namespace });
    await setEnabled('prompts', { enabled: false, names: ['secret'], namespace });
    await setEnabled('resources', { enabled: false, uris: ['test://t/a b', 'test://vault/{+path}'], namespace });
    expect(await names('tools/list', 'tools')).toEqual(['echo']);
    expect(await names('prompts/list', 'prompts')).toEqual(['ask']);
    expect(await names('resources/list', 'resources')).toEqual(['o']);
    expect(await names('resources/templates/list', 'resourceTemplates')).toEqual(['t']);

    const seen = upstream.seen.length;
    expect(errorOf(await call('tools/call', { name: 'delete_database' })).message).toBe(
      'tool not found: delete_database',
    );
    expect(errorOf(await call('prompts/get', { name: 'secret' })).message).toBe('prompt not found: secret');
    // By its own uri, encoded for the upstream to decode, and by a template or the only forward with resources.
    for (const uri of ['test://t/a b', 'test://t/a%20b', 'test://t/a%2520b', 'test://t/%61 b', 'test://vault/x/y']) {
      expect(errorOf(await call('resources/read', { uri })), uri).toMatchObject({
        code: -32602,
        message: `resource not found: ${uri}`,
      });
    }
    const argument = { name: 'id', value: 'x' };
    for (const ref of [
      { type: 'ref/prompt', name: 'secret' },
      { type: 'ref/resource', uri: 'test://t/a%20b' },
      { type: 'ref/resource', uri: 'test://vault/{+path}' },
    ]) {
      expect(errorOf(await call('completion/complete', { ref, argument })).code, JSON.stringify(ref)).toBe(-32602);
    }
    if (era === 'legacy') {
      expect(errorOf(await call('resources/subscribe', { uri: 'test://t/a%20b' })).code).toBe(-32602);
    }
    expect(upstream.seen.length).toBe(seen);
    expect(reply(await call('resources/read', { uri: 'test://t/other' }))).toContain('"text":"read"');

    await setEnabled('tools', { enabled: true, names: ['delete_database'], namespace });
    await setEnabled('resources', { enabled: true, uris: ['test://t/a b'], namespace });
    expect(await names('tools/list', 'tools')).toEqual(['echo', 'delete_database']);
    expect(reply(await call('tools/call', { name: 'delete_database' }))).toContain('done');
    expect(reply(await call('resources/read', { uri: 'test://t/a b' }))).toContain('"text":"read"');
  });

  it('are hidden by a mark before they are discovered, also as unlisted resources, in every namespace', async () => {
    const upstream = await upstreamWith(scripts);
    const url = await register(upstream.url);
    const forward = new URL(url).pathname.split('/')[1] ?? '';
    await setEnabled('tools', { enabled: false, forward, names: ['later'] });
    await setEnabled('resources', { enabled: false, forward, uris: ['linked://secret', 'linked://s/{id}'] });
    const caller = await client(era, url);
    const read = async (uri: string) => caller.call('resources/read', JSON.stringify({ uri }));
    expect(errorOf(await read('linked://secret')).code).toBe(-32602);
    expect(errorOf(await read('linked://s/1')).code).toBe(-32602);
    expect(reply(await read('linked://other'))).toContain('"text":"read"');

    upstream.scripts['tools/list'] = toolList(toolText('echo'), toolText('later'));
    await relay.service.manage('POST', `/forwards/${forward}/refreshes`);
    expect(reply(await caller.call('tools/list'))).not.toContain('later');
    expect(errorOf(await caller.call('tools/call', '{"name":"later"}')).message).toBe('tool not found: later');
    // Moved to another namespace and hidden there, a resource is not read from the first one either.
    const path = `/resources/o?namespace=${forward}`;
    await relay.service.manage('PUT', path, {
      name: 'o',
      location: 'test://open',
      type: 'mcp-forward',
      namespace: `${forward}-vault`,
      enabled: false,
    });
    expect(errorOf(await read('test://open')).code).toBe(-32602);
    await relay.service.manage('DELETE', `/namespaces/${forward}-vault?cascade=true`);
    expect(errorOf(await read('test://open')).code).toBe(-32602);
  });

  it('do not return when the namespace that they were moved to is deleted', async () => {
    const upstream = await upstreamWith(scripts);
    const url = await register(upstream.url);
    const namespace = new URL(url).pathname.split('/')[1] ?? '';
    const caller = await client(era, url);
    const moved = {
      description: '',
      uri: upstream.url,
      toolType: 'mcp-forward',
      input_schema: { type: 'object' },
      namespace: `${namespace}-vault`,
    };
    await relay.service.manage('PUT', `/tools/delete_database?namespace=${namespace}`, moved);
    const deleted = await relay.service.manage('DELETE', `/namespaces/${namespace}-vault?cascade=true`);
    expect(deleted.data).toEqual({
      removed: `${namespace}-vault`,
      disabled: [{ kind: 'tool', name: 'delete_database', namespace, forward: namespace }],
    });
    await relay.service.manage('POST', `/forwards/${namespace}/refreshes`);
    expect(reply(await caller.call('tools/list'))).not.toContain('delete_database');
    expect(errorOf(await caller.call('tools/call', '{"name":"delete_database"}')).message).toBe(
      'tool not found: delete_database',
    );
  });
});

describe('disabling an entry', () => {
  it('is reported to clients that listen, and its updates are no longer delivered', async () => {
    const upstream = await startWatchedUpstream(['r://1', 'r://2']);
    onEnd(upstream.close);
    const url = await register(upstream.url);
    const namespace = new URL(url).pathname.split('/')[1] ?? '';
    const filter = { resourcesListChanged: true, resourceSubscriptions: ['r://1', 'r://2'] };
    const listening = listenTo(url, filter);
    await expect.poll(() => upstream.streams.length).toBe(1);
    const [stream] = upstream.streams;
    stream?.acknowledge('r://1', 'r://2');
    const listener = await listening;
    onEnd(async () => listener.disconnect());
    await listener.first(1);
    await setEnabled('resources', { enabled: false, uris: ['r://1'], namespace });
    await listener.first(2);
    expect(listener.events[1]).toContain('notifications/resources/list_changed');
    stream?.updated('r://1');
    stream?.updated('r://2');
    const events = await listener.first(3);
    expect(events.slice(2).join()).toContain('r://2');
    expect(events.join()).not.toMatch(/updated[^\n]*r:\/\/1/);
  });
});
