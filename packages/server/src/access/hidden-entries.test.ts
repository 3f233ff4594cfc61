import { describe, expect, it } from 'vitest';
import { LIST_END, textResultText, toolList, toolText } from '../../../../test/fixtures/raw-upstream/texts.ts';
import { client, eras, relayTests } from '../../testing/relay.ts';

const relay = relayTests();
const { register, upstreamWith } = relay;

const CAPABILITIES = '"capabilities":{"tools":{},"prompts":{},"resources":{},"completions":{}}';
const FIRST = {
  'tools/list': toolList(toolText('show')),
  'prompts/list': `{"prompts":[{"name":"show"}],${LIST_END}`,
  'resources/list': `{"resources":[{"uri":"test://show","name":"show"}],${LIST_END}`,
  'resources/templates/list': `{"resourceTemplates":[],${LIST_END}`,
};
const LATER = {
  'tools/list': toolList(toolText('show'), toolText('hide')),
  'prompts/list': `{"prompts":[{"name":"show"},{"name":"hide"}],${LIST_END}`,
  'resources/list': `{"resources":[{"uri":"test://show","name":"show"},{"uri":"test://hide","name":"hide"}],${LIST_END}`,
  'resources/templates/list': `{"resourceTemplates":[{"uriTemplate":"hide://{id}","name":"hidden"}],${LIST_END}`,
};
const scripts = {
  ...FIRST,
  'tools/call': textResultText('done'),
  'prompts/get': '{"messages":[],"resultType":"complete"}',
  'resources/read': `{"contents":[{"uri":"x","text":"read"}],${LIST_END}`,
  'completion/complete': '{"completion":{"values":["x"]},"resultType":"complete"}',
  'resources/subscribe': '{}',
  initialize: `{"protocolVersion":"2025-11-25",${CAPABILITIES},"serverInfo":{"name":"s","version":"1"}}`,
  'server/discover': `{"supportedVersions":["2026-07-28"],${CAPABILITIES},"serverInfo":{"name":"s","version":"1"},${LIST_END}`,
};

/** Sends a request to the management API. */
async function manage(method: string, path: string, body?: object): Promise<void> {
  const { status, data } = await relay.service.manage(method, path, body);
  expect(status, JSON.stringify(data)).toBeLessThan(300);
}

const KINDS = ['tools', 'prompts', 'resources'] as const;
const selectionOf = (kind: string) =>
  kind === 'resources' ? { uris: ['test://hide', 'hide://{id}'] } : { names: ['hide'] };

/** Ways in which the entries `hide` of a forward disappear; forward and namespace have the same name. */
const MECHANISMS: Readonly<Record<string, (forward: string) => Promise<void>>> = {
  disabled: async (namespace) => {
    for (const kind of KINDS) {
      await manage('POST', `/${kind}/enabled`, { enabled: false, namespace, ...selectionOf(kind) });
    }
  },
  'marked at their upstream': async (forward) => {
    for (const kind of KINDS) {
      await manage('POST', `/${kind}/enabled`, { enabled: false, forward, ...selectionOf(kind) });
    }
  },
  'not exposed': async (forward) => {
    const deny = { deny: ['*hide*'] };
    await manage('PATCH', `/forwards/${forward}`, { expose: { tools: deny, prompts: deny, resources: deny } });
  },
  removed: async (namespace) => {
    for (const kind of KINDS) await manage('DELETE', `/${kind}/hide?namespace=${namespace}`);
    await manage('DELETE', `/resources/hidden?namespace=${namespace}`);
  },
  'of a forward that is blocked': async (forward) => {
    await manage('PUT', `/blocks/forward:${forward}`);
  },
  'of another forward that was removed': async (forward) => {
    await manage('DELETE', `/forwards/${forward}`);
  },
};

const argument = { name: 'n', value: 'v' };
const REQUESTS: readonly (readonly [method: string, params: object])[] = [
  ['tools/call', { name: 'hide' }],
  ['prompts/get', { name: 'hide' }],
  ['resources/read', { uri: 'test://hide' }],
  ['resources/read', { uri: 'hide://1' }],
  ['resources/subscribe', { uri: 'test://hide' }],
  ['completion/complete', { ref: { type: 'ref/prompt', name: 'hide' }, argument }],
  ['completion/complete', { ref: { type: 'ref/resource', uri: 'test://hide' }, argument }],
  ['completion/complete', { ref: { type: 'ref/resource', uri: 'hide://1' }, argument }],
  ['completion/complete', { ref: { type: 'ref/resource', uri: 'hide://{id}' }, argument }],
];

/** The namespace of an endpoint, and the forward that serves it. */
function nameIn(url: string): string {
  return new URL(url).pathname.split('/')[1] ?? '';
}

describe.each(eras)('entries for a %s client', (era) => {
  it.each(Object.keys(MECHANISMS))('that are %s are answered like those that have never existed', async (how) => {
    const upstream = await upstreamWith(scripts);
    const other = await upstreamWith(scripts);
    const url = await register(upstream.url);
    const name = nameIn(url);
    // A uri in no list has no forward then, even after one is removed.
    for (const more of ['b', 'c']) {
      await relay.service.register('forwards', { name: `${name}-${more}`, address: other.url, namespace: name });
    }
    Object.assign(upstream.scripts, LATER);
    await manage('POST', `/forwards/${name}/refreshes`);
    const caller = await client(era, url);
    const requests = REQUESTS.filter(([method]) => era === 'legacy' || method !== 'resources/subscribe');
    const answers = async (hidden: string) => {
      const received: unknown[] = [];
      for (const [method, params] of requests) {
        const { status, text } = await caller.call(method, JSON.stringify(params).replaceAll('hide', hidden));
        received.push([method, status, text.replace(/"id":[^,}]+/, '"id":0').replaceAll(hidden, 'none')]);
      }
      return received;
    };
    const before = await answers('hide');
    expect(before.filter((answer) => JSON.stringify(answer).includes('not found'))).toEqual([]);

    const unknown = await answers('none');
    await MECHANISMS[how]?.(name);
    const seen = [upstream.seen.length, other.seen.length];
    expect(await answers('hide')).toEqual(unknown);
    for (const [at, { seen: all }] of [upstream, other].entries()) {
      const sent = all.slice(seen[at]).filter(({ method }) => requests.some(([one]) => one === method));
      expect(sent).toEqual([]);
    }
  });
});
