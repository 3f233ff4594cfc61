import type { Socket } from 'node:net';

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
