import { once } from 'node:events';
import { type IncomingMessage, request } from 'node:http';
import { expect, it } from 'vitest';
import { send } from '../../../../test/fixtures/raw-client.ts';
import { LISTEN_HEADERS, listenText } from '../../testing/listening-client.ts';
import { liveTests } from '../../testing/live-tests.ts';
import { sessionClient } from '../../testing/session-client.ts';

const { live } = liveTests();

it.each([
  ['text/event-stream', 200],
  ['TEXT/Event-Stream', 200],
  ['text/*', 200],
  ['*/*', 200],
  ['application/json, text/event-stream;q=0.5', 200],
  ['application/json', 406],
  ['text/event-stream;q=0', 406],
  ['text/event-stream;q=0, */*', 406],
  ['text/html', 406],
])('a notification stream for %s: %i', async (accept, status) => {
  const { url } = await live();
  const client = await sessionClient(url);
  const stream = client.listen(undefined, { accept });
  expect((await stream.head).statusCode).toBe(status);
  stream.disconnect();
});

it.each([
  [['APPLICATION/JSON;q=0', 'Text/Event-Stream'], 'text/event-stream'],
  [['text/event-stream', 'application/json'], 'application/json'],
  [['text/*'], 'text/event-stream'],
  [['text/event-stream;q=0', '*/*'], 'application/json'],
])('the response to a call of a client that accepts %j is %s', async (lines, type) => {
  const { upstream, url } = await live();
  const { headers } = await sessionClient(url);
  // Several lines of a header are one with all values.
  const body = '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"work"}}';
  const [accept = ''] = lines.length === 1 ? lines : [lines.join(', ')];
  const response = send(url, 'POST', { ...headers, 'content-type': 'application/json', accept }, body);
  (await upstream.calls.next()).json('done');
  expect((await response).headers['content-type']).toBe(type);
});

const MODERN_META =
  '"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},"io.modelcontextprotocol/clientInfo":{"name":"c","version":"1"}}';

it.each([
  ['initialize', '{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}'],
  ['ping', '{}'],
  ['tools/list', '{}'],
  ['tools/list', `{${MODERN_META}}`],
  ['server/discover', `{${MODERN_META}}`],
])('the result of %s is an event for a client that excludes JSON', async (method, params) => {
  const { url } = await live();
  const modern = { 'mcp-protocol-version': '2026-07-28', 'mcp-method': method };
  const { headers } = await sessionClient(url);
  const own = {
    ...(method !== 'initialize' && headers),
    ...(params.includes(MODERN_META) && modern),
    'content-type': 'application/json',
  };
  const body = `{"jsonrpc":"2.0","id":1,"method":"${method}","params":${params}}`;
  const json = await send(url, 'POST', { ...own, accept: 'application/json' }, body);
  const stream = await send(url, 'POST', { ...own, accept: 'Text/Event-Stream' }, body);
  expect([json.status, json.headers['content-type']]).toEqual([200, 'application/json']);
  expect([stream.status, stream.headers['content-type']]).toEqual([200, 'text/event-stream']);
  expect(stream.text).toBe(`event: message\ndata: ${json.text}\n\n`);
  expect(typeof stream.headers['mcp-session-id']).toBe(typeof json.headers['mcp-session-id']);
});

it.each([
  ['application/json', 406],
  ['*/*, text/event-stream;q=0', 406],
  ['Text/*', 200],
])('subscriptions/listen for %s: %i', async (accept, status) => {
  const { url } = await live();
  const headers = { ...LISTEN_HEADERS, accept };
  const req = request(url, { method: 'POST', agent: false, headers }).end(listenText({ toolsListChanged: true }));
  const [response]: IncomingMessage[] = await once(req, 'response');
  expect(response?.statusCode).toBe(status);
  req.destroy();
});
