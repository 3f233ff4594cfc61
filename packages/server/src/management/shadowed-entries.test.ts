import { describe, expect, test } from 'vitest';
import { LIST_END, toolList, toolText } from '../../../../test/fixtures/raw-upstream/texts.ts';
import { startRawUpstream } from '../../../../test/fixtures/raw-upstream.ts';
import { startApi } from './api.fixture.ts';

/** An upstream with one tool, resource and prompt, all named `x`. */
async function startWithX(description: string) {
  const entry = `"name":"x","description":"${description}"`;
  return startRawUpstream({
    scripts: {
      'tools/list': `{"tools":[{${entry},"inputSchema":{"type":"object"}}],${LIST_END}`,
      'resources/list': `{"resources":[{"uri":"x:1",${entry}}],${LIST_END}`,
      'prompts/list': `{"prompts":[{${entry}}],${LIST_END}`,
    },
  });
}

const TOOL = { description: '', uri: 'u:1', toolType: 'custom', input_schema: {} };

describe.for([
  ['tools', TOOL, {}],
  ['resources', { type: 'custom' }, { location: 'x:1' }],
  ['prompts', {}, {}],
] as const)('among %s', ([kind, body, place]) => {
  const path = `/api/v1/${kind}`;

  test('the first entry of a key is served, the others are shadowed, and the oldest of them replaces it', async (context) => {
    const api = await startApi(context);
    for (const name of ['first', 'second', 'third']) {
      const upstream = await startWithX(name);
      context.onTestFinished(upstream.close);
      await api.call('POST', '/api/v1/forwards', { name, address: upstream.url });
    }
    const served = async (query = ''): Promise<unknown> =>
      Object((await api.call('GET', path + query)).data).map((entry: object) => {
        const { forward, shadowed } = Object(entry);
        return [forward, shadowed];
      });
    expect(await served()).toEqual([['first', undefined]]);
    expect(await served('?include=shadowed')).toEqual([
      ['first', undefined],
      ['second', true],
      ['third', true],
    ]);
    expect(await served('?only=shadowed&limit=1')).toEqual([['second', true]]);
    expect((await api.call('GET', `${path}/x`)).data).toMatchObject({ forward: 'first', description: 'first' });
    for (const name of ['second', 'third']) {
      const { statusMessage } = Object((await api.call('GET', `/api/v1/forwards/${name}`)).data);
      expect(statusMessage).toContain(`${kind.slice(0, -1)} x`);
    }
    // A manual entry would conflict, too.
    const refused = await api.call('POST', path, { ...body, ...place, name: 'x' });
    expect([refused.status, refused.error]).toMatchObject([409, { code: 'CONFLICT' }]);

    await api.call('DELETE', '/api/v1/forwards/first');
    expect(await served('?include=shadowed')).toEqual([
      ['second', undefined],
      ['third', true],
    ]);
    expect((await api.call('GET', `${path}/x`)).data).toMatchObject({ forward: 'second', description: 'second' });
    // With another name or namespace, the key is free for the next.
    const moved = { ...Object((await api.call('GET', `${path}/x`)).data), namespace: 'away' };
    expect((await api.call('PUT', `${path}/x`, moved)).status).toBe(200);
    expect((await api.call('GET', `${path}/x?namespace=default`)).data).toMatchObject({ forward: 'third' });
    expect((await api.call('GET', `${path}/x?namespace=away`)).data).toMatchObject({ forward: 'second' });
  });

  test('a key in use is 409 for creations, renames and moves', async (context) => {
    const api = await startApi(context);
    const entry = (name: string, namespace = 'default') => ({ ...body, name, namespace, location: `x:${name}` });
    for (const made of [entry('a'), entry('b'), entry('a', 'ops')]) await api.call('POST', path, made);
    const before = api.registry.current;
    for (const [method, where, what] of [
      ['POST', path, entry('a')],
      ['PUT', `${path}/b`, entry('a')],
      ['PUT', `${path}/a?namespace=ops`, entry('a', 'default')],
      ['PUT', `${path}/a?namespace=default`, entry('a', 'ops')],
    ] as const) {
      const answer = await api.call(method, where, what);
      expect([answer.status, answer.error], `${method} ${where}`).toMatchObject([409, { code: 'CONFLICT' }]);
    }
    expect(api.registry.current).toBe(before);
  });
});

test('a name of an upstream is stored unchanged, and found', async (context) => {
  const api = await startApi(context);
  const names = [' blanks ', 'a\\tb', 'x/y', 'é'.repeat(300)];
  const upstream = await startRawUpstream({
    scripts: { 'tools/list': toolList(...names.map((name) => toolText(name))) },
  });
  context.onTestFinished(upstream.close);
  await api.call('POST', '/api/v1/forwards', { name: 'up', address: upstream.url });
  const sent: string[] = names.map((name) => JSON.parse(`"${name}"`));
  expect((await api.call('GET', '/api/v1/tools')).data).toMatchObject(sent.map((name) => ({ name })));
  for (const name of sent) {
    const read = await api.call('GET', `/api/v1/tools/${encodeURIComponent(name)}`);
    expect([read.status, Object(read.data).name]).toEqual([200, name]);
  }
});
