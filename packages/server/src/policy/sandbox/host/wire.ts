import { readSync, writeSync } from 'node:fs';

const IN = 0;
const OUT = 1;
const HEAD_BYTES = 4;

/**
 * A child process's end of its two pipes. Everything waits: the process does one thing at a time, and no callback of
 * anybody can run in between. A frame is its length (32 bits, little endian) and its bytes. `Taken` and `Told` are the
 * messages of both directions.
 */
export class Wire<Taken, Told extends object> {
  readonly #head = Buffer.alloc(HEAD_BYTES);

  /** The next message; undefined when the service has gone. */
  message(): Taken | undefined {
    const frame = this.bytes();
    return frame && JSON.parse(frame.toString());
  }

  /** The next frame as it is. */
  bytes(): Buffer | undefined {
    if (!readWhole(this.#head)) return undefined;
    const frame = Buffer.allocUnsafe(this.#head.readUInt32LE());
    return readWhole(frame) ? frame : undefined;
  }

  send(message: Told): void {
    this.sendBytes(Buffer.from(JSON.stringify(message)));
  }

  sendBytes(bytes: Uint8Array): void {
    const frame = Buffer.allocUnsafe(HEAD_BYTES + bytes.length);
    frame.writeUInt32LE(bytes.length);
    frame.set(bytes, HEAD_BYTES);
    for (let sent = 0; sent < frame.length; ) sent += writeSync(OUT, frame, sent);
  }
}

function readWhole(into: Buffer): boolean {
  for (let read = 0; read < into.length; ) {
    const count = readSync(IN, into, read, into.length - read, null);
    if (count === 0) return false;
    read += count;
  }
  return true;
}
