import { beforeAll, expect, test } from 'vitest';
import { type H2cListeners, PING, startH2cListeners } from './fixtures/h2c-listeners.ts';
import { sendBytes } from './fixtures/raw-exchange.ts';

// An offer of HTTP/2 is ignored (RFC 9110 7.8); Java's client and curl make it by default.

let listeners: H2cListeners;
beforeAll(async () => {
  listeners = await startH2cListeners();
  return () => listeners.close();
});

async function respond(url: string, headers: readonly string[]): Promise<string> {
  const { port, pathname } = new URL(url);
  const head = [
    `POST ${pathname} HTTP/1.1`,
    `Host: localhost:${port}`,
    'Content-Type: application/json',
    'Accept: application/json, text/event-stream',
    `Content-Length: ${PING.length}`,
    ...headers,
  ];
  return (await sendBytes(Number(port), `${head.join('\r\n')}\r\n\r\n${PING}`)).split('\r\n', 1)[0] ?? '';
}

const OFFER = ['Connection: Upgrade, HTTP2-Settings, close', 'Upgrade: h2c', 'HTTP2-Settings: AAMAAABkAAQAAP__'];

test.for(['management', 'legacy backend', 'mcp', 'inference'] as const)('%s ignores an offer of h2c', async (name) => {
  const before = listeners.received.length;
  expect(await respond(listeners.urls[name], OFFER)).toBe('HTTP/1.1 200 OK');
  const forwarded = listeners.received.slice(before).filter(({ url }) => url !== '/');
  for (const { headers } of forwarded) {
    expect(headers).not.toHaveProperty('upgrade');
    expect(headers).not.toHaveProperty('http2-settings');
  }
  const isProxied = name === 'legacy backend' || name === 'inference';
  expect(forwarded.length).toBe(isProxied ? 1 : 0);
});

test('the restricted inference listener rejects web sockets', async () => {
  const upgrade = ['Connection: Upgrade, close', 'Upgrade: websocket', 'Sec-WebSocket-Version: 13'];
  expect(await respond(listeners.urls.inference, upgrade)).toBe('HTTP/1.1 403 Forbidden');
});
