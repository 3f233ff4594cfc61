/** Content codings (RFC 9110 8.4) that responses are decoded from. */

import type { Transform } from 'node:stream';
import {
  brotliDecompressSync,
  constants,
  createBrotliDecompress,
  createGunzip,
  createInflate,
  createInflateRaw,
  createZstdDecompress,
  gunzipSync,
  inflateRawSync,
  inflateSync,
  zstdDecompressSync,
} from 'node:zlib';
import { singleLine } from '@sluice/protocol/text';

/** More codings of one body are an attack: each may multiply its size by a thousand. */
const MAX_CODINGS = 4;
/** Longest name of a coding in a message. */
const MAX_NAME_LENGTH = 64;

/**
 * Returns the codings that the values of `Content-Encoding` name, in the order in which they are removed, that is, the last one
 * applied first; in lower case and without `identity`. Undefined if there are none.
 */
export function codingsOf(value: string | readonly string[] | undefined): readonly string[] | undefined {
  if (value === undefined || value === 'identity') return undefined;
  const names = String(value)
    .split(',')
    .map((name) => name.trim().toLowerCase())
    .filter((name) => name !== '' && name !== 'identity');
  return names.length > 0 ? names.reverse() : undefined;
}

/** Returns why a body with these codings cannot be decoded; undefined if it can be. */
export function unsupportedCodings(codings: readonly string[]): CodingError | undefined {
  const unknown = codings.find((coding) => !FORMATS.has(coding));
  if (unknown !== undefined) {
    return new CodingError(`a body with the unknown content coding "${singleLine(unknown, MAX_NAME_LENGTH)}"`);
  }
  if (codings.length <= MAX_CODINGS) return undefined;
  return new CodingError(
    `a body with more than ${MAX_CODINGS} content codings (${codings.slice(0, MAX_CODINGS).join(', ')}, …)`,
  );
}

/** How bodies in one format are decoded. */
interface Format {
  /** Creates a stream that outputs at once what its input contains. */
  readonly stream: () => Transform;
  readonly atOnce: (bytes: Buffer, limits: { readonly maxOutputLength: number }) => Buffer;
}

const FLUSH = { flush: constants.Z_SYNC_FLUSH };
/** The largest window of `zstd` as a content coding: 8 MB (RFC 9659). A frame could require 128 MB of memory. */
const ZSTD = { params: { [constants.ZSTD_d_windowLogMax]: 23 } };

const gzip: Format = { stream: () => createGunzip(FLUSH), atOnce: gunzipSync };
const zlib: Format = { stream: () => createInflate(FLUSH), atOnce: inflateSync };
const rawDeflate: Format = { stream: () => createInflateRaw(FLUSH), atOnce: inflateRawSync };
const brotli: Format = { stream: () => createBrotliDecompress(), atOnce: brotliDecompressSync };
const zstd: Format = {
  stream: () => createZstdDecompress(ZSTD),
  atOnce: (bytes, limits) => zstdDecompressSync(bytes, { ...limits, ...ZSTD }),
};

/** Formats by coding and first byte of the body. */
const FORMATS: ReadonlyMap<string, (first: number) => Format> = new Map([
  ['gzip', () => gzip],
  ['x-gzip', () => gzip],
  // Some servers send deflate without the header of zlib, which names the method 8. Raw deflate would begin with a stored block
  // whose padding is not zero.
  ['deflate', (first: number) => ((first & 0x0f) === 8 ? zlib : rawDeflate)],
  ['br', () => brotli],
  ['zstd', () => zstd],
]);

function formatOf(coding: string, first = 0): Format {
  const format = FORMATS.get(coding)?.(first);
  if (!format) throw new TypeError('unknown content coding');
  return format;
}

/**
 * Creates a stream that outputs at once what its input contains. `first` is the first byte of the body. Errors of the stream are
 * those of the body.
 */
export function createDecompressor(coding: string, first: number): Transform {
  return formatOf(coding, first).stream();
}

/**
 * Decodes a small complete body at once, which takes less than half the time of a stream. Returns undefined if a step yields
 * more than `maxBytes`, and a {@link CodingError} for a damaged body.
 */
export function decodeAtOnce(
  codings: readonly string[],
  body: Buffer,
  maxBytes: number,
): Buffer | CodingError | undefined {
  let bytes = body;
  for (const coding of codings) {
    if (bytes.length === 0) return bytes;
    try {
      bytes = formatOf(coding, bytes[0]).atOnce(bytes, { maxOutputLength: maxBytes });
    } catch (error) {
      if (error instanceof Error && 'code' in error && error.code === 'ERR_BUFFER_TOO_LARGE') return undefined;
      return damaged(coding, error);
    }
  }
  return bytes;
}

/** A body that cannot be decoded. The message names the coding and completes "answered with …". */
export class CodingError extends Error {
  override readonly name = 'CodingError';
}

function damaged(coding: string, cause: unknown): CodingError {
  const code = cause instanceof Error && 'code' in cause ? String(cause.code) : String(cause);
  const how = code === 'Z_BUF_ERROR' ? 'ends too early' : `is damaged (${code})`;
  return new CodingError(`a ${coding} body that ${how}`, { cause });
}

/** Receives a decoded body. */
export interface DecodedSink {
  /** Returns false to pause. */
  onDecoded(chunk: Buffer): boolean;
  onDecodedEnd(): void;
  onCodingError(error: CodingError): void;
  /** The decoder accepts input again after `write` returned false. */
  onDrain(): void;
}

/**
 * Decodes a body while it arrives, in the threads of the pool: one coding, and the others by further decoders. Its buffers are
 * bounded: input and output pause each other.
 */
export class StreamingDecoder {
  readonly #coding: string;
  readonly #sink: DecodedSink;
  readonly #maxBytes: number;
  /** Bytes that were passed to the next one. */
  #passedBytes = 0;
  /** Decodes what this one outputs. */
  readonly #next: StreamingDecoder | undefined = undefined;
  /** Created for the first byte, which decides about the format; an empty body has none. */
  #stream: Transform | undefined = undefined;

  /**
   * `maxBytes`: limit of what is decoded of each coding for the next one, which may be a thousand times the input of the first and
   * yield nothing.
   */
  constructor([coding = '', ...others]: readonly string[], sink: DecodedSink, maxBytes: number) {
    this.#coding = coding;
    this.#sink = sink;
    this.#maxBytes = maxBytes;
    if (others.length === 0) return;
    const next: DecodedSink = {
      onDecoded: (chunk) => sink.onDecoded(chunk),
      onDecodedEnd: () => sink.onDecodedEnd(),
      onCodingError: (error) => sink.onCodingError(error),
      onDrain: () => this.#stream?.resume(),
    };
    this.#next = new StreamingDecoder(others, next, maxBytes);
  }

  /** Returns false to pause the input until `onDrain`. */
  write(chunk: Buffer): boolean {
    if (chunk.length === 0) return true;
    this.#stream ??= this.#open(chunk[0] ?? 0);
    return this.#stream.write(chunk);
  }

  /** The input is complete. */
  end(): void {
    if (this.#stream) this.#stream.end();
    else this.#onEnd();
  }

  /** Resumes the output. */
  resume(): void {
    if (this.#next) this.#next.resume();
    else this.#stream?.resume();
  }

  /** No callback follows. */
  destroy(): void {
    this.#stream?.destroy();
    this.#next?.destroy();
  }

  #open(first: number): Transform {
    const stream = createDecompressor(this.#coding, first);
    return stream
      .on('data', (chunk: Buffer) => {
        const more = this.#next ? this.#pass(chunk, this.#next) : this.#sink.onDecoded(chunk);
        if (!more) stream.pause();
      })
      .on('drain', () => this.#sink.onDrain())
      .on('end', () => this.#onEnd())
      .on('error', (error) => this.#sink.onCodingError(damaged(this.#coding, error)));
  }

  #pass(chunk: Buffer, next: StreamingDecoder): boolean {
    this.#passedBytes += chunk.length;
    if (this.#passedBytes <= this.#maxBytes) return next.write(chunk);
    this.#sink.onCodingError(new CodingError(`a ${this.#coding} body of more than ${this.#maxBytes} decoded bytes`));
    return true;
  }

  #onEnd(): void {
    if (this.#next) this.#next.end();
    else this.#sink.onDecodedEnd();
  }
}
