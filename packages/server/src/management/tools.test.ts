import { toolInput, tool as toolOutput } from '@sluice/contract';
import { describe, expect, type TestContext, test } from 'vitest';
import { toolList, toolText } from '../../../../test/fixtures/raw-upstream/texts.ts';
import { startRawUpstream } from '../../../../test/fixtures/raw-upstream.ts';
import { capabilityScripts } from '../../testing/capability-scripts.ts';
import { type Api, startApi } from './api.fixture.ts';

const PATH = '/api/v1/tools';
const TOOL = {
  name: 'transfer',
  description: 'Moves money',
  uri: 'http://u/mcp',
  toolType: 'custom',
  input_schema: { type: 'object' },
};

/** The tool served by MCP under this key. */
function served(api: Api, key: string, namespace = 'default'): string | undefined {
  return api.registry.current.namespace(namespace)?.indexes.tool.served(key)?.rendered[0]?.json;
}

describe('manually registered tools', () => {
  test('a new tool is 201 with Location and defaults, and can be read', async (context) => {
    const api = await startApi(context);
    const made = await api.call('POST', PATH, TOOL);
    expect(made.status).toBe(201);
    expect(made.location).toBe('/api/v1/tools/transfer?namespace=default');
    expect(made.data).toEqual({ ...TOOL, namespace: 'default', labels: {}, enabled: true });
    const read = await api.call('GET', made.location);
    expect(read.data).toEqual(made.data);
    expect(toolOutput.safeParse(read.data).success).toBe(true);
    expect(toolInput.safeParse(read.data).success).toBe(true);
  });

  test('aliases are replaced by canonical names', async (context) => {
    const api = await startApi(context);
    const made = await api.call('POST', PATH, {
      name: 'a',
      description: '',
      uri: 'u:1',
      type: 'custom',
      inputSchema: { type: 'object' },
      outputSchema: { type: 'array' },
      configuration_uri: 'c',
      secrets_uri: 's',
    });
    expect(made.data).toEqual({
      name: 'a',
      description: '',
      uri: 'u:1',
      toolType: 'custom',
      input_schema: { type: 'object' },
      output_schema: { type: 'array' },
      configurationURI: 'c',
      secretsURI: 's',
      namespace: 'default',
      labels: {},
      enabled: true,
    });
  });

  test('all members are stored, including unknown ones and the notation of numbers', async (context) => {
    const api = await startApi(context);
    const text = `{"name":"big","description":"","uri":"u","toolType":"t","id":"7","title":"T","annotations":{"readOnlyHint":true},"icons":[{"src":"i"}],"_meta":{"a":1.0},"source":"kept","location":5,"input_schema":{"maximum":9223372036854775807}}`;
    await api.call('POST', PATH, text);
    const { text: answer } = await api.call('GET', `${PATH}/big`);
    expect(answer).toContain('"maximum":9223372036854775807');
    expect(answer).toContain('"a":1.0');
    expect((await api.call('GET', `${PATH}/big`)).data).toMatchObject({
      id: '7',
      title: 'T',
      annotations: { readOnlyHint: true },
      icons: [{ src: 'i' }],
      source: 'kept',
      location: 5,
    });
    const mcp = served(api, 'big') ?? '';
    expect(mcp).toContain('"inputSchema":{"type":"object","maximum":9223372036854775807}');
    for (const member of ['uri', 'toolType', 'namespace', 'labels', 'id'])
      expect(JSON.parse(mcp)).not.toHaveProperty(member);
  });

  test('read-only members are ignored', async (context) => {
    const api = await startApi(context);
    const made = await api.call('POST', PATH, { ...TOOL, forward: 'f', upstreamName: 'x', shadowed: true });
    expect(made.data).toEqual({ ...TOOL, namespace: 'default', labels: {}, enabled: true });
  });

  test('a name in use is 409, is available in another namespace, and a missing namespace is created', async (context) => {
    const api = await startApi(context);
    await api.call('POST', PATH, TOOL);
    expect(await api.call('POST', PATH, { ...TOOL, name: ' transfer ' })).toMatchObject({
      status: 409,
      error: { code: 'CONFLICT', details: { namespaces: ['default'] } },
    });
    const other = await api.call('POST', PATH, { ...TOOL, namespace: 'ops' });
    expect(other.status).toBe(201);
    expect(other.location).toBe('/api/v1/tools/transfer?namespace=ops');
    expect((await api.call('GET', '/api/v1/namespaces/ops')).status).toBe(200);
  });

  test('one of several concurrent requests for a name succeeds', async (context) => {
    const api = await startApi(context);
    const answers = await Promise.all(Array.from({ length: 8 }, () => api.call('POST', PATH, TOOL)));
    expect(answers.map(({ status }) => status).sort()).toEqual([201, 409, 409, 409, 409, 409, 409, 409]);
  });

  test.for([
    ['name', { name: '' }],
    ['name', { name: '   ' }],
    ['name', { name: 'x'.repeat(257) }],
    ['name', { name: 'a\u0007b' }],
    ['name', { name: '\ud800' }],
    ['name', { name: null }],
    ['description', { description: undefined }],
    ['uri', { uri: undefined }],
    ['uri', { uri: '' }],
    ['toolType', { toolType: undefined }],
    ['input_schema', { input_schema: 'x' }],
    ['input_schema', { input_schema: [] }],
    ['labels', { labels: ['a'] }],
    ['labels.a', { labels: { a: 1 } }],
    ['title', { title: 1 }],
    ['annotations', { annotations: 'x' }],
    ['icons', { icons: {} }],
    ['output_schema', { outputSchema: true }],
    ['id', { id: 1 }],
  ] as const)(
    'a missing member, or one of the wrong type, is 400 with its name: %s',
    async ([member, change], context) => {
      const api = await startApi(context);
      const answer = await api.call('POST', PATH, { ...TOOL, ...change });
      expect(answer.status).toBe(400);
      expect(answer.error).toMatchObject({ details: [{ path: member }], message: expect.stringContaining(member) });
      expect((await api.call('GET', PATH)).data).toEqual([]);
    },
  );

  test.for([
    ['secretUri', 'secretsURI'],
    ['secretsUri', 'secretsURI'],
    ['configurationUri', 'configurationURI'],
  ] as const)('%s is 400 with a suggestion', async ([member, meant], context) => {
    const api = await startApi(context);
    const message = `invalid tool: ${member} is not a known field; did you mean "${meant}"?`;
    const refused = { status: 400, error: { code: 'BAD_REQUEST', message } };
    expect(await api.call('POST', PATH, { ...TOOL, [member]: 'vault://1' })).toMatchObject(refused);
    await api.call('POST', PATH, TOOL);
    expect(await api.call('PUT', `${PATH}/transfer`, { ...TOOL, [member]: 'vault://1' })).toMatchObject(refused);
    expect((await api.call('GET', PATH)).data).toEqual([{ ...TOOL, namespace: 'default', labels: {}, enabled: true }]);
  });

  test('a number is not an object, in any notation', async (context) => {
    const api = await startApi(context);
    for (const member of ['input_schema', 'labels', 'annotations']) {
      const text = JSON.stringify({ ...TOOL, [member]: '@' }).replace('"@"', '1.0');
      expect((await api.call('POST', PATH, text)).status, member).toBe(400);
    }
  });

  test('a name of 256 characters that require encoding is found', async (context) => {
    const api = await startApi(context);
    const name = `${'/'.repeat(100)}%2F ${'😀'.repeat(150)}ä?#`.slice(0, 300);
    expect([...name].length).toBeLessThanOrEqual(256);
    const made = await api.call('POST', PATH, { ...TOOL, name });
    expect(made.status).toBe(201);
    expect(await api.call('GET', made.location)).toMatchObject({ status: 200, data: { name } });
    expect((await api.call('GET', `${PATH}/${encodeURIComponent(name)}/`)).status).toBe(200);
    expect((await api.call('DELETE', `${PATH}/${encodeURIComponent(name)}`)).data).toEqual({ removed: name });
  });

  test('PUT replaces everything except the name, which is optional', async (context) => {
    const api = await startApi(context);
    await api.call('POST', PATH, { ...TOOL, title: 'T', labels: { a: '1' }, id: '7', extra: true });
    const { name: _, ...unnamed } = TOOL;
    const put = await api.call('PUT', `${PATH}/transfer`, { ...unnamed, description: 'new', uri: 'http://v/mcp' });
    expect(put.status).toBe(200);
    expect(put.data).toEqual({
      ...TOOL,
      description: 'new',
      uri: 'http://v/mcp',
      namespace: 'default',
      labels: {},
      enabled: true,
    });
    expect((await api.call('GET', `${PATH}/transfer`)).data).toEqual(put.data);
  });

  test('PUT requires the required members', async (context) => {
    const api = await startApi(context);
    await api.call('POST', PATH, TOOL);
    const answer = await api.call('PUT', `${PATH}/transfer`, { description: '', uri: 'u', toolType: 't' });
    expect(answer).toMatchObject({ status: 400, error: { details: [{ path: 'input_schema' }] } });
  });

  test('PUT renames and moves, without changing the position in the list', async (context) => {
    const api = await startApi(context);
    for (const name of ['a', 'b', 'c']) await api.call('POST', PATH, { ...TOOL, name });
    expect((await api.call('PUT', `${PATH}/b`, { ...TOOL, name: 'z' })).data).toMatchObject({ name: 'z' });
    expect((await api.call('GET', `${PATH}/b`)).status).toBe(404);
    expect((await api.call('GET', PATH)).data).toMatchObject([{ name: 'a' }, { name: 'z' }, { name: 'c' }]);
    const moved = await api.call('PUT', `${PATH}/z`, { ...TOOL, name: 'z', namespace: 'ops' });
    expect(moved.data).toMatchObject({ name: 'z', namespace: 'ops' });
    expect((await api.call('GET', `${PATH}?namespace=ops`)).data).toHaveLength(1);
    expect((await api.call('GET', `${PATH}?namespace=default`)).data).toHaveLength(2);
    // Without a namespace it is not moved.
    expect((await api.call('PUT', `${PATH}/z`, { ...TOOL, name: 'y' })).data).toMatchObject({ namespace: 'ops' });
  });

  test('a rename or move to a name in use is 409 and changes nothing', async (context) => {
    const api = await startApi(context);
    await api.call('POST', PATH, { ...TOOL, name: 'a' });
    await api.call('POST', PATH, { ...TOOL, name: 'b' });
    await api.call('POST', PATH, { ...TOOL, name: 'a', namespace: 'ops' });
    expect((await api.call('PUT', `${PATH}/b`, { ...TOOL, name: 'a' })).status).toBe(409);
    expect((await api.call('PUT', `${PATH}/a`, { ...TOOL, name: 'a', namespace: 'ops' })).status).toBe(409);
    expect((await api.call('GET', PATH)).data).toMatchObject([
      { name: 'a', namespace: 'default' },
      { name: 'b', namespace: 'default' },
      { name: 'a', namespace: 'ops' },
    ]);
  });

  test('an unknown name is 404', async (context) => {
    const api = await startApi(context);
    await api.call('POST', PATH, TOOL);
    for (const path of [
      `${PATH}/missing`,
      `${PATH}/transfer?namespace=ops`,
      `${PATH}/transfer?namespace=No!`,
      `${PATH}/transfer?namespace=`,
    ]) {
      for (const method of ['GET', 'PUT', 'DELETE']) {
        const answer = await api.call(method, path, method === 'PUT' ? TOOL : undefined);
        expect(answer, `${method} ${path}`).toMatchObject({ status: 404, error: { code: 'NOT_FOUND' } });
      }
    }
    expect((await api.call('GET', `${PATH}/missing`)).error).toMatchObject({ message: 'tool not found: missing' });
  });

  test('a name is looked up in default, else in the only namespace that has it', async (context) => {
    const api = await startApi(context);
    await api.call('POST', PATH, { ...TOOL, namespace: 'a' });
    expect((await api.call('GET', `${PATH}/transfer`)).data).toMatchObject({ namespace: 'a' });
    await api.call('POST', PATH, { ...TOOL, namespace: 'b' });
    for (const method of ['GET', 'PUT', 'DELETE']) {
      const answer = await api.call(method, `${PATH}/transfer`, method === 'PUT' ? TOOL : undefined);
      expect(answer).toMatchObject({ status: 409, error: { code: 'CONFLICT', details: { namespaces: ['a', 'b'] } } });
    }
    expect((await api.call('GET', `${PATH}/transfer?namespace=b`)).data).toMatchObject({ namespace: 'b' });
    await api.call('POST', PATH, TOOL);
    expect((await api.call('GET', `${PATH}/transfer`)).data).toMatchObject({ namespace: 'default' });
    expect((await api.call('DELETE', `${PATH}/transfer`)).data).toEqual({ removed: 'transfer' });
    expect((await api.call('GET', PATH)).data).toMatchObject([{ namespace: 'a' }, { namespace: 'b' }]);
  });

  test('unknown query parameters are ignored, and an unknown namespace lists nothing', async (context) => {
    const api = await startApi(context);
    await api.call('POST', PATH, TOOL);
    expect((await api.call('GET', `${PATH}?label=x&unknown=0`)).data).toHaveLength(1);
    expect((await api.call('GET', `${PATH}?namespace=none`)).data).toEqual([]);
  });
});

const RAW = `{"name":"search","title":"Search","inputSchema":{"type":"object","properties":{"n":{"maximum":9223372036854775807}}},"annotations":{"weight":1.0},"_meta":{"x":1},"uri":"theirs","labels":{"theirs":"1"}}`;
const OTHER = toolText('other');

describe('discovered tools', () => {
  async function start(context: Pick<TestContext, 'onTestFinished'>, prefix?: string) {
    const api = await startApi(context);
    // It announces no changes, so that it is read only on request of the test.
    const scripts = { ...capabilityScripts('{"tools":{}}'), 'tools/list': toolList(RAW, OTHER) };
    const upstream = await startRawUpstream({ scripts });
    context.onTestFinished(upstream.close);
    await api.call('POST', '/api/v1/forwards', { name: 'up', address: upstream.url, prefix });
    const put = (name: string, change: object, query = '') =>
      api
        .call('GET', `${PATH}/${name}${query}`)
        .then(({ data }) => api.call('PUT', `${PATH}/${name}${query}`, { ...Object(data), ...change }));
    const refresh = () => api.call('POST', '/api/v1/forwards/up/refreshes');
    return { api, upstream, put, refresh };
  }

  test('they are returned with registry members, and served unchanged', async (context) => {
    const { api, upstream } = await start(context);
    const { data, text } = await api.call('GET', `${PATH}/search`);
    expect(data).toMatchObject({
      name: 'search',
      title: 'Search',
      description: '',
      uri: upstream.url,
      toolType: 'mcp-forward',
      namespace: 'default',
      labels: {},
      forward: 'up',
      _meta: { x: 1 },
    });
    expect(text).toContain('"maximum":9223372036854775807');
    expect(data).not.toHaveProperty('inputSchema');
    expect(data).not.toHaveProperty('upstreamName');
    expect(served(api, 'search')).toBe(RAW);
  });

  test('a PUT of the GET response changes nothing', async (context) => {
    const { api, put } = await start(context);
    // As processed by a client that converts numbers to doubles.
    expect((await put('search', {})).status).toBe(200);
    expect(served(api, 'search')).toBe(RAW);
  });

  test('a tool with a member that would be rejected as misspelled can be updated', async (context) => {
    const { api, upstream, put, refresh } = await start(context);
    upstream.scripts['tools/list'] = toolList(RAW.replace('"title"', '"secretUri":"theirs","title"'));
    await refresh();
    expect(await put('search', { title: 'Find' })).toMatchObject({
      status: 200,
      data: { title: 'Find', secretUri: 'theirs' },
    });
    expect(await put('search', { secretsUri: 'vault://1' })).toMatchObject({ status: 400 });
    expect(await api.call('GET', `${PATH}/search`)).not.toHaveProperty('data.secretsUri');
  });

  test('members that differ, are new or are omitted become overrides', async (context) => {
    const { api, put } = await start(context);
    const answer = await put('search', {
      description: 'Ours',
      title: undefined,
      _meta: undefined,
      'x-vendor': { a: 1 },
      labels: { team: 'a' },
      id: '7',
    });
    expect(answer.data).toMatchObject({ description: 'Ours', 'x-vendor': { a: 1 }, labels: { team: 'a' }, id: '7' });
    expect(answer.data).not.toHaveProperty('title');
    const mcp: unknown = JSON.parse(served(api, 'search') ?? '');
    expect(mcp).toMatchObject({
      name: 'search',
      description: 'Ours',
      'x-vendor': { a: 1 },
      uri: 'theirs',
      labels: { theirs: '1' },
    });
    for (const member of ['title', '_meta', 'id', 'forward', 'namespace']) expect(mcp).not.toHaveProperty(member);
    expect(served(api, 'search')).toContain('"maximum":9223372036854775807');
    expect(served(api, 'search')).toContain('"weight":1.0');
  });

  test('a value equal to that of the upstream removes the override', async (context) => {
    const { api, put } = await start(context);
    await put('search', { title: 'Ours', description: 'Ours' });
    await put('search', { title: 'Search', description: '' });
    expect(served(api, 'search')).toBe(RAW);
  });

  test('upstream values are returned with include=upstream, and ignored in PUT', async (context) => {
    const { api, put } = await start(context);
    await put('search', { title: 'Ours', description: 'Ours', _meta: undefined });
    const upstream = {
      title: 'Search',
      description: '',
      input_schema: { type: 'object', properties: { n: { maximum: 9223372036854775807n } } },
      annotations: { weight: 1 },
      _meta: { x: 1 },
    };
    const { data, text } = await api.call('GET', `${PATH}/search?include=upstream`);
    const numbers = { ...upstream, input_schema: { type: 'object', properties: { n: { maximum: 2 ** 63 } } } };
    expect(data).toMatchObject({ title: 'Ours', description: 'Ours', upstream: numbers });
    expect(Object.keys(Object(Object(data).upstream)).sort()).toEqual(Object.keys(upstream).sort());
    expect(text.match(/9223372036854775807/g)).toHaveLength(2);

    const before = served(api, 'search');
    expect((await put('search', {}, '?include=upstream')).data).not.toHaveProperty('upstream');
    expect(served(api, 'search')).toBe(before);
    // The unchanged upstream object removes all overrides.
    await put('search', Object(Object(data).upstream));
    expect(served(api, 'search')).toBe(RAW);
  });

  test('a list includes them together with shadowed entries', async (context) => {
    const { api, upstream } = await start(context);
    await api.call('POST', '/api/v1/forwards', { name: 'second', address: upstream.url });
    await api.call('POST', PATH, TOOL);
    const listed = async (query: string) =>
      Object(await api.call('GET', `${PATH}${query}`)).data.map((tool: object) => [
        Object(tool).forward,
        'upstream' in tool,
        'shadowed' in tool,
      ]);
    const [first, second, made] = [
      ['up', true, false],
      ['second', true, true],
      [undefined, false, false],
    ];
    expect(await listed('?include=upstream')).toEqual([first, first, made]);
    expect(await listed('?include=shadowed,upstream')).toEqual([first, first, second, second, made]);
    expect(await api.call('GET', `${PATH}?include=other,upstream`)).toMatchObject({ status: 400 });
  });

  test('an empty description removes that of the upstream', async (context) => {
    const { api, put } = await start(context);
    await put('other', { description: '' });
    expect(JSON.parse(served(api, 'other') ?? '')).not.toHaveProperty('description');
    expect((await api.call('GET', `${PATH}/other`)).data).toMatchObject({ description: '' });
  });

  test('members with names of inherited properties are ordinary members', async (context) => {
    const { api, upstream, refresh } = await start(context);
    const odd =
      '{"name":"odd","toString":1,"constructor":{"prototype":2},"__proto__":3,"inputSchema":{"type":"object"}}';
    upstream.scripts['tools/list'] = toolList(odd);
    await refresh();
    const { text } = await api.call('GET', `${PATH}/odd`);
    for (const member of ['"toString":1', '"constructor":{"prototype":2}', '"__proto__":3'])
      expect(text).toContain(member);
    const body = JSON.stringify(JSON.parse(text).data);
    await api.call('PUT', `${PATH}/odd`, body);
    expect(served(api, 'odd')).toBe(odd);
    await api.call('PUT', `${PATH}/odd`, body.replace('"description":""', '"description":"ours"'));
    expect(served(api, 'odd')).toContain(odd.slice(1, -1));
    const made = await api.call('POST', PATH, body.replace('"name":"odd"', '"name":"own"'));
    expect(made.status).toBe(201);
    expect(served(api, 'own')).toContain('"toString":1');
  });

  test('a refresh updates upstream values and preserves overrides, name, namespace and labels', async (context) => {
    const { api, upstream, put, refresh } = await start(context);
    await put('search', { name: 'find', namespace: 'ops', title: 'Ours', labels: { team: 'a' } });
    upstream.scripts['tools/list'] = toolList(RAW.replace('"x":1', '"x":2'), OTHER);
    expect((await refresh()).data).toEqual({
      refreshed: 'up',
      tools_discovered: 2,
      resources_discovered: 0,
      prompts_discovered: 0,
    });
    expect((await api.call('GET', `${PATH}/find`)).data).toMatchObject({
      name: 'find',
      namespace: 'ops',
      upstreamName: 'search',
      title: 'Ours',
      labels: { team: 'a' },
      _meta: { x: 2 },
    });
    expect((await api.call('GET', `${PATH}/search`)).status).toBe(404);
    expect(JSON.parse(served(api, 'find', 'ops') ?? '')).toMatchObject({
      name: 'find',
      title: 'Ours',
      _meta: { x: 2 },
    });
  });

  test('uri and toolType are fixed', async (context) => {
    const { put } = await start(context);
    for (const change of [{ uri: 'http://elsewhere/mcp' }, { toolType: 'custom' }]) {
      expect(await put('search', change)).toMatchObject({
        status: 409,
        error: { message: expect.stringContaining(Object.keys(change)[0] ?? '') },
      });
    }
  });

  test('service labels cannot be set or removed, except the one for headers', async (context) => {
    const { put } = await start(context);
    const answer = await put('search', {
      labels: { 'service.other': 'x', 'service.forward_headers': 'x-tenant', a: '1' },
    });
    expect(answer.data).toMatchObject({ labels: { a: '1', 'service.forward_headers': 'x-tenant' } });
    expect(answer.text).not.toContain('service.other');
  });

  test('a prefix is prepended to the name, and the upstream name is returned', async (context) => {
    const { api } = await start(context, 'crm_');
    expect((await api.call('GET', `${PATH}/crm_search`)).data).toMatchObject({ upstreamName: 'search' });
    expect(JSON.parse(served(api, 'crm_search') ?? '')).toMatchObject({ name: 'crm_search' });
  });

  test('a deleted one returns with the next discovery', async (context) => {
    const { api, refresh } = await start(context);
    expect((await api.call('DELETE', `${PATH}/search`)).data).toEqual({ removed: 'search' });
    expect((await api.call('GET', PATH)).data).toMatchObject([{ name: 'other' }]);
    await refresh();
    expect((await api.call('GET', PATH)).data).toMatchObject([{ name: 'search' }, { name: 'other' }]);
  });

  test('its name is not available to manual tools, and it cannot be renamed to theirs', async (context) => {
    const { api, put } = await start(context);
    expect((await api.call('POST', PATH, { ...TOOL, name: 'search' })).error).toMatchObject({
      message: 'tool already exists in namespace default: search (from forward up)',
    });
    await api.call('POST', PATH, TOOL);
    expect((await put('search', { name: 'transfer' })).status).toBe(409);
    expect((await put('search', { name: 'other' })).status).toBe(409);
  });
});
