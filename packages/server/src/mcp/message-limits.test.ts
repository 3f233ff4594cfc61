import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { post, type RawResponse } from '../../../../test/fixtures/raw-client.ts';
import { errorOf, rpc } from '../../testing/listener.ts';
import { startTestService, type TestService } from '../../testing/service.ts';

const MODERN = '2026-07-28';
let service: TestService;

beforeAll(async () => {
  service = await startTestService({
    SERVICE_MAX_JSON_DEPTH: '20',
    SERVICE_MAX_JSON_MEMBERS: '50',
    SERVICE_MAX_CAPABILITIES_BYTES: '100',
  });
});
afterAll(() => service.stop());

/** Sends a request of this era with these params. */
function call(era: 'legacy' | 'modern', method: string, params: Record<string, unknown>, capabilities: object = {}) {
  if (era === 'legacy') return post(service.url(), rpc(method, params));
  const _meta = {
    'io.modelcontextprotocol/protocolVersion': MODERN,
    'io.modelcontextprotocol/clientCapabilities': capabilities,
  };
  const headers: Record<string, string> = { 'mcp-protocol-version': MODERN, 'mcp-method': method };
  if (typeof params.name === 'string') headers['mcp-name'] = params.name;
  return post(service.url(), rpc(method, { ...params, _meta }), headers);
}

/** An object with this many levels. */
function nested(levels: number): object {
  let value: object = {};
  for (let level = 1; level < levels; level++) value = { a: value };
  return value;
}

function members(count: number): Record<string, number> {
  return Object.fromEntries(Array.from({ length: count }, (_, i) => [`k${i}`, i]));
}

describe.each(['legacy', 'modern'] as const)('a request of the %s era', (era) => {
  const status = era === 'modern' ? 400 : 200;

  function rejected(response: RawResponse, message: string): void {
    expect(errorOf(response)).toEqual({ code: -32602, message: `invalid request: ${message}`, id: 1 });
    expect(response.status).toBe(status);
  }

  it('that is nested too deeply is rejected with the limit and its setting', async () => {
    const arguments_ = (levels: number) => ({ name: 'x', arguments: nested(levels) });
    expect(errorOf(await call(era, 'tools/call', arguments_(18))).message).toBe('tool not found: x');
    rejected(
      await call(era, 'tools/call', arguments_(19)),
      'nesting of 21 levels exceeds the limit of 20 (SERVICE_MAX_JSON_DEPTH)',
    );
  });

  it('with too many members is rejected with the limit and its setting', async () => {
    expect(errorOf(await call(era, 'tools/call', { name: 'x', arguments: members(50) })).message).toBe(
      'tool not found: x',
    );
    rejected(
      await call(era, 'tools/call', { name: 'x', arguments: members(51) }),
      '"arguments" exceeds the limit of 50 members (SERVICE_MAX_JSON_MEMBERS)',
    );
  });

  it('with too many capabilities is rejected with the limit and its setting', async () => {
    const capabilities = { experimental: { a: { b: 'x'.repeat(100) } } };
    const response =
      era === 'modern'
        ? await call(era, 'tools/list', {}, capabilities)
        : await call(era, 'initialize', { protocolVersion: '2025-11-25', capabilities, clientInfo: {} });
    rejected(response, 'the client capabilities exceed the limit of 100 bytes (SERVICE_MAX_CAPABILITIES_BYTES)');
  });
});

describe('values of a member', () => {
  const client = { protocolVersion: '2025-11-25', capabilities: {}, clientInfo: {} };
  /** Values nested in a member, none of which has more than the allowed number of members. */
  const values = Array.from({ length: 30 }, () => [0]);
  const parsed: readonly [key: string, method: string, params: Record<string, unknown>][] = [
    ['clientInfo', 'initialize', { ...client, clientInfo: { x: values } }],
    ['x', 'initialize', { ...client, _meta: { x: values } }],
    ['arguments', 'prompts/get', { name: 'x', arguments: [values] }],
    ['inputResponses', 'tools/call', { name: 'x', requestState: 'x', inputResponses: { x: values } }],
    ['task', 'tools/call', { name: 'x', task: { x: values } }],
    ['uri', 'resources/read', { uri: values }],
    ['exchange', 'completion/complete', { ref: {}, argument: {}, exchange: { x: values } }],
    ['reason', 'notifications/cancelled', { requestId: 1, reason: values }],
  ];

  it.each(parsed)('are limited where it is parsed: "%s" of %s', async (key, method, params) => {
    const message = `invalid request: "${key}" exceeds the limit of 50 members (SERVICE_MAX_JSON_MEMBERS)`;
    expect(errorOf(await call('legacy', method, params))).toMatchObject({ code: -32602, message });
  });

  it('with escaped keys are limited', async () => {
    const text = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"x":[${'{"\\u0061":0},'.repeat(50)}0]}}}`;
    expect(errorOf(await post(service.url(), text)).message).toContain('"clientInfo" exceeds the limit of 50 members');
  });

  it('are not limited in the metadata as a whole', async () => {
    const _meta = Object.fromEntries(Array.from({ length: 10 }, (_, at) => [`x${at}`, Array(20).fill(0)]));
    expect((await call('legacy', 'initialize', { ...client, _meta })).status).toBe(200);
  });

  it.each([
    ['tools/call', { name: 'x', arguments: { x: values } }, 'tool not found: x'],
    ['vendor/method', { x: values }, 'method not found: vendor/method'],
  ])('are not limited where it is relayed without being parsed: %s', async (method, params, message) => {
    expect(errorOf(await call('legacy', method, params)).message).toBe(message);
  });
});
