import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { freePort } from './fixtures/free-port.ts';
import { type Gateway, startGateway } from './fixtures/gateway.ts';
import { legacyClient, reply } from './fixtures/raw-client.ts';
import { textResultText, toolList, toolText } from './fixtures/raw-upstream/texts.ts';
import { type RawUpstream, startRawUpstream } from './fixtures/raw-upstream.ts';
import { connect } from './fixtures/sdk-client.ts';

describe('a legacy session whose gateway is killed and started again', () => {
  let upstream: RawUpstream;
  let gateway: Gateway;
  beforeAll(async () => {
    upstream = await startRawUpstream({
      scripts: {
        'tools/list': toolList(toolText('greet')),
        'tools/call': ({ params }) => textResultText(JSON.stringify(params.arguments)),
      },
    });
    const [management, mcp] = await Promise.all([freePort(), freePort()]);
    gateway = await startGateway({ management: `127.0.0.1:${management}`, mcp: `127.0.0.1:${mcp}` });
    await gateway.forward('greeter', upstream.url);
  });
  afterAll(async () => {
    await gateway.close();
    await upstream.close();
  });

  it('continues with the official client, without a new initialize', async () => {
    const sdk = await connect(gateway.url(), 'legacy');
    expect(await sdk.callText('greet', { n: 1 })).toBe('{"n":1}');
    await gateway.kill();
    await gateway.restart();
    expect(await sdk.callText('greet', { n: 2 })).toBe('{"n":2}');
    expect((await sdk.client.listTools()).tools).toMatchObject([{ name: 'greet' }]);
    expect(sdk.sent.filter((method) => method === 'initialize')).toHaveLength(1);
    await sdk.close();
  });

  it('opens an upstream session with the capabilities that the client declared before the restart', async () => {
    const client = await legacyClient(gateway.url(), '{"sampling":{},"roots":{"listChanged":true}}');
    await gateway.kill();
    await gateway.restart();
    const response = await client.call('tools/call', '{"name":"greet","arguments":{"n":3}}');
    expect([response.status, reply(response)]).toEqual([200, expect.stringContaining('{\\"n\\":3}')]);
    const call = upstream.seen.findLast((seen) => seen.method === 'tools/call');
    const opened = upstream.seen.find((seen) => seen.method === 'initialize' && seen.session === call?.session);
    expect(opened?.params.capabilities).toMatchObject({ sampling: {}, roots: {} });
    expect(call?.session).toBeDefined();
  });

  it('remains ended if it was ended', async () => {
    const sdk = await connect(gateway.url(), 'legacy');
    const { transport } = sdk.client;
    const session = transport?.sessionId ?? '';
    expect(session).not.toBe('');
    const headers = { 'mcp-session-id': session };
    expect((await fetch(gateway.url(), { method: 'DELETE', headers })).ok).toBe(true);
    await gateway.kill();
    await gateway.restart();
    await expect(sdk.callText('greet')).rejects.toThrow();
    const unreachable = await fetch(gateway.url(), {
      method: 'POST',
      headers: {
        ...headers,
        'content-type': 'application/json',
        accept: 'application/json, text/event-stream',
        'mcp-protocol-version': '2025-11-25',
      },
      body: '{"jsonrpc":"2.0","id":1,"method":"tools/list"}',
    });
    expect(unreachable.status).toBe(404);
    await sdk.close();
  });
});
