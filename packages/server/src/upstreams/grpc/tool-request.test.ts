import { isJsonObject, type JsonObject, parseLossless } from '@sluice/protocol/json/parse';
import { describe, expect, it } from 'vitest';
import { DEFAULT_NAMESPACE, type Entry } from '../../registry/entries.ts';
import { CallError } from '../operation.ts';
import { loadProtocols } from './channels.ts';
import { parseArguments, toolRequest } from './tool-operation.ts';

function json(text: string): JsonObject {
  const value = parseLossless(text);
  if (!isJsonObject(value)) throw new Error('no object');
  return value;
}

/** A manual tool; schema and members are JSON text. */
function toolOf(schema = '{}', members = '{"uri":"weather://x","toolType":"weather"}'): Entry {
  return {
    kind: 'tool',
    namespace: DEFAULT_NAMESPACE,
    key: 't',
    name: 't',
    registrationId: 1,
    position: 0,
    labels: {},
    members: json(members),
    discovered: undefined,
    definition: json(`{"description":"","inputSchema":${schema}}`),
    rendered: [],
  };
}

/** The request for a call whose arguments are this JSON text. */
function requestOf(given: string, schema?: string, members?: string) {
  const text = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t","arguments":${given}}}`;
  return toolRequest(toolOf(schema, members), parseArguments({ text }));
}

function rejectionOf(run: () => unknown): readonly string[] {
  try {
    run();
  } catch (error) {
    if (error instanceof CallError) return [error.category, error.message];
    throw error;
  }
  throw new Error('nothing was refused');
}

const HEADER = '"target":"header","scope":"service"';

const NESTED = `${'['.repeat(20_000)}${']'.repeat(20_000)}`;

/** A number of arguments, as JSON text. */
function namesTo(count: number): string {
  return `{${Array.from({ length: count }, (_, at) => `"${at}":1`).join(',')}}`;
}

describe('the request to invoke a tool', () => {
  it.each([
    ['named', '{"uri":"u://1","configurationURI":"c://1","secretsURI":"s://1"}', ['u://1', 'c://1', 's://1']],
    ['empty if absent', '{"uri":"u://1"}', ['u://1', '', '']],
  ])('has the three URIs of the tool: %s', (_what, members, expected) => {
    const { uri, configurationURI, secretsURI } = requestOf('{}', '{}', members);
    expect([uri, configurationURI, secretsURI]).toEqual(expected);
  });

  it.each([
    ['a text unchanged', '{"a":"x \\"y\\" \\n"}', { a: 'x "y" \n' }],
    ['an empty text', '{"a":""}', { a: '' }],
    ['a text that looks like JSON', '{"a":"1","b":"null"}', { a: '1', b: 'null' }],
    [
      'numbers with their exact text',
      '{"a":9223372036854775807,"b":1.0,"c":-0}',
      { a: '9223372036854775807', b: '1.0', c: '-0' },
    ],
    ['truth values', '{"a":true,"b":false}', { a: 'true', b: 'false' }],
    ['lists and objects as JSON', '{"a":[1,"x",null],"b":{"c":1.50}}', { a: '[1,"x",null]', b: '{"c":1.50}' }],
    [
      'the JSON with its exact text',
      '{ "a" : [ 1,\n"\\u00e9" ] , "b": {"c":1,"c":2}}',
      { a: '[ 1,\n"\\u00e9" ]', b: '{"c":1,"c":2}' },
    ],
    ['deeply nested values', `{"a":${NESTED}}`, { a: NESTED }],
    ['the last of two members of one name', '{"a":1,"b":2,"\\u0061":"3"}', { a: '3', b: '2' }],
    ['no nulls', '{"a":null,"b":1}', { b: '1' }],
    ['names that all objects have', '{"toString":"x","constructor":"y"}', { toString: 'x', constructor: 'y' }],
    ['half a surrogate pair as the UTF-8 replacement', '{"a":"x\\ud800"}', { a: 'x\ufffd' }],
    ['half of one in a name too', '{"a\\udc00":"x"}', { 'a\ufffd': 'x' }],
    ['NUL and other controls', '{"a\\u0000":"\\u0000\\u001b"}', { 'a\0': '\0\x1b' }],
    ['an empty object as nothing', 'null', {}],
  ])('has arguments as texts: %s', (_what, given, expected) => {
    expect(requestOf(given).arguments).toEqual(expected);
  });

  it('has at most 4096 arguments', () => {
    expect(Object.keys(requestOf(namesTo(4096)).arguments ?? {})).toHaveLength(4096);
  });

  it('has no arguments with the prefixes of headers, which are case-sensitive', () => {
    const given =
      '{"service_meta_a":"1","service_auth_b":"2","service_c":"3","Service_meta_d":"4","xservice_auth_e":"5"}';
    expect(requestOf(given).arguments).toEqual({ service_c: '3', Service_meta_d: '4', xservice_auth_e: '5' });
  });

  it('keeps arguments that the tool defines as headers', () => {
    const schema = `{"properties":{"x-key":{${HEADER}}}}`;
    const { arguments: stored, headers } = requestOf('{"x-key":"v"}', schema);
    expect([stored, headers]).toEqual([{ 'x-key': 'v' }, { 'x-key': 'v' }]);
  });

  it.each([
    ['a text', '{"service_body":"B","a":"1"}', 'B', { a: '1' }],
    ['non-strings as JSON', '{"service_body":{"n":1.0}}', '{"n":1.0}', {}],
    ['an empty one', '{"service_body":""}', '', {}],
    ['none', '{"a":"1"}', '', { a: '1' }],
    ['null', '{"service_body":null}', '', {}],
  ])('has the body of the argument service_body where the schema has it: %s', (_what, given, body, rest) => {
    const request = requestOf(given, '{"properties":{"service_body":{}}}');
    expect([request.body, request.arguments]).toEqual([body, rest]);
  });

  it('treats service_body as an ordinary argument if the schema does not have it', () => {
    const request = requestOf('{"service_body":"B"}', '{"properties":{"a":{}}}');
    expect([request.body, request.arguments]).toEqual(['', { service_body: 'B' }]);
  });

  it.each([
    ['meta', '{"service_meta_a":"m","service_meta_b":2}', '{}', { a: 'm', b: '2' }],
    ['auth', '{"service_auth_a":"s"}', '{}', { a: 's' }],
    ["the tool's with the argument", '{"h":"arg"}', `{"h":{${HEADER},"value":"own"}}`, { h: 'arg' }],
    ["the tool's with its own value", '{}', `{"h":{${HEADER},"value":"own"}}`, { h: 'own' }],
    ["the tool's with its own value for null", '{"h":null}', `{"h":{${HEADER},"value":7.0}}`, { h: '7.0' }],
    ["the tool's with an empty argument", '{"h":""}', `{"h":{${HEADER},"value":"own"}}`, { h: '' }],
    ["the tool's over meta", '{"service_meta_h":"m"}', `{"h":{${HEADER},"value":"own"}}`, { h: 'own' }],
    ["auth over the tool's", '{"service_auth_h":"s","h":"arg"}', `{"h":{${HEADER}}}`, { h: 's' }],
    ['auth over meta, in any order', '{"service_auth_h":"s","service_meta_h":"m"}', '{}', { h: 's' }],
    ['none of another scope', '{"h":"x"}', '{"h":{"target":"header","scope":"client"}}', {}],
    ['none of another target', '{"h":"x"}', '{"h":{"target":"query","scope":"service"}}', {}],
    ['none without a scope', '{"h":"x"}', '{"h":{"target":"header"}}', {}],
    ['none without a name', '{"service_meta_":"m","service_auth_":"s"}', '{}', {}],
    [
      'half a surrogate pair in a name as the UTF-8 replacement',
      '{"h\\ud800":"x"}',
      `{"h\\ud800":{${HEADER}}}`,
      { 'h\ufffd': 'x' },
    ],
    ['names that no HTTP header has', '{"service_meta_a b\\n:":"m"}', '{}', { 'a b\n:': 'm' }],
    ['no null', '{"service_meta_a":null,"service_auth_b":null}', '{}', {}],
    ['none of the schema true', '{"h":"x"}', '{"h":true}', {}],
  ])('merges headers, later ones winning: %s', (_what, given, properties, expected) => {
    expect(requestOf(given, `{"properties":${properties}}`).headers).toEqual(expected);
  });

  it('has no dropped header in any notation, whoever sets it', () => {
    const given =
      '{"service_meta_X-Forwarded-User":"ann","service_auth_x_forwarded_USER":"ann","x-forwarded_user":"ann","service_meta_x":"1"}';
    const tool = toolOf(`{"properties":{"x-forwarded_user":{${HEADER}},"X_Forwarded_User":{${HEADER},"value":"ann"}}}`);
    const args = parseArguments({ text: `{"params":{"arguments":${given}}}` });
    expect(toolRequest(tool, args, new Set(['x-forwarded-user'])).headers).toEqual({ x: '1' });
    expect(Object.keys(toolRequest(tool, args).headers)).toHaveLength(5);
  });

  it('treats __proto__ as an ordinary name, also over the wire', () => {
    const given = '{"__proto__":"a","service_meta___proto__":"m"}';
    const { requestSerialize, requestDeserialize } = loadProtocols().toolInvoker.InvokeTool;
    const arrived = requestDeserialize(requestSerialize(requestOf(given)));
    expect(Object.entries(arrived.arguments)).toEqual([['__proto__', 'a']]);
    expect(Object.entries(arrived.headers)).toEqual([['__proto__', 'm']]);
  });

  it('fails if a header defined by the tool has no value', () => {
    const schema = `{"properties":{"x-key":{${HEADER}}}}`;
    expect(rejectionOf(() => requestOf('{"a":"1"}', schema))).toEqual([
      'TOOL_DEFINITION_ERROR',
      'tool t: header x-key has no value: set the argument, or the "value" of the property',
    ]);
  });

  it.each([
    ['all', '{}', 'a, b'],
    ['one', '{"a":""}', 'b'],
    ['null', '{"a":false,"b":null}', 'b'],
    ['names that all objects have', '{"a":1,"b":2}', 'toString', '["a","b","toString"]'],
  ])('requires the values that the schema requires: %s', (_what, given, missing, required = '["a","b"]') => {
    expect(rejectionOf(() => requestOf(given, `{"required":${required}}`))).toEqual([
      'INVALID_ARGUMENTS',
      `Missing required parameter(s): ${missing}`,
    ]);
  });

  it('checks required parameters before headers', () => {
    const schema = `{"properties":{"x-key":{${HEADER}}},"required":["x-key"]}`;
    expect(rejectionOf(() => requestOf('{}', schema))).toEqual([
      'INVALID_ARGUMENTS',
      'Missing required parameter(s): x-key',
    ]);
  });

  it.each([
    ['a list', '[1]', 'arguments must be an object'],
    ['a text', '"x"', 'arguments must be an object'],
    ['more than 4096 arguments', namesTo(4097), 'arguments must have at most 4096 members'],
  ])('is not made of %s', (_what, given, message) => {
    expect(rejectionOf(() => requestOf(given))).toEqual(['INVALID_ARGUMENTS', message]);
  });
});
