import { describe, expect, it } from 'vitest';
import { type Message, parseMessage } from './message.ts';

function parse(text: string): ReturnType<typeof parseMessage> {
  return parseMessage(Buffer.from(text));
}

function valid(text: string): Message {
  const message = parse(text);
  if (message.kind === 'malformed') throw new Error(message.message);
  if (message.kind === 'batch') throw new Error('a batch');
  return message;
}

describe('a request', () => {
  it('is parsed once and retains the positions of its id and params', () => {
    const text = '{ "params" : {"name":"a"} , "id":\t"x\\u0041" ,"jsonrpc":"2.0","method":"tools/call", "extra":[1] }';
    const message = valid(text);
    if (message.kind !== 'request') throw new Error(message.kind);
    expect(message).toMatchObject({ method: 'tools/call', params: { name: 'a' }, idText: '"x\\u0041"', text });
    expect(text.slice(message.idRange.start, message.idRange.end)).toBe('"x\\u0041"');
    expect(text.slice(message.paramsRange?.start, message.paramsRange?.end)).toBe('{"name":"a"}');
  });

  it('may have no params', () => {
    expect(valid('{"jsonrpc":"2.0","id":1,"method":"ping"}')).toMatchObject({ params: {}, paramsRange: undefined });
  });

  it('may have unknown members twice, outside of params', () => {
    expect(valid('{"jsonrpc":"2.0","id":1,"method":"ping","x":1,"x":2}').kind).toBe('request');
  });

  it('may have duplicate keys in nested values, which are not read', () => {
    const text = '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","arguments":{"x":1,"x":2}}}';
    expect(valid(text).kind).toBe('request');
  });

  it.each([0, 15, 16, 17, 100])('with %i further params and a duplicate is rejected with its name', (count) => {
    const more = Array.from({ length: count }, (_, i) => `"k${i}":${i},`).join('');
    const params = `{${more}"name":"a","n\\u0061me":"b"}`;
    expect(parse(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":${params}}`)).toEqual({
      kind: 'malformed',
      code: -32600,
      message: 'invalid request: duplicate member "name" in "params"',
      idText: '1',
    });
    expect(parse(`{"jsonrpc":"2.0","id":1,"method":"x","params":{${more}"name":1}}`).kind).toBe('request');
  });

  it.each([
    ['"Method":"tools/list"', 'member "Method" must be written "method"'],
    ['"PARAMS":{}', 'member "PARAMS" must be written "params"'],
    ['"ID":2', 'member "ID" must be written "id"'],
    ['"param\u017f":{}', 'member "param\u017f" must be written "params"'],
    ['"par\\u0041ms":{}', 'member "parAms" must be written "params"'],
  ])('with a similar name beside a required one, %s, is rejected', (member, problem) => {
    for (const text of [
      `{${member},"jsonrpc":"2.0","id":1,"method":"x"}`,
      `{"jsonrpc":"2.0","id":1,"method":"x",${member}}`,
    ]) {
      expect(parse(text)).toMatchObject({ kind: 'malformed', code: -32600, message: `invalid request: ${problem}` });
    }
    // Nor in place of a required one.
    expect(parse(`{"jsonrpc":"2.0","method":"notifications/x",${member}}`).kind).toBe('malformed');
  });

  it('has large params too, each member unchanged', () => {
    const large = [{ a: 'x'.repeat(70_000) }, { b: 1 }];
    const params = { name: 'a', __proto: 1, arguments: { large }, uri: 'y'.repeat(70_000), last: [null] };
    const text = JSON.stringify(params).replace('__proto', '__proto__');
    for (const id of ['"id":1,', '']) {
      const message = parse(`{"jsonrpc":"2.0",${id}"method":"tools/call","params":${text}}`);
      expect('params' in message && JSON.stringify(message.params)).toBe(text);
      // Parsed once for all accesses, since that takes time.
      if ('params' in message) expect(message.params.arguments).toBe(message.params.arguments);
    }
  });

  it('with a name that parsers in C would end at U+0000 is rejected', () => {
    const of = (members: string) => parse(`{"jsonrpc":"2.0","id":1,${members}}`);
    expect(of('"method":"tools/call\\u0000","params":{}')).toMatchObject({
      kind: 'malformed',
      code: -32600,
      message: 'invalid request: member "method" must not contain U+0000',
    });
    for (const members of [
      '"method":"tools/list","method\\u0000":"tools/call"',
      '"method":"tools/call","params":{"name":"a"},"params\\u0000x":{"name":"b"}',
      '"method":"tools/call","params":{"name":"a","name\\u0000":"b"}',
      '"method":"tools/call","params":{"name":"a","arguments":{},"Arguments\\u0000x":{}}',
    ]) {
      expect(of(members), members).toMatchObject({
        kind: 'malformed',
        message: expect.stringContaining('must be written'),
      });
    }
    expect(of('"method":"tools/call","params":{"name":"a","arguments":{"a\\u0000":1}}').kind).toBe('request');
  });

  it('with a similar name in params is rejected where upstreams read params by the protocol', () => {
    const of = (method: string, params: string) =>
      parse(`{"jsonrpc":"2.0","id":1,"method":"${method}","params":{${params}}}`);
    for (const params of ['"name":"a","Name":"b"', '"name":"a","Argument\u017f":{}', '"Uri":"x:y"', '"_Meta":{}']) {
      for (const method of ['tools/call', 'prompts/get', 'resources/read', 'completion/complete']) {
        expect(of(method, params), params).toMatchObject({
          kind: 'malformed',
          message: expect.stringMatching(/^invalid request: member ".*" must be written ".*" in "params"$/),
        });
      }
      expect(of('vendor/does', params).kind).toBe('request');
    }
    expect(of('tools/call', '"name":"a","arguments":{"Name":"b"},"Cursor":1,"x":2').kind).toBe('request');
  });

  it.each([
    ['"ref":{"type":"ref/resource","uri":"a:b","uri":"c:d"}', 'duplicate member "uri" in "params.ref"'],
    ['"ref":{"type":"ref/resource","uri":"a:b","ur\\u0069":"c:d"}', 'duplicate member "uri" in "params.ref"'],
    ['"ref":{"type":"ref/prompt","name":"a","name":"b"}', 'duplicate member "name" in "params.ref"'],
    [
      '"ref":{"type":"ref/prompt","type":"ref/resource","name":"a","uri":"b:c"}',
      'duplicate member "type" in "params.ref"',
    ],
    ['"ref":{"type":"ref/resource","uri":"a:b","URI":"c:d"}', 'member "URI" must be written "uri" in "params.ref"'],
    ['"ref":{"type":"ref/prompt","name":"a","Name":"b"}', 'member "Name" must be written "name" in "params.ref"'],
    ['"ref":{"type":"ref/prompt","name":"a"},"Ref":{}', 'member "Ref" must be written "ref" in "params"'],
    ['"ref":{"type":"ref/prompt","name":"a"},"ref":{}', 'duplicate member "ref" in "params"'],
    [
      '"ref":{"type":"ref/prompt","name":"a"},"Argument":{}',
      'member "Argument" must be written "argument" in "params"',
    ],
  ])('for a completion that upstreams may read in another way is rejected: %s', (params, problem) => {
    const completion = (text: string) =>
      parse(`{"jsonrpc":"2.0","id":1,"method":"completion/complete","params":{${text}}}`);
    expect(completion(params)).toMatchObject({ kind: 'malformed', message: `invalid request: ${problem}` });
    expect(completion('"ref":{"type":"ref/prompt","name":"a","Other":1},"x":{"Uri":1}').kind).toBe('request');
  });

  it('with a member called __proto__ is an ordinary request', () => {
    const text = '{"jsonrpc":"2.0","id":1,"method":"x","params":{"__proto__":{"name":"a"}},"__proto__":{"method":"y"}}';
    const message = valid(text);
    if (message.kind !== 'request') throw new Error(message.kind);
    expect(message.method).toBe('x');
    expect(message.params.name).toBeUndefined();
  });
});

describe('other messages', () => {
  it('without id are notifications', () => {
    const text = '{"jsonrpc":"2.0","method":"notifications/progress","params":{"progress":1}}';
    expect(valid(text)).toEqual({
      kind: 'notification',
      text,
      method: 'notifications/progress',
      params: { progress: 1 },
    });
  });

  it.each(['"result":{}', '"error":{"code":1,"message":"m"}', '"result":null'])(
    'with id and %s are responses',
    (member) => {
      expect(valid(`{"jsonrpc":"2.0","id":"a",${member}}`)).toMatchObject({ kind: 'response', idText: '"a"' });
    },
  );

  it('without id and method are invalid', () => {
    expect(parse('{"jsonrpc":"2.0","result":{}}')).toMatchObject({ kind: 'malformed', code: -32600, idText: 'null' });
  });
});

describe('limits', () => {
  const request = (params: string) => `{"method":"tools/call","params":${params},"jsonrpc":"2.0","id":7}`;
  const exceeded = (message: string) => ({
    kind: 'malformed',
    code: -32602,
    idText: '7',
    message: expect.stringContaining(message),
  });

  it('of nesting count every level of the message', () => {
    const nested = (depth: number) => `{"name":"a","arguments":{"a":${'['.repeat(depth - 3)}${']'.repeat(depth - 3)}}}`;
    expect(parse(request(nested(128))).kind).toBe('request');
    expect(parse(request(nested(129)))).toMatchObject(
      exceeded('nesting of 129 levels exceeds the limit of 128 (SERVICE_MAX_JSON_DEPTH)'),
    );
  });

  it.each([
    ['the message', (members: string) => `{${members},"jsonrpc":"2.0","id":7,"method":"x"}`, 3],
    ['"params"', (members: string) => request(`{${members}}`), 0],
    ['"_meta"', (members: string) => request(`{"_meta":{${members}}}`), 0],
    ['"arguments"', (members: string) => request(`{"name":"a","arguments":{${members}}}`), 0],
  ] as const)('of members apply to %s', (name, body, others) => {
    const members = (count: number) => Array.from({ length: count - others }, (_, i) => `"k${i}":0`).join(',');
    expect(parse(body(members(10_000))).kind).toBe('request');
    expect(parse(body(members(10_001)))).toMatchObject(
      exceeded(`${name} exceeds the limit of 10000 members (SERVICE_MAX_JSON_MEMBERS)`),
    );
  });

  it('do not apply to objects that the service does not read', () => {
    const members = Array.from({ length: 20_000 }, (_, i) => `"k${i}":0`).join(',');
    expect(parse(request(`{"name":"a","arguments":{"a":{${members}}}}`)).kind).toBe('request');
  });

  it('of client capabilities apply in both eras', () => {
    const capabilities = (bytes: number) => `{"a":"${'é'.repeat((bytes - 8) / 2)}"}`;
    const meta = (bytes: number) =>
      request(`{"_meta":{"io.modelcontextprotocol/clientCapabilities":${capabilities(bytes)}}}`);
    const initialize = (bytes: number) =>
      `{"method":"initialize","params":{"capabilities":${capabilities(bytes)}},"jsonrpc":"2.0","id":7}`;
    for (const body of [meta, initialize]) {
      expect(parse(body(65_536)).kind).toBe('request');
      expect(parse(body(65_538))).toMatchObject(
        exceeded('the client capabilities exceed the limit of 65536 bytes (SERVICE_MAX_CAPABILITIES_BYTES)'),
      );
    }
  });

  it('of member names apply where members are read', () => {
    const key = 'k'.repeat(65_536);
    expect(parse(request(`{"name":"a","arguments":{"${key}":1}}`))).toMatchObject(exceeded('a member name exceeds'));
    expect(parse(request(`{"name":"a","arguments":{"a":{"${key}":1}}}`)).kind).toBe('request');
  });
});

it.each(['plain', 'é\u{1f600}\\u00e9', '\ufeff'])('positions of members are those of the text: %s', (value) => {
  const params = `{"${value}":"${value}", "_meta" : {"${value}a":{"b":[]}}, "arguments":{"x":"${value}","${value}y" : 1 }}`;
  const message = valid(`{"${value}":0,"jsonrpc":"2.0","id":1,"method":"tools/call","params":${params}}`);
  if (message.kind !== 'request') throw new Error(message.kind);
  const texts = (members: typeof message.paramMembers | undefined): unknown[] =>
    (members ?? []).map(({ start, end, members: inner }) => [message.text.slice(start, end), ...texts(inner)]);
  expect(texts(message.paramMembers)).toEqual([
    [`"${value}"`],
    [`{"${value}a":{"b":[]}}`, ['{"b":[]}']],
    [`{"x":"${value}","${value}y" : 1 }`, [`"${value}"`], ['1']],
  ]);
});

it('duplicate members of _meta are rejected, however they are written', () => {
  const meta = '{"progressToken":1,"progress\\u0054oken":2}';
  expect(parse(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","_meta":${meta}}}`)).toMatchObject({
    kind: 'malformed',
    code: -32600,
    message: 'invalid request: duplicate member "progressToken" in "params._meta"',
  });
});

it('is validated in linear time', () => {
  const hostile = [
    `{"jsonrpc":"2.0","id":1,"method":"x","params":{${Array.from({ length: 200_000 }, (_, i) => `"${i}":0`).join(',')}}}`,
    `{"jsonrpc":"2.0","id":1,"method":"x","params":{"a":"${'\\\\'.repeat(1_000_000)}"}}`,
    `{"jsonrpc":"2.0","id":1,"method":"x","params":{"a":${'['.repeat(1_000_000)}${']'.repeat(1_000_000)}}}`,
  ];
  for (const text of hostile) {
    const before = process.cpuUsage();
    expect(parse(text).kind).not.toBe('batch');
    // Quadratic behavior would take minutes.
    const { user, system } = process.cpuUsage(before);
    expect((user + system) / 1000).toBeLessThan(4_000);
  }
});
