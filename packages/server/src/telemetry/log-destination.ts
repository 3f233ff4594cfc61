import { closeSync, constants, fstatSync, openSync, write, writeSync } from 'node:fs';
import type { Writable } from 'node:stream';
import { isatty } from 'node:tty';

/** Where log lines are written, one piece at a time. */
export interface LogDestination {
  /**
   * Writes a piece without blocking the event loop. `done` is called later, when the piece is written, or with false when it is
   * lost because of an error (EPIPE, ENOSPC).
   */
  readonly write: (piece: Buffer, done: (written: boolean) => void) => void;
  /** Writes at the exit of the process, after which nothing else runs: as much as possible without waiting for a reader. */
  readonly writeNow: (bytes: Buffer) => void;
}

/**
 * Creates the destination of standard error. Writing to a file may wait for the disk, to a terminal for Ctrl-Q and to a pipe for
 * its reader, which must not block the service: Node.js would write to files and terminals synchronously.
 */
export function standardError(): LogDestination {
  const file = fstatSync(2);
  if (file.isFIFO() || file.isSocket()) return streamDestination(process.stderr);
  return (isatty(2) && terminalDestination()) || fileDestination(2);
}

/**
 * A stream of a pipe or socket, which Node.js writes asynchronously. `process.stderr` can be used after an error, unlike other
 * streams: a named pipe may get a new reader.
 */
function streamDestination(stream: Writable): LogDestination {
  stream.on('error', () => {});
  return {
    write: (piece, done) => void stream.write(piece, (error) => done(!error)),
    writeNow: (bytes) => void stream.write(bytes),
  };
}

/** A file, written in a thread of Node.js. */
function fileDestination(fd: number): LogDestination {
  const writeFrom = (piece: Buffer, from: number, done: (written: boolean) => void): void =>
    write(fd, piece, from, piece.length - from, null, (error, count) => {
      if (error) done(false);
      else if (from + count < piece.length) writeFrom(piece, from + count, done);
      else done(true);
    });
  return { write: (piece, done) => writeFrom(piece, 0, done), writeNow: (bytes) => writeAvailable(fd, bytes) };
}

/** Milliseconds until a terminal that has no room is tried again. */
const TERMINAL_RETRY_MS = 20;

/**
 * A terminal, opened again without blocking: while its output is stopped (Ctrl-S), a thread that writes would wait, and with it
 * the exit of the process. Undefined where it cannot be opened.
 */
function terminalDestination(): LogDestination | undefined {
  const fd = openAgain();
  if (fd === undefined) return undefined;
  const writeFrom = (piece: Buffer, from: number, done: (written: boolean) => void): void => {
    const count = tryWrite(fd, piece, from);
    if (count === undefined) setImmediate(done, false);
    else if (from + count === piece.length) setImmediate(done, true);
    else setTimeout(writeFrom, TERMINAL_RETRY_MS, piece, from + count, done);
  };
  return { write: (piece, done) => writeFrom(piece, 0, done), writeNow: (bytes) => writeAvailable(fd, bytes) };
}

function openAgain(): number | undefined {
  for (const path of ['/proc/self/fd/2', '/dev/tty']) {
    try {
      const fd = openSync(path, constants.O_WRONLY | constants.O_NONBLOCK | constants.O_NOCTTY);
      if (isatty(fd)) return fd;
      closeSync(fd);
    } catch {
      // Not on this system, or no terminal of this process.
    }
  }
  return undefined;
}

function writeAvailable(fd: number, bytes: Buffer): void {
  let from = 0;
  for (let count: number | undefined = 1; count && from < bytes.length; from += count ?? 0) {
    count = tryWrite(fd, bytes, from);
  }
}

/** Number of written bytes, 0 while there is no room; undefined after an error. */
function tryWrite(fd: number, bytes: Buffer, from: number): number | undefined {
  try {
    return writeSync(fd, bytes, from);
  } catch (error) {
    return error instanceof Error && 'code' in error && error.code === 'EAGAIN' ? 0 : undefined;
  }
}
