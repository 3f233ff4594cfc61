import type { Transform } from 'node:stream';
import {
  constants,
  createBrotliDecompress,
  createGunzip,
  createInflate,
  createInflateRaw,
  createZstdDecompress,
} from 'node:zlib';
import type { MemoryBudget } from './recorder.ts';

/** Gets what a body is, decoded. */
export interface DecodedSink {
  /** The next piece, which is there only until this returns. False: no more is wanted. */
  onDecoded(piece: Buffer): boolean;
  /** Nothing more comes; called once. `cut`: there would have been more, but it was too much to decode. */
  onDecodedEnd(cut: boolean): void;
}

/** Takes a body as it is sent. */
export interface BodyDecoder {
  write(chunk: Buffer): void;
  /** Nothing more comes, whether or not that is all. */
  end(): void;
}

/**
 * The decoder for a body with this `Content-Encoding`: gzip, deflate, br or zstd, or none (decisions 4.8); undefined for
 * what nobody here can read. Decompressing is done in the threads of Node.js' pool, and stops when the sink has enough:
 * so a small body that would become a large one costs no more than one that is large. What cannot be decoded further
 * ends there; what came before was given.
 *
 * A decompressor is given `mostBytes` at most: those that make no output cost too. What waits in it is taken from the
 * budget, and given back when it has been decoded.
 */
export function decoderFor(
  encoding: string | undefined,
  sink: DecodedSink,
  mostBytes: number,
  budget: MemoryBudget,
): BodyDecoder | undefined {
  const coding = (encoding ?? '').trim().toLowerCase();
  if (coding === '' || coding === 'identity') return new GatheredBody(new PlainBody(sink), true);
  const decompressor = DECOMPRESSORS.get(coding);
  return decompressor && new GatheredBody(new CompressedBody(decompressor, sink, mostBytes, budget), false);
}

const DECOMPRESSORS: ReadonlyMap<string, (first: number) => Transform> = new Map<string, (first: number) => Transform>([
  ['gzip', () => createGunzip()],
  ['x-gzip', () => createGunzip()],
  // Some senders leave out the wrapping that `deflate` should have (RFC 9110 8.4.1.2); with it, it begins with an 8.
  ['deflate', (first) => ((first & 0x0f) === 8 ? createInflate() : createInflateRaw())],
  ['br', () => createBrotliDecompress()],
  // The window of 8 MiB that RFC 9659 allows on the web.
  ['zstd', () => createZstdDecompress({ params: { [constants.ZSTD_d_windowLogMax]: 23 } })],
]);

/** Pieces from this size on are not gathered. */
const LARGE_PIECE = 1024;
const GATHERED_BYTES = 4096;

/**
 * Small pieces, as the events of a completion are, are gathered and passed on some twenty at a time: measured with 500
 * streams, reading each by itself costs five times as much as what it does, since between two of them the processor has
 * forgotten how; and what waits for a decompressor in pieces of a byte takes a thousand times its size.
 */
class GatheredBody implements BodyDecoder {
  readonly #body: BodyDecoder;
  readonly #reuses: boolean;
  #gathered: Buffer | undefined = undefined;
  #bytes = 0;

  /** `reuses`: the body has used what it is given when it returns. */
  constructor(body: BodyDecoder, reuses: boolean) {
    this.#body = body;
    this.#reuses = reuses;
  }

  write(chunk: Buffer): void {
    if (this.#bytes + chunk.length > GATHERED_BYTES || chunk.length >= LARGE_PIECE) this.#pass();
    if (chunk.length >= LARGE_PIECE) return this.#body.write(chunk);
    this.#gathered ??= Buffer.allocUnsafeSlow(GATHERED_BYTES);
    this.#bytes += chunk.copy(this.#gathered, this.#bytes);
  }

  end(): void {
    this.#pass();
    this.#gathered = undefined;
    this.#body.end();
  }

  #pass(): void {
    const bytes = this.#bytes;
    const gathered = this.#gathered;
    if (!gathered || bytes === 0) return;
    this.#bytes = 0;
    if (!this.#reuses) this.#gathered = undefined;
    this.#body.write(gathered.subarray(0, bytes));
  }
}

class PlainBody implements BodyDecoder {
  readonly #sink: DecodedSink;
  #wanted = true;

  constructor(sink: DecodedSink) {
    this.#sink = sink;
  }

  write(chunk: Buffer): void {
    if (this.#wanted) this.#wanted = this.#sink.onDecoded(chunk);
  }

  end(): void {
    this.#sink.onDecodedEnd(false);
  }
}

class CompressedBody implements BodyDecoder {
  readonly #make: (first: number) => Transform;
  readonly #sink: DecodedSink;
  readonly #budget: MemoryBudget;
  #room: number;
  /** Bytes that are not decoded yet. */
  #waiting = 0;
  #stream: Transform | undefined = undefined;
  #ended = false;

  constructor(make: (first: number) => Transform, sink: DecodedSink, mostBytes: number, budget: MemoryBudget) {
    this.#make = make;
    this.#sink = sink;
    this.#budget = budget;
    this.#room = mostBytes;
  }

  write(chunk: Buffer): void {
    if (chunk.length === 0 || this.#ended) return;
    if (this.#stream?.destroyed || this.#room < 0) return;
    const { length } = chunk;
    if (length > this.#room || !this.#budget.take(length)) {
      this.#room = -1;
      return;
    }
    this.#room -= length;
    this.#waiting += length;
    this.#stream ??= this.#open(this.#make(chunk[0] ?? 0));
    this.#stream.write(chunk, () => this.#decoded(length));
  }

  #decoded(length: number): void {
    // Nothing waits any more in what was closed, which may say so of a piece after that.
    const bytes = Math.min(length, this.#waiting);
    this.#waiting -= bytes;
    this.#budget.give(bytes);
  }

  end(): void {
    if (this.#ended) return;
    this.#ended = true;
    const stream = this.#stream;
    if (stream === undefined || stream.closed) this.#sink.onDecodedEnd(this.#room < 0);
    else if (!stream.destroyed) stream.end();
  }

  #open(stream: Transform): Transform {
    stream.on('data', (piece: Buffer) => {
      if (!this.#sink.onDecoded(piece)) stream.destroy();
    });
    // What came before it counts.
    stream.on('error', () => {});
    stream.on('close', () => {
      this.#decoded(this.#waiting);
      if (this.#ended) this.#sink.onDecodedEnd(this.#room < 0);
    });
    return stream;
  }
}
