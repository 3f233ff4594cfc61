import { closeSync, openSync, readSync } from 'node:fs';
import type { Steps } from '../steps.ts';

/** Returns the bytes from `start` to `end`, valid until the next call. */
type ReadBytes = (start: number, end: number) => Buffer;

/**
 * Bytes that are read a part at a time. A stored file may be three times as large as the registry in it: as a whole it would
 * be the largest part of the memory that the service ever needs.
 */
export class ByteRange {
  readonly length: number;
  readonly #read: ReadBytes;
  readonly #start: number;

  private constructor(read: ReadBytes, start: number, length: number) {
    this.#read = read;
    this.#start = start;
    this.length = length;
  }

  /** Bytes in memory. */
  static of(bytes: Buffer): ByteRange {
    return new ByteRange((start, end) => bytes.subarray(start, end), 0, bytes.length);
  }

  /** A file of so many bytes, which must not change. Reading throws the system error. */
  static ofFile(path: string, length: number): ByteRange {
    // Both are reused: the memory of thousands of buffers would be released only by the next garbage collection.
    const block = Buffer.allocUnsafeSlow(Math.min(length, BLOCK_BYTES));
    const part = Buffer.allocUnsafeSlow(Math.min(length, BLOCK_BYTES));
    let blockStart = -1;
    const read: ReadBytes = (start, end) => {
      const from = start - (start % BLOCK_BYTES);
      if (end > from + BLOCK_BYTES) {
        const bytes = end - start <= BLOCK_BYTES ? part : Buffer.allocUnsafeSlow(end - start);
        return readFile(path, bytes.subarray(0, end - start), start);
      }
      if (from !== blockStart) {
        blockStart = -1;
        readFile(path, block.subarray(0, Math.min(length - from, BLOCK_BYTES)), from);
        blockStart = from;
      }
      return block.subarray(start - from, end - from);
    };
    return new ByteRange(read, 0, length);
  }

  /** The bytes from `start` to `end`, valid until the next call. */
  read(start = 0, end: number = this.length): Buffer {
    return this.#read(this.#start + start, this.#start + end);
  }

  /** The bytes from `start` to `end`, to be read later. */
  subrange(start: number, end: number): ByteRange {
    return new ByteRange(this.#read, this.#start + start, end - start);
  }

  /** Returns the position of a byte; -1 if it does not occur from `start` on. */
  *indexOf(byte: number, start: number): Steps<number> {
    let end: number;
    for (let at = start; at < this.length; at = end) {
      const rest = (this.#start + at) % BLOCK_BYTES;
      end = Math.min(this.length, at + BLOCK_BYTES - rest);
      const found = this.read(at, end).indexOf(byte);
      if (found !== -1) return at + found;
      yield;
    }
    return -1;
  }

  toString(start = 0, end: number = this.length): string {
    return this.read(start, end).toString();
  }
}

/** A file is read in blocks of this size, of which the last one is cached: most parts are small and follow each other. */
const BLOCK_BYTES = 256 * 1024;

/** Fills `bytes`. Opens the file each time: nothing has to be closed when its reader stops early. */
function readFile(path: string, bytes: Buffer, start: number): Buffer {
  const file = openSync(path, 'r');
  try {
    let done = 0;
    while (done < bytes.length) {
      const count = readSync(file, bytes, done, bytes.length - done, start + done);
      if (count === 0) throw new Error(`${path} became shorter while it was read`);
      done += count;
    }
  } finally {
    closeSync(file);
  }
  return bytes;
}
