import type { Transform } from 'node:stream';
import {
  brotliCompressSync,
  constants,
  createBrotliCompress,
  createDeflate,
  createDeflateRaw,
  createGzip,
  createZstdCompress,
  deflateRawSync,
  deflateSync,
  gzipSync,
  zstdCompressSync,
} from 'node:zlib';

/** A way in which a server codes its bodies. */
export interface CodingCase {
  readonly name: string;
  /** Values of `Content-Encoding`, one for each line. */
  readonly lines: readonly string[];
  encode(body: Buffer): Buffer;
  /** A stream that outputs all of its input when it is flushed; undefined for several codings. */
  stream?(): Transform & { flush(done: () => void): void };
}

const flushed = { flush: constants.BROTLI_OPERATION_FLUSH };

/** Every coding that responses are decoded from. */
export const CODINGS: readonly CodingCase[] = [
  { name: 'gzip', lines: ['gzip'], encode: (body) => gzipSync(body), stream: createGzip },
  { name: 'x-gzip', lines: ['x-gzip'], encode: (body) => gzipSync(body), stream: createGzip },
  { name: 'GZIP in capitals', lines: [' GZip '], encode: (body) => gzipSync(body), stream: createGzip },
  {
    name: 'br',
    lines: ['br'],
    encode: (body) => brotliCompressSync(body),
    stream: () => createBrotliCompress(flushed),
  },
  { name: 'zstd', lines: ['zstd'], encode: (body) => zstdCompressSync(body), stream: createZstdCompress },
  { name: 'deflate (zlib)', lines: ['deflate'], encode: (body) => deflateSync(body), stream: createDeflate },
  { name: 'deflate (raw)', lines: ['deflate'], encode: (body) => deflateRawSync(body), stream: createDeflateRaw },
  { name: 'identity', lines: ['identity'], encode: (body) => body },
  { name: 'identity, gzip', lines: ['identity, gzip'], encode: (body) => gzipSync(body), stream: createGzip },
  { name: 'gzip, br', lines: ['gzip, br'], encode: (body) => brotliCompressSync(gzipSync(body)) },
  { name: 'gzip and br in two lines', lines: ['gzip', 'br'], encode: (body) => brotliCompressSync(gzipSync(body)) },
  { name: 'raw deflate, zstd', lines: ['deflate,zstd'], encode: (body) => zstdCompressSync(deflateRawSync(body)) },
];
