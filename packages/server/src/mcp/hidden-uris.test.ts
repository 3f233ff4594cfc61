import { describe, expect, it } from 'vitest';
import { reply } from '../../../../test/fixtures/raw-client.ts';
import { LIST_END } from '../../../../test/fixtures/raw-upstream/texts.ts';
import { listenTo } from '../../testing/listening-client.ts';
import { client, eras, errorOf, lastCall, relayTests } from '../../testing/relay.ts';
import { startWatchedUpstream } from '../../testing/watched-upstream.ts';

const tests = relayTests();
const { register, upstreamWith, onEnd } = tests;

/** Each of these is served as `file:///secrets/x` by some server. */
const ATTACKS: readonly string[] = [
  'file:///secrets/x',
  'file:///public/../secrets/x',
  'file:///public/./../secrets/./x',
  'file:///public/%2e%2e/secrets/x',
  'file:///public/.%2E/secrets/x',
  'file:///public/..%2fsecrets/x',
  'file:///public%2F..%2Fsecrets%2Fx',
  'file:///public/%252e%252e/secrets/x',
  'file:///public/%25252E%25252e%25252fsecrets/x',
  'file:///public/..%255csecrets/x',
  'FILE:///secrets/x',
  'File:///secrets/x',
  'file:/secrets/x',
  'file:secrets/x',
  'file:public/../secrets/x',
  'file:////secrets/x',
  'file:///secrets//x',
  'file:///./secrets/x',
  'file:///../secrets/x',
  'file:///public\\..\\secrets/x',
  'file:///secrets\\x',
  'file:\\\\\\secrets\\x',
  'file:///public/..;a=b/secrets/x',
  'file:///public/a//..%2f..%2fsecrets/x',
  'file:///public/%3f/..%2f..%2fsecrets/x',
  'file:///public/%23/..%2f..%2fsecrets/x',
  'file:///public/?/../../secrets/x',
  ' file:///secrets/x',
  'file:///secrets/x ',
  'file:///secrets/x%20',
  '\u0000\u001ffile:///secrets/x',
  'file:///secrets/x\u0000',
  '\ufefffile:///secrets/x',
  'file:///sec\trets/x',
  'file:///sec\r\nrets/x',
  'fi\nle:///secrets/x',
  'file:///public/.\t./secrets/x',
  'file:///public/.%09./secrets/x',
  'file:///%73ecrets/x',
  'file:///%2573%65crets/x',
  '%66ile:///secrets/x',
  'file%3A///secrets/x',
  'file://localhost/secrets/x',
  'file://LOCALHOST/secrets/x',
  'file://%6cocalhost/secrets/x',
  'file://user@localhost/secrets/x',
  'file://other.example/secrets/x',
  'file://secrets/x',
  'file:///secrets/x/',
  'file:///secrets/x?',
  'file:///secrets/x?q=1',
  'file:///secrets/x#fragment',
  'file:///secrets/x#/../../public/a',
];

/** Uris, each with a glob that allows it, in the way an upstream lists them. */
const VISIBLE: readonly (readonly [string, string])[] = [
  ['KBInfo://*', 'KBInfo://Articles/Über uns'],
  ['memo:*', 'memo:hello world'],
  ['memo:exact', 'memo:exact'],
  ['urn:isbn:*', 'urn:isbn:0451450523'],
  ['file:///docs/café/*', 'file:///docs/caf%C3%A9/a'],
  ['file:///docs/caf%C3%A9/*', 'file:///docs/café/b'],
  ['file:///my docs/*', 'file:///my%20docs/a b'],
  ['file:///a..b/*', 'file:///a..b/c..'],
  ['file:/java/*', 'file:/java/a.txt'],
  ['file://server/share/*', 'file://server/share/a//b'],
  ['file:///C:/Users/*', 'file:///C:/Users/a.txt'],
  ['file:///rates/100%25*', 'file:///rates/100%25.txt'],
  ['file:///questions/*.md', 'file:///questions/why%3F.md'],
  ['file:///stars/%2A*', 'file:///stars/**'],
  ['file:///latin/*', 'file:///latin/%E9'],
  ['https://example.com', 'https://example.com'],
  ['https://example.com:8443/*', 'https://example.com:8443/a?b=../c&d=e/../f#g'],
  ['https://example.com:443/*', 'https://example.com:443/port'],
  ['HTTPS://Example.COM/case/*', 'HTTPS://Example.COM/case/A'],
  ['https://*.bücher.example', 'https://www.bücher.example'],
  ['https://xn--bcher-kva.example/*', 'https://xn--bcher-kva.example/a'],
  ['repo:///a%2Fb/*', 'repo:///a%2Fb/main'],
  ['db://user@host/table;v=1/*', 'db://user@host/table;v=1/row'],
  ['notes:///back\\slash/*', 'notes:///back\\slash/a'],
  ['https://web/page?to=*', 'https://web/page?to=/a/../b'],
  ['data:*', 'data:text/plain,a%20b'],
  ['*.plain', 'no uri.plain'],
  ['nested:///https://*', 'nested:///https://example.com/a'],
];

const CAPABILITIES =
  '"capabilities":{"tools":{},"resources":{},"completions":{}},"serverInfo":{"name":"s","version":"1"}';

function scriptsOf(uris: readonly string[], templates: readonly string[]) {
  const list = (member: string, keys: readonly string[]) =>
    JSON.stringify(keys.map((key, at) => ({ [member]: key, name: `n${at}` })));
  return {
    'tools/list': `{"tools":[],${LIST_END}`,
    'resources/list': `{"resources":${list('uri', uris)},${LIST_END}`,
    'resources/templates/list': `{"resourceTemplates":${list('uriTemplate', templates)},${LIST_END}`,
    'resources/read': `{"contents":[{"uri":"x","text":"read"}],${LIST_END}`,
    'completion/complete': `{"completion":{"values":["x"]},"resultType":"complete"}`,
    initialize: `{"protocolVersion":"2025-11-25",${CAPABILITIES}}`,
    'server/discover': `{"supportedVersions":["2026-07-28"],${CAPABILITIES},${LIST_END}`,
  };
}

/** The ways in which an operator can hide the resource. */
const HIDING = {
  'that is not allowed': { expose: { resources: { allow: ['file:///public/*'] } } },
  'that is allowed by a suffix only': { expose: { resources: { allow: ['file:///public/*', '*.md'] } } },
  'that is denied': { expose: { resources: { deny: ['file:///secrets/x'] } } },
  'whose folder is denied': { expose: { resources: { deny: ['file:///secrets/*'] } } },
  'denied by another spelling': { expose: { resources: { deny: ['FILE:/%73ecrets/*'] } } },
  'that is disabled': { disable: 'file:///secrets/x' },
  'whose template is disabled': { disable: 'file:///secrets/{+path}' },
} as const;

describe.each(eras)('a hidden resource (%s)', (era) => {
  it.each(Object.entries(HIDING))('%s is in no list and cannot be requested in any form', async (_, hiding) => {
    const allowed = 'expose' in hiding && 'allow' in hiding.expose.resources;
    const templates = allowed ? ['file:///public/{+path}'] : ['file:///{+path}', 'file:///secrets/{+path}'];
    const upstream = await upstreamWith(scriptsOf(['file:///public/a', 'file:///secrets/x'], templates));
    const url = await register(upstream.url, 'expose' in hiding ? { expose: hiding.expose } : {});
    if ('disable' in hiding) await disable(url, hiding.disable);
    const caller = await client(era, url);
    const list = await caller.call('resources/list');
    expect(reply(list)).toContain('file:///public/a');
    if (!('disable' in hiding && hiding.disable.includes('{'))) expect(reply(list)).not.toContain('secrets');
    const before = upstream.seen.length;
    // The resource itself is listed, which a disabled template does not hide.
    const attacks = 'disable' in hiding && hiding.disable.includes('{') ? ATTACKS.slice(1) : ATTACKS;
    for (const uri of attacks) {
      const read = errorOf(await caller.call('resources/read', JSON.stringify({ uri })));
      expect(read, JSON.stringify(uri)).toMatchObject({ code: -32602, message: `resource not found: ${uri}` });
      const params = JSON.stringify({ ref: { type: 'ref/resource', uri }, argument: { name: 'a', value: 'x' } });
      expect(errorOf(await caller.call('completion/complete', params)).code, JSON.stringify(uri)).toBe(-32602);
      if (era === 'modern') continue;
      const subscribed = errorOf(await caller.call('resources/subscribe', JSON.stringify({ uri })));
      expect(subscribed.message, JSON.stringify(uri)).toBe(`resource not found: ${uri}`);
    }
    expect(upstream.seen.length).toBe(before);
    expect(reply(await caller.call('resources/read', '{"uri":"file:///public/%61"}'))).toContain('"text":"read"');
  });

  it('has the same response as an unknown one, if two forwards have resources', async () => {
    const upstream = await upstreamWith(scriptsOf(['file:///hidden'], []));
    const url = await register(upstream.url, { expose: { resources: { deny: ['file:///hidden'] } } });
    const namespace = new URL(url).pathname.split('/')[1] ?? '';
    for (const name of ['one', 'two']) {
      const other = await upstreamWith(scriptsOf([`${name}:///a`], []));
      await tests.service.register('forwards', { name: `${namespace}-${name}`, address: other.url, namespace });
    }
    const caller = await client(era, url);
    const completion = (uri: string) => ({ ref: { type: 'ref/resource', uri }, argument: { name: 'a', value: 'x' } });
    const requests: [string, (uri: string) => object][] = [
      ['resources/read', (uri) => ({ uri })],
      ['completion/complete', completion],
    ];
    if (era === 'legacy') requests.push(['resources/subscribe', (uri) => ({ uri })]);
    for (const [method, params] of requests) {
      const failed = async (uri: string) => errorOf(await caller.call(method, JSON.stringify(params(uri))));
      const unknown = JSON.stringify(await failed('file:///unknown')).replaceAll('unknown', 'hidden');
      expect(JSON.stringify(await failed('file:///hidden')), method).toBe(unknown);
    }
  });

  it('cannot be read by a link of its forward, nor by a template of another one', async () => {
    const link = (uri: string) => `{"type":"resource_link","name":"l","uri":${JSON.stringify(uri)}}`;
    const links = ['file:///public/..%2fsecrets/x', 'file:///public/linked'];
    const upstream = await upstreamWith({
      ...scriptsOf(['file:///public/a'], []),
      'tools/list': `{"tools":[{"name":"find","inputSchema":{"type":"object"}}],${LIST_END}`,
      'tools/call': `{"content":[${links.map(link).join(',')}],"resultType":"complete"}`,
    });
    const url = await register(upstream.url, { expose: { resources: { deny: ['file:///secrets/*'] } } });
    const other = await upstreamWith(scriptsOf([], ['other:///{+path}']));
    const namespace = new URL(url).pathname.split('/')[1] ?? '';
    await tests.service.register('forwards', { name: `${namespace}-other`, address: other.url, namespace });
    const caller = await client(era, url);
    expect(reply(await caller.call('tools/call', '{"name":"find"}'))).toContain('linked');
    const read = (uri: string) => caller.call('resources/read', JSON.stringify({ uri }));
    expect(reply(await read('file:///public/linked'))).toContain('"text":"read"');
    expect(errorOf(await read('file:///public/..%2fsecrets/x')).code).toBe(-32602);
    expect(lastCall(upstream, 'resources/read').params.uri).toBe('file:///public/linked');
  });
});

describe.each(eras)('visible resources (%s)', (era) => {
  it('are listed, and read by their own uri, whatever it looks like', async () => {
    const uris = VISIBLE.map(([, uri]) => uri);
    const upstream = await upstreamWith(scriptsOf(uris, []));
    const allow = VISIBLE.map(([glob]) => glob);
    const deny = ['file:///secrets/*', '*/private/*'];
    const url = await register(upstream.url, { expose: { resources: { allow, deny } } });
    await disable(url, 'file:///disabled/{name}', 'file:///disabled');
    const caller = await client(era, url);
    const { result } = JSON.parse(reply(await caller.call('resources/list')));
    expect(result.resources.map(({ uri }: { uri: string }) => uri)).toEqual(uris);
    for (const uri of uris) {
      expect(reply(await caller.call('resources/read', JSON.stringify({ uri }))), uri).toContain('"text":"read"');
      expect(lastCall(upstream, 'resources/read').params.uri).toBe(uri);
    }
  });

  it('are found by a template with other encoding', async () => {
    const templates = ['file:///docs/café/{name}', 'file:///caf%C3%A9/{name}', 'file:///a b/{name}'];
    const upstream = await upstreamWith(scriptsOf([], templates));
    const other = await upstreamWith(scriptsOf(['other:///a'], []));
    const url = await register(upstream.url);
    // Two forwards with resources: uris of no template are not found.
    const namespace = new URL(url).pathname.split('/')[1] ?? '';
    await tests.service.register('forwards', { name: `${namespace}-other`, address: other.url, namespace });
    const caller = await client(era, url);
    const read = (uri: string) => caller.call('resources/read', JSON.stringify({ uri }));
    for (const uri of ['file:///docs/caf%C3%A9/a', 'file:///docs/caf%c3%a9/%41', 'file:///café/a', 'file:///a%20b/c']) {
      expect(reply(await read(uri)), uri).toContain('"text":"read"');
      expect(lastCall(upstream, 'resources/read').params.uri).toBe(uri);
    }
    // An encoded slash is a part of a segment.
    expect(reply(await read('file:///café/a%2Fb'))).toContain('"text":"read"');
    for (const uri of ['file:///café/a/b', 'file:///docs%2Fcafé/a', 'file:///docs/cafe/a']) {
      expect(errorOf(await read(uri)).code, uri).toBe(-32602);
    }
  });
});

describe('a subscriptions/listen', () => {
  it('subscribes to no form of a hidden resource', async () => {
    const upstream = await startWatchedUpstream(['file:///public/a', 'file:///secrets/x']);
    onEnd(upstream.close);
    const url = await register(upstream.url, { expose: { resources: { deny: ['file:///secrets/*'] } } });
    const listening = listenTo(url, { resourceSubscriptions: [...ATTACKS, 'file:///public/a', 'file:///public/%61'] });
    await expect.poll(() => upstream.streams.length).toBe(1);
    const [stream] = upstream.streams;
    expect(stream?.params.notifications).toEqual({ resourceSubscriptions: ['file:///public/a', 'file:///public/%61'] });
    stream?.acknowledge('file:///public/a');
    const listener = await listening;
    onEnd(async () => listener.disconnect());
    // Nor does an update name one.
    for (const uri of ['file:///public/a/../../secrets/x', 'file:///public/a/b']) stream?.updated(uri);
    const [, update] = await listener.first(2);
    expect(update).toContain('file:///public/a/b');
  });
});

describe('a resource of a capability service', () => {
  it('that is disabled is found in no form', async () => {
    const { service } = tests;
    const namespace = 'manual-hidden';
    const entries = [
      ['secret', 'docs:///secrets/x', false],
      ['all', 'docs:///{+path}', true],
      ['private', 'docs:///private/{name}', true],
      ['listed', 'docs:///private/listed', false],
    ] as const;
    for (const [name, location, isTemplate] of entries) {
      const labels = isTemplate ? { 'service.is_template': 'true' } : {};
      await service.register('resources', { name, location, type: 'Archive', namespace, labels });
    }
    const uris = ['docs:///secrets/x', 'docs:///private/{name}'];
    expect((await service.manage('POST', '/resources/enabled', { enabled: false, uris, namespace })).status).toBe(200);
    const caller = await client('modern', service.url(namespace));
    const code = async (uri: string) => errorOf(await caller.call('resources/read', JSON.stringify({ uri }))).code;
    const hidden = ['docs:///secrets/x', 'docs:///a/..%2fsecrets/x', 'DOCS:///secrets/%78', ' docs:///secrets/x'];
    for (const uri of [...hidden, 'docs:///private/a', 'docs:///a/../private/%61']) {
      expect(await code(uri), uri).toBe(-32602);
    }
    // No service is registered for the others, which are found.
    for (const uri of ['docs:///private/listed', 'docs:///public/a']) expect(await code(uri), uri).toBe(-32603);
  });
});

async function disable(url: string, ...uris: readonly string[]): Promise<void> {
  const forward = new URL(url).pathname.split('/')[1];
  const { status } = await tests.service.manage('POST', '/resources/enabled', { enabled: false, forward, uris });
  expect(status).toBe(200);
}
