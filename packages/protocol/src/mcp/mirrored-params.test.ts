import { describe, expect, it } from 'vitest';
import { parseMessage, type RequestMessage } from './message.ts';
import { MirroredParams } from './param-headers.ts';

const PARAMS = new MirroredParams([
  { header: 'Mcp-Param-Region', path: ['region'] },
  { header: 'Mcp-Param-Dry-Run', path: ['options', 'dry.run'] },
  { header: 'Mcp-Param-Shards', path: ['shards'] },
]);

/** A call with these arguments, given as JSON text. */
function call(args: string): RequestMessage {
  const message = parseMessage(
    Buffer.from(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t","arguments":${args}}}`),
  );
  if (message.kind !== 'request') throw new Error(message.kind);
  return message;
}

describe('headers from arguments', () => {
  it.each([
    ['{"region":"us-west1","shards":42}', ['Mcp-Param-Region', 'us-west1', 'Mcp-Param-Shards', '42']],
    ['{"region":"é","options":{"dry.run":true}}', ['Mcp-Param-Region', '=?base64?w6k=?=', 'Mcp-Param-Dry-Run', 'true']],
    ['{"reg\\u0069on":"a\\nb"}', ['Mcp-Param-Region', '=?base64?YQpi?=']],
    ['{"region":""}', ['Mcp-Param-Region', '=?base64??=']],
    ['{"shards":42.0}', ['Mcp-Param-Shards', '42']],
    ['{"shards":1e3}', ['Mcp-Param-Shards', '1000']],
    ['{"shards":-0}', ['Mcp-Param-Shards', '0']],
    ['{"shards": 9223372036854775807 }', ['Mcp-Param-Shards', '9223372036854775807']],
    ['{"shards":1.00000000000000000001}', ['Mcp-Param-Shards', '1.00000000000000000001']],
    ['{"shards":1e400}', ['Mcp-Param-Shards', '1e400']],
    // The last of duplicate members is used, even if only the first matches the declaration.
    ['{"region":"a","region":"b","options":{"dry.run":true},"options":{}}', ['Mcp-Param-Region', 'b']],
    ['{"region":"a","region":null}', []],
    ['{"region":{"a":1},"shards":[1],"options":true}', []],
    ['{"x":{"region":"a"},"dry.run":true}', []],
    ['null', []],
    ['[]', []],
  ])('%s', (args, headers) => {
    expect(PARAMS.headersFor(call(args))).toEqual(headers);
  });

  it('are none for a call without arguments', () => {
    const message = parseMessage(Buffer.from('{"jsonrpc":"2.0","id":1,"method":"tools/call"}'));
    expect(message.kind === 'request' && PARAMS.headersFor(message)).toEqual([]);
  });
});

describe('headers of a client', () => {
  it.each([
    ['{"region":"us-west1"}', { 'mcp-param-region': 'us-west1' }],
    ['{"region":"us-west1"}', { 'mcp-param-region': '=?base64?dXMtd2VzdDE=?=' }],
    ['{"region":"=?base64?x"}', { 'mcp-param-region': '=?base64?x' }],
    ['{"region":""}', { 'mcp-param-region': '' }],
    ['{"region":null}', {}],
    ['{}', { 'mcp-param-other': 'x' }],
    ['{"shards":42}', { 'mcp-param-shards': '42.0' }],
    ['{"shards":42.0}', { 'mcp-param-shards': '42' }],
    ['{"shards":42}', { 'mcp-param-shards': '=?base64?NDI=?=' }],
    ['{"shards":9223372036854775807}', { 'mcp-param-shards': '9223372036854775807' }],
    ['{"options":{"dry.run":false}}', { 'mcp-param-dry-run': 'false' }],
    // No header can mirror it; whether the tool accepts it is determined by the upstream.
    ['{"region":{}}', {}],
  ])('agree with the body: %s, %o', (args, headers) => {
    expect(PARAMS.problem(call(args), headers)).toBeUndefined();
  });

  it.each([
    ['{"region":"us-west1"}', {}, 'Mcp-Param-Region is missing'],
    ['{"region":""}', {}, 'Mcp-Param-Region is missing'],
    ['{"shards":0}', {}, 'Mcp-Param-Shards is missing'],
    ['{"options":{"dry.run":false}}', {}, 'Mcp-Param-Dry-Run is missing'],
    ['{}', { 'mcp-param-region': 'x' }, 'Mcp-Param-Region mirrors an argument that the body does not have'],
    ['{"region":null}', { 'mcp-param-region': 'null' }, 'Mcp-Param-Region mirrors an argument'],
    ['{"region":"a"}', { 'mcp-param-region': 'b' }, 'Mcp-Param-Region differs'],
    ['{"region":"a"}', { 'mcp-param-region': 'A' }, 'Mcp-Param-Region differs'],
    ['{"region":"a"}', { 'mcp-param-region': '' }, 'Mcp-Param-Region differs'],
    ['{"region":"a"}', { 'mcp-param-region': 'a, a' }, 'Mcp-Param-Region differs'],
    ['{"region":"Hello"}', { 'mcp-param-region': '=?base64?SGVsbG8?=' }, 'Mcp-Param-Region is not valid'],
    ['{"region":"Hello"}', { 'mcp-param-region': '=?base64?SGVs!!!bG8=?=' }, 'Mcp-Param-Region is not valid'],
    ['{"region":"é"}', { 'mcp-param-region': 'é' }, 'Mcp-Param-Region is not valid'],
    ['{"shards":42}', { 'mcp-param-shards': '43' }, 'Mcp-Param-Shards differs'],
    ['{"shards":42}', { 'mcp-param-shards': '0x2a' }, 'Mcp-Param-Shards differs'],
    ['{"shards":"42"}', { 'mcp-param-shards': '42.0' }, 'Mcp-Param-Shards differs'],
    ['{"shards":9223372036854775807}', { 'mcp-param-shards': '9223372036854775808' }, 'Mcp-Param-Shards differs'],
    ['{"options":{"dry.run":true}}', { 'mcp-param-dry-run': 'True' }, 'Mcp-Param-Dry-Run differs'],
    ['{"region":{}}', { 'mcp-param-region': '{}' }, 'Mcp-Param-Region differs'],
  ])('disagree with the body: %s, %o', (args, headers, problem) => {
    expect(PARAMS.problem(call(args), headers)).toContain(`header ${problem}`);
  });
});
