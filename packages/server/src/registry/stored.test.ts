import { serviceType } from '@sluice/contract';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { anyCharacter } from '../../../../test/fixtures/any-character.ts';
import { DEFAULT_NAMESPACE, type Forward, type ServiceEntry } from './entries.ts';
import { render } from './serialize.ts';
import { readForward, readNamespace, readService, storedForward, storedNamespace, storedService } from './stored.ts';

const FORWARD: Forward = {
  name: 'up',
  address: 'https://up.test/mcp',
  namespace: DEFAULT_NAMESPACE,
  labels: { l: '1', __proto__x: '2' },
  prefix: 'p.',
  registrationId: 5,
  catalogs: [
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
  detachedOverrides: undefined,
  unknown: undefined,
};

const gone = render({
  kind: 'tool',
  namespace: DEFAULT_NAMESPACE,
  key: 'z',
  name: 'z',
  registrationId: 5,
  position: 3,
  labels: { mine: '1' },
  members: {},
  discovered: {
    forward: 'up',
    upstreamKey: 'a',
    variants: [{ json: '{"name":"a","n":1.0}', catalogs: undefined }],
    overrides: { title: 'T' },
    renamed: true,
  },
  definition: {},
});

const text = fc.string({ unit: anyCharacter });

/** Any service that the API accepts. */
const services = fc.record<ServiceEntry>({
  name: text.map((name) => `n${name.replace(/\p{Cc}/gu, '')}n`),
  host: fc.oneof(fc.domain(), fc.ipV4(), fc.ipV6(), fc.constantFrom('a_b', 'x')),
  port: fc.integer({ min: 1, max: 65_535 }),
  serviceType: fc.constantFrom(...serviceType.options),
  serviceSubType: fc.option(text, { nil: undefined }),
  languageName: fc.option(text, { nil: undefined }),
  labels: fc.dictionary(text, text),
  id: fc.option(text, { nil: undefined }),
  registrationId: fc.integer({ min: 1, max: 10 ** 15 - 1 }),
  unknown: fc.option(
    fc
      .array(fc.tuple(text, fc.json()), { minLength: 1 })
      .map((members) => new Map(members.map(([member, value]): [string, string] => [`x${member}`, value]))),
    { nil: undefined },
  ),
});

test.each<[string, Forward]>([
  ['with its catalogs', FORWARD],
  ['without', { ...FORWARD, catalogs: [], labels: {}, prefix: '' }],
  ['with headers', { ...FORWARD, headers: { Authorization: `Bearer $\{file:crm}`, 'user-agent': 'a' } }],
  ['with overrides of unlisted entries', { ...FORWARD, detachedOverrides: [gone, { ...gone, kind: 'prompt' }] }],
  [
    'with unknown members',
    {
      ...FORWARD,
      unknown: new Map([
        ['x', '1.0'],
        ['y\n', '{ "z":[] }'],
      ]),
    },
  ],
])('a forward is restored %s', (_what, forward) => {
  expect(readForward(storedForward(forward), () => -1, addressProblem)).toEqual(forward);
});

test('a namespace is restored', () => {
  const plain = { name: DEFAULT_NAMESPACE, labels: { a: '1' }, unknown: undefined };
  expect(readNamespace(storedNamespace(plain))).toEqual(plain);
  const odd = { ...plain, unknown: new Map([['owner', '{"n":1.0}']]) };
  expect(readNamespace(storedNamespace(odd))).toEqual(odd);
});

test('any service is restored', () => {
  fc.assert(
    fc.property(services, (service) => {
      expect(readService(storedService(service), () => -1)).toEqual(service);
    }),
  );
});

const addressProblem = (address: string) => (address.startsWith('http') ? undefined : 'must begin with http');

test('a hand-written forward needs a name and an address, with defaults for the rest', () => {
  expect(readForward('{"name":"f","address":"http://f.test/"}', () => 9, addressProblem)).toEqual({
    name: 'f',
    address: 'http://f.test/',
    namespace: 'default',
    labels: {},
    prefix: '',
    registrationId: 9,
    catalogs: [],
    detachedOverrides: undefined,
    unknown: undefined,
  });
});

test.each([
  ['{"address":"http://f.test/"}', 'name and address are required'],
  ['{"name":1,"address":"http://f.test/"}', 'name and address are required'],
  ['{"name":"f","address":"ftp://f.test/"}', 'the address of f must begin with http'],
  ['{"name":"f","address":"http://f.test/","namespace":"No"}', 'invalid namespace "No"'],
  ['{"name":"f","address":"http://f.test/","headers":{"host":"a"}}', 'invalid headers: is set by the service itself'],
])('%s is no forward: %s', (json, why) => {
  expect(() => readForward(json, () => 1, addressProblem)).toThrow(new Error(why));
});

test('labels that are not strings are dropped', () => {
  expect(readNamespace('{"name":"a","labels":{"a":"1","b":2,"c":null,"d\\n":"3"}}')).toMatchObject({
    labels: { a: '1', 'd\n': '3' },
  });
  expect(readNamespace('{"name":"a","labels":["x"]}')).toMatchObject({ labels: {} });
  expect(() => readNamespace('{"name":"A"}')).toThrow(new Error('invalid namespace name "A"'));
});

describe('a service written by hand', () => {
  const whole = { name: 's', host: 'h', port: 7, serviceType: 'tool-invoker', labels: {}, registrationId: 9 };

  test.each([
    ['with host and port', '{"name":"s","host":"h","port":7.0,"serviceType":"tool-invoker"}'],
    ['with its address', '{"name":" s ","address":"h:7","serviceType":"tool-invoker"}'],
    ['with all of them', '{"name":"s","address":"h:7","host":"h","port":7,"serviceType":"tool-invoker"}'],
    ['under other names', '{"serviceName":"s","address":"h:7","service_type":"tool-invoker"}'],
    ["in the API's form", '{"name":"s","address":"h:7","serviceType":"tool-invoker","labels":{},"health":"down"}'],
    ['with empty members', '{"name":"s","address":"h:7","serviceType":"tool-invoker","id":null,"labels":{"n":1}}'],
  ])('is read %s', (_how, json) => {
    expect(readService(json, () => 9)).toEqual({ ...whole, unknown: undefined });
  });

  test('has its brackets off', () => {
    const json = '{"name":"s","address":"[fe80::1]:7","serviceType":"tool-invoker"}';
    expect(readService(json, () => 9)).toEqual({ ...whole, host: 'fe80::1' });
  });

  test.each([
    ['{"address":"h:1","serviceType":"tool-invoker"}', 'name is required'],
    ['{"name":"s","serviceType":"tool-invoker"}', 'address is required unless host and port are set'],
    ['{"name":"s","host":"h","serviceType":"tool-invoker"}', 'port is required if host is set'],
    [
      '{"name":"s","address":"h","serviceType":"tool-invoker"}',
      'address must be host:port without http://, with a port from 1 to 65535',
    ],
    ['{"name":"s","address":"h:1","host":"g","serviceType":"tool-invoker"}', 'host does not match address'],
    ['{"name":"s","address":"h:1"}', 'serviceType is required'],
    ['{"name":7,"address":"h:1","serviceType":"tool-invoker"}', 'name must be a string'],
  ])('%s is none: %s', (json, why) => {
    expect(() => readService(json, () => 9)).toThrow(new Error(why));
  });

  test('of an unknown type is rejected with the list of known types', () => {
    const read = () => readService('{"name":"s","address":"h:1","serviceType":"magic"}', () => 9);
    expect(read).toThrow(/^serviceType must be one of tool-invoker, .*code-execution-engine$/);
  });
});
