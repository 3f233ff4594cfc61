import { type ViewEntry, viewEntry } from '@sluice/contract';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { legacyClient, modernClient, reply } from '../../../../test/fixtures/raw-client.ts';
import { LIST_END, toolList, toolText } from '../../../../test/fixtures/raw-upstream/texts.ts';
import { type RawUpstream, startRawUpstream } from '../../../../test/fixtures/raw-upstream.ts';
import { startTestService, type TestService } from '../../testing/service.ts';

let first: RawUpstream;
let second: RawUpstream;
let service: TestService;
beforeAll(async () => {
  first = await startRawUpstream({
    scripts: {
      'tools/list': ({ era, body }) =>
        toolList(
          toolText('both', ',"x-big":12345678901234567890'),
          toolText(era === 'legacy' ? 'old' : 'new'),
          // Only modern requests declare capabilities in each request.
          ...(body.includes('"sampling"') ? [toolText('sampler')] : []),
        ),
      'resources/list': () => `{"resources":[{"uri":"file:///a","name":"a"}],${LIST_END}`,
      'resources/templates/list': () => `{"resourceTemplates":[{"uriTemplate":"file:///{x}","name":"t"}],${LIST_END}`,
    },
  });
  second = await startRawUpstream({ scripts: { 'tools/list': () => toolList(toolText('both'), toolText('hidden')) } });
  service = await startTestService();
  // The legacy era is discovered once there is a legacy client.
  await legacyClient(service.url());
  await service.register('forwards', { name: 'first', address: first.url });
  await service.register('forwards', { name: 'second', address: second.url });
  const manual = { description: '', uri: 'http://127.0.0.1:9/mcp', toolType: 'custom', input_schema: {} };
  await service.register('tools', { ...manual, name: 'manual' });
  const { data } = await service.manage('GET', '/tools/new');
  await service.manage('PUT', '/tools/new', { ...Object(data), name: 'renamed', description: 'changed' });
  await service.manage('POST', '/tools/enabled', { enabled: false, names: ['hidden'] });
});
afterAll(async () => {
  await service.stop();
  await Promise.all([first.close(), second.close()]);
});

async function view(query = ''): Promise<ViewEntry[]> {
  const { status, data } = await service.manage('GET', `/namespaces/default/view${query}`);
  expect(status).toBe(200);
  return viewEntry.array().parse(data);
}

const offered = (entries: readonly ViewEntry[], kind = 'tool') =>
  entries.filter((entry) => entry.offered && entry.kind === kind).map(({ key }) => key);

test('has the entries with their sources, overrides and conflicts', async () => {
  const entries = await view();
  const source = { kind: 'forward', forward: 'first', upstreamKey: 'both', era: 'modern' };
  const other = { kind: 'forward', forward: 'second', upstreamKey: 'both', era: 'modern' };
  expect(entries).toMatchObject([
    {
      kind: 'tool',
      name: 'both',
      offered: true,
      source,
      overrides: [],
      shadows: [other],
      definition: { name: 'both' },
    },
    {
      name: 'renamed',
      offered: true,
      source: { ...source, upstreamKey: 'new', renamed: true },
      overrides: ['description'],
      definition: { name: 'renamed', description: 'changed' },
    },
    { name: 'sampler', offered: false, reason: 'other_clients' },
    { name: 'old', offered: false, reason: 'other_clients', source: { ...source, upstreamKey: 'old' } },
    { name: 'both', offered: false, reason: 'shadowed', source: other, shadowedBy: source },
    { name: 'hidden', offered: false, reason: 'disabled' },
    { name: 'manual', offered: true, source: { kind: 'manual', type: 'custom', uri: 'http://127.0.0.1:9/mcp' } },
    { kind: 'resource', key: 'file:///a', offered: true, definition: { uri: 'file:///a' } },
    { kind: 'resource_template', key: 'file:///{x}', offered: true, definition: { uriTemplate: 'file:///{x}' } },
  ]);
  expect(entries.filter((entry) => !entry.offered && entry.definition)).toEqual([]);
});

describe.for(['modern', 'legacy'] as const)('a %s client', (era) => {
  test.for(['{}', '{"sampling":{}}'])(
    'with the capabilities %s is offered what the view says',
    async (capabilities) => {
      const query = `?era=${era}&capabilities=${encodeURIComponent(capabilities)}`;
      const entries = await view(query);
      const client =
        era === 'modern' ? modernClient(service.url(), capabilities) : await legacyClient(service.url(), capabilities);
      const listed: { name: string }[] = JSON.parse(reply(await client.call('tools/list'))).result.tools;
      expect(offered(entries)).toEqual(listed.map(({ name }) => name));
      const definitions = entries.filter((entry) => entry.offered && entry.kind === 'tool');
      expect(definitions.map(({ definition }) => definition)).toEqual(listed);
      expect(offered(entries).includes('sampler')).toBe(era === 'modern' && capabilities !== '{}');
    },
  );
});

test('definitions have the exact text of upstreams', async () => {
  const response = await fetch(`${service.management}/api/v1/namespaces/default/view`);
  expect(await response.text()).toContain('"x-big":12345678901234567890');
});

test('can be searched and read in pages', async () => {
  expect((await view('?q=RENAM')).map(({ name }) => name)).toEqual(['renamed']);
  const names: string[] = [];
  for (let cursor: string | undefined = ''; cursor !== undefined; ) {
    const url: string = `${service.management}/api/v1/namespaces/default/view?limit=3${cursor && `&cursor=${cursor}`}`;
    const body: unknown = await (await fetch(url)).json();
    const { data, page } = Object(body);
    names.push(
      ...viewEntry
        .array()
        .parse(data)
        .map(({ key }) => key),
    );
    cursor = page.next;
  }
  expect(names).toEqual((await view()).map(({ key }) => key));
});

test.for([
  ['default', 'era=ancient', 400, /^invalid era "ancient"/],
  ['default', 'capabilities=[]', 400, /^invalid capabilities JSON: not an object/],
  ['default', 'capabilities={"a":1,"a":2}', 400, /^invalid capabilities JSON: /],
  ['default', `capabilities=${'{"a":'.repeat(300)}1${'}'.repeat(300)}`, 400, /nested deeper/],
  ['none', '', 404, /^namespace not found: none$/],
] as const)('of %s with %s is rejected with %i', async ([namespace, query, status, message]) => {
  const response = await fetch(`${service.management}/api/v1/namespaces/${namespace}/view?${encodeURI(query)}`);
  const { error } = Object(await response.json());
  expect([response.status, error.message]).toEqual([status, expect.stringMatching(message)]);
});
