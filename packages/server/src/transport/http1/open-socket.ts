import { connect as connectTcp, isIP, type Socket, type TcpNetConnectOpts } from 'node:net';
import { type ConnectionOptions, connect as connectTls } from 'node:tls';

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
