import { STATUS_CODES } from 'node:http';
import type { Duplex } from 'node:stream';
import { errorEnvelope } from './answer.ts';

/** How long a client may go on sending what was refused. */
const LINGER_MS = 2_000;

/** Answers what Node could not read as a request, or not in time, and ends the connection. */
export function refuseUnreadable(
  error: Error & { code?: string },
  socket: Duplex,
  cors: Readonly<Record<string, string>>,
): void {
  // Answered already: what its client goes on sending comes by here too, and is thrown away.
  if (socket.writableEnded && !socket.destroyed) return;
  if (!socket.writable || error.code === 'ECONNRESET') {
    socket.destroy();
    return;
  }
  const status = error.code === 'HPE_HEADER_OVERFLOW' ? 431 : error.code === 'ERR_HTTP_REQUEST_TIMEOUT' ? 408 : 400;
  endWith(socket, status, `the request could not be read: ${STATUS_CODES[status]}`, cors);
}

/** Answers a request for a tunnel, which Node leaves without one, and ends the connection. */
export function refuseTunnel(socket: Duplex, cors: Readonly<Record<string, string>>): void {
  socket.on('error', () => undefined).resume();
  endWith(socket, 400, 'the method CONNECT is for proxies; this is none', cors);
}

function endWith(socket: Duplex, status: number, message: string, cors: Readonly<Record<string, string>>): void {
  const body = errorEnvelope('BAD_REQUEST', message);
  const headers = Object.entries({
    ...cors,
    'content-type': 'application/json',
    'content-length': String(Buffer.byteLength(body)),
    connection: 'close',
  });
  const head = headers.map(([name, value]) => `${name}: ${value}\r\n`).join('');
  socket.end(`HTTP/1.1 ${status} ${STATUS_CODES[status]}\r\n${head}\r\n${body}`);
  // Closing on a client that is still sending would lose it the answer.
  const late = setTimeout(() => socket.destroy(), LINGER_MS);
  socket.once('close', () => clearTimeout(late));
}
