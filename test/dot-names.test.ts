import { beforeAll, expect, it } from 'vitest';
import { startTestService, type TestService } from '../packages/server/testing/service.ts';
import { LIST_END, toolList, toolText } from './fixtures/raw-upstream/texts.ts';
import { startRawUpstream } from './fixtures/raw-upstream.ts';

// The names `.` and `..`, which no URL path can contain.

let service: TestService;
beforeAll(async () => {
  service = await startTestService();
  const upstream = await startRawUpstream({
    scripts: {
      'tools/list': toolList(toolText('.'), toolText('..')),
      'prompts/list': `{"prompts":[{"name":".."}],${LIST_END}`,
      'resources/list': `{"resources":[{"uri":"file:///x","name":".."}],${LIST_END}`,
    },
  });
  await service.register('forwards', { name: 'crm', address: upstream.url });
  return async () => {
    await service.stop(0);
    await upstream.close();
  };
});

const BODIES = {
  tools: { description: 'd', uri: 'own://x', toolType: 'own', input_schema: {} },
  resources: { location: 'x:1', type: 'own' },
  prompts: {},
  forwards: { address: 'http://127.0.0.1:9/mcp' },
  services: { address: '127.0.0.1:9', serviceType: 'tool-invoker' },
};

it.each(Object.entries(BODIES))('operators cannot give them to %s', async (collection, body) => {
  for (const name of ['.', '..', ' .. ']) {
    const { status } = await service.manage('POST', `/${collection}`, { ...body, name });
    expect(status, name).toBe(400);
  }
});

it.each([
  ['tools', '.'],
  ['tools', '..'],
  ['prompts', '..'],
  ['resources', '..'],
])('%s of upstreams keep the name %s, and are addressed by ?name=', async (collection, name) => {
  const address = `/${collection}/-?name=${name}`;
  expect(await service.manage('GET', address)).toMatchObject({ status: 200, data: { name } });
  expect(await service.manage('DELETE', address)).toMatchObject({ status: 200, data: { removed: name } });
  expect(await service.manage('GET', address)).toMatchObject({ status: 404 });
});
