import { describe, expect, test } from 'vitest';
import type { Forward } from './entries.ts';
import { DEFAULT_NAMESPACE } from './names.ts';
import { render } from './render.ts';
import { readForward, readNamespace, storedForward, storedNamespace } from './stored.ts';

const FORWARD: Forward = {
  name: 'up',
  address: 'https://up.test/mcp',
  namespace: DEFAULT_NAMESPACE,
  labels: { l: '1', __proto__x: '2' },
  prefix: 'p.',
  source: 5,
  catalogues: [
    {
      key: 'legacy:{"sampling":{}}',
      era: 'legacy',
      capabilities: { sampling: {} },
      identity: '{ "serverInfo":{"name":"s","version":"1.0"},\n "x":1.0,"x":9223372036854775807 }',
      cache: {},
    },
    {
      key: 'modern:{}',
      era: 'modern',
      capabilities: {},
      identity: '{"\\u0061":1e400}',
      cache: {
        'tools/list': { ttlMs: 5_000, cacheScope: 'private' },
        'prompts/list': { ttlMs: 0, cacheScope: 'public' },
      },
    },
  ],
  absent: undefined,
  unknown: undefined,
};

const gone = render({
  kind: 'tool',
  namespace: DEFAULT_NAMESPACE,
  key: 'z',
  name: 'z',
  source: 5,
  position: 3,
  labels: { mine: '1' },
  members: {},
  discovered: {
    forward: 'up',
    upstreamKey: 'a',
    offers: [{ json: '{"name":"a","n":1.0}', catalogues: undefined }],
    overrides: { title: 'T' },
  },
  definition: {},
});

describe.each([
  ['as one line', false],
  ['as lines', true],
])('%s', (_how, lines) => {
  test.each<[string, Forward]>([
    ['with its catalogues', FORWARD],
    ['without', { ...FORWARD, catalogues: [], labels: {}, prefix: '' }],
    ['with entries that wait for their return', { ...FORWARD, absent: [gone, { ...gone, kind: 'prompt' }] }],
    [
      'with members that nobody knows',
      {
        ...FORWARD,
        unknown: new Map([
          ['x', '1.0'],
          ['y\n', '{ "z":[] }'],
        ]),
      },
    ],
  ])('a forward comes back %s', (_what, forward) => {
    const text = storedForward(forward, lines);
    expect(readForward(text, () => -1)).toEqual(forward);
    expect(text.split('\n').length > 1).toBe(lines || text.includes(',\n "x":1.0'));
  });

  test('a namespace comes back', () => {
    const plain = { name: DEFAULT_NAMESPACE, labels: { a: '1' }, unknown: undefined };
    expect(readNamespace(storedNamespace(plain, lines))).toEqual(plain);
    const odd = { ...plain, unknown: new Map([['owner', '{"n":1.0}']]) };
    expect(readNamespace(storedNamespace(odd, lines))).toEqual(odd);
  });
});

test('a forward written by hand needs a name and an address; all else has a default', () => {
  expect(readForward('{"name":"f","address":"http://f.test/"}', () => 9)).toEqual({
    name: 'f',
    address: 'http://f.test/',
    namespace: 'default',
    labels: {},
    prefix: '',
    source: 9,
    catalogues: [],
    absent: undefined,
    unknown: undefined,
  });
});

test.each([
  ['{"address":"http://f.test/"}', 'name and address are required'],
  ['{"name":1,"address":"http://f.test/"}', 'name and address are required'],
  ['{"name":"f","address":"f"}', 'invalid address "f"'],
  ['{"name":"f","address":"ftp://f.test/"}', 'invalid address "ftp://f.test/": only http and https are spoken'],
  ['{"name":"f","address":"file:///etc"}', 'invalid address "file:///etc": only http and https are spoken'],
  ['{"name":"f","address":"http://f.test/","namespace":"No"}', 'invalid namespace "No"'],
])('%s is no forward: %s', (json, why) => {
  expect(readForward(json, () => 1)).toBe(why);
});

test('labels that are no texts are left out', () => {
  expect(readNamespace('{"name":"a","labels":{"a":"1","b":2,"c":null,"d\\n":"3"}}')).toMatchObject({
    labels: { a: '1', 'd\n': '3' },
  });
  expect(readNamespace('{"name":"a","labels":["x"]}')).toMatchObject({ labels: {} });
  expect(readNamespace('{"name":"A"}')).toBe('invalid namespace name "A"');
});
