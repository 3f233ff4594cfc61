import type { JsonObject } from '@sluice/protocol/json/parse';
import { expect, it } from 'vitest';
import { DEFAULT_NAMESPACE, type Entry } from '../../registry/entries.ts';
import { resourceRequest } from './resources.ts';

function resourceOf(members: JsonObject): Entry {
  return {
    kind: 'resource',
    namespace: DEFAULT_NAMESPACE,
    key: 'page://{n}',
    name: 'pages',
    source: 1,
    position: 0,
    labels: {},
    members,
    discovered: undefined,
    definition: {},
    served: [],
  };
}

it.each<[string, JsonObject, object]>([
  ['nothing more', {}, { configurationURI: '', secretsURI: '', params: {} }],
  [
    'all there is',
    { configurationURI: 'c://1', secretsURI: 's://1', params: [{ name: 'a', value: 'b' }] },
    { configurationURI: 'c://1', secretsURI: 's://1', params: { a: 'b' } },
  ],
  [
    'two params of one name',
    {
      params: [
        { name: 'a', value: '1' },
        { name: 'a', value: '2' },
      ],
    },
    { params: { a: '2' } },
  ],
])('a resource is asked for by the uri that was asked for, with type, name and %s', (_what, members, expected) => {
  const request = resourceRequest(resourceOf({ type: 'pages', ...members }), 'page://7');
  expect(request).toMatchObject({ location: 'page://7', type: 'pages', name: 'pages', ...expected });
});

it('params have names and values of texts, and others are empty', () => {
  const params = JSON.parse('[{"name":"__proto__","value":"p"},{"name":"n","value":1},"x",null,{"name":"\\ud800"}]');
  const request = resourceRequest(resourceOf({ type: 'pages', params }), 'page://7');
  expect(Object.entries(request.params ?? {})).toEqual([
    ['__proto__', 'p'],
    ['n', ''],
    ['\ufffd', ''],
  ]);
});

it('half a surrogate pair in a uri is sent as what UTF-8 has for it', () => {
  expect(resourceRequest(resourceOf({ type: 'pages' }), 'page://\udc00').location).toBe('page://\ufffd');
});
