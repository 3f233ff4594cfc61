import { resource as resourceOutput } from '@sluice/contract';
import { describe, expect, test } from 'vitest';
import { LIST_END } from '../../../../test/fixtures/raw-upstream/texts.ts';
import { startRawUpstream } from '../../../../test/fixtures/raw-upstream.ts';
import { type Api, startApi } from './api.fixture.ts';

const PATH = '/api/v1/resources';
const RESOURCE = { name: 'readme', location: 'file:///readme', type: 'file' };

function served(api: Api, key: string): string | undefined {
  return api.registry.current.namespace('default')?.indexes.resource.served(key)?.rendered[0]?.json;
}

describe('manually registered resources', () => {
  test('a new one is 201 with Location and defaults', async (context) => {
    const api = await startApi(context);
    const made = await api.call('POST', PATH, RESOURCE);
    expect(made.status).toBe(201);
    expect(made.location).toBe('/api/v1/resources/readme?namespace=default');
    expect(made.data).toEqual({
      ...RESOURCE,
      description: '',
      mimeType: '',
      namespace: 'default',
      labels: {},
      enabled: true,
    });
    expect(resourceOutput.safeParse(made.data).success).toBe(true);
    expect(JSON.parse(served(api, 'file:///readme') ?? '')).toEqual({ uri: 'file:///readme', name: 'readme' });
  });

  test('aliases are replaced by canonical names, and other members stored', async (context) => {
    const api = await startApi(context);
    const made = await api.call('POST', PATH, {
      name: 'r',
      uri: 'x:1',
      type: 't',
      mime_type: 'text/plain',
      params: [{ name: 'a', value: '1' }],
      size: 5,
      configuration_uri: 'c',
    });
    expect(made.data).toEqual({
      name: 'r',
      location: 'x:1',
      type: 't',
      description: '',
      mimeType: 'text/plain',
      params: [{ name: 'a', value: '1' }],
      size: 5,
      configurationURI: 'c',
      namespace: 'default',
      labels: {},
      enabled: true,
    });
    expect(JSON.parse(served(api, 'x:1') ?? '')).toEqual({ uri: 'x:1', name: 'r', mimeType: 'text/plain', size: 5 });
  });

  test('a misspelled secretsURI is 400 with a suggestion', async (context) => {
    const api = await startApi(context);
    expect(await api.call('POST', PATH, { ...RESOURCE, secretUri: 'vault://1' })).toMatchObject({
      status: 400,
      error: { message: 'invalid resource: secretUri is not a known field; did you mean "secretsURI"?' },
    });
  });

  test('the label makes a template', async (context) => {
    const api = await startApi(context);
    await api.call('POST', PATH, { ...RESOURCE, location: 'x:{id}', labels: { 'service.is_template': 'true' } });
    expect(JSON.parse(served(api, 'x:{id}') ?? '')).toEqual({ uriTemplate: 'x:{id}', name: 'readme' });
  });

  test.for([
    ['name', { name: undefined }],
    ['location', { location: undefined }],
    ['location', { location: '' }],
    ['type', { type: undefined }],
    ['mimeType', { mime_type: 5 }],
    ['params', { params: {} }],
    ['params.0.value', { params: [{ name: 'a' }] }],
  ] as const)(
    'a missing member, or one of the wrong type, is 400 with its name: %s',
    async ([member, change], context) => {
      const api = await startApi(context);
      const answer = await api.call('POST', PATH, { ...RESOURCE, ...change });
      expect(answer).toMatchObject({ status: 400, error: { details: [{ path: member }] } });
    },
  );

  test('a location is unique, a name is not', async (context) => {
    const api = await startApi(context);
    await api.call('POST', PATH, RESOURCE);
    expect((await api.call('POST', PATH, { ...RESOURCE, name: 'another' })).status).toBe(409);
    const twin = await api.call('POST', PATH, { ...RESOURCE, location: 'file:///b?x=1' });
    expect(twin.status).toBe(201);
    expect(twin.location).toBe('/api/v1/resources/readme?namespace=default&uri=file%3A%2F%2F%2Fb%3Fx%3D1');
    for (const method of ['GET', 'PUT', 'DELETE']) {
      const answer = await api.call(method, `${PATH}/readme`, method === 'PUT' ? RESOURCE : undefined);
      expect(answer).toMatchObject({ status: 409, error: { details: { uris: ['file:///readme', 'file:///b?x=1'] } } });
    }
    expect((await api.call('GET', twin.location)).data).toMatchObject({ location: 'file:///b?x=1' });
    expect((await api.call('GET', `${PATH}/readme?uri=file%3A%2F%2F%2Fnone`)).status).toBe(404);
    await api.call('DELETE', `${PATH}/readme?uri=file%3A%2F%2F%2Freadme`);
    expect((await api.call('GET', `${PATH}/readme`)).data).toMatchObject({ location: 'file:///b?x=1' });
  });

  test('PUT replaces, renames, moves, and changes the location unless it is in use', async (context) => {
    const api = await startApi(context);
    await api.call('POST', PATH, { ...RESOURCE, description: 'd', id: '1' });
    await api.call('POST', PATH, { ...RESOURCE, name: 'held', location: 'x:held' });
    expect((await api.call('PUT', `${PATH}/readme`, { ...RESOURCE, location: 'x:held' })).status).toBe(409);
    const put = await api.call('PUT', `${PATH}/readme`, {
      name: 'new',
      location: 'x:new',
      type: 't',
      namespace: 'ops',
    });
    expect(put.data).toEqual({
      name: 'new',
      location: 'x:new',
      type: 't',
      description: '',
      mimeType: '',
      namespace: 'ops',
      labels: {},
      enabled: true,
    });
    expect((await api.call('GET', `${PATH}/readme`)).error).toMatchObject({ message: 'resource not found: readme' });
    expect((await api.call('GET', `${PATH}?namespace=ops`)).data).toEqual([put.data]);
  });
});

describe('discovered resources', () => {
  const RAW = '{"uri":"file:///a","name":"A","size":9223372036854775807,"type":"theirs"}';
  const TEMPLATE = '{"uriTemplate":"file:///{path}","name":"T","mimeType":"text/plain"}';

  test('their uri and service labels are fixed, all other members can be overridden', async (context) => {
    const api = await startApi(context);
    const upstream = await startRawUpstream({
      scripts: {
        'resources/list': `{"resources":[${RAW}],${LIST_END}`,
        'resources/templates/list': `{"resourceTemplates":[${TEMPLATE}],${LIST_END}`,
      },
    });
    context.onTestFinished(upstream.close);
    const added = await api.call('POST', '/api/v1/forwards', { name: 'up', address: upstream.url });
    expect(added.data).toMatchObject({ resources_discovered: 2 });
    const shown = (await api.call('GET', `${PATH}/T`)).data;
    expect(shown).toMatchObject({
      location: 'file:///{path}',
      type: 'mcp-forward',
      labels: { 'service.forward_address': upstream.url, 'service.is_template': 'true' },
    });
    expect(shown).not.toHaveProperty('uriTemplate');
    expect(Object(shown)).not.toHaveProperty('upstreamName');

    const put = await api.call('PUT', `${PATH}/T`, {
      ...Object(shown),
      name: 'Files',
      mimeType: '',
      labels: { a: '1' },
    });
    expect(put.data).toMatchObject({
      name: 'Files',
      mimeType: '',
      labels: { a: '1', 'service.forward_address': upstream.url, 'service.is_template': 'true' },
    });
    expect(served(api, 'file:///{path}')).toBe('{"uriTemplate":"file:///{path}","name":"Files"}');

    for (const change of [{ location: 'file:///b' }, { type: 'file' }]) {
      expect((await api.call('PUT', `${PATH}/Files`, { ...Object(put.data), ...change })).status).toBe(409);
    }
    const same = (await api.call('GET', `${PATH}/A`)).text;
    await api.call('PUT', `${PATH}/A`, { ...Object((await api.call('GET', `${PATH}/A`)).data) });
    expect((await api.call('GET', `${PATH}/A`)).text).toBe(same);
    expect(served(api, 'file:///a')).toBe(RAW);

    // A renamed resource keeps its name across a refresh; others get the upstream's new name.
    upstream.scripts['resources/list'] = `{"resources":[${RAW.replace('"A"', '"B"')}],${LIST_END}`;
    await api.call('POST', '/api/v1/forwards/up/refreshes');
    expect((await api.call('GET', PATH)).data).toMatchObject([{ name: 'B' }, { name: 'Files' }]);
    await api.call('PUT', `${PATH}/Files`, { ...Object(put.data), name: 'T', mimeType: 'text/plain' });
    expect(served(api, 'file:///{path}')).toBe(TEMPLATE);
  });
});
