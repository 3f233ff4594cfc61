import { expect, test } from 'vitest';
import { startApi } from './api.fixture.ts';

const PATH = '/api/v1/evaluators/namespaces';

test('a namespace is bound, read and unbound; it does not have to exist', async (context) => {
  const api = await startApi(context);
  expect((await api.call('GET', PATH)).text).toBe('{"data":{},"error":null}');
  const bound = await api.call('PUT', `${PATH}/finance`, { conversation_id: 'c-1' });
  expect([bound.status, bound.data]).toEqual([200, { namespace: 'finance', conversation_id: 'c-1' }]);
  await api.call('PUT', `${PATH}/default`, { conversation_id: '😀'.repeat(256) });
  await api.call('PUT', `${PATH}/finance`, { conversation_id: 'c-2' });
  expect((await api.call('GET', PATH)).data).toEqual({ default: '😀'.repeat(256), finance: 'c-2' });
  expect(api.bindings.get('finance')).toBe('c-2');
  for (const _again of [1, 2]) {
    const unbound = await api.call('DELETE', `${PATH}/finance`);
    expect([unbound.status, unbound.data]).toEqual([200, { unbound: 'finance' }]);
  }
  expect((await api.call('GET', PATH)).data).toEqual({ default: '😀'.repeat(256) });
});

test('deleting a namespace deletes its binding', async (context) => {
  const api = await startApi(context);
  await api.call('POST', '/api/v1/namespaces', { name: 'gone' });
  await api.call('PUT', `${PATH}/gone`, { conversation_id: 'c' });
  await api.call('DELETE', '/api/v1/namespaces/gone');
  expect((await api.call('GET', PATH)).data).toEqual({});
});

test.for([
  ['finance', {}, 'conversation_id is required'],
  ['finance', { conversation_id: '' }, 'conversation_id must not be empty'],
  ['finance', { conversation_id: 5 }, 'conversation_id '],
  ['finance', { conversation_id: 'x'.repeat(257) }, 'conversation_id must have at most 256 characters'],
  ['Finance', { conversation_id: 'c' }, 'namespace must consist of lowercase letters, digits and hyphens only'],
  ['-', { conversation_id: 'c' }, 'namespace must start and end with a letter or digit'],
  ['%20a', { conversation_id: 'c' }, 'namespace must '],
] as const)('of %s, %j is rejected', async ([namespace, body, problem], context) => {
  const api = await startApi(context);
  const answer = await api.call('PUT', `${PATH}/${namespace}`, body);
  expect(answer.status).toBe(400);
  expect(answer.error).toMatchObject({ code: 'BAD_REQUEST', details: [{ path: problem.split(' ')[0] }] });
  expect(JSON.stringify(answer.error)).toContain(`invalid binding: ${problem}`);
  expect((await api.call('GET', PATH)).data).toEqual({});
});
