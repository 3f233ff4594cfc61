import { describe, expect, it } from 'vitest';
import { modernClient, post } from '../../../../test/fixtures/raw-client.ts';
import { eras, errorOf, lastCall, relayTests } from '../../testing/relay.ts';
import { boundedClientInfo } from './methods/lifecycle.ts';

const { register, upstreamWith } = relayTests();

const ICON = `data:image/png;base64,${'iVBORw0KGgo'.repeat(250_000)}`;

it.each([
  [
    { name: 'c', version: '1' },
    { name: 'c', version: '1' },
  ],
  [
    { name: 'c', version: '1', title: 'C', icons: [{ src: ICON }], websiteUrl: 'https://c', description: 'd', x: 1 },
    { name: 'c', version: '1', title: 'C' },
  ],
  [{}, { name: 'unknown', version: 'unknown' }],
  [undefined, { name: 'unknown', version: 'unknown' }],
  [
    { name: 7, version: null, title: [] },
    { name: 'unknown', version: 'unknown' },
  ],
  [
    { name: '', version: '', title: '' },
    { name: '', version: '', title: '' },
  ],
  [
    { name: '\u0000\n\u009f', version: '1' },
    { name: '   ', version: '1' },
  ],
  [
    { name: '€'.repeat(1_000), version: '9'.repeat(1_000), title: 'x'.repeat(1_000_000) },
    { name: '€'.repeat(85), version: '9'.repeat(128), title: 'x'.repeat(256) },
  ],
  [
    { name: '\ud83d'.repeat(1_000), version: '1' },
    { name: '\ufffd'.repeat(85), version: '1' },
  ],
])('keeps what upstreams require (%#)', (info, expected) => {
  expect(boundedClientInfo(info)).toEqual(expected);
});

describe('a client with an icon of 2.7 MB', () => {
  const info = JSON.stringify({ name: 'host', version: '1.2', title: 'Host', icons: [{ src: ICON }] });

  it.each(eras)('connects in the legacy era and calls a %s upstream', async (era) => {
    const upstream = await upstreamWith({}, { eras: [era] });
    const url = await register(upstream.url);
    const params = `{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":${info}}`;
    const opened = await post(url, `{"jsonrpc":"2.0","id":0,"method":"initialize","params":${params}}`);
    const session = String(opened.headers['mcp-session-id']);
    expect([opened.status, session.length < 2_048]).toEqual([200, true]);
    const called = await post(url, '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a"}}', {
      'mcp-session-id': session,
    });
    expect(called.text).toContain('done');
    const sent = { name: 'host', version: '1.2', title: 'Host' };
    if (era === 'legacy') expect(lastCall(upstream, 'initialize').params.clientInfo).toEqual(sent);
    else expect(lastCall(upstream).params._meta).toMatchObject({ 'io.modelcontextprotocol/clientInfo': sent });
  });

  it.each(eras)('calls a %s upstream in the modern era', async (era) => {
    const upstream = await upstreamWith({}, { eras: [era] });
    const url = await register(upstream.url);
    const caller = modernClient(url, '{}', `"x":1`);
    expect((await caller.call('server/discover')).status).toBe(200);
    const meta = `"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}`;
    const params = `{"name":"a","_meta":{${meta},"io.modelcontextprotocol/clientInfo":${info}}}`;
    const response = await post(url, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":${params}}`, {
      'mcp-protocol-version': '2026-07-28',
      'mcp-method': 'tools/call',
      'mcp-name': 'a',
    });
    expect(response.text).toContain('done');
  });
});

it('a session whose capabilities do not fit is rejected with their name', async () => {
  const url = await register((await upstreamWith()).url);
  const capabilities = `{"experimental":{"x":{"y":"${'z'.repeat(5_000)}"}}}`;
  const params = `{"protocolVersion":"2025-11-25","capabilities":${capabilities},"clientInfo":{"name":"c","version":"1"}}`;
  const response = await post(url, `{"jsonrpc":"2.0","id":0,"method":"initialize","params":${params}}`);
  expect(errorOf(response)).toEqual({ code: -32602, message: 'parameter "capabilities" is too large for a session' });
});
