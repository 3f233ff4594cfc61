import { once } from 'node:events';
import { createServer, type IncomingHttpHeaders, type ServerResponse } from 'node:http';
import { afterEach, describe, expect, it } from 'vitest';
import { createTransport } from '../../http/client/pool.ts';
import { openLegacy, openModern, type RpcClientOptions } from './rpc-client.ts';

const closers: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of closers.splice(0).reverse()) await close();
});

interface ReceivedMessage {
  http: string | undefined;
  headers: IncomingHttpHeaders;
  message: { id?: string; method?: string; params?: Record<string, unknown> };
}

/** A server with scripted responses per method, which records its requests. */
async function serve(responses: Record<string, (response: ServerResponse, id: string | undefined) => void>) {
  const seen: ReceivedMessage[] = [];
  const server = createServer(async (request, response) => {
    let body = '';
    for await (const chunk of request) body += chunk;
    const message: ReceivedMessage['message'] = body === '' ? {} : JSON.parse(body);
    seen.push({ http: request.method, headers: request.headers, message });
    const result = responses[message.method ?? request.method ?? ''];
    if (result === undefined) response.writeHead(202).end();
    else result(response, message.id);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  const transport = createTransport(`http://127.0.0.1:${typeof address === 'object' ? address?.port : 0}/mcp`);
  closers.push(
    () => {
      server.closeAllConnections();
      server.close();
    },
    () => transport.destroy(),
  );
  const options: RpcClientOptions = {
    transport,
    clientInfo: { name: 'sluice', version: '1.2.3' },
    capabilities: { sampling: {} },
    timeoutMs: 5_000,
  };
  return { seen, options };
}

function result(json: string, headers: Record<string, string> = {}) {
  return (response: ServerResponse, id: string | undefined) =>
    response
      .writeHead(200, { 'content-type': 'application/json', ...headers })
      .end(`{"jsonrpc":"2.0","id":${JSON.stringify(id)},"result":${json}}`);
}

const INITIALIZED =
  '{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"x","version":"1"}}';
const DISCOVERED = '{"supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"resultType":"complete"}';

describe('openLegacy', () => {
  it('sends initialize and initialized, then session id and version with every request', async () => {
    const { seen, options } = await serve({
      initialize: result(INITIALIZED, { 'mcp-session-id': 's-1' }),
      ping: result('{"a":1.0}'),
      DELETE: (response) => response.writeHead(405).end(),
    });
    const client = await openLegacy(options);
    expect(client).toMatchObject({ identity: INITIALIZED, sessionId: 's-1', protocolVersion: '2025-11-25' });
    expect(await client.request('ping')).toEqual({ kind: 'result', text: '{"a":1.0}', result: { a: 1 } });
    await client.close();
    expect(seen.map(({ http, message }) => message.method ?? http)).toEqual([
      'initialize',
      'notifications/initialized',
      'ping',
      'DELETE',
    ]);
    expect(seen[0]?.message.params).toEqual({
      protocolVersion: '2025-11-25',
      capabilities: { sampling: {} },
      clientInfo: { name: 'sluice', version: '1.2.3' },
    });
    expect(seen[0]?.headers).not.toHaveProperty('mcp-protocol-version');
    for (const { headers } of seen) expect(headers['x-service-hops']).toBe('1');
    for (const { headers } of seen.slice(1)) {
      expect(headers).toMatchObject({ 'mcp-session-id': 's-1', 'mcp-protocol-version': '2025-11-25' });
    }
  });

  it('works with an upstream without sessions and has none to close', async () => {
    const { seen, options } = await serve({ initialize: result(INITIALIZED), ping: result('{}') });
    const client = await openLegacy(options);
    expect(client.sessionId).toBeUndefined();
    expect(await client.request('ping')).toMatchObject({ kind: 'result' });
    await client.close();
    expect(seen).toHaveLength(3);
    for (const { headers } of seen) expect(headers).not.toHaveProperty('mcp-session-id');
  });

  it.each([
    [404, '{"jsonrpc":"2.0","id":null,"error":{"code":-32001,"message":"Session not found"}}'],
    [404, ''],
    // The response of the reference server after a restart.
    [400, '{"jsonrpc":"2.0","error":{"code":-32000,"message":"Bad Request: No valid session ID provided"}}'],
  ])('recognizes a lost session by HTTP %i with %j', async (status, body) => {
    const { options } = await serve({
      initialize: result(INITIALIZED, { 'mcp-session-id': 's-1' }),
      ping: (response) => response.writeHead(status, { 'content-type': 'application/json' }).end(body),
    });
    const client = await openLegacy(options);
    await expect(client.request('ping')).rejects.toMatchObject({ kind: 'session-lost' });
  });

  it('closes the session if the initialized notification fails', async () => {
    const { seen, options } = await serve({
      initialize: result(INITIALIZED, { 'mcp-session-id': 's-1' }),
      'notifications/initialized': (response) => response.writeHead(500).end(),
    });
    await expect(openLegacy(options)).rejects.toMatchObject({ kind: 'http', status: 500 });
    await expect.poll(() => seen.at(-1)?.http).toBe('DELETE');
  });

  it.each([
    ['no version', '{"capabilities":{}}'],
    ['no capabilities', '{"protocolVersion":"2025-11-25"}'],
    ['no object', '"hello"'],
  ])('rejects an InitializeResult with %s', async (_what, json) => {
    const { options } = await serve({ initialize: result(json) });
    await expect(openLegacy(options)).rejects.toMatchObject({ kind: 'invalid' });
  });
});

describe('openModern', () => {
  it('sends its metadata with every request, mirrored in headers', async () => {
    const { seen, options } = await serve({
      'server/discover': result(DISCOVERED),
      ping: result('{}'),
    });
    const client = await openModern(options);
    expect(client).toMatchObject({ identity: DISCOVERED, protocolVersion: '2026-07-28' });
    await client.request('ping', { a: 1 });
    expect(seen[0]?.headers).toMatchObject({
      'mcp-protocol-version': '2026-07-28',
      'mcp-method': 'server/discover',
      'x-service-hops': '1',
    });
    expect(seen[1]?.headers).toMatchObject({ 'mcp-method': 'ping' });
    expect(seen[1]?.message.params).toEqual({
      a: 1,
      _meta: {
        'io.modelcontextprotocol/protocolVersion': '2026-07-28',
        'io.modelcontextprotocol/clientInfo': { name: 'sluice', version: '1.2.3' },
        'io.modelcontextprotocol/clientCapabilities': { sampling: {} },
      },
    });
  });

  it.each([
    ['no versions', '{"capabilities":{}}'],
    ['versions that are not strings', '{"supportedVersions":[1],"capabilities":{}}'],
    ['no capabilities', '{"supportedVersions":["2026-07-28"]}'],
  ])('rejects a DiscoverResult with %s', async (_what, json) => {
    const { options } = await serve({ 'server/discover': result(json) });
    await expect(openModern(options)).rejects.toMatchObject({ kind: 'invalid' });
  });
});

it('sends requests of its own only', async () => {
  const { options } = await serve({ 'server/discover': result(DISCOVERED) });
  const client = await openModern(options);
  const send = (): readonly unknown[] => [
    // @ts-expect-error A call needs a permit.
    client.request('tools/call', { name: 'a' }),
    // @ts-expect-error And so does a read.
    client.request('resources/read', { uri: 'a://b' }),
  ];
  expect(send).toBeInstanceOf(Function);
});
