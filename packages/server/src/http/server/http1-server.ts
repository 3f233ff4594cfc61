import { Server, Socket } from 'node:net';
import { createServer as createTlsServer, type TlsOptions } from 'node:tls';
import { InputTurns } from '../input-turns.ts';
import { Connection, type ConnectionOwner, type ConnectionSettings } from './connection.ts';
import type { AdmittedRequest, ServerRequest } from './request.ts';
import { checkCredentialHeaders } from './request-parser.ts';
import { ResponseTurn, type ServerResponse } from './response.ts';
import { HeadEncoder } from './response-head.ts';

/** A server whose connections can be closed, like that of node:http. */
export interface HttpServer extends Server {
  /** Closes connections without a request. */
  closeIdleConnections(): void;
  closeAllConnections(): void;
  /** Ends the requests that are rejected, see {@link Connection.revoke}: at most one with each step. */
  revoke(isRejected: (request: AdmittedRequest) => boolean): Iterator<unknown, unknown, undefined>;
}

/** PEM texts, or a pre-shared key and its ciphers. */
export type ServerTls = Pick<
  TlsOptions,
  'cert' | 'key' | 'pskCallback' | 'ciphers' | 'minVersion' | 'maxVersion' | 'handshakeTimeout'
>;

/** Options of {@link createHttp1Server}. */
export interface Http1ServerOptions extends ConnectionSettings {
  /** Undefined for plain HTTP. */
  readonly tls: ServerTls | undefined;
  /** Interval of the checks for timeouts, in milliseconds. */
  readonly checkMs: number;
}

/**
 * Creates an HTTP/1.1 server on sockets. Compared with node:http it has no stream objects per request, parses a head that repeats
 * only once, and writes a response in one piece: that saves about 8 µs per request (bench/README.md, "Where the time goes").
 * Requests that are malformed are rejected without calling `serve`; it gets those that are ambiguous
 * ({@link RequestHead.ambiguity}), and must close their connection. Throws TypeError for names that cannot be credential headers.
 */
export function createHttp1Server(
  options: Http1ServerOptions,
  serve: (request: ServerRequest, response: ServerResponse) => void,
): HttpServer {
  const { tls, checkMs } = options;
  checkCredentialHeaders(options);
  const connections = new Set<Connection>();
  const owner: ConnectionOwner = {
    settings: options,
    heads: new HeadEncoder(options.keepAliveMs),
    turn: new ResponseTurn(),
    turns: new InputTurns(),
    serve,
    remove: (connection) => void connections.delete(connection),
  };
  const accept = (socket: Socket): void => {
    const connection = new Connection(socket, owner);
    connections.add(connection);
    if (socket instanceof ReadingSocket) socket.passTo(connection);
    else socket.on('data', (chunk: Buffer) => connection.receive(chunk, chunk.length));
  };
  // A client that ends its side gets a response to an incomplete request; with TLS, it may do so before the handshake has ended.
  const tcp = { allowHalfOpen: tls === undefined, noDelay: true };
  const server = tls
    ? createTlsServer({ ...tcp, ...tls, ALPNProtocols: ['http/1.1'] }, accept)
    : new ReadingServer(tcp, accept);
  /** Also those of which the TLS handshake has not ended. */
  const sockets = new Set<Socket>();
  server.on('connection', (socket: Socket) => {
    sockets.add(socket);
    socket.once('close', () => sockets.delete(socket));
  });
  server.on('tlsClientError', (_error: Error, socket: Socket) => socket.destroy());
  let checks: NodeJS.Timeout | undefined;
  server.on('listening', () => {
    checks = setInterval(() => {
      const now = performance.now();
      for (const connection of connections) connection.checkTimeout(now);
    }, checkMs).unref();
  });
  server.on('close', () => clearInterval(checks));
  return Object.assign(server, {
    closeIdleConnections: () => {
      for (const connection of connections) if (connection.isIdle) connection.destroy();
    },
    closeAllConnections: () => {
      for (const connection of connections) connection.destroy();
      for (const socket of sockets) socket.destroy();
    },
    *revoke(isRejected: (request: AdmittedRequest) => boolean) {
      for (const connection of connections) yield connection.revoke(isRejected);
    },
  });
}

/** Size of the buffer for reads: a body of 64 KiB is read at once. With half the size, it cost 10 % more. */
const READ_BYTES = 128 * 1024;

/** A socket that passes on what it reads in a buffer that is used again, without the streams of Node.js. */
class ReadingSocket extends Socket {
  /** Sets the connection that receives what is read. */
  passTo: (connection: Connection) => void = () => {};
}

/**
 * A TCP server whose sockets share one buffer for reads: it stays in the processor's cache, and nothing is allocated for a read.
 * What was read is parsed before anything else is read.
 */
class ReadingServer extends Server {
  readonly #buffer = Buffer.allocUnsafeSlow(READ_BYTES);

  override emit(event: string, ...values: unknown[]): boolean {
    const [value] = values;
    return event === 'connection' && value instanceof Socket
      ? super.emit(event, this.#reading(value))
      : super.emit(event, ...values);
  }

  /** Returns a socket for the same connection: Node.js has the option `onread` only for sockets that a program creates. */
  #reading(accepted: Socket): Socket {
    const buffer = this.#buffer;
    // Not a member of the socket, where it takes longer to find.
    let reader: Connection | undefined;
    const callback = (bytes: number): boolean => {
      reader?.receive(buffer, bytes);
      return true;
    };
    const handle = Reflect.get(accepted, '_handle');
    // Not part of the API of Node.js: without it, the socket is read through events.
    if (!handle) return accepted;
    Reflect.set(accepted, '_handle', null);
    const socket = new ReadingSocket({ handle, allowHalfOpen: true, onread: { buffer, callback } });
    const passTo = (connection: Connection) => {
      reader = connection;
    };
    socket.passTo = passTo;
    // The server counts the accepted one.
    socket.once('close', () => accepted.destroy());
    return socket;
  }
}
