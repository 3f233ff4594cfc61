import { connect as connectTcp, isIP, type Socket, type TcpNetConnectOpts } from 'node:net';
import { type ConnectionOptions, connect as connectTls } from 'node:tls';
import { endpointOf } from '../address.ts';
import type { TransportOptions } from './client.ts';

/** Error codes of writes on a connection that the peer has closed or reset. */
const PEER_CLOSED: ReadonlySet<unknown> = new Set(['EPIPE', 'ECONNRESET']);

/**
 * Keeps a connected socket readable when a write fails. An upstream that responds before the end of the request and closes,
 * as many do after 401 or 413, resets the connection: the next write fails, and Node.js would destroy the socket together
 * with the response that was received and not yet read. Reading detects the closed connection after that data. `onFailed` is
 * called for every such write; the caller must stop writing.
 */
export function readPastFailedWrites(socket: Socket, onFailed: (error: Error) => void): void {
  const { _write, _writev } = socket;
  const ignoringPeerClosed = (done: (error?: Error | null) => void) => (error?: Error | null) => {
    if (!error || !('code' in error) || !PEER_CLOSED.has(error.code)) return done(error);
    onFailed(error);
    done();
  };
  const write: Socket['_write'] = (chunk, encoding, done) =>
    _write.call(socket, chunk, encoding, ignoringPeerClosed(done));
  const writev: Socket['_writev'] = (chunks, done) => _writev?.call(socket, chunks, ignoringPeerClosed(done));
  socket._write = write;
  if (_writev) socket._writev = writev;
}

/** Target of a socket. */
export interface SocketTarget {
  /** An http or https URL. */
  readonly url: URL;
  /** Latest TLS session, for resumption; updated by the socket. */
  tlsSession: Buffer | undefined;
  readonly tls?: TransportOptions['tls'];
}

type OnRead = TcpNetConnectOpts['onread'];

const TCP_KEEP_ALIVE_MS = 60_000;

/** Returns the event of a socket to an address that reports its connection. */
export function connectEvent({ protocol }: URL): 'connect' | 'secureConnect' {
  return protocol === 'https:' ? 'secureConnect' : 'connect';
}

/** Starts connecting. All input is passed to `onread`, if there is one, instead of `data` events. */
export function openSocket(target: SocketTarget, onread?: OnRead): Socket {
  const options = {
    ...endpointOf(target.url),
    noDelay: true,
    keepAlive: true,
    keepAliveInitialDelay: TCP_KEEP_ALIVE_MS,
    ...(onread && { onread }),
  };
  return target.url.protocol === 'https:' ? startTls(target, options) : connectTcp(options);
}

/** Starts TLS in a tunnel to the target. */
export function openTlsInTunnel(
  target: SocketTarget,
  tunnel: Socket,
  { buffer, callback }: NonNullable<OnRead>,
): Socket {
  const socket = startTls(target, { socket: tunnel });
  // Node.js supports no `onread` for a socket in another.
  const into = typeof buffer === 'function' ? buffer() : buffer;
  socket.on('data', (chunk: Buffer) => {
    let more = true;
    for (let at = 0; at < chunk.length; at += into.length) {
      const part = chunk.subarray(at, at + into.length);
      into.set(part);
      more = callback(part.length, into);
    }
    if (!more) socket.pause();
  });
  return socket;
}

/** The host of the URL is the server name (SNI) that the certificate is verified against. */
function startTls(target: SocketTarget, options: ConnectionOptions): Socket {
  const { host } = endpointOf(target.url);
  const tls: ConnectionOptions = {
    ...options,
    ...target.tls,
    host,
    ALPNProtocols: ['http/1.1'],
    servername: isIP(host) === 0 ? host : '',
  };
  if (target.tlsSession !== undefined) tls.session = target.tlsSession;
  const socket = connectTls(tls);
  socket.on('session', (session) => {
    target.tlsSession = session;
  });
  return socket;
}
