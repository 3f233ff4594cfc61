import { PromptSchema, ResourceSchema, ResourceTemplateSchema, ToolSchema } from '@modelcontextprotocol/sdk/types.js';
import { errorResponse, unknownMembers } from '@sluice/contract';
import { beforeAll, describe, expect, test } from 'vitest';
import { toolList, toolText } from '../../../../test/fixtures/raw-upstream/texts.ts';
import { startRawUpstream } from '../../../../test/fixtures/raw-upstream.ts';
import { type SharedApi, startSharedApi } from './api.fixture.ts';

/** A body of each kind with only known members. */
const BODIES = {
  tools: { name: 'a', description: '', uri: 'u:1', toolType: 'custom', input_schema: {} },
  resources: { name: 'a', location: 'a:1', type: 'custom' },
  prompts: { name: 'a' },
};
/** Misspelled members and the right names. */
const MISSPELLED = {
  tools: ['titel', 'title'],
  resources: ['mime_typ', 'mimeType'],
  prompts: ['argument', 'arguments'],
};

let api: SharedApi;
beforeAll(async () => {
  const upstream = await startRawUpstream({
    scripts: { 'tools/list': toolList(toolText('found').replace('"name"', '"titel":"theirs","name"')) },
  });
  api = await startSharedApi();
  for (const [kind, body] of Object.entries(BODIES)) await api.call('POST', `/api/v1/${kind}`, body);
  await api.call('POST', '/api/v1/forwards', { name: 'up', address: upstream.url });
  return async () => {
    await api.close();
    await upstream.close();
  };
});

describe.each(['tools', 'resources', 'prompts'] as const)('%s', (kind) => {
  const path = `/api/v1/${kind}`;
  const one = kind.slice(0, -1);
  const [typo = '', meant = ''] = MISSPELLED[kind];

  test('a PUT with an unknown member is 400 with the likeliest right name', async () => {
    const answer = await api.call('PUT', `${path}/a`, { ...BODIES[kind], [typo]: 'x', other: 1 });
    expect(answer.status).toBe(400);
    expect(errorResponse.parse(JSON.parse(answer.text)).error).toEqual({
      code: 'BAD_REQUEST',
      message: `invalid ${one}: ${typo} is not a known field; did you mean "${meant}"?`,
      details: [
        { path: typo, message: `is not a known field; did you mean "${meant}"?` },
        { path: 'other', message: 'is not a known field; names of additional fields begin with "x-"' },
      ],
    });
    expect((await api.call('GET', `${path}/a`)).data).not.toHaveProperty(typo);
  });

  test('a POST stores unknown members with a warning, and a PUT may repeat them', async () => {
    const body = {
      ...BODIES[kind],
      name: 'b',
      ...(kind === 'resources' && { location: 'b:1' }),
      [typo]: 'x',
      other: 1,
    };
    const created = await api.call('POST', path, body);
    expect(created.status).toBe(201);
    expect(JSON.parse(created.text).warnings).toEqual([
      {
        code: 'UNKNOWN_MEMBER',
        member: typo,
        message: `${typo} is not a known field and is stored; did you mean "${meant}"?`,
      },
      { code: 'UNKNOWN_MEMBER', member: 'other', message: 'other is not a known field and is stored' },
    ]);
    const { data } = await api.call('GET', `${path}/b`);
    expect(data).toMatchObject({ [typo]: 'x', other: 1 });
    const repeated = await api.call('PUT', `${path}/b`, { ...Object(data), other: 2 });
    expect(repeated).toMatchObject({ status: 200, data: { other: 2 } });
    expect(JSON.parse(repeated.text)).not.toHaveProperty('warnings');
  });

  test('members of MCP and those that begin with x- are accepted without a warning', async () => {
    const more = { title: 'A', icons: [], _meta: { a: 1 }, 'x-vendor': 1 };
    const answer = await api.call('PUT', `${path}/a`, { ...BODIES[kind], ...more });
    expect(answer).toMatchObject({ status: 200, data: more });
    expect(JSON.parse(answer.text)).not.toHaveProperty('warnings');
  });

  test('a PUT keeps unknown members with unknown_members=keep, with a warning', async () => {
    const answer = await api.call('PUT', `${path}/a?unknown_members=keep`, { ...BODIES[kind], [typo]: 'x' });
    expect(answer).toMatchObject({ status: 200, data: { [typo]: 'x' } });
    expect(JSON.parse(answer.text).warnings).toMatchObject([{ code: 'UNKNOWN_MEMBER', member: typo }]);
  });
});

test('a member that the upstream sends is known', async () => {
  const { data } = await api.call('GET', '/api/v1/tools/found');
  const changed = await api.call('PUT', '/api/v1/tools/found', { ...Object(data), titel: 'ours' });
  expect(changed).toMatchObject({ status: 200, data: { titel: 'ours' } });
  // Also after it was removed.
  const { titel: _removed, ...without } = Object(changed.data);
  expect((await api.call('PUT', '/api/v1/tools/found', without)).status).toBe(200);
  expect((await api.call('PUT', '/api/v1/tools/found', { ...without, titel: 'ours' })).status).toBe(200);
  expect((await api.call('PUT', '/api/v1/tools/found', { ...without, titles: 'ours' })).status).toBe(400);
});

test("all members of MCP's schemas are known", () => {
  // The modern era has no others.
  for (const [kind, schema] of [
    ['tool', ToolSchema],
    ['resource', ResourceSchema],
    ['resource', ResourceTemplateSchema],
    ['prompt', PromptSchema],
  ] as const) {
    expect(unknownMembers(kind, Object.keys(schema.shape)), kind).toEqual([]);
  }
});

test('many unknown members are rejected with the first ones', async () => {
  const members = Object.fromEntries(Object.keys(Array(4_900).fill(0)).map((at) => [`titl${at}`, 1]));
  const answer = await api.call('PUT', '/api/v1/tools/a', { ...BODIES.tools, ...members });
  expect(answer).toMatchObject({ status: 400, error: { details: { length: 20 } } });
});
