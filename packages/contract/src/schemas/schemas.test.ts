import { describe, expect, test } from 'vitest';
import { z } from 'zod';
import {
  entryName,
  forwardInput,
  labels,
  namespaceName,
  promptInput,
  provisionInput,
  resourceInput,
  resourceUpdate,
  serviceInput,
  successResponse,
  suggestUriMember,
  toolInput,
  validate,
} from '../index.ts';
import { allOperations } from '../operations/operations.ts';

const TOOL = { name: 't', description: '', uri: 'u', toolType: 'custom', input_schema: {} };

describe('names', () => {
  test('are trimmed', () => {
    expect(entryName.parse('  a b\t')).toBe('a b');
    expect(namespaceName.parse(' ops ')).toBe('ops');
  });

  test('have up to 256 characters, whatever their number of code units', () => {
    expect(entryName.safeParse('😀'.repeat(256)).success).toBe(true);
    expect(entryName.safeParse('😀'.repeat(257)).success).toBe(false);
  });

  test.each(['', ' ', 'a\nb', 'a\u007fb', 'a\u0085b', '\udc00', 5, null, undefined])('%j is invalid', (name) => {
    expect(entryName.safeParse(name).success).toBe(false);
  });
});

describe('the address of a forward', () => {
  const accepts = (address: string) => forwardInput.safeParse({ name: 'f', address }).success;

  test.each(['http://a', ' HTTPS://a:1/mcp?x=1#y ', 'http://[::1]:80/', 'other:a b'])('%j is valid', (address) => {
    expect(accepts(address)).toBe(true);
  });

  test.each(['http://a\u0000', 'a', 'a:1', '/a', 'a b:c', 'http:', 'http://u:p@a', 'other://u@a'])(
    '%j is invalid',
    (address) => {
      expect(accepts(address)).toBe(false);
    },
  );
});

describe('aliases', () => {
  test('are folded into canonical names', () => {
    const { input_schema: schema, ...rest } = TOOL;
    expect(toolInput.parse({ ...rest, inputSchema: schema })).toEqual(TOOL);
  });

  test('yield to the canonical name when both are present', () => {
    expect(toolInput.parse({ ...TOOL, type: 'alias', inputSchema: { alias: true } })).toEqual(TOOL);
  });

  test('leave unknown and inherited names unchanged', () => {
    const text =
      '{"name":"t","description":"","uri":"u","toolType":"custom","input_schema":{},"toString":1,"constructor":2}';
    expect(toolInput.parse(JSON.parse(text))).toEqual(JSON.parse(text));
  });
});

test('objects are passed through without copying', () => {
  const schema = { type: 'object' };
  expect(toolInput.parse({ ...TOOL, input_schema: schema }).input_schema).toBe(schema);
});

test('a raw number is not an object', () => {
  const raw = JSON.rawJSON('1.0');
  expect(labels.safeParse(raw).success).toBe(false);
  expect(toolInput.safeParse({ ...TOOL, input_schema: raw }).success).toBe(false);
  expect(toolInput.parse({ ...TOOL, extra: raw }).extra).toBe(raw);
});

test('a label may have any name', () => {
  const unusual = JSON.parse('{"__proto__":"a","constructor":"b","":"c"}');
  expect(Object.entries(labels.parse(unusual))).toEqual(Object.entries(unusual));
  expect(labels.safeParse(JSON.parse('{"__proto__":1}')).error?.issues).toMatchObject([{ path: ['__proto__'] }]);
});

test('the location of a new resource fits into the head of a request', () => {
  const sized = (length: number) => ({ name: 'r', type: 't', location: 'x'.repeat(length) });
  expect(resourceInput.safeParse(sized(2_048)).success).toBe(true);
  expect(resourceInput.safeParse(sized(2_049)).success).toBe(false);
  // Names from upstreams may be longer, and can be submitted unchanged.
  expect(resourceUpdate.safeParse(sized(2_049)).success).toBe(true);
});

test('the envelope of a success has a null error', () => {
  expect(successResponse(labels).safeParse({ data: {}, error: null }).success).toBe(true);
  expect(successResponse(labels).safeParse({ data: {}, error: {} }).success).toBe(false);
});

const SERVICE = { name: 's', serviceType: 'tool-invoker' };

test.each([
  ['host:50051', 'host', 50051],
  ['10.0.0.1:1', '10.0.0.1', 1],
  ['[::1]:65535', '::1', 65535],
  ['a.b-c_d.e:080', 'a.b-c_d.e', 80],
])('the service address %s is parsed', (address, host, port) => {
  expect(serviceInput.parse({ ...SERVICE, address })).toEqual({ ...SERVICE, host, port });
  expect(serviceInput.parse({ ...SERVICE, host, port })).toEqual({ ...SERVICE, host, port });
});

test.each(['h', 'h:', ':1', 'h:0', 'h:65536', 'h:1x', '[.]:7', '[a.]:7', '::1:7', '[h]:7', 'h h:7', 'http://h:7', ''])(
  'the service address %j is rejected with one issue',
  (address) => {
    expect(validate(serviceInput, { ...SERVICE, address })).toEqual({
      issues: [{ path: 'address', message: 'must be host:port without http://, with a port from 1 to 65535' }],
    });
  },
);

test.each([
  [{}, 'address'],
  [{ host: 'h' }, 'port'],
  [{ port: 7 }, 'address'],
  [{ host: ':', port: 7 }, 'host'],
  [{ host: '[::1]', port: 7 }, 'host'],
  [{ address: 'h:7', host: 'g' }, 'host'],
  [{ address: 'h:7', port: 8 }, 'port'],
])('a service with %j is rejected', (address, member) => {
  expect(serviceInput.safeParse({ ...SERVICE, ...address }).error?.issues[0]?.path).toEqual([member]);
});

test('a port is compared by value, in any notation', () => {
  expect(serviceInput.parse({ ...SERVICE, host: 'h', port: JSON.rawJSON('50051.0') }).port).toBe(50051);
});

test.each([
  ['arguments', promptInput, { name: 'p', arguments: Array.from({ length: 350_000 }, () => ({})) }],
  ['messages', promptInput, { name: 'p', messages: Array.from({ length: 350_000 }, () => ({})) }],
  ['params', resourceInput, { name: 'r', location: 'u', type: 't', params: Array.from({ length: 350_000 }, () => 1) }],
  ['labels', toolInput, { ...TOOL, labels: Object.fromEntries(Array.from({ length: 90_000 }, (_, at) => [at, at])) }],
])('too many %s are rejected with one issue, without validating them', (member, schema, body) => {
  const result = validate(schema, body);
  expect(result).toEqual({ issues: [{ path: member, message: expect.stringMatching(/at most 1000/) }] });
});

test('a provision rejects unknown members and names the known ones', () => {
  const body = { name: 'crm', configuration: 'c', secrets: 's', uri: 'u' };
  expect(validate(provisionInput, body)).toEqual({ value: body });
  const message = 'is not a known field; known fields: name, configuration, secrets, uri';
  expect(validate(provisionInput, { name: 'crm', secret: 's', config: 'c' })).toEqual({
    issues: [
      { path: 'secret', message },
      { path: 'config', message },
    ],
  });
  expect(validate(provisionInput, { name: 5 })).toMatchObject({ issues: [{ path: 'name' }] });
});

test.each([
  ['secretUri', 'secretsURI'],
  ['secretsUri', 'secretsURI'],
  ['secret_uri', 'secretsURI'],
  ['configurationUri', 'configurationURI'],
  ['ConfigurationURI', 'configurationURI'],
  ['secretsURI', undefined],
  ['configurationURI', undefined],
  ['constructor', undefined],
])('the suggestion for %s is %s', (member, meant) => {
  expect(suggestUriMember(member)).toBe(meant);
});

test('at most 100 issues are returned', () => {
  const result = validate(promptInput, { name: 'p', arguments: Array.from({ length: 1_000 }, () => ({})) });
  expect('issues' in result && result.issues).toHaveLength(100);
});

test.each(
  allOperations.flatMap(({ id, body }) => {
    const schema = body?.schema;
    return schema instanceof z.ZodObject && schema.def.catchall?._zod.def.type === 'never'
      ? [[id, schema] as const]
      : [];
  }),
)('an unknown member is named with the known ones: %s', (_, schema) => {
  const result = validate(schema, { zzz: 1 });
  const known = Object.keys(schema.shape).join(', ');
  expect(result).toMatchObject({
    issues: expect.arrayContaining([{ path: 'zzz', message: `is not a known field; known fields: ${known}` }]),
  });
});
