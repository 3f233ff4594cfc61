import { expect, test, vi } from 'vitest';
import { PausableStore } from '../registry/fixtures/pausable-store.ts';
import { startApi } from './api.fixture.ts';

const TOOL = { name: 't', uri: 'u:1', toolType: 'custom', input_schema: {} };
const RESOURCE = { name: 'r', type: 'custom' };
const SERVICE = { name: 's', serviceType: 'tool-invoker', host: 'calc.test' };
const OPS = '/api/v1/namespaces/ops';

/** Method, path and body of calls in order, with the expected response of each. */
const CALLS: readonly (readonly [string, string, unknown, object])[] = [
  ['POST', '/api/v1/namespaces', { name: 'ops', labels: { a: '1' } }, { status: 201, data: { labels: { a: '1' } } }],
  ['PUT', OPS, { labels: { a: '2' } }, { status: 200, data: { labels: { a: '2' } } }],
  ['POST', '/api/v1/namespaces', { name: 'ops' }, { status: 200, location: '', data: { labels: { a: '2' } } }],
  ['PUT', OPS, { labels: { a: '3' } }, { status: 200, data: { labels: { a: '3' } } }],
  ['DELETE', OPS, undefined, { status: 200 }],
  ['POST', '/api/v1/namespaces', { name: 'ops', labels: { a: '4' } }, { status: 201, data: { labels: { a: '4' } } }],
  ['PUT', OPS, {}, { status: 200, data: { labels: {} } }],
  ['POST', '/api/v1/tools', { ...TOOL, description: 'one' }, { status: 201, data: { description: 'one' } }],
  ['PUT', '/api/v1/tools/t', { ...TOOL, description: 'two' }, { status: 200, data: { description: 'two' } }],
  ['DELETE', '/api/v1/tools/t', undefined, { status: 200 }],
  ['POST', '/api/v1/services', { ...SERVICE, port: 1 }, { status: 201, data: { port: 1 } }],
  ['POST', '/api/v1/services', { ...SERVICE, port: 2 }, { status: 200, data: { port: 2 } }],
  // Its name identifies only this entry, until another one gets the name.
  [
    'POST',
    '/api/v1/resources',
    { ...RESOURCE, location: 'x:1' },
    { status: 201, location: '/api/v1/resources/r?namespace=default' },
  ],
  [
    'POST',
    '/api/v1/resources',
    { ...RESOURCE, location: 'x:2' },
    { status: 201, location: '/api/v1/resources/r?namespace=default&uri=x%3A2' },
  ],
];

test('calls that are committed together get the same responses as separate ones', async (context) => {
  const store = new PausableStore();
  const api = await startApi(context, { store });
  const commit = vi.spyOn(api.registry, 'commit');
  store.hold = true;
  // While this one is being stored, the others are collected.
  const first = api.call('POST', '/api/v1/namespaces', { name: 'before' });
  await expect.poll(() => commit.mock.calls.length).toBe(1);
  const answers = [];
  for (const [index, [method, path, body]] of CALLS.entries()) {
    answers.push(api.call(method, path, body));
    await expect.poll(() => commit.mock.calls.length).toBe(index + 2);
  }
  const stored = store.journal.length;
  store.commitAll();
  await first;
  await expect.poll(() => store.waiting).toBe(1);
  store.commitAll();
  expect(await Promise.all(answers)).toMatchObject(CALLS.map(([, , , answer]) => answer));
  expect(store.journal.length).toBe(stored + 2);
});
