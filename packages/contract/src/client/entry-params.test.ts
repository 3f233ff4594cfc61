import { expect, test } from 'vitest';
import { createClient, entryParams } from './client.ts';

const COLLECTIONS = ['tools', 'resources', 'prompts'] as const;
const METHODS = ['GET', 'PUT', 'DELETE'] as const;
/** Path segment and `?name=` by name. */
const NAMES: readonly (readonly [name: string, segment: string, inQuery: string | null])[] = [
  ['.', '-', '.'],
  ['..', '-', '..'],
  ['...', '...', null],
  ['.a', '.a', null],
  ['-', '-', null],
  ['a/../b', 'a%2F..%2Fb', null],
  ['%2e', '%252e', null],
  ['grün ?', 'gr%C3%BCn%20%3F', null],
];

test.each(
  COLLECTIONS.flatMap((collection) =>
    METHODS.flatMap((method) => NAMES.map((name) => [method, collection, ...name] as const)),
  ),
)('%s of %s named %s', async (method, collection, name, segment, inQuery) => {
  const sent: Request[] = [];
  const client = createClient({
    host: 'http://sluice.example/base',
    fetch: async (request) => {
      sent.push(request);
      return Response.json({ data: {}, error: null });
    },
  });
  await client.request(method.toLowerCase() as Lowercase<typeof method>, `/api/v1/${collection}/{name}`, {
    params: entryParams(name, { namespace: 'crm' }),
  });
  const url = new URL(sent[0]?.url ?? '');
  expect(url.pathname).toBe(`/base/api/v1/${collection}/${segment}`);
  expect(url.searchParams.get('name')).toBe(inQuery);
  expect(url.searchParams.get('namespace')).toBe('crm');
});

test('a path without these parameters is not sent with another meaning', async () => {
  const client = createClient({ host: 'http://sluice.example', fetch: async () => Response.json({ data: {} }) });
  const call = client.GET('/api/v1/tools/{name}', { params: { path: { name: '..' } } });
  await expect(call).rejects.toThrow('invalid name ".."');
});
