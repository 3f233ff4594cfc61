import type { Socket } from 'node:net';
import { type ChannelCredentials, credentials } from '@grpc/grpc-js';

/** How long a service may take for its first frame once it has accepted a connection, in milliseconds. */
const FIRST_FRAME_MS = 10_000;

/** The least that a frame of HTTP/2 has. With less, the other side has said nothing; what is no frame ends a connection. */
const FRAME_BYTES = 9;

/**
 * For plaintext channels whose connections are cut when the other side accepts them and then says no word of HTTP/2: a balancer
 * without a service behind it, a process that hangs. The library would wait for such a connection for as long as it is
 * open, and every call of the channel with it, also when the service is long well again.
 */
export function plaintext(firstFrameMs = FIRST_FRAME_MS): ChannelCredentials {
  const plain = credentials.createInsecure();
  // The one place where the library shows a connection before it speaks HTTP/2.
  const connectorOf = plain._createSecureConnector.bind(plain);
  plain._createSecureConnector = (...given) => {
    const connector = connectorOf(...given);
    return {
      ...connector,
      connect(socket) {
        cutUnlessHeardOf(socket, firstFrameMs);
        return connector.connect(socket);
      },
    };
  };
  return plain;
}

function cutUnlessHeardOf(socket: Socket, withinMs: number): void {
  const timer = setTimeout(() => {
    if (socket.bytesRead < FRAME_BYTES) socket.destroy(new Error(`it accepted the connection and said nothing`));
  }, withinMs).unref();
  socket.once('close', () => clearTimeout(timer));
}
