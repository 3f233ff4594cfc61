import { describe, expect, it } from 'vitest';
import { checkModernHeaders, eraOf } from './era.ts';
import { parseMessage } from './message.ts';

const VERSION = 'io.modelcontextprotocol/protocolVersion';
const CAPABILITIES = 'io.modelcontextprotocol/clientCapabilities';
const META = { [VERSION]: '2026-07-28', [CAPABILITIES]: {} };

function message(body: object) {
  const parsed = parseMessage(Buffer.from(JSON.stringify({ jsonrpc: '2.0', method: 'tools/list', ...body })));
  if (parsed.kind !== 'request' && parsed.kind !== 'notification') throw new Error(parsed.kind);
  return parsed;
}

const request = (meta?: unknown, method = 'tools/list', params: object = {}) =>
  message({ id: 1, method, params: { ...params, _meta: meta } });
const notification = (meta?: unknown) => message({ method: 'notifications/cancelled', params: { _meta: meta } });

describe('the era of a message', () => {
  it.each([undefined, '2024-11-05', '2025-03-26', '2025-06-18', '2025-11-25'])(
    'is legacy without an envelope and with version header %s',
    (version) => {
      const headers = version === undefined ? {} : { 'mcp-protocol-version': version };
      expect(eraOf(request(), headers)).toEqual({ kind: 'served', era: 'legacy' });
      expect(eraOf(request({ progressToken: 1 }), headers)).toEqual({ kind: 'served', era: 'legacy' });
      expect(eraOf(notification(), headers)).toEqual({ kind: 'served', era: 'legacy' });
    },
  );

  it('is modern with an envelope', () => {
    const headers = { 'mcp-protocol-version': '2026-07-28' };
    expect(eraOf(request(META), headers)).toEqual({ kind: 'served', era: 'modern', capabilities: {} });
    expect(eraOf(notification(META), headers)).toEqual({ kind: 'served', era: 'modern' });
  });

  it('is legacy for initialize, regardless of the version header', () => {
    expect(eraOf(request(undefined, 'initialize'), { 'mcp-protocol-version': '2026-07-28' })).toMatchObject({
      era: 'legacy',
    });
    expect(eraOf(request(undefined, 'initialize'), { 'mcp-protocol-version': '3000-01-01' })).toMatchObject({
      era: 'legacy',
    });
  });

  it('is rejected if envelope and header contradict each other', () => {
    expect(eraOf(request(META), {})).toMatchObject({ kind: 'rejected', code: -32020 });
    expect(eraOf(request(META), { 'mcp-protocol-version': '2025-11-25' })).toMatchObject({ code: -32020 });
    expect(eraOf(notification(META), { 'mcp-protocol-version': '2025-11-25' })).toMatchObject({ code: -32020 });
    expect(eraOf(notification(META), {})).toMatchObject({ era: 'modern' });
  });

  it('is rejected for unsupported versions, with a list of the supported ones', () => {
    const odd = { ...META, [VERSION]: '3000-01-01' };
    const data = { requested: '3000-01-01', supported: expect.arrayContaining(['2026-07-28']) };
    expect(eraOf(request(odd), { 'mcp-protocol-version': '3000-01-01' })).toMatchObject({ code: -32022, data });
    expect(eraOf(request(), { 'mcp-protocol-version': '3000-01-01' })).toMatchObject({ code: -32022, data });
  });

  it('is rejected for an invalid log level', () => {
    const level = 'io.modelcontextprotocol/logLevel';
    expect(eraOf(request({ ...META, [level]: 'loud' }), { 'mcp-protocol-version': '2026-07-28' })).toMatchObject({
      code: -32602,
    });
    expect(eraOf(request({ ...META, [level]: 'info' }), { 'mcp-protocol-version': '2026-07-28' })).toMatchObject({
      era: 'modern',
    });
  });

  it('truncates client input in its message', () => {
    const rejection = eraOf(request(META), { 'mcp-protocol-version': 'x'.repeat(10_000) });
    expect(rejection.kind === 'rejected' && rejection.message.length).toBeLessThan(300);
  });
});

describe('the headers of a modern message', () => {
  const headers = { 'mcp-method': 'tools/call', 'mcp-name': 'a' };
  const call = (params: object) => request(META, 'tools/call', params);

  it('pass where they mirror the body', () => {
    expect(checkModernHeaders(call({ name: 'a' }), headers)).toBeUndefined();
    expect(checkModernHeaders(request(META), { 'mcp-method': 'tools/list' })).toBeUndefined();
    expect(checkModernHeaders(request(META), { 'mcp-method': 'tools/list', 'mcp-name': 'whatever' })).toBeUndefined();
  });

  it('may be missing on a notification, but not wrong', () => {
    expect(checkModernHeaders(notification(META), {})).toBeUndefined();
    expect(checkModernHeaders(notification(META), { 'mcp-method': 'ping' })).toMatchObject({ code: -32020 });
  });

  it.each([
    ['no name in the body', {}, headers],
    ['a name in the body that is not a string', { name: 1 }, { ...headers, 'mcp-name': '1' }],
    ['a name that differs in case', { name: 'A' }, headers],
    ['Base64 that does not decode', { name: 'a' }, { ...headers, 'mcp-name': '=?base64?a?=' }],
    ['Base64 of what is not UTF-8', { name: '\ufffd' }, { ...headers, 'mcp-name': '=?base64?/w==?=' }],
    ['letters beyond ASCII', { name: 'ü' }, { ...headers, 'mcp-name': 'Ã¼' }],
  ])('are rejected with %s', (_what, params, sent) => {
    expect(checkModernHeaders(call(params), sent)).toMatchObject({ kind: 'rejected', code: -32020 });
  });

  it.each(['ü', '', 'a b', '=?base64?YQ==?='])('carry the name %j in Base64', (name) => {
    const encoded = `=?base64?${Buffer.from(name).toString('base64')}?=`;
    expect(checkModernHeaders(call({ name }), { ...headers, 'mcp-name': encoded })).toBeUndefined();
  });
});
