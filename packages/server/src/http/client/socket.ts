import { connect as connectTcp, isIP, type Socket, type TcpNetConnectOpts } from 'node:net';
import { type ConnectionOptions, connect as connectTls } from 'node:tls';

/** How writing fails once the other side has closed or reset the connection. */
const GONE: ReadonlySet<unknown> = new Set(['EPIPE', 'ECONNRESET']);

/**
 * Lets a connected socket be read to its end when writing to it fails. An upstream that answers before it has the whole
 * request and closes, as many do after a 401 or 413, resets the connection: the next write fails, and Node.js destroys
 * a socket for that, with the answer that has arrived and was not read yet. Reading finds out as well that the
 * connection is gone, behind all that came before. `onFailed` is told of every such write, and to write no more.
 */
export function readPastFailedWrites(socket: Socket, onFailed: (error: Error) => void): void {
  const { _write, _writev } = socket;
  const unlessGone = (done: (error?: Error | null) => void) => (error?: Error | null) => {
    if (!error || !('code' in error) || !GONE.has(error.code)) return done(error);
    onFailed(error);
    done();
  };
  socket._write = (piece, encoding, done) => _write.call(socket, piece, encoding, unlessGone(done));
  if (_writev) socket._writev = (pieces, done) => _writev.call(socket, pieces, unlessGone(done));
}

/** Where a socket is to lead. */
export interface SocketTarget {
  /** An http or https URL. */
  readonly url: URL;
  /** The TLS session to take up again, which saves most of a handshake; the newest is put here. */
  tlsSession: Buffer | undefined;
}

const TCP_KEEP_ALIVE_MS = 60_000;

/**
 * Begins to connect. With TLS the server is named by the URL's host (SNI) and its certificate checked against that. What
 * is read goes to `onread` alone.
 */
export function openSocket(target: SocketTarget, onread: TcpNetConnectOpts['onread']): Socket {
  const { hostname, protocol, port } = target.url;
  const secure = protocol === 'https:';
  const host = hostname.startsWith('[') ? hostname.slice(1, -1) : hostname;
  const options = {
    host,
    port: port === '' ? (secure ? 443 : 80) : Number(port),
    noDelay: true,
    keepAlive: true,
    keepAliveInitialDelay: TCP_KEEP_ALIVE_MS,
    onread,
  };
  if (!secure) return connectTcp(options);
  const tls: ConnectionOptions = { ...options, ALPNProtocols: ['http/1.1'], servername: isIP(host) === 0 ? host : '' };
  if (target.tlsSession !== undefined) tls.session = target.tlsSession;
  const socket = connectTls(tls);
  socket.on('session', (session) => {
    target.tlsSession = session;
  });
  return socket;
}
