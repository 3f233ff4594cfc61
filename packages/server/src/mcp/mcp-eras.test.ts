import { describe, expect, it } from 'vitest';
import { LEGACY, modernClient, post } from '../../../../test/fixtures/raw-client.ts';
import { errorOf, LIST, listenerTests, PING, rpc } from '../../testing/listener.ts';

const service = listenerTests();

describe('the modern era', () => {
  const VERSION = 'io.modelcontextprotocol/protocolVersion';
  const CAPABILITIES = 'io.modelcontextprotocol/clientCapabilities';
  const META = { [VERSION]: '2026-07-28', [CAPABILITIES]: {} };
  const HEADERS = { 'mcp-protocol-version': '2026-07-28', 'mcp-method': 'tools/list' };
  const list = (meta: unknown, headers: Record<string, string> = HEADERS) =>
    post(service().url(), rpc('tools/list', { _meta: meta }, 'm'), headers);

  it('is served without a session, and ignores one', async () => {
    const response = await modernClient(service().url()).call('tools/list', '{}', { 'mcp-session-id': 'forged' });
    expect(response.status).toBe(200);
    expect(JSON.parse(response.text).result).toMatchObject({ resultType: 'complete', tools: [{ name: 'known' }] });
    expect(response.headers['mcp-session-id']).toBeUndefined();
  });

  it('discovers the server', async () => {
    const response = await modernClient(service().url()).call('server/discover');
    expect(JSON.parse(response.text).result).toMatchObject({
      resultType: 'complete',
      supportedVersions: ['2026-07-28'],
      capabilities: { tools: {}, resources: {}, prompts: {} },
      ttlMs: 0,
      _meta: { 'io.modelcontextprotocol/serverInfo': { name: 'raw', version: '1' } },
    });
  });

  it.each([
    ['without MCP-Protocol-Version', { 'mcp-method': 'tools/list' }, 'MCP-Protocol-Version'],
    ['with another MCP-Protocol-Version', { ...HEADERS, 'mcp-protocol-version': LEGACY }, 'MCP-Protocol-Version'],
    ['without Mcp-Method', { 'mcp-protocol-version': '2026-07-28' }, 'Mcp-Method'],
    ['with another Mcp-Method', { ...HEADERS, 'mcp-method': 'tools/call' }, 'Mcp-Method'],
    ['with Mcp-Method in another case', { ...HEADERS, 'mcp-method': 'Tools/List' }, 'Mcp-Method'],
  ])('rejects a request %s', async (_what, headers, named) => {
    const response = await list(META, headers);
    expect(response.status).toBe(400);
    expect(errorOf(response)).toEqual({ code: -32020, message: expect.stringContaining(named), id: 'm' });
  });

  it.each([
    ['tools/call', '{"name":"known"}'],
    ['prompts/get', '{"name":"known"}'],
    ['resources/read', '{"uri":"known"}'],
  ])('requires %s in Mcp-Name', async (method, params) => {
    const client = modernClient(service().url());
    const plain = { _meta: META, ...JSON.parse(params) };
    const headers = { 'mcp-protocol-version': '2026-07-28', 'mcp-method': method };
    const missing = await post(service().url(), rpc(method, plain), headers);
    const wrong = await client.call(method, params, { 'mcp-name': 'other' });
    const garbled = await client.call(method, params, { 'mcp-name': '=?base64?%%%?=' });
    for (const response of [missing, wrong, garbled]) {
      expect([response.status, errorOf(response).code]).toEqual([400, -32020]);
      expect(errorOf(response).message).toContain('Mcp-Name');
    }
  });

  it.each(['grüße an alle', ' led by a blank', '=?base64?aGk=?=', 'known'])(
    'reads the name %j from Mcp-Name in its Base64 form',
    async (name) => {
      const encoded = `=?base64?${Buffer.from(name).toString('base64')}?=`;
      const response = await modernClient(service().url()).call('tools/call', JSON.stringify({ name }), {
        'mcp-name': encoded,
      });
      if (name === 'known') expect(errorOf(response).message).toContain('Method not found');
      else expect(errorOf(response)).toMatchObject({ code: -32602, message: `tool not found: ${name}` });
    },
  );

  it.each(['2027-01-01', '2024-11-05', '1.0', ''])(
    'rejects version %j and lists the supported versions',
    async (version) => {
      const response = await list({ ...META, [VERSION]: version }, { ...HEADERS, 'mcp-protocol-version': version });
      expect(response.status).toBe(400);
      const { code, data, id } = errorOf(response);
      expect([code, id]).toEqual([-32022, 'm']);
      expect(data).toEqual({ requested: version, supported: expect.arrayContaining(['2026-07-28']) });
    },
  );

  it('rejects an unsupported version that is only in the header', async () => {
    const response = await post(service().url(), LIST, { 'mcp-protocol-version': '1999-01-01' });
    expect([response.status, errorOf(response).code]).toEqual([400, -32022]);
  });

  it.each([
    ['is missing', undefined],
    ['is no object', 'x'],
    ['lacks capabilities', { [VERSION]: '2026-07-28' }],
    ['lacks the version', { [CAPABILITIES]: {} }],
    ['has capabilities that are not an object', { ...META, [CAPABILITIES]: [] }],
    ['has a version that is not a string', { ...META, [VERSION]: 20260728 }],
    ['has client info that is not an object', { ...META, 'io.modelcontextprotocol/clientInfo': 'me' }],
  ])('rejects an envelope that %s', async (_what, meta) => {
    const response = await list(meta);
    expect(response.status).toBe(400);
    expect(errorOf(response)).toMatchObject({ code: -32602, id: 'm' });
  });

  it.each(['no/such', 'initialize', 'logging/setLevel'])('responds 404 to the unknown method %s', async (method) => {
    const response = await modernClient(service().url()).call(method);
    expect(response.status).toBe(404);
    expect(errorOf(response)).toEqual({ code: -32601, message: `method not found: ${method}`, id: 1 });
  });

  it('responds 200 to errors without an HTTP status of their own', async () => {
    const response = await modernClient(service().url()).call('tools/call', '{"name":"unknown"}');
    expect([response.status, errorOf(response)]).toEqual([
      200,
      { code: -32602, message: 'tool not found: unknown', id: 1 },
    ]);
  });
});

describe('the legacy era', () => {
  it('responds 200 with error -32601 to an unknown method', async () => {
    for (const method of ['no/such', 'server/discover', 'toString', 'constructor']) {
      const response = await post(service().url(), rpc(method));
      expect([response.status, errorOf(response)]).toEqual([
        200,
        { code: -32601, message: `method not found: ${method}`, id: 1 },
      ]);
    }
  });

  it.each(['2025-11-25', '2025-06-18', '2025-03-26', '2024-11-05'])('accepts version %s', async (version) => {
    const params = { protocolVersion: version, capabilities: {}, clientInfo: { name: 'c', version: '1' } };
    const response = await post(service().url(), rpc('initialize', params));
    expect(JSON.parse(response.text).result).toMatchObject({
      protocolVersion: version,
      capabilities: { tools: {}, resources: {}, prompts: {} },
      serverInfo: { name: 'raw', version: '1' },
    });
    const session = String(response.headers['mcp-session-id']);
    expect(session.length).toBeLessThanOrEqual(4096);
    expect(session).toMatch(/^[!-~]+$/);
    const listed = await post(service().url(), LIST, { 'mcp-session-id': session, 'mcp-protocol-version': version });
    expect(listed.status).toBe(200);
  });

  it.each(['2099-01-01', '2026-07-28', ''])(
    'offers its latest version to a client that requests %j',
    async (version) => {
      const params = { protocolVersion: version, capabilities: {}, clientInfo: { name: 'c', version: '1' } };
      const response = await post(service().url(), rpc('initialize', params), {
        'mcp-protocol-version': version || '2099-01-01',
      });
      expect(JSON.parse(response.text).result.protocolVersion).toBe('2025-11-25');
    },
  );

  it.each([
    ['no version', {}],
    ['a version that is not a string', { protocolVersion: 1 }],
    ['capabilities that are not an object', { protocolVersion: LEGACY, capabilities: [] }],
    ['client info that is not an object', { protocolVersion: LEGACY, clientInfo: 'me' }],
    [
      'capabilities too large for a session id',
      { protocolVersion: LEGACY, capabilities: { experimental: { x: 'x'.repeat(4096) } } },
    ],
  ])('rejects initialize with %s', async (_what, params) => {
    const response = await post(service().url(), rpc('initialize', params));
    expect([response.status, errorOf(response).code]).toEqual([200, -32602]);
    expect(response.headers['mcp-session-id']).toBeUndefined();
  });

  it('serves requests that need no session without one', async () => {
    const listed = await post(service().url(), LIST, { 'mcp-protocol-version': LEGACY });
    expect(JSON.parse(listed.text).result).toEqual({ tools: [expect.objectContaining({ name: 'known' })] });
    expect((await post(service().url(), PING)).text).toBe('{"jsonrpc":"2.0","id":1,"result":{}}');
  });

  it.each(['tools/call', 'prompts/get', 'resources/read'])('rejects %s without a name', async (method) => {
    const member = method === 'resources/read' ? 'uri' : 'name';
    for (const params of [{}, { [member]: 7 }, { [member]: null }]) {
      const response = await post(service().url(), rpc(method, params));
      expect([response.status, errorOf(response)]).toEqual([
        200,
        { code: -32602, message: `missing required parameter: ${member}`, id: 1 },
      ]);
    }
  });

  it('names the unknown tool, resource or prompt', async () => {
    const message = async (method: string, params: object) => errorOf(await post(service().url(), rpc(method, params)));
    expect(await message('tools/call', { name: 'constructor' })).toMatchObject({
      code: -32602,
      message: 'tool not found: constructor',
    });
    expect(await message('prompts/get', { name: 'p' })).toMatchObject({ code: -32602, message: 'prompt not found: p' });
    expect(await message('resources/read', { uri: 'x://r' })).toMatchObject({
      code: -32602,
      message: 'resource not found: x://r',
    });
  });
});
