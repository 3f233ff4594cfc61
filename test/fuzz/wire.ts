import { once } from 'node:events';
import { connect } from 'node:net';
import type { FuzzResponse } from './response-checker.ts';

/** Invalid request heads that no client sends, each for its own connection. */
export const HEADS: readonly string[] = [
  'GARBAGE\r\n\r\n',
  'get /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n',
  'GET /healthz HTTP/1.1\r\nConnection: close\r\n\r\n',
  'GET /healthz HTTP/9.9\r\nHost: localhost\r\n\r\n',
  'GET /heal thz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n',
  'GET healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n',
  'GET http://other.example/none HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n',
  'GET * HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n',
  'GET /healthz HTTP/1.1\r\nHost: other.example\r\nConnection: close\r\n\r\n',
  'GET /healthz HTTP/1.1\r\nHost: localhost\r\nBad Header: x\r\nConnection: close\r\n\r\n',
  'GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: a\x00b\r\nConnection: close\r\n\r\n',
  `GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: ${'x'.repeat(20_000)}\r\n\r\n`,
  `GET /healthz?${'x'.repeat(20_000)} HTTP/1.1\r\nHost: localhost\r\n\r\n`,
  'POST /api/v1/tools HTTP/1.1\r\nHost: localhost\r\nContent-Length: x\r\n\r\n',
  'POST /api/v1/tools HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n',
  'POST /api/v1/tools HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n{}',
  'POST /api/v1/tools HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n{}',
  'POST /api/v1/tools HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: nonsense\r\n\r\n{}',
  'POST /api/v1/tools HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n{}\r\n0\r\n\r\n',
  'POST /api/v1/tools HTTP/1.1\r\nHost: localhost\r\nExpect: nonsense\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}',
];

/** Timeout of a response, in milliseconds. */
const TIMEOUT_MS = 10_000;

/** Sends bytes on a new connection; returns the response, or undefined if the connection ends without one. */
export async function sendHead(origin: string, head: string): Promise<FuzzResponse | undefined> {
  const { hostname, port } = new URL(origin);
  const socket = connect(Number(port), hostname.replace(/^\[|\]$/g, ''));
  socket.setTimeout(TIMEOUT_MS, () => socket.destroy(new Error('no response in time')));
  let text = '';
  socket.setEncoding('utf8').on('data', (chunk) => {
    text += chunk;
  });
  socket.write(head, 'latin1');
  await once(socket, 'close');
  const parts = /^HTTP\/1\.1 (\d{3}) [^\r\n]*\r\n([\s\S]*?)\r\n\r\n([\s\S]*)$/.exec(text);
  if (!parts) return undefined;
  const [, status, lines = '', body = ''] = parts;
  const headers = lines.split('\r\n').map((line) => {
    const [name = '', value = ''] = line.split(/:\s*/, 2);
    return [name.toLowerCase(), value] as const;
  });
  return { status: Number(status), headers: Object.fromEntries(headers), text: body };
}
