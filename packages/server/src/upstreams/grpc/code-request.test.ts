import type { JsonObject } from '@sluice/protocol/json/parse';
import { describe, expect, test } from 'vitest';
import { loadProtocols } from './channels.ts';
import { codeRequest, formatCodeUri, isCodeUri, parseCodeUri } from './code-request.ts';
import type { CodeExecutionRequest } from './generated/codeexecution/CodeExecutionRequest.ts';
import { parseArguments } from './tool-operation.ts';

const TARGET = { engine: 'camel', language: 'java' };

function build(given: JsonObject, tool: { members?: JsonObject; definition?: JsonObject } = {}) {
  return codeRequest({ members: {}, definition: {}, ...tool }, TARGET, givenAs(JSON.stringify(given)));
}

function givenAs(json: string) {
  return parseArguments({ text: `{"params":{"arguments":${json}}}` });
}

/** Arguments and environment as received by a service. */
function overTheWire(request: CodeExecutionRequest): unknown[] {
  const { requestSerialize, requestDeserialize } = loadProtocols().codeExecutor.ExecuteCode;
  const { arguments: named, environment } = requestDeserialize(requestSerialize(request));
  return [Object.entries(named), Object.entries(environment)];
}

function base64(text: string | Buffer): string {
  return Buffer.from(text).toString('base64');
}

describe('the request', () => {
  test('has all fields of the protocol, with an empty body and the canonical uri', () => {
    const given = { code: 'x', arguments: ['a'], environment: { E: 'v' }, timeout: 5 };
    expect(build(given, { members: { configurationURI: 'c://1', secretsURI: 's://1' } })).toEqual({
      uri: 'code-execution-engine://camel/java',
      body: '',
      code: 'x',
      arguments: { arg0: 'a' },
      configurationURI: 'c://1',
      secretsURI: 's://1',
      timeout: 5,
      environment: { E: 'v' },
    });
  });

  test('has defaults for missing and null arguments', () => {
    const defaults = { configurationURI: '', secretsURI: '', timeout: 30_000, arguments: {}, environment: {} };
    expect(build({ code: 'x' })).toMatchObject(defaults);
    expect(build({ code: 'x', timeout: null, arguments: null, environment: null })).toMatchObject(defaults);
  });
});

describe('code', () => {
  test.each([
    ['Base64 of UTF-8 is decoded', base64('print("größe")'), 'print("größe")'],
    ['Base64 with padding is decoded', 'YQ==', 'a'],
    ['empty code stays empty', '', ''],
    ['plain text is unchanged', 'print(1)', 'print(1)'],
    ['Base64 without its padding is plain text', 'YQ', 'YQ'],
    ['Base64 with extra bits is plain text', 'YR==', 'YR=='],
    ['Base64 for URLs is plain text', '_-_-', '_-_-'],
    ['Base64 with a line break is plain text', 'YWJj\nYWJj', 'YWJj\nYWJj'],
    ['Base64 of invalid UTF-8 is plain text', base64(Buffer.from([0xff, 0xfe, 0xfd])), '//79'],
    ['a word that is valid Base64, but not of text, is unchanged', 'true', 'true'],
    ['a byte order mark is preserved', base64('\ufeffx'), '\ufeffx'],
  ])('%s', (_what, given, code) => {
    expect(build({ code: given }).code).toBe(code);
  });

  test('may have at most 1 MiB in UTF-8 after decoding', () => {
    const most = 'ä'.repeat(512 * 1024);
    expect(build({ code: base64(most) }).code).toBe(most);
    expect(() => build({ code: base64(`${most}x`) })).toThrow(
      expect.objectContaining({ category: 'INVALID_ARGUMENTS', message: 'code must have at most 1 MiB' }),
    );
  });
});

describe('arguments', () => {
  test('a list is numbered; values other than strings are JSON with exact numbers, and null is skipped', () => {
    const given = givenAs('{"code":"x","arguments":["a",9223372036854775807,null,{"b":[1.0]},true]}');
    expect(codeRequest({ members: {}, definition: {} }, TARGET, given).arguments).toEqual({
      arg0: 'a',
      arg1: '9223372036854775807',
      arg3: '{"b":[1.0]}',
      arg4: 'true',
    });
  });

  test('an object keeps its names, without nulls and names with the meta and auth prefixes', () => {
    const given = { a: 'b', n: 1, gone: null, service_meta_m: '1', service_auth_token: 's' };
    expect(build({ code: 'x', arguments: given }).arguments).toEqual({ a: 'b', n: '1' });
  });
});

describe('unusual input', () => {
  test('names of Object.prototype are ordinary names', () => {
    const given = JSON.parse(
      '{"code":"x","arguments":{"__proto__":"p"},"environment":{"__proto__":"e","toString":"s"}}',
    );
    const built = build(given);
    expect(Object.entries(built.arguments)).toEqual([['__proto__', 'p']]);
    expect(Object.entries(built.environment ?? {})).toEqual([
      ['__proto__', 'e'],
      ['toString', 's'],
    ]);
    expect(overTheWire(built)).toEqual([
      [['__proto__', 'p']],
      [
        ['__proto__', 'e'],
        ['toString', 's'],
      ],
    ]);
  });

  test('a lone surrogate is replaced everywhere', () => {
    const given = { code: 'x\ud800', arguments: { 'a\ud800': '\udc00' }, environment: { '\udc00e': 'v\ud800' } };
    const {
      uri,
      code,
      arguments: named,
      environment,
    } = codeRequest(
      { members: {}, definition: {} },
      { engine: 'e\ud800', language: 'l' },
      givenAs(JSON.stringify(given)),
    );
    expect(uri).toBe('code-execution-engine://e\ufffd/l');
    expect([code, named, environment]).toEqual(['x\ufffd', { 'a\ufffd': '\ufffd' }, { '\ufffde': 'v\ufffd' }]);
  });

  const LIST = Array.from({ length: 4096 }, () => '');
  const OBJECT = Object.fromEntries(LIST.map((text, at) => [`n${at}`, text]));

  test.each([
    ['arguments in a list', 'arguments', LIST, [...LIST, '']],
    ['arguments by name', 'arguments', OBJECT, { ...OBJECT, more: '' }],
    ['variables', 'environment', OBJECT, { ...OBJECT, more: '' }],
  ])('allows 4096 %s and rejects more', (_what, name, most, tooMany) => {
    const built: CodeExecutionRequest = build({ code: 'x', [name]: most });
    const made = name === 'environment' ? built.environment : built.arguments;
    expect(Object.keys(made ?? {})).toHaveLength(4096);
    expect(() => build({ code: 'x', [name]: tooMany })).toThrow(
      expect.objectContaining({
        category: 'INVALID_ARGUMENTS',
        message: `${name} must have at most 4096 members`,
      }),
    );
  });
});

describe('rejected as INVALID_ARGUMENTS', () => {
  const expectRejected = (message: string) => expect.objectContaining({ category: 'INVALID_ARGUMENTS', message });
  const TIMEOUT = 'timeout must be an integer number of milliseconds from 1 to 300000';

  test.each([
    ['no code', {}, 'Missing required parameter(s): code'],
    ['code that is null', { code: null }, 'Missing required parameter(s): code'],
    ['code that is not a text', { code: 1 }, 'code must be a string, plain or in Base64'],
    ['arguments that are a text', { code: 'x', arguments: 'a' }, 'arguments must be an array or an object'],
    ['an environment that is a list', { code: 'x', environment: [] }, 'environment must be an object'],
    ['a timeout of 0', { code: 'x', timeout: 0 }, TIMEOUT],
    ['a timeout over 300000', { code: 'x', timeout: 300_001 }, TIMEOUT],
    ['a timeout that is broken', { code: 'x', timeout: 1.5 }, TIMEOUT],
    ['a timeout that is a text', { code: 'x', timeout: '5' }, TIMEOUT],
  ])('%s', (_what, given, message) => {
    expect(() => build(given)).toThrow(expectRejected(message));
  });

  test('other parameters required by the schema', () => {
    const definition = { inputSchema: { required: ['code', 'environment'] } };
    expect(() => build({}, { definition })).toThrow(expectRejected('Missing required parameter(s): code, environment'));
  });

  test.each([1, 300_000, JSON.rawJSON('5000.0')])('but not a timeout of %o', (timeout) => {
    expect(build({ code: 'x', timeout }).timeout).toBe(typeof timeout === 'number' ? timeout : 5_000);
  });
});

describe('the uri', () => {
  test.each([
    'code-execution-engine://camel/java',
    'CODE-Execution-Engine://camel/java',
    'code-execution-engine://camel/java/',
  ])('%s names engine and language', (uri) => {
    expect(isCodeUri(uri)).toBe(true);
    expect(parseCodeUri(uri)).toEqual(TARGET);
    expect(formatCodeUri(TARGET)).toBe('code-execution-engine://camel/java');
  });

  test.each([
    'code-execution-engine://',
    'code-execution-engine://camel',
    'code-execution-engine:///java',
    'code-execution-engine://camel/java/8',
  ])('%s is one of code, and names no engine and language', (uri) => {
    expect(isCodeUri(uri)).toBe(true);
    expect(parseCodeUri(uri)).toBeUndefined();
  });

  test.each(['http://code-execution-engine://x', 'code-execution-engine:camel/java', ''])('%o is invalid', (uri) => {
    expect(isCodeUri(uri)).toBe(false);
  });
});
