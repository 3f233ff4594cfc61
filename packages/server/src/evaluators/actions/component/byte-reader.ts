import { ComponentRefusal } from './refusal.ts';

/**
 * Reads WebAssembly's binary encoding between two positions and never outside them. Whatever does not fit throws a
 * `ComponentRefusal`; every read moves on, so a walk takes time linear in the bytes.
 */
export class ByteReader {
  readonly bytes: Uint8Array;
  readonly end: number;
  at: number;
  readonly #whole: boolean;

  constructor(bytes: Uint8Array, at = 0, end = bytes.length) {
    this.bytes = bytes;
    this.at = at;
    this.end = end;
    this.#whole = at === 0 && end === bytes.length;
  }

  get done(): boolean {
    return this.at >= this.end;
  }

  byte(): number {
    const byte = this.at < this.end ? this.bytes[this.at] : undefined;
    if (byte === undefined) throw this.#short(1);
    this.at += 1;
    return byte;
  }

  /** An unsigned LEB128 of 32 bits. */
  u32(): number {
    let value = 0;
    for (let shift = 0; shift < 35; shift += 7) {
      const byte = this.byte();
      if (shift === 28 && byte > 0x0f) break;
      value += (byte & 0x7f) * 2 ** shift;
      if (byte < 0x80) return value;
    }
    throw this.malformed('has a number of more than 32 bits');
  }

  /** Passes over a signed LEB128 of at most 33 bits and returns it. */
  s33(): number {
    let value = 0;
    for (let shift = 0; shift < 35; shift += 7) {
      const byte = this.byte();
      value += (byte & 0x7f) * 2 ** shift;
      if (byte < 0x80) return byte & 0x40 ? value - 2 ** (shift + 7) : value;
    }
    throw this.malformed('has a number of more than 33 bits');
  }

  /** A reader of the next `length` bytes, which this one passes over. */
  part(length: number): ByteReader {
    const missing = length - (this.end - this.at);
    if (missing > 0) throw this.#short(missing);
    const start = this.at;
    this.at += length;
    return new ByteReader(this.bytes, start, this.at);
  }

  /** All bytes that are left. */
  rest(): Uint8Array {
    return this.bytes.subarray(this.at, this.end);
  }

  /** The bytes of a name: a length and that many bytes. */
  nameBytes(): Uint8Array {
    const part = this.part(this.u32());
    return this.bytes.subarray(part.at, part.end);
  }

  /** Calls `item` as often as the number that comes next says. */
  vector(item: () => void): void {
    const count = this.u32();
    // Every item takes a byte at least: a count beyond that is refused before anything is done so often.
    if (count > this.end - this.at) throw this.malformed('ends too early');
    for (let index = 0; index < count; index += 1) item();
  }

  /** Throws unless everything was read. */
  finish(): void {
    if (!this.done) throw this.malformed('has bytes that belong to nothing');
  }

  malformed(what: string): ComponentRefusal {
    return new ComponentRefusal(`not a valid component: at byte ${this.at} it ${what}; build the action anew`);
  }

  /** The whole of a file that ends before what is in it was cut off; a part of it that does is wrong. */
  #short(missing: number): ComponentRefusal {
    if (!this.#whole) return this.malformed('ends too early');
    const bytes = missing === 1 ? 'byte is' : 'bytes are';
    return new ComponentRefusal(
      `not a whole component: it is cut off after ${this.end} bytes, at least ${missing} ${bytes} missing; copy it or build it anew`,
    );
  }
}
