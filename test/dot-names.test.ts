import { beforeAll, expect, it } from 'vitest';
import { type CommandLine, startCommandLine } from './fixtures/command-line.ts';
import { LIST_END, toolList, toolText } from './fixtures/raw-upstream/texts.ts';
import { startRawUpstream } from './fixtures/raw-upstream.ts';

// The names `.` and `..`, which no URL path can contain.

let line: CommandLine;
let service: CommandLine['service'];
beforeAll(async () => {
  line = await startCommandLine();
  ({ service } = line);
  const upstream = await startRawUpstream({
    scripts: {
      'tools/list': toolList(toolText('.'), toolText('..')),
      'prompts/list': `{"prompts":[{"name":".."}],${LIST_END}`,
      'resources/list': `{"resources":[{"uri":"file:///x","name":".."}],${LIST_END}`,
    },
  });
  await service.register('forwards', { name: 'crm', address: upstream.url });
  return async () => {
    await line.close();
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

const DISCOVERED = [
  ['tools', '.'],
  ['tools', '..'],
  ['prompts', '..'],
  ['resources', '..'],
] as const;

it.each(DISCOVERED)('%s of upstreams keep the name %s, and are changed by ?name=', async (collection, name) => {
  const address = `/${collection}/-?name=${name}`;
  const { status, data } = await service.manage('GET', address);
  expect({ status, data }).toMatchObject({ status: 200, data: { name } });
  const other = name === '.' ? '..' : '.';
  expect(await service.manage('PUT', address, { ...Object(data), labels: { a: 'b' } })).toMatchObject({
    status: 200,
    data: { name, labels: { a: 'b' } },
  });
  expect(await service.manage('PUT', address, { ...Object(data), name: other })).toMatchObject({
    status: 400,
  });
  // A renamed entry can have the name of the upstream again.
  const renamed = `renamed${name}`;
  expect(await service.manage('PUT', address, { ...Object(data), name: renamed })).toMatchObject({ status: 200 });
  expect(await service.manage('PUT', `/${collection}/${renamed}`, data)).toMatchObject({
    status: 200,
    data: { name },
  });
});

it.each(DISCOVERED)('the command line changes and deletes %s named %s', async (collection, name) => {
  expect(await line.json(collection, 'get', name)).toMatchObject({ name });
  await line.text(collection, 'label', 'add', name, 'team=a');
  expect(await line.json(collection, 'get', name)).toMatchObject({ name, labels: { team: 'a' } });
  for (const [command, enabled] of [
    ['disable', false],
    ['enable', true],
  ] as const) {
    await line.text(collection, command, name);
    expect(await line.json(collection, 'get', name)).toMatchObject({ name, enabled });
  }
  expect(await line.sluice([collection, 'remove', name])).toMatchObject({ code: 0 });
  expect(await line.sluice([collection, 'get', name])).toMatchObject({
    code: 1,
    err: expect.stringContaining('not found'),
  });
});
