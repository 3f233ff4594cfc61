import { InMemoryResponseCacheStore } from '@modelcontextprotocol/client';
import { expect, it } from 'vitest';
import { reply } from '../../../../test/fixtures/raw-client.ts';
import type { Era } from '../../../../test/fixtures/raw-upstream/message.ts';
import { toolText } from '../../../../test/fixtures/raw-upstream/texts.ts';
import { connect } from '../../../../test/fixtures/sdk-client.ts';
import { client, eras, relayTests } from '../../testing/relay.ts';

const tests = relayTests();
const { onEnd, upstreamWith } = tests;

const INFO = 'io.modelcontextprotocol/serverInfo';

/** An upstream whose lists can be cached, with this server info (JSON text). */
async function upstream(tool: string, info?: string) {
  const list = `{"tools":[${toolText(tool)}],"resultType":"complete","ttlMs":60000,"cacheScope":"public"}`;
  const started = await upstreamWith({ 'tools/list': list });
  if (info !== undefined) {
    const identity = '"capabilities":{"tools":{}}';
    const discovered = `"resultType":"complete","supportedVersions":["2026-07-28"],${identity},"ttlMs":0,"cacheScope":"public"`;
    started.scripts['server/discover'] = `{${discovered},"_meta":{"${INFO}":${info}}}`;
    started.scripts.initialize = `{"protocolVersion":"2025-11-25",${identity},"serverInfo":${info}}`;
  }
  return started;
}

let namespaces = 0;

/** Registers forwards in a namespace of their own. */
async function namespaceWith(...addresses: readonly string[]): Promise<string> {
  const namespace = `identity${++namespaces}`;
  if (addresses.length === 0) await tests.service.register('namespaces', { name: namespace });
  for (const [at, address] of addresses.entries()) {
    await tests.service.register('forwards', { name: `${namespace}-${at}`, address, namespace, prefix: `p${at}_` });
  }
  onEnd(() => tests.service.manage('DELETE', `/namespaces/${namespace}?cascade=true`));
  return namespace;
}

/** The server info that a client of this era sees: texts, of each response that has one. */
async function identitiesOf(era: Era, namespace: string): Promise<unknown[]> {
  const url = tests.service.url(namespace);
  const found: unknown[] = [];
  if (era === 'legacy') {
    const opened = await fetch(url, {
      method: 'POST',
      body: '{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{}}}',
    });
    const { result } = JSON.parse(await opened.text());
    return [result.serverInfo];
  }
  const modern = await client(era, url);
  for (const method of ['server/discover', 'tools/list', 'resources/list', 'prompts/list']) {
    found.push(JSON.parse(reply(await modern.call(method))).result._meta[INFO]);
  }
  return found;
}

const OURS = (namespace: string) => ({ name: `sluice/${namespace}`, title: 'Sluice', version: expect.any(String) });
const THEIRS = { name: 'crm', version: '2.0', title: 'CRM', 'x-own': [1] };

it.each(eras)('a namespace has an identity of its own: ours, or that of its only upstream (%s)', async (era) => {
  const [crm, other] = [await upstream('a', JSON.stringify(THEIRS)), await upstream('b', '{"name":"b","version":"1"}')];
  const cases: [string, unknown][] = [
    [await namespaceWith(), OURS],
    [await namespaceWith(crm.url), THEIRS],
    [await namespaceWith(other.url, (await upstream('c', '{"name":"c","version":"1"}')).url), OURS],
    [await namespaceWith((await upstream('d', '{"name":"unnamed"}')).url), OURS],
    [await namespaceWith((await upstream('e', '"no object"')).url), OURS],
    [
      await namespaceWith(
        (await upstream('f', JSON.stringify({ name: 'f', version: '1', icons: [{ src: 'x'.repeat(20_000) }] }))).url,
      ),
      OURS,
    ],
  ];
  for (const [namespace, expected] of cases) {
    const identities = await identitiesOf(era, namespace);
    const wanted = expected === OURS ? OURS(namespace) : expected;
    expect(identities, namespace).toEqual(identities.map(() => wanted));
  }
});

it('changes with the forwards of a namespace, in lists that were built before, too', async () => {
  const [first, second] = [await upstream('a', JSON.stringify(THEIRS)), await upstream('b')];
  const namespace = await namespaceWith(first.url);
  const before = await identitiesOf('modern', namespace);
  // It adds a tool, but no resource and no prompt.
  await tests.service.register('forwards', { name: 'second', address: second.url, namespace });
  const after = await identitiesOf('modern', namespace);
  expect([before, after]).toEqual([before.map(() => THEIRS), after.map(() => OURS(namespace))]);
});

it('is ours for several namespaces with the same upstream, of which each may show other tools', async () => {
  const shared = await upstream('a', JSON.stringify(THEIRS));
  const [one, two] = [await namespaceWith(shared.url), await namespaceWith(shared.url)];
  expect((await identitiesOf('modern', one))[0]).toEqual(OURS(one));
  expect((await identitiesOf('modern', two))[0]).toEqual(OURS(two));
});

it('the official client does not serve the tools of one namespace in another from its cache', async () => {
  const shared = await upstream('shared');
  const [one, two] = [
    await namespaceWith((await upstream('a')).url, shared.url),
    await namespaceWith((await upstream('b')).url, shared.url),
  ];
  const responseCacheStore = new InMemoryResponseCacheStore();
  const listed: unknown[] = [];
  for (const namespace of [one, two]) {
    const connected = await connect(tests.service.url(namespace), 'modern', { responseCacheStore });
    onEnd(connected.close);
    const { tools } = await connected.client.listTools();
    listed.push(tools.map(({ name }) => name));
  }
  expect(listed).toEqual([
    ['p0_a', 'p1_shared'],
    ['p0_b', 'p1_shared'],
  ]);
});
