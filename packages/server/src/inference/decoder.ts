import type { Transform } from 'node:stream';
import {
  constants,
  createBrotliDecompress,
  createGunzip,
  createInflate,
  createInflateRaw,
  createZstdDecompress,
} from 'node:zlib';
import type { MemoryBudget } from './bounded-memory.ts';

/** Receives a decoded body. */
export interface DecodedSink {
  /** Next chunk, valid only until the call returns. Returns false if no more is needed. */
  onDecoded(chunk: Buffer): boolean;
  /** Last call. `isTruncated`: the rest was too large to decode. */
  onDecodedEnd(isTruncated: boolean): void;
}

/** Decodes a body as it arrives. */
export interface BodyDecoder {
  write(chunk: Buffer): void;
  /** Called when no more arrives, whether or not the body is complete. */
  end(): void;
}

type CreateDecompressor = (firstByte: number) => Transform;

const DECOMPRESSORS: ReadonlyMap<string, CreateDecompressor> = new Map<string, CreateDecompressor>([
  ['gzip', () => createGunzip()],
  ['x-gzip', () => createGunzip()],
  // Some senders omit the zlib wrapper of `deflate` (RFC 9110, section 8.4.1.2), whose first byte ends with 8.
  ['deflate', (firstByte) => ((firstByte & 0x0f) === 8 ? createInflate() : createInflateRaw())],
  ['br', () => createBrotliDecompress()],
  // The window of 8 MiB that RFC 9659 allows.
  ['zstd', () => createZstdDecompress({ params: { [constants.ZSTD_d_windowLogMax]: 23 } })],
]);

/**
 * Creates the decoder for a `Content-Encoding`: gzip, deflate, br, zstd or none (decisions 4.8); undefined for an unknown
 * coding. Decompression runs in the thread pool of Node.js and stops when the sink has enough, so that a small body that
 * expands to a large one costs no more than a large body. Corrupt data ends the body; data decoded before it is used.
 *
 * A decompressor receives at most `maxBytes`: input without output costs time, too. Its pending input is reserved from
 * the budget.
 */
export function createDecoder(
  encoding: string | undefined,
  sink: DecodedSink,
  maxBytes: number,
  budget: MemoryBudget,
): BodyDecoder | undefined {
  const coding = (encoding ?? '').trim().toLowerCase();
  if (coding === '' || coding === 'identity') return new ChunkCombiner(new IdentityDecoder(sink), true);
  const createDecompressor = DECOMPRESSORS.get(coding);
  return (
    createDecompressor &&
    new ChunkCombiner(new CompressedBodyDecoder(createDecompressor, sink, maxBytes, budget), false)
  );
}

/** Chunks of this size or more are passed on as they are. */
const LARGE_CHUNK_BYTES = 1024;
const COMBINED_BYTES = 4096;

/**
 * Combines small chunks, such as the events of a completion, about twenty at a time. Measured with 500 streams: decoding
 * each chunk by itself costs five times as much, because of cache misses; and single bytes that wait for a decompressor
 * take a thousand times their size.
 */
class ChunkCombiner implements BodyDecoder {
  readonly #decoder: BodyDecoder;
  readonly #isReusable: boolean;
  #buffer: Buffer | undefined = undefined;
  #bytes = 0;

  /** `isReusable`: the decoder has consumed a chunk when `write` returns. */
  constructor(decoder: BodyDecoder, isReusable: boolean) {
    this.#decoder = decoder;
    this.#isReusable = isReusable;
  }

  write(chunk: Buffer): void {
    if (this.#bytes + chunk.length > COMBINED_BYTES || chunk.length >= LARGE_CHUNK_BYTES) this.#flush();
    if (chunk.length >= LARGE_CHUNK_BYTES) return this.#decoder.write(chunk);
    this.#buffer ??= Buffer.allocUnsafeSlow(COMBINED_BYTES);
    this.#bytes += chunk.copy(this.#buffer, this.#bytes);
  }

  end(): void {
    this.#flush();
    this.#buffer = undefined;
    this.#decoder.end();
  }

  #flush(): void {
    const bytes = this.#bytes;
    const buffer = this.#buffer;
    if (!buffer || bytes === 0) return;
    this.#bytes = 0;
    if (!this.#isReusable) this.#buffer = undefined;
    this.#decoder.write(buffer.subarray(0, bytes));
  }
}

class IdentityDecoder implements BodyDecoder {
  readonly #sink: DecodedSink;
  #needsMore = true;

  constructor(sink: DecodedSink) {
    this.#sink = sink;
  }

  write(chunk: Buffer): void {
    if (this.#needsMore) this.#needsMore = this.#sink.onDecoded(chunk);
  }

  end(): void {
    this.#sink.onDecodedEnd(false);
  }
}

class CompressedBodyDecoder implements BodyDecoder {
  readonly #createDecompressor: CreateDecompressor;
  readonly #sink: DecodedSink;
  readonly #budget: MemoryBudget;
  /** Bytes that may still be written; -1 after the limit or the budget was exceeded. */
  #availableBytes: number;
  /** Bytes that are written and not decoded. */
  #pendingBytes = 0;
  #stream: Transform | undefined = undefined;
  #hasEnded = false;

  constructor(createDecompressor: CreateDecompressor, sink: DecodedSink, maxBytes: number, budget: MemoryBudget) {
    this.#createDecompressor = createDecompressor;
    this.#sink = sink;
    this.#budget = budget;
    this.#availableBytes = maxBytes;
  }

  write(chunk: Buffer): void {
    if (chunk.length === 0 || this.#hasEnded) return;
    if (this.#stream?.destroyed || this.#availableBytes < 0) return;
    const { length } = chunk;
    if (length > this.#availableBytes || !this.#budget.reserve(length)) {
      this.#availableBytes = -1;
      return;
    }
    this.#availableBytes -= length;
    this.#pendingBytes += length;
    this.#stream ??= this.#open(this.#createDecompressor(chunk[0] ?? 0));
    this.#stream.write(chunk, () => this.#releasePending(length));
  }

  end(): void {
    if (this.#hasEnded) return;
    this.#hasEnded = true;
    const stream = this.#stream;
    if (stream === undefined || stream.closed) this.#sink.onDecodedEnd(this.#availableBytes < 0);
    else if (!stream.destroyed) stream.end();
  }

  #releasePending(length: number): void {
    // A closed stream may report a chunk again that was released when it closed.
    const bytes = Math.min(length, this.#pendingBytes);
    this.#pendingBytes -= bytes;
    this.#budget.release(bytes);
  }

  #open(stream: Transform): Transform {
    stream.on('data', (chunk: Buffer) => {
      if (!this.#sink.onDecoded(chunk)) stream.destroy();
    });
    // Data decoded before the error is used.
    stream.on('error', () => {});
    stream.on('close', () => {
      this.#releasePending(this.#pendingBytes);
      if (this.#hasEnded) this.#sink.onDecodedEnd(this.#availableBytes < 0);
    });
    return stream;
  }
}
