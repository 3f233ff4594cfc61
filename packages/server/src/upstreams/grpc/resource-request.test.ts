import type { JsonObject } from '@sluice/protocol/json/parse';
import { expect, it } from 'vitest';
import { DEFAULT_NAMESPACE, type Entry } from '../../registry/entries.ts';
import { resourceRequest } from './bridge.ts';

function resourceOf(members: JsonObject): Entry {
  return {
    kind: 'resource',
    namespace: DEFAULT_NAMESPACE,
    key: 'page://{n}',
    name: 'pages',
    registrationId: 1,
    position: 0,
    labels: {},
    members,
    discovered: undefined,
    definition: {},
    rendered: [],
  };
}

it.each<[string, JsonObject, object]>([
  ['no content', {}, { configurationURI: '', secretsURI: '', params: {} }],
  [
    'all members',
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
])('a resource is read by the requested uri, with type, name and %s', (_what, members, expected) => {
  const request = resourceRequest(resourceOf({ type: 'pages', ...members }), 'page://7');
  expect(request).toMatchObject({ location: 'page://7', type: 'pages', name: 'pages', ...expected });
});

it('params have string names and values; others are empty', () => {
  const params = JSON.parse('[{"name":"__proto__","value":"p"},{"name":"n","value":1},"x",null,{"name":"\\ud800"}]');
  const request = resourceRequest(resourceOf({ type: 'pages', params }), 'page://7');
  expect(Object.entries(request.params ?? {})).toEqual([
    ['__proto__', 'p'],
    ['n', ''],
    ['\ufffd', ''],
  ]);
});

it('a lone surrogate in a uri is replaced', () => {
  expect(resourceRequest(resourceOf({ type: 'pages' }), 'page://\udc00').location).toBe('page://\ufffd');
});
