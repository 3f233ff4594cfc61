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
    const answer = await modernClient(service().url()).call('tools/list', '{}', { 'mcp-session-id': 'forged' });
    expect(answer.status).toBe(200);
    expect(JSON.parse(answer.text).result).toMatchObject({ resultType: 'complete', tools: [{ name: 'known' }] });
    expect(answer.headers['mcp-session-id']).toBeUndefined();
  });

  it('discovers the server', async () => {
    const answer = await modernClient(service().url()).call('server/discover');
    expect(JSON.parse(answer.text).result).toMatchObject({
      resultType: 'complete',
      supportedVersions: ['2026-07-28'],
      capabilities: { tools: {}, resources: {}, prompts: {} },
      ttlMs: 0,
      _meta: { 'io.modelcontextprotocol/serverInfo': { name: 'sluice', version: expect.any(String) } },
    });
  });

  it.each([
    ['without MCP-Protocol-Version', { 'mcp-method': 'tools/list' }, 'MCP-Protocol-Version'],
    ['with another MCP-Protocol-Version', { ...HEADERS, 'mcp-protocol-version': LEGACY }, 'MCP-Protocol-Version'],
    ['without Mcp-Method', { 'mcp-protocol-version': '2026-07-28' }, 'Mcp-Method'],
    ['with another Mcp-Method', { ...HEADERS, 'mcp-method': 'tools/call' }, 'Mcp-Method'],
    ['with Mcp-Method in another case', { ...HEADERS, 'mcp-method': 'Tools/List' }, 'Mcp-Method'],
  ])('refuses a request %s', async (_what, headers, named) => {
    const answer = await list(META, headers);
    expect(answer.status).toBe(400);
    expect(errorOf(answer)).toEqual({ code: -32020, message: expect.stringContaining(named), id: 'm' });
  });

  it.each([
    ['tools/call', '{"name":"known"}'],
    ['prompts/get', '{"name":"known"}'],
    ['resources/read', '{"uri":"known"}'],
  ])('wants %s to be named in Mcp-Name', async (method, params) => {
    const client = modernClient(service().url());
    const plain = { _meta: META, ...JSON.parse(params) };
    const headers = { 'mcp-protocol-version': '2026-07-28', 'mcp-method': method };
    const missing = await post(service().url(), rpc(method, plain), headers);
    const wrong = await client.call(method, params, { 'mcp-name': 'other' });
    const garbled = await client.call(method, params, { 'mcp-name': '=?base64?%%%?=' });
    for (const answer of [missing, wrong, garbled]) {
      expect([answer.status, errorOf(answer).code]).toEqual([400, -32020]);
      expect(errorOf(answer).message).toContain('Mcp-Name');
    }
  });

  it.each(['grüße an alle', ' led by a blank', '=?base64?aGk=?=', 'known'])(
    'reads the name %j from Mcp-Name in its Base64 form',
    async (name) => {
      const encoded = `=?base64?${Buffer.from(name).toString('base64')}?=`;
      const answer = await modernClient(service().url()).call('tools/call', JSON.stringify({ name }), {
        'mcp-name': encoded,
      });
      if (name === 'known') expect(errorOf(answer).message).toContain('Method not found');
      else expect(errorOf(answer)).toMatchObject({ code: -32602, message: `tool not found: ${name}` });
    },
  );

  it.each(['2027-01-01', '2024-11-05', '1.0', ''])('refuses version %j and names those it speaks', async (version) => {
    const answer = await list({ ...META, [VERSION]: version }, { ...HEADERS, 'mcp-protocol-version': version });
    expect(answer.status).toBe(400);
    const { code, data, id } = errorOf(answer);
    expect([code, id]).toEqual([-32022, 'm']);
    expect(data).toEqual({ requested: version, supported: expect.arrayContaining(['2026-07-28']) });
  });

  it('refuses a version in the header alone that nobody speaks', async () => {
    const answer = await post(service().url(), LIST, { 'mcp-protocol-version': '1999-01-01' });
    expect([answer.status, errorOf(answer).code]).toEqual([400, -32022]);
  });

  it.each([
    ['is missing', undefined],
    ['is no object', 'x'],
    ['lacks capabilities', { [VERSION]: '2026-07-28' }],
    ['lacks the version', { [CAPABILITIES]: {} }],
    ['has capabilities that are no object', { ...META, [CAPABILITIES]: [] }],
    ['has a version that is no string', { ...META, [VERSION]: 20260728 }],
    ['has client info that is no object', { ...META, 'io.modelcontextprotocol/clientInfo': 'me' }],
  ])('refuses an envelope that %s', async (_what, meta) => {
    const answer = await list(meta);
    expect(answer.status).toBe(400);
    expect(errorOf(answer)).toMatchObject({ code: -32602, id: 'm' });
  });

  it.each(['no/such', 'initialize', 'logging/setLevel'])(
    'answers 404 to the method %s, which it does not have',
    async (method) => {
      const answer = await modernClient(service().url()).call(method);
      expect(answer.status).toBe(404);
      expect(errorOf(answer)).toEqual({ code: -32601, message: `method not found: ${method}`, id: 1 });
    },
  );

  it('keeps HTTP 200 for errors that have no status of their own', async () => {
    const answer = await modernClient(service().url()).call('tools/call', '{"name":"unknown"}');
    expect([answer.status, errorOf(answer)]).toEqual([
      200,
      { code: -32602, message: 'tool not found: unknown', id: 1 },
    ]);
  });
});

describe('the legacy era', () => {
  it('answers 200 to a method that it does not have, -32601 inside', async () => {
    for (const method of ['no/such', 'server/discover', 'toString', 'constructor']) {
      const answer = await post(service().url(), rpc(method));
      expect([answer.status, errorOf(answer)]).toEqual([
        200,
        { code: -32601, message: `method not found: ${method}`, id: 1 },
      ]);
    }
  });

  it.each(['2025-11-25', '2025-06-18', '2025-03-26', '2024-11-05'])(
    'speaks version %s with a client of it',
    async (version) => {
      const params = { protocolVersion: version, capabilities: {}, clientInfo: { name: 'c', version: '1' } };
      const answer = await post(service().url(), rpc('initialize', params));
      expect(JSON.parse(answer.text).result).toMatchObject({
        protocolVersion: version,
        capabilities: { tools: {}, resources: {}, prompts: {} },
        serverInfo: { name: 'sluice', version: expect.any(String) },
      });
      const session = String(answer.headers['mcp-session-id']);
      expect(session.length).toBeLessThanOrEqual(4096);
      expect(session).toMatch(/^[!-~]+$/);
      const listed = await post(service().url(), LIST, { 'mcp-session-id': session, 'mcp-protocol-version': version });
      expect(listed.status).toBe(200);
    },
  );

  it.each(['2099-01-01', '2026-07-28', ''])(
    'offers its latest version to a client that asks for %j',
    async (version) => {
      const params = { protocolVersion: version, capabilities: {}, clientInfo: { name: 'c', version: '1' } };
      const answer = await post(service().url(), rpc('initialize', params), {
        'mcp-protocol-version': version || '2099-01-01',
      });
      expect(JSON.parse(answer.text).result.protocolVersion).toBe('2025-11-25');
    },
  );

  it.each([
    ['no version', {}],
    ['a version that is no string', { protocolVersion: 1 }],
    ['capabilities that are no object', { protocolVersion: LEGACY, capabilities: [] }],
    ['client info that is no object', { protocolVersion: LEGACY, clientInfo: 'me' }],
    ['client info too large for a session id', { protocolVersion: LEGACY, clientInfo: { name: 'x'.repeat(4096) } }],
    [
      'capabilities too large for a session id',
      { protocolVersion: LEGACY, capabilities: { experimental: { x: 'x'.repeat(4096) } } },
    ],
  ])('refuses initialize with %s', async (_what, params) => {
    const answer = await post(service().url(), rpc('initialize', params));
    expect([answer.status, errorOf(answer).code]).toEqual([200, -32602]);
    expect(answer.headers['mcp-session-id']).toBeUndefined();
  });

  it('serves without a session what needs none', async () => {
    const listed = await post(service().url(), LIST, { 'mcp-protocol-version': LEGACY });
    expect(JSON.parse(listed.text).result).toEqual({ tools: [expect.objectContaining({ name: 'known' })] });
    expect((await post(service().url(), PING)).text).toBe('{"jsonrpc":"2.0","id":1,"result":{}}');
  });

  it.each(['tools/call', 'prompts/get', 'resources/read'])('asks %s for its missing name', async (method) => {
    const member = method === 'resources/read' ? 'uri' : 'name';
    for (const params of [{}, { [member]: 7 }, { [member]: null }]) {
      const answer = await post(service().url(), rpc(method, params));
      expect([answer.status, errorOf(answer)]).toEqual([
        200,
        { code: -32602, message: `missing required parameter: ${member}`, id: 1 },
      ]);
    }
  });

  it('says which tool, resource or prompt it does not know', async () => {
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
