import { expect, test } from 'vitest';
import type { RegistryCommit } from '../registry/registry.ts';
import { startApi } from './api.fixture.ts';

const TOOL = { name: 't', description: '', uri: 'grpc://a', toolType: 'custom', input_schema: {} };
const SERVICE = { name: 's', host: '127.0.0.1', port: 1, serviceType: 'tool-invoker' };
const UP = { name: 'up', address: 'http://127.0.0.1:9/mcp' };

/** Requests that change the registry, in this order, with the ids of their operations and whether they revoke access. */
const REQUESTS = [
  ['POST', '/namespaces', { name: 'ops' }, 'createNamespace', false],
  ['PUT', '/namespaces/ops', { labels: { a: '1' } }, 'updateNamespace', false],
  ['DELETE', '/namespaces/ops', undefined, 'deleteNamespace', true],
  ['POST', '/tools', TOOL, 'createTool', false],
  ['PUT', '/tools/t', { ...TOOL, description: 'new' }, 'updateTool', false],
  ['POST', '/tools/enabled', { names: ['t'], enabled: false }, 'enableTools', true],
  ['POST', '/tools/enabled', { names: ['t'], enabled: true }, 'enableTools', false],
  ['DELETE', '/tools/t', undefined, 'deleteTool', true],
  ['POST', '/services', SERVICE, 'createService', false],
  ['POST', '/services', { ...SERVICE, port: 2 }, 'createService', true],
  ['DELETE', '/services/s', undefined, 'deleteService', true],
  ['POST', '/forwards', UP, 'createForward', false],
  ['PATCH', '/forwards/up', { labels: { a: '1' } }, 'updateForward', false],
  ['PATCH', '/forwards/up', { address: 'http://127.0.0.1:9/other' }, 'updateForward', true],
  ['DELETE', '/forwards/up', undefined, 'deleteForward', true],
] as const;

test('a commit names the user and the operation of the request that makes it', async (context) => {
  const api = await startApi(context);
  const commits: RegistryCommit[] = [];
  api.registry.committed.subscribe((commit) => commits.push(commit));
  const expected: unknown[] = [];
  for (const [at, [method, path, body, reason, revokesAccess]] of REQUESTS.entries()) {
    const id = at % 2 === 0 ? 'ana' : '';
    const { status } = await api.call(method, `/api/v1${path}`, body, id === '' ? {} : { 'x-forwarded-user': id });
    expect([path, Math.floor(status / 100)]).toEqual([path, 2]);
    expected.push({ origins: [{ actor: { id }, reason }], revokesAccess });
  }
  const made = commits.filter(({ origins }) => origins.some(({ actor }) => typeof actor !== 'string'));
  expect(made).toMatchObject(expected);
});
