import { expect, test } from 'vitest';
import { LIST_END, toolList, toolText } from '../../../../test/fixtures/raw-upstream/texts.ts';
import { startRawUpstream } from '../../../../test/fixtures/raw-upstream.ts';
import { startApi } from './api.fixture.ts';

const TOOL = { description: '', uri: 'u:1', toolType: 'custom', input_schema: {} };

test('manual entries and forwards are listed in order of registration, entries of a forward in the order of its upstream', async (context) => {
  const api = await startApi(context);
  const lists = (names: readonly string[]) => ({
    'tools/list': toolList(...names.map((name) => toolText(name))),
    'resources/list': `{"resources":[${names.map((name) => `{"uri":"x:${name}","name":"${name}"}`)}],${LIST_END}`,
    'prompts/list': `{"prompts":[${names.map((name) => `{"name":"${name}"}`)}],${LIST_END}`,
  });
  const upstream = await startRawUpstream({ scripts: lists(['z', 'm', 'a']) });
  context.onTestFinished(upstream.close);
  const register = async (name: string): Promise<void> => {
    await api.call('POST', '/api/v1/tools', { ...TOOL, name });
    await api.call('POST', '/api/v1/resources', { name, location: `x:${name}`, type: 'custom' });
    await api.call('POST', '/api/v1/prompts', { name });
  };
  const listed = async (query = ''): Promise<unknown> => {
    const names = [];
    for (const kind of ['tools', 'resources', 'prompts']) {
      names.push(
        Object((await api.call('GET', `/api/v1/${kind}${query}`)).data).map((entry: object) => Object(entry).name),
      );
    }
    return names;
  };
  const thrice = (...names: string[]) => [names, names, names];

  await register('x');
  await api.call('POST', '/api/v1/forwards', { name: 'up', address: upstream.url });
  await register('b');
  expect(await listed()).toEqual(thrice('x', 'z', 'm', 'a', 'b'));

  // Later discoveries keep the position of the first one, with new entries in the upstream's order.
  Object.assign(upstream.scripts, lists(['a', 'new', 'z']));
  await api.call('POST', '/api/v1/forwards/up/refreshes');
  expect(await listed()).toEqual(thrice('x', 'a', 'new', 'z', 'b'));
  expect(await listed('?namespace=default')).toEqual(thrice('x', 'a', 'new', 'z', 'b'));

  // An entry that is deleted and created again is last.
  for (const kind of ['tools', 'resources', 'prompts']) await api.call('DELETE', `/api/v1/${kind}/x`);
  await register('x');
  expect(await listed()).toEqual(thrice('a', 'new', 'z', 'b', 'x'));
});
