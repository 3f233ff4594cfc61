import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { describe, expect, it } from 'vitest';
import { reply } from '../../../../../../test/fixtures/raw-client.ts';
import { client, errorOf, lastCall, relayTests } from '../../../../testing/relay.ts';

const { onEnd, register, upstreamWith } = relayTests();

describe('a modern client with a legacy upstream', () => {
  it('gets results with the members of its era, otherwise unchanged', async () => {
    const upstream = await upstreamWith(
      { 'tools/call': '{"content":[{"type":"text","text":"x"}],"n":9223372036854775807}' },
      { eras: ['legacy'] },
    );
    const caller = await client('modern', await register(upstream.url));
    expect(reply(await caller.call('tools/call', '{"name":"a"}'))).toContain(
      '"result":{"resultType":"complete","content":[{"type":"text","text":"x"}],"n":9223372036854775807}',
    );
    expect(lastCall(upstream).era).toBe('legacy');
  });

  it('without capabilities opens an upstream session without capabilities', async () => {
    const upstream = await upstreamWith({}, { eras: ['legacy'] });
    const caller = await client('modern', await register(upstream.url));
    // The session in which changes are watched exists.
    await expect.poll(upstream.streams).toBe(1);
    const before = upstream.count('initialize');
    await caller.call('tools/call', '{"name":"a"}');
    await caller.call('tools/call', '{"name":"a"}');
    expect(upstream.count('initialize')).toBe(before + 1);
    expect(lastCall(upstream, 'initialize').params.capabilities).toEqual({});
  });

  it('gets errors with their code, and 404 for an unknown method', async () => {
    const upstream = await upstreamWith(
      { 'tools/call': { kind: 'error', text: '{"code":-32601,"message":"no","data":1.0}' } },
      { eras: ['legacy'] },
    );
    const caller = await client('modern', await register(upstream.url));
    const response = await caller.call('tools/call', '{"name":"a"}');
    expect(response.status).toBe(404);
    expect(reply(response)).toContain('"error":{"code":-32601,"message":"no","data":1.0}');
  });

  it('can negotiate its era and call the tools in the list', async () => {
    const upstream = await upstreamWith({}, { eras: ['legacy'] });
    const negotiating = new Client({ name: 'test', version: '1' }, { versionNegotiation: { mode: 'auto' } });
    await negotiating.connect(new StreamableHTTPClientTransport(new URL(await register(upstream.url))));
    onEnd(() => negotiating.close());
    expect(negotiating.getProtocolEra()).toBe('modern');
    expect((await negotiating.callTool({ name: 'a' })).content).toEqual([{ type: 'text', text: 'done' }]);
  });
});

describe('a legacy client with a modern upstream', () => {
  it.each([
    ['no _meta', '{"name":"a","arguments":{"n":1.0}}'],
    ['an empty _meta', '{"name":"a","_meta":{}}'],
    ['a _meta of its own', '{"name":"a","_meta":{"progressToken":"mine","x":1.0}}'],
  ])('sends the metadata of the other era, with %s', async (_name, params) => {
    const upstream = await upstreamWith({}, { eras: ['modern'] });
    const caller = await client('legacy', await register(upstream.url));
    expect(reply(await caller.call('tools/call', params))).toContain('"text":"done"');
    const call = lastCall(upstream);
    expect(call.era).toBe('modern');
    expect(call.params._meta).toMatchObject({
      'io.modelcontextprotocol/protocolVersion': '2026-07-28',
      'io.modelcontextprotocol/clientCapabilities': {},
      'io.modelcontextprotocol/clientInfo': { name: expect.any(String) },
    });
    if (params.includes('"x"')) expect(call.body).toContain('"x":1.0');
  });

  it('gets JSON-RPC errors with HTTP 200', async () => {
    const upstream = await upstreamWith(
      { 'tools/call': { kind: 'error', text: '{"code":-32021,"message":"needs sampling"}' } },
      { eras: ['modern'] },
    );
    const caller = await client('legacy', await register(upstream.url));
    const response = await caller.call('tools/call', '{"name":"a"}');
    expect(response.status).toBe(200);
    expect(errorOf(response)).toEqual({ code: -32021, message: 'needs sampling' });
  });
});
