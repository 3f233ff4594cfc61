import { parseMessage, type RequestMessage } from '@sluice/protocol/mcp/message';
import { asyncProperty, dictionary, json, assert as prove, string } from 'fast-check';
import { describe, expect, test } from 'vitest';
import { checkNestedMembers, evaluatedRequest, UnevaluableRequestError } from './context.ts';

function requestOf(method: string, params?: string): RequestMessage {
  const text = `{"jsonrpc":"2.0","id":1,"method":"${method}"${params === undefined ? '' : `, "params" : ${params}`}}`;
  const message = parseMessage(Buffer.from(text));
  if (message.kind !== 'request') throw new Error(`not a request: ${text}`);
  return message;
}

async function argumentsOf(method: string, params?: string) {
  return (await evaluatedRequest(requestOf(method, params), 'finance', undefined)).arguments;
}

describe('the context of', () => {
  test('tools/call', async () => {
    const message = requestOf('tools/call', '{"name":"transfer","arguments":{"to":"Bob"},"_meta":{"x":1}}');
    expect(await evaluatedRequest(message, 'finance', 'talk')).toEqual({
      method: 'tools/call',
      namespace: 'finance',
      toolName: 'transfer',
      arguments: [['to', 'Bob']],
      conversationId: 'talk',
    });
  });

  test('another method has no tool, and all params except _meta', async () => {
    const message = requestOf('prompts/get', '{"name":"p","arguments":{"a": 1},"_meta":{"x":1}}');
    const request = await evaluatedRequest(message, 'finance', undefined);
    expect(request).toEqual({
      method: 'prompts/get',
      namespace: 'finance',
      arguments: [
        ['name', 'p'],
        ['arguments', '{"a":1}'],
      ],
    });
    expect(Object.keys(request)).toEqual(['method', 'namespace', 'arguments']);
  });

  test('names with lone surrogates', async () => {
    const halves = requestOf('x\\ud800', '{"name":"t"}');
    expect(await evaluatedRequest(halves, 'finance', '\udc00y')).toMatchObject({
      method: 'x\ufffd',
      conversationId: '\ufffdy',
    });
    const call = requestOf('tools/call', '{"name":"\\ud800t"}');
    expect((await evaluatedRequest(call, 'finance', undefined)).toolName).toBe('\ufffdt');
  });

  test('a tool name that is not a string', async () => {
    expect(await evaluatedRequest(requestOf('tools/call', '{"name":7}'), 'finance', undefined)).not.toHaveProperty(
      'toolName',
    );
  });
});

describe('arguments', () => {
  test.each([
    [
      'strings unchanged',
      '{"a":"x","b":"","c":"\\u0041\\n\\"é"}',
      [
        ['a', 'x'],
        ['b', ''],
        ['c', 'A\n"é'],
      ],
    ],
    [
      'numbers as spelled',
      '{"a":1.0,"b":9223372036854775807,"c":-1E+2}',
      [
        ['a', '1.0'],
        ['b', '9223372036854775807'],
        ['c', '-1E+2'],
      ],
    ],
    [
      'other values as JSON',
      '{"a":null,"b":true,"c":[ 1, {"d" : "e"} ],"f":{}}',
      [
        ['a', 'null'],
        ['b', 'true'],
        ['c', '[1,{"d":"e"}]'],
        ['f', '{}'],
      ],
    ],
    [
      'names with a special meaning in JavaScript',
      '{"__proto__":{"a":1},"constructor":"x","":"y"}',
      [
        ['__proto__', '{"a":1}'],
        ['constructor', 'x'],
        ['', 'y'],
      ],
    ],
    ['names with escapes', '{"n\\u0061me":"x"}', [['name', 'x']]],
    ['lone surrogates', '{"\\ud800":"\\udc00x"}', [['\ufffd', '\ufffdx']]],
    ['a member named _meta', '{"_meta":1}', [['_meta', '1']]],
    ['an empty object', '{}', []],
    ['an array', '["a", 1.50]', [['arguments', '["a",1.50]']]],
    ['a string', '"{\\"a\\":1}"', [['arguments', '{"a":1}']]],
    ['null', 'null', []],
  ])('%s', async (_what, text, pairs) => {
    expect(await argumentsOf('tools/call', `{"name":"t","arguments": ${text} }`)).toEqual(pairs);
  });

  test('missing', async () => {
    expect(await argumentsOf('tools/call', '{"name":"t"}')).toEqual([]);
    expect(await argumentsOf('tools/call')).toEqual([]);
    expect(await argumentsOf('tools/list')).toEqual([]);
    expect(await argumentsOf('tools/list', '{}')).toEqual([]);
  });

  test('are found by member, not by text', async () => {
    const params = '{"name":"\\"arguments\\":{}","x":{"arguments":{"no":1}},"\\u0061rguments":{"yes":1}}';
    expect(await argumentsOf('tools/call', params)).toEqual([['yes', '1']]);
  });

  test('of any kind equal what was sent', async () => {
    await prove(
      asyncProperty(
        dictionary(
          string({ unit: 'grapheme' }).filter((name) => !name.includes('\0')),
          json().map((text): unknown => JSON.parse(text)),
        ),
        async (sent) => {
          const pairs = await argumentsOf('tools/call', `{"name":"t","arguments":${JSON.stringify(sent)}}`);
          const expected = Object.entries(sent).map(([name, value]) => {
            return [name.toWellFormed(), typeof value === 'string' ? value.toWellFormed() : JSON.stringify(value)];
          });
          expect(pairs).toEqual(expected);
        },
      ),
    );
  });

  test.each([
    ['{"a":1,"b":2,"a":3}', 'a'],
    ['{"a":1,"\\u0061":{}}', 'a'],
    ['{"":1,"":1}', ''],
    ['{"a":1,"a\\u0000b":2}', 'a'],
    ['{"a\\u0000b":1,"a\\u0000c":2}', 'a'],
    ['{"\\ud800":1,"\\ud801":2}', '\ufffd'],
  ])('with duplicate names are rejected: %s', async (text, name) => {
    const error = new UnevaluableRequestError(`duplicate argument ${JSON.stringify(name)}`);
    await expect(argumentsOf('tools/call', `{"name":"t","arguments":${text}}`)).rejects.toEqual(error);
  });

  test.each([
    ['tools/call', '{"name":"t","arguments":{"a":[{"b":1,"b":2}]}}', 'duplicate member "b" in argument "a"'],
    ['tools/call', '{"name":"t","arguments":[{"b":1,"\\u0062":2}]}', 'duplicate member "b" in argument "arguments"'],
    ['tools/call', '{"name":"t","arguments":{"_meta":{"b":1,"b":2}}}', 'duplicate member "b" in argument "_meta"'],
    [
      'tools/call',
      `{"name":"t","arguments":{"a":[{${Array.from({ length: 10_001 }, (_, at) => `"${at}":1`).join(',')}}]}}`,
      'an object in argument "a" exceeds the limit of 10000 members (SERVICE_MAX_JSON_MEMBERS)',
    ],
    ['completion/complete', '{"argument":{"name":"a","name":"b"}}', 'duplicate member "name" in argument "argument"'],
  ])('with duplicate or too many names within values are rejected: %s %.60s', async (method, params, problem) => {
    await expect(checkNestedMembers(requestOf(method, params))).rejects.toEqual(new UnevaluableRequestError(problem));
  });

  test.each([
    ['tools/call', '{"name":"t","arguments":{"a":{"b":1},"c":{"b":1}},"other":{"b":1,"b":2}}'],
    ['tools/call', '{"name":"t"}'],
    ['prompts/get', '{"name":"t","_meta":{"x":{"b":1,"b":2}}}'],
  ])('may have the same name in several values: %s %s', async (method, params) => {
    await checkNestedMembers(requestOf(method, params));
  });

  test('at most a thousand', async () => {
    const pairs = (count: number) => Array.from({ length: count }, (_, at) => `"n${at}":${at}`).join(',');
    const argumentsOfCount = (count: number) => argumentsOf('tools/call', `{"name":"t","arguments":{${pairs(count)}}}`);
    const most = await argumentsOfCount(1000);
    expect([most.length, most.at(-1)]).toEqual([1000, ['n999', '999']]);
    await expect(argumentsOfCount(1001)).rejects.toThrow(UnevaluableRequestError);
    // Nested values are not counted.
    expect(await argumentsOf('tools/call', `{"name":"t","arguments":{"a":{${pairs(5000)}}}}`)).toHaveLength(1);
  });
});
