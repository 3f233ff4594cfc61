import { readSync, writeSync } from 'node:fs';

const STDIN = 0;
const STDOUT = 1;
/** Length of the header of a frame. */
export const HEADER_BYTES = 4;

/** Encodes a frame: the length of the payload (32 bits, little endian), then the payload. */
export function encodeFrame(payload: Uint8Array): Buffer {
  const frame = Buffer.allocUnsafe(HEADER_BYTES + payload.length);
  frame.writeUInt32LE(payload.length);
  frame.set(payload, HEADER_BYTES);
  return frame;
}

/**
 * Synchronous end of the pipes to the service, in a child process: operations are sequential, and no callback can run
 * between them. `Incoming` and `Outgoing` are the message types of the two directions.
 */
export class ParentPipe<Incoming, Outgoing extends object> {
  readonly #header = Buffer.alloc(HEADER_BYTES);

  /** Reads the next message; undefined at the end of the pipe. */
  receive(): Incoming | undefined {
    const payload = this.receiveBytes();
    return payload && JSON.parse(payload.toString());
  }

  /** Reads the payload of the next frame; undefined at the end of the pipe. */
  receiveBytes(): Buffer | undefined {
    if (!fill(this.#header)) return undefined;
    const payload = Buffer.allocUnsafe(this.#header.readUInt32LE());
    return fill(payload) ? payload : undefined;
  }

  send(message: Outgoing): void {
    this.sendBytes(Buffer.from(JSON.stringify(message)));
  }

  sendBytes(payload: Uint8Array): void {
    const frame = encodeFrame(payload);
    for (let offset = 0; offset < frame.length; ) offset += writeSync(STDOUT, frame, offset);
  }
}

/** Reads until the buffer is full; false at the end of the pipe. */
function fill(buffer: Buffer): boolean {
  for (let offset = 0; offset < buffer.length; ) {
    const count = readSync(STDIN, buffer, offset, buffer.length - offset, null);
    if (count === 0) return false;
    offset += count;
  }
  return true;
}
