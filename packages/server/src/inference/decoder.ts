import type { Transform } from 'node:stream';
import { codingsOf, createDecompressor, unsupportedCodings } from '../http/client/content-coding.ts';
import type { MemoryBudget } from './bounded-memory.ts';

/** Receives a body in chunks. */
export interface BodySink {
  /** Next chunk, valid only until the call returns. Returns false if no more is needed. */
  write(chunk: Buffer): boolean;
  /** Called when no more arrives, whether or not the body is complete. `isTruncated`: the rest was too large to decode. */
  end(isTruncated?: boolean): void;
}

/** Limits of the decoding of one body, in bytes. */
export interface DecodingLimits {
  /** Input that waits for a decompressor, which does not delay the exchange. Reserved from the budget. */
  readonly maxPending: number;
  /** Input, and output: both cost time, even one without the other. */
  readonly maxTotal: number;
  readonly budget: MemoryBudget;
}

/**
 * Creates the decoder for a `Content-Encoding`: gzip, deflate, br, zstd or none, or several of them; undefined for an unknown
 * coding. Decompression runs in the thread pool of Node.js and stops when the sink has enough. Corrupt data ends the body;
 * data decoded before it is used.
 */
export function createDecoder(
  encoding: string | undefined,
  sink: BodySink,
  limits: DecodingLimits,
): BodySink | undefined {
  const codings = codingsOf(encoding);
  if (codings === undefined) return new ChunkCombiner(sink, true);
  if (unsupportedCodings(codings)) return undefined;
  const decode = (next: BodySink, coding: string) => new CompressedBodyDecoder(coding, next, limits);
  return new ChunkCombiner(codings.reduceRight(decode, sink), false);
}

/** Chunks of this size or more are passed on as they are. */
const LARGE_CHUNK_BYTES = 1024;
const COMBINED_BYTES = 4096;

/**
 * Combines small chunks, such as the events of a completion, about twenty at a time. Measured with 500 streams: decoding
 * each chunk by itself costs five times as much, because of cache misses; and single bytes that wait for a decompressor
 * take a thousand times their size.
 */
class ChunkCombiner implements BodySink {
  readonly #sink: BodySink;
  readonly #isReusable: boolean;
  #needsMore = true;
  #buffer: Buffer | undefined = undefined;
  #bytes = 0;

  /** `isReusable`: the sink has consumed a chunk when `write` returns. */
  constructor(sink: BodySink, isReusable: boolean) {
    this.#sink = sink;
    this.#isReusable = isReusable;
  }

  write(chunk: Buffer): boolean {
    if (this.#bytes + chunk.length > COMBINED_BYTES || chunk.length >= LARGE_CHUNK_BYTES) this.#flush();
    if (chunk.length >= LARGE_CHUNK_BYTES) this.#pass(chunk);
    else {
      this.#buffer ??= Buffer.allocUnsafeSlow(COMBINED_BYTES);
      this.#bytes += chunk.copy(this.#buffer, this.#bytes);
    }
    return this.#needsMore;
  }

  end(): void {
    this.#flush();
    this.#buffer = undefined;
    this.#sink.end();
  }

  #flush(): void {
    const bytes = this.#bytes;
    const buffer = this.#buffer;
    if (!buffer || bytes === 0) return;
    this.#bytes = 0;
    if (!this.#isReusable) this.#buffer = undefined;
    this.#pass(buffer.subarray(0, bytes));
  }

  #pass(chunk: Buffer): void {
    if (this.#needsMore) this.#needsMore = this.#sink.write(chunk);
  }
}

class CompressedBodyDecoder implements BodySink {
  readonly #coding: string;
  readonly #sink: BodySink;
  readonly #limits: DecodingLimits;
  #inputBytes = 0;
  #outputBytes = 0;
  /** A limit was exceeded. */
  #isTruncated = false;
  /** Bytes that are written and not decoded. */
  #pendingBytes = 0;
  #stream: Transform | undefined = undefined;
  #hasEnded = false;

  constructor(coding: string, sink: BodySink, limits: DecodingLimits) {
    this.#coding = coding;
    this.#sink = sink;
    this.#limits = limits;
  }

  write(chunk: Buffer): boolean {
    if (chunk.length === 0 || this.#hasEnded || this.#stream?.destroyed || this.#isTruncated) return true;
    const { length } = chunk;
    const { maxPending, maxTotal, budget } = this.#limits;
    this.#inputBytes += length;
    if (this.#inputBytes > maxTotal || this.#pendingBytes + length > maxPending || !budget.reserve(length)) {
      this.#isTruncated = true;
      return true;
    }
    this.#pendingBytes += length;
    this.#stream ??= this.#open(createDecompressor(this.#coding, chunk[0] ?? 0));
    this.#stream.write(chunk, () => this.#releasePending(length));
    return true;
  }

  end(isTruncated = false): void {
    if (this.#hasEnded) return;
    this.#hasEnded = true;
    this.#isTruncated ||= isTruncated;
    const stream = this.#stream;
    if (stream === undefined || stream.closed) this.#sink.end(this.#isTruncated);
    else if (!stream.destroyed) stream.end();
  }

  #releasePending(length: number): void {
    // A closed stream may report a chunk again that was released when it closed.
    const bytes = Math.min(length, this.#pendingBytes);
    this.#pendingBytes -= bytes;
    this.#limits.budget.release(bytes);
  }

  #open(stream: Transform): Transform {
    stream.on('data', (chunk: Buffer) => {
      this.#outputBytes += chunk.length;
      const isTooLarge = this.#outputBytes > this.#limits.maxTotal;
      this.#isTruncated ||= isTooLarge;
      if (isTooLarge || !this.#sink.write(chunk)) stream.destroy();
    });
    // Data decoded before the error is used.
    stream.on('error', () => {});
    stream.on('close', () => {
      this.#releasePending(this.#pendingBytes);
      if (this.#hasEnded) this.#sink.end(this.#isTruncated);
    });
    return stream;
  }
}
