import { parseMessage, type RequestMessage } from '@sluice/protocol/mcp/message';
import { dictionary, json, property, assert as prove, string } from 'fast-check';
import { describe, expect, test } from 'vitest';
import { evaluatedRequest, UnevaluableRequestError } from './context.ts';

function requestOf(method: string, params?: string): RequestMessage {
  const text = `{"jsonrpc":"2.0","id":1,"method":"${method}"${params === undefined ? '' : `, "params" : ${params}`}}`;
  const message = parseMessage(Buffer.from(text));
  if (message.kind !== 'request') throw new Error(`no request: ${text}`);
  return message;
}

function argumentsOf(method: string, params?: string) {
  return evaluatedRequest(requestOf(method, params), 'finance', undefined).arguments;
}

describe('a request', () => {
  test('of tools/call', () => {
    const message = requestOf('tools/call', '{"name":"transfer","arguments":{"to":"Bob"},"_meta":{"x":1}}');
    expect(evaluatedRequest(message, 'finance', 'talk')).toEqual({
      method: 'tools/call',
      namespace: 'finance',
      toolName: 'transfer',
      arguments: [['to', 'Bob']],
      conversationId: 'talk',
    });
  });

  test('of another method has no tool, and all its params but _meta', () => {
    const message = requestOf('prompts/get', '{"name":"p","arguments":{"a": 1},"_meta":{"x":1}}');
    const request = evaluatedRequest(message, 'finance', undefined);
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

  test('whose names have halves of surrogates', () => {
    const halves = requestOf('x\\ud800', '{"name":"t"}');
    expect(evaluatedRequest(halves, 'finance', '\udc00y')).toMatchObject({
      method: 'x\ufffd',
      conversationId: '\ufffdy',
    });
    const call = requestOf('tools/call', '{"name":"\\ud800t"}');
    expect(evaluatedRequest(call, 'finance', undefined).toolName).toBe('\ufffdt');
  });

  test('whose tool has no name that is a text', () => {
    expect(evaluatedRequest(requestOf('tools/call', '{"name":7}'), 'finance', undefined)).not.toHaveProperty(
      'toolName',
    );
  });
});

describe('arguments', () => {
  test.each([
    [
      'texts as they are',
      '{"a":"x","b":"","c":"\\u0041\\n\\"é"}',
      [
        ['a', 'x'],
        ['b', ''],
        ['c', 'A\n"é'],
      ],
    ],
    [
      'numbers as they are spelled',
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
      'names that mean something elsewhere',
      '{"__proto__":{"a":1},"constructor":"x","":"y"}',
      [
        ['__proto__', '{"a":1}'],
        ['constructor', 'x'],
        ['', 'y'],
      ],
    ],
    ['names with escapes', '{"n\\u0061me":"x"}', [['name', 'x']]],
    ['halves of surrogates', '{"\\ud800":"\\udc00x"}', [['\ufffd', '\ufffdx']]],
    ['a member called _meta', '{"_meta":1}', [['_meta', '1']]],
    ['none', '{}', []],
    ['a list', '["a", 1.50]', [['arguments', '["a",1.50]']]],
    ['a text', '"{\\"a\\":1}"', [['arguments', '{"a":1}']]],
    ['null', 'null', []],
  ])('%s', (_what, text, pairs) => {
    expect(argumentsOf('tools/call', `{"name":"t","arguments": ${text} }`)).toEqual(pairs);
  });

  test('that are not there', () => {
    expect(argumentsOf('tools/call', '{"name":"t"}')).toEqual([]);
    expect(argumentsOf('tools/call')).toEqual([]);
    expect(argumentsOf('tools/list')).toEqual([]);
    expect(argumentsOf('tools/list', '{}')).toEqual([]);
  });

  test('are found where the member is, and not where its text is', () => {
    const params = '{"name":"\\"arguments\\":{}","x":{"arguments":{"no":1}},"\\u0061rguments":{"yes":1}}';
    expect(argumentsOf('tools/call', params)).toEqual([['yes', '1']]);
  });

  test('of any kind say what was sent', () => {
    prove(
      property(
        dictionary(
          string({ unit: 'grapheme' }).filter((name) => !name.includes('\0')),
          json().map((text): unknown => JSON.parse(text)),
        ),
        (sent) => {
          const pairs = argumentsOf('tools/call', `{"name":"t","arguments":${JSON.stringify(sent)}}`);
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
  ])('of which two may be one, %s, are not judged', (text, name) => {
    const refused = new UnevaluableRequestError(`argument ${JSON.stringify(name)} is there twice: leave one out`);
    expect(() => argumentsOf('tools/call', `{"name":"t","arguments":${text}}`)).toThrow(refused);
  });

  test('are a thousand at most', () => {
    const pairs = (count: number) => Array.from({ length: count }, (_, at) => `"n${at}":${at}`).join(',');
    const asked = (count: number) => argumentsOf('tools/call', `{"name":"t","arguments":{${pairs(count)}}}`);
    expect([asked(1000).length, asked(1000).at(-1)]).toEqual([1000, ['n999', '999']]);
    expect(() => asked(1001)).toThrow(UnevaluableRequestError);
    // What is one argument is one, whatever is in it.
    expect(argumentsOf('tools/call', `{"name":"t","arguments":{"a":{${pairs(5000)}}}}`)).toHaveLength(1);
  });
});
