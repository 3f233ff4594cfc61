import { parseMessage } from '@sluice/protocol/mcp/message';
import { describe, expect, it } from 'vitest';
import { InteractiveClient, lastMessage } from '../../../../testing/interactive-client.ts';
import { lastCall, relayTests } from '../../../../testing/relay.ts';
import { RequestEdits } from '../relay/request-edits.ts';
import { ModernResponseRewriter } from './messages.ts';

const { register, upstreamWith } = relayTests();

const KEY = 'io.modelcontextprotocol/';
const ENVELOPE = [
  `"${KEY}protocolVersion":"2026-07-28"`,
  `"${KEY}clientCapabilities":{"x":[1,{"y":"}"}]}`,
  `"${KEY}clientInfo":{"name":"c","version":"1"}`,
  `"${KEY}logLevel":"debug"`,
];

/** Returns the params of a request as sent to a legacy upstream. */
function sent(params: string): string {
  const message = parseMessage(Buffer.from(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":${params}}`));
  if (message.kind !== 'request') throw new Error(`a ${message.kind}`);
  const result = String(new RequestEdits(message, []).toLegacy().request(1, []).body);
  expect(() => JSON.parse(result)).not.toThrow();
  return result.slice(result.indexOf('"params":') + 9, -1);
}

describe('a modern request', () => {
  it.each([
    [`{"_meta":{${ENVELOPE}}}`, '{"_meta":{}}'],
    [`{"_meta":{ ${ENVELOPE.join(' , ')} },"name":"a"}`, '{"_meta":{ },"name":"a"}'],
    [
      `{"name":"a","_meta":{"a":1.0,${ENVELOPE},"b":9223372036854775807}}`,
      '{"name":"a","_meta":{"a":1.0,"b":9223372036854775807}}',
    ],
    [
      `{"_meta":{${ENVELOPE[0]}, "progressToken":"t" ,${ENVELOPE[1]}},"n":1.0}`,
      '{"_meta":{ "progressToken":1},"n":1.0}',
    ],
    [`{"_meta":{"${KEY}other":1,${ENVELOPE[1]}}}`, `{"_meta":{"${KEY}other":1}}`],
    [
      `{"arguments":{"_meta":{${ENVELOPE[0]}},"requestState":1}}`,
      `{"arguments":{"_meta":{${ENVELOPE[0]}},"requestState":1}}`,
    ],
    ['{"inputResponses":{"k":{}},"requestState":"s"}', '{}'],
    ['{"requestState":"s","name":"a","inputResponses":{"k":{}},"n":1e2}', '{"name":"a","n":1e2}'],
    ['{"name":"a" , "requestState":"s"}', '{"name":"a"}'],
    [`{"inputResponses":{},"_meta":{${ENVELOPE}},"requestState":"s"}`, '{"_meta":{}}'],
    ['{"name":"a","_meta":1}', '{"name":"a","_meta":1}'],
  ])('loses what is specific to its era, and nothing else: %s', (params, expected) => {
    expect(sent(params)).toBe(expected);
  });

  it('reaches a legacy upstream without input that it did not request', async () => {
    const upstream = await upstreamWith({}, { eras: ['legacy'] });
    const client = new InteractiveClient(await register(upstream.url));
    const more = '"inputResponses":{"k":{"action":"accept"}}';
    const response = await lastMessage(client.send({ params: '"name":"a","x":1.0', more, meta: '"mine":1.0' }));
    expect(JSON.parse(response).result.resultType).toBe('complete');
    expect(lastCall(upstream).body).toContain('"params":{"name":"a","x":1.0,"_meta":{"mine":1.0}}');
    expect(lastCall(upstream).headers['mcp-method']).toBeUndefined();
    expect(lastCall(upstream).headers['mcp-protocol-version']).toBe('2025-11-25');
  });
});

describe('the response of a legacy upstream', () => {
  const responded = (method: string, text: string) =>
    new ModernResponseRewriter(method, {}, () => '').rewrite(text, JSON.parse(text))?.text ?? text;
  const complete = '"resultType":"complete"';

  it.each([
    ['tools/call', '{"id":1,"result":{}}', `{"id":1,"result":{${complete}}}`],
    ['tools/call', '{"id":1,"result":{ "n":1.0 }}', `{"id":1,"result":{${complete}, "n":1.0 }}`],
    ['tools/call', `{"result":{"n":1e2,${complete}},"id":1}`, `{"result":{"n":1e2,${complete}},"id":1}`],
    // Result types do not exist in the legacy era.
    [
      'tools/call',
      '{"id":1,"result":{"resultType":"input_required","inputRequests":{"a":{"method":"roots/list"}}}}',
      `{"id":1,"result":{${complete},"inputRequests":{"a":{"method":"roots/list"}}}}`,
    ],
    ['prompts/get', '{"id":1,"result":{"messages":[]}}', `{"id":1,"result":{${complete},"messages":[]}}`],
    [
      'resources/read',
      '{"id":1,"result":{"contents":[]}}',
      `{"id":1,"result":{${complete},"ttlMs":0,"cacheScope":"private","contents":[]}}`,
    ],
    [
      'resources/read',
      '{"id":1,"result":{"ttlMs":5.0,"contents":[]}}',
      `{"id":1,"result":{${complete},"cacheScope":"private","ttlMs":5.0,"contents":[]}}`,
    ],
    ['tools/call', '{"id":1,"result":[1.0]}', '{"id":1,"result":[1.0]}'],
    ['resources/read', '{"id":1,"error":{"code":-1,"message":"m"}}', '{"id":1,"error":{"code":-1,"message":"m"}}'],
  ])('to %s gets the missing members: %s', (method, text, expected) => {
    expect(responded(method, text)).toBe(expected);
  });
});
