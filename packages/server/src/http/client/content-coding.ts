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

/** Format of a coded body. `raw` is deflate without the header of zlib, which some servers send as `deflate`. */
type Format = 'gzip' | 'zlib' | 'raw' | 'br' | 'zstd';

/** More codings of one body are an attack: each may multiply its size by a thousand. */
const MAX_CODINGS = 4;
/** Longest name of a coding in a message. */
const MAX_NAME_LENGTH = 64;

/**
 * Returns the codings that the values of `Content-Encoding` name, in the order in which they are removed, that is, the last one applied first; in lower case and
 * without `identity`. Undefined if there are none.
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
  const unknown = codings.find((coding) => formatOf(coding, 0) === undefined);
  if (unknown !== undefined) {
    return new CodingError(`a body with the unknown content coding "${singleLine(unknown, MAX_NAME_LENGTH)}"`);
  }
  if (codings.length <= MAX_CODINGS) return undefined;
  return new CodingError(
    `a body with more than ${MAX_CODINGS} content codings (${codings.slice(0, MAX_CODINGS).join(', ')}, …)`,
  );
}

/** `first` is the first byte of the body. */
function formatOf(coding: string, first: number): Format | undefined {
  switch (coding) {
    case 'gzip':
    case 'x-gzip':
      return 'gzip';
    case 'deflate':
      // The header of zlib names the method 8. Raw deflate would begin with a stored block whose padding is not zero.
      return (first & 0x0f) === 8 ? 'zlib' : 'raw';
    case 'br':
      return 'br';
    case 'zstd':
      return 'zstd';
    default:
      return undefined;
  }
}

/** The largest window of `zstd` as a content coding: 8 MB (RFC 9659). A frame could require 128 MB of memory. */
const ZSTD_PARAMS = { [constants.ZSTD_d_windowLogMax]: 23 };

/** Returns a decoder that outputs at once what its input contains. Errors of the stream are those of the body. */
function createDecoder(coding: string, first: number): Transform {
  const options = { flush: constants.Z_SYNC_FLUSH };
  switch (formatOf(coding, first)) {
    case 'gzip':
      return createGunzip(options);
    case 'zlib':
      return createInflate(options);
    case 'raw':
      return createInflateRaw(options);
    case 'br':
      return createBrotliDecompress();
    case 'zstd':
      return createZstdDecompress({ params: ZSTD_PARAMS });
    default:
      throw new TypeError('unknown content coding');
  }
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
      bytes = decodeStep(coding, bytes, maxBytes);
    } catch (error) {
      if (error instanceof Error && 'code' in error && error.code === 'ERR_BUFFER_TOO_LARGE') return undefined;
      return damaged(coding, error);
    }
  }
  return bytes;
}

function decodeStep(coding: string, bytes: Buffer, maxOutputLength: number): Buffer {
  switch (formatOf(coding, bytes[0] ?? 0)) {
    case 'gzip':
      return gunzipSync(bytes, { maxOutputLength });
    case 'zlib':
      return inflateSync(bytes, { maxOutputLength });
    case 'raw':
      return inflateRawSync(bytes, { maxOutputLength });
    case 'br':
      return brotliDecompressSync(bytes, { maxOutputLength });
    case 'zstd':
      return zstdDecompressSync(bytes, { maxOutputLength, params: ZSTD_PARAMS });
    default:
      throw new TypeError('unknown content coding');
  }
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

/** Decodes a body while it arrives, in the threads of the pool. Its buffers are bounded: input and output pause each other. */
export class StreamingDecoder {
  readonly #steps: readonly Step[];

  constructor(codings: readonly string[], sink: DecodedSink) {
    const steps: Step[] = [];
    for (const [index, coding] of codings.entries()) {
      const isLast = index === codings.length - 1;
      steps.push(
        new Step(coding, {
          onDecoded: (chunk) => (isLast ? sink.onDecoded(chunk) : steps[index + 1]?.write(chunk)) !== false,
          onDecodedEnd: () => (isLast ? sink.onDecodedEnd() : steps[index + 1]?.end()),
          onCodingError: (error) => sink.onCodingError(error),
          onDrain: () => (index === 0 ? sink.onDrain() : steps[index - 1]?.resume()),
        }),
      );
    }
    this.#steps = steps;
  }

  /** Returns false to pause the input until `onDrain`. */
  write(chunk: Buffer): boolean {
    return this.#steps[0]?.write(chunk) !== false;
  }

  /** The input is complete. */
  end(): void {
    this.#steps[0]?.end();
  }

  /** Resumes the output. */
  resume(): void {
    this.#steps.at(-1)?.resume();
  }

  /** No callback follows. */
  destroy(): void {
    for (const step of this.#steps) step.destroy();
  }
}

/** One coding. Its stream is created for the first byte, which decides about the format; an empty body has none. */
class Step {
  readonly #coding: string;
  readonly #sink: DecodedSink;
  #stream: Transform | undefined = undefined;

  constructor(coding: string, sink: DecodedSink) {
    this.#coding = coding;
    this.#sink = sink;
  }

  write(chunk: Buffer): boolean {
    if (chunk.length === 0) return true;
    this.#stream ??= this.#open(chunk[0] ?? 0);
    return this.#stream.write(chunk);
  }

  end(): void {
    if (this.#stream) this.#stream.end();
    else this.#sink.onDecodedEnd();
  }

  resume(): void {
    this.#stream?.resume();
  }

  destroy(): void {
    this.#stream?.destroy();
  }

  #open(first: number): Transform {
    const stream = createDecoder(this.#coding, first);
    return stream
      .on('data', (chunk: Buffer) => {
        if (!this.#sink.onDecoded(chunk)) stream.pause();
      })
      .on('drain', () => this.#sink.onDrain())
      .on('end', () => this.#sink.onDecodedEnd())
      .on('error', (error) => this.#sink.onCodingError(damaged(this.#coding, error)));
  }
}
