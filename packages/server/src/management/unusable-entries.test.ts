import { describe, expect, test } from 'vitest';
import { toolList, toolText } from '../../../../test/fixtures/raw-upstream/texts.ts';
import { startRawUpstream } from '../../../../test/fixtures/raw-upstream.ts';
import { type Api, startApi } from './api.fixture.ts';

/** Clients reject a whole list for one such entry. */

const TOOL = { name: 't', description: '', uri: 'u:1', toolType: 'custom', input_schema: {} };
const RESOURCE = { name: 'r', location: 'r:1', type: 'custom' };
const PROMPT = { name: 'p' };

/** The object served by MCP under this key. */
function served(api: Api, kind: 'tool' | 'resource' | 'prompt', key: string): string | undefined {
  return api.registry.current.namespace('default')?.indexes[kind].served(key)?.rendered[0]?.json;
}

describe.each([
  ['tools', TOOL, { input_schema: { type: 'array' } }, 'invalid tool: input_schema.type must be object'],
  ['tools', TOOL, { input_schema: { required: 'a' } }, 'invalid tool: input_schema.required must be a list'],
  [
    'tools',
    TOOL,
    { inputSchema: { properties: { a: 1 } } },
    'invalid tool: input_schema.properties.a must be a schema',
  ],
  [
    'tools',
    TOOL,
    { output_schema: { type: 'object', properties: [] } },
    'invalid tool: output_schema.properties must be an object',
  ],
  ['tools', TOOL, { icons: [{}] }, 'invalid tool: icons.0.src is required'],
  ['tools', TOOL, { _meta: 7 }, 'invalid tool: _meta must be an object'],
  ['resources', RESOURCE, { title: 7 }, 'invalid resource: title must be a string'],
  ['resources', RESOURCE, { size: '7' }, 'invalid resource: size must be a number'],
  [
    'resources',
    { ...RESOURCE, labels: { 'service.is_template': 'true' } },
    { annotations: { priority: 7 } },
    'invalid resource: annotations.priority must be at most 1',
  ],
  ['prompts', PROMPT, { title: null }, 'invalid prompt: title must be a string'],
] as const)('%s %o with %o', (collection, entry, wrong, message) => {
  test('are rejected when they are created or changed', async (context) => {
    const api = await startApi(context);
    const path = `/api/v1/${collection}`;
    const { input_schema: _, ...others }: Record<string, unknown> = { ...entry };
    const invalid = 'inputSchema' in wrong ? { ...others, ...wrong } : { ...entry, ...wrong };
    const error = { code: 'BAD_REQUEST', message };
    const created = await api.call('POST', path, invalid);
    expect(created.status).toBe(400);
    expect(created.error).toMatchObject(error);
    expect((await api.call('POST', path, entry)).status).toBe(201);
    const changed = await api.call('PUT', `${path}/${entry.name}`, invalid);
    expect(changed.status).toBe(400);
    expect(changed.error).toMatchObject({ ...error, details: [{ path: message.split(' ')[2] }] });
  });
});

test('an empty input schema is stored as it is and served with its type', async (context) => {
  const api = await startApi(context);
  const upstream = await startRawUpstream({
    scripts: { 'tools/list': toolList(toolText('found', ',"x":1.0')) },
  });
  context.onTestFinished(() => upstream.close());
  await api.call('POST', '/api/v1/forwards', { name: 'f', address: upstream.url });
  await api.call('POST', '/api/v1/tools', TOOL);
  expect(served(api, 'tool', 't')).toContain('"inputSchema":{"type":"object"}');
  expect((await api.call('GET', '/api/v1/tools/t')).data).toMatchObject({ input_schema: {} });

  const found = (await api.call('GET', '/api/v1/tools/found')).text.replace(/^.*?"data":|,"error":null}$/g, '');
  const changed = await api.call('PUT', '/api/v1/tools/found', { ...JSON.parse(found), input_schema: {} });
  expect(changed.data).toMatchObject({ input_schema: {} });
  expect(served(api, 'tool', 'found')).toContain('"inputSchema":{"type":"object"},"x":1.0');
  const invalid = await api.call('PUT', '/api/v1/tools/found', { ...JSON.parse(found), input_schema: { type: 'x' } });
  expect(invalid.error).toMatchObject({ message: 'invalid tool: input_schema.type must be object' });
});
