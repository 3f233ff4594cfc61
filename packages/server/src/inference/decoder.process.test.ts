import { randomBytes } from 'node:crypto';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { brotliCompressSync, constants, deflateRawSync, deflateSync, gzipSync, zstdCompressSync } from 'node:zlib';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { MemoryBudget } from './bounded-memory.ts';
import { splitPositions } from './chunks.fixture.ts';
import { createDecoder } from './decoder.ts';
import {
  bodyValue,
  COMPLETION_REQUEST,
  COMPLETION_RESPONSE,
  EVENTS,
  LIMIT,
  MIB,
  RecordedExchanges,
  sized,
} from './exchange.fixture.ts';

/** The default quality takes a second for the largest bodies here. */
const brotli = (bytes: Buffer) => brotliCompressSync(bytes, { params: { [constants.BROTLI_PARAM_QUALITY]: 3 } });

const ENCODINGS = [
  ['gzip', gzipSync],
  ['x-gzip', gzipSync],
  ['GZIP', gzipSync],
  ['deflate', deflateSync],
  ['deflate', deflateRawSync],
  ['br', brotli],
  ['zstd', zstdCompressSync],
  ['identity', (bytes: Buffer) => bytes],
] as const;

const limits = (bytes: number) => ({ maxPending: bytes, maxTotal: bytes, budget: new MemoryBudget(bytes) });

const large = Buffer.from(sized(64 * MIB, '"id":"c-1","messages":[]'));

describe.for(ENCODINGS)('%s', ([encoding, compress]) => {
  const headers = { 'content-encoding': encoding };

  test('is decoded in both directions and in any chunks', async () => {
    const exchanges = new RecordedExchanges();
    const bodies = {
      request: compress(Buffer.from(COMPLETION_REQUEST)),
      response: compress(Buffer.from(COMPLETION_RESPONSE)),
    };
    await fc.assert(
      fc.asyncProperty(splitPositions, async (positions) => {
        const found = await exchanges.record({ headers, responseHeaders: headers, ...bodies, splitAt: positions });
        expect(found).toMatchObject({
          completionId: 'c-1',
          request: { truncated: false },
          response: { truncated: false },
        });
        expect(found?.request.body?.bytes.toString()).toBe(COMPLETION_REQUEST);
        expect(found?.response.body?.bytes.toString()).toBe(COMPLETION_RESPONSE);
      }),
      { numRuns: 10 },
    );
  });

  test('is decoded as far as it has arrived', async () => {
    const events = Array.from(
      { length: 5_000 },
      (_, at) => `data: {"id":"c-1","choices":[{"index":0,"delta":{"content":"${at},"}}]}\n\n`,
    ).join('');
    const whole = compress(Buffer.from(events));
    const found = await new RecordedExchanges().record({
      responseHeaders: { ...EVENTS, ...headers },
      response: whole.subarray(0, whole.length * 0.9),
    });
    expect(found?.completionId).toBe('c-1');
    const body = JSON.stringify(found && bodyValue(found.response));
    expect(body).toMatch(/"content":"0,1,2,3,.*"finish_reason":null/);
    expect(body).not.toContain('4999');
  });

  // Other names of gzip have its decoder.
  const tags = encoding === 'gzip' ? [] : ['slow'];
  test('is decoded up to 4 MiB, however large the decoded body is', { tags }, async () => {
    const bomb = compress(large);
    const before = process.memoryUsage().rss;
    const exchanges = new RecordedExchanges();
    const found = await exchanges.record({
      headers,
      request: bomb,
      responseHeaders: headers,
      response: bomb,
      splitAt: [1e5],
    });
    expect(found).toMatchObject({ completionId: 'c-1', request: { truncated: true }, response: { truncated: true } });
    expect(found?.request.body?.bytes.length).toBe(LIMIT);
    expect(found?.response.body?.bytes.length).toBe(LIMIT);
    // With identity the 64 MiB themselves are in memory.
    if (encoding !== 'identity') expect(process.memoryUsage().rss - before).toBeLessThan(100 * MIB);
  });
});

test.for(['gzip', 'br', 'zstd', 'identity'] as const)(
  'decoding stops when the sink has enough: %s',
  async (encoding) => {
    const compress = ENCODINGS.find(([name]) => name === encoding)?.[1] ?? gzipSync;
    const whole = compress(Buffer.alloc(MIB));
    const received: number[] = [];
    await new Promise<void>((resolve) => {
      const write = (chunk: Buffer) => received.push(chunk.length) < 3;
      const decoder = createDecoder(encoding, { write, end: () => resolve() }, limits(LIMIT));
      for (let at = 0; at < whole.length; at += 1_000) decoder?.write(whole.subarray(at, at + 1_000));
      decoder?.end();
    });
    expect(received).toHaveLength(3);
  },
);

test('decoding that stopped early ends with the body', async () => {
  let ended = 0;
  const enough = Promise.withResolvers<void>();
  const write = () => {
    enough.resolve();
    return false;
  };
  const decoder = createDecoder('gzip', { write, end: () => ended++ }, limits(LIMIT));
  // More than the decompressor buffers.
  decoder?.write(gzipSync(randomBytes(2_048)));
  await enough.promise;
  await nextTurn();
  expect(ended).toBe(0);
  decoder?.end();
  decoder?.end();
  expect(ended).toBe(1);
});

test.for(['gzip', 'br', 'zstd'] as const)('pending input is reserved from the budget: %s', async (encoding) => {
  const compress = ENCODINGS.find(([name]) => name === encoding)?.[1] ?? gzipSync;
  const whole = compress(randomBytes(MIB));
  const budget = new MemoryBudget(3.5 * whole.length);
  const decode = (wanted: boolean, sent = whole) =>
    new Promise<[number, boolean]>((resolve) => {
      let bytes = 0;
      const write = (chunk: Buffer) => {
        bytes += chunk.length;
        return wanted;
      };
      const sink = { write, end: (isTruncated: boolean) => resolve([bytes, isTruncated]) };
      const decoder = createDecoder(encoding, sink, { ...limits(2 * MIB), budget });
      decoder?.write(sent.subarray(0, MIB / 2));
      decoder?.write(sent.subarray(MIB / 2));
      decoder?.end();
    });
  const found = await Promise.all([1, 2, 3, 4, 5].map(() => decode(true)));
  expect(found.map(([bytes, isTruncated]) => [bytes === MIB, isTruncated])).toEqual([
    [true, false],
    [true, false],
    [true, false],
    [false, true],
    [false, true],
  ]);
  // Decoded, unwanted and corrupt input is released.
  await decode(false);
  await decode(true, Buffer.alloc(MIB, 'plain'));
  expect(budget.reserve(3.5 * whole.length)).toBe(true);
});

describe('a body that does not match its coding', () => {
  test.for(['gzip', 'deflate', 'br', 'zstd'])('is decoded as far as possible: %s', async (encoding) => {
    const responseHeaders = { 'content-encoding': encoding };
    const found = await new RecordedExchanges().record({ responseHeaders, response: 'this is plain' });
    expect(found?.response).toEqual({ body: undefined, truncated: false });
  });

  test('is not recorded for an unknown coding', () => {
    const responseHeaders = { 'content-encoding': 'gzip, rot13' };
    const found = new RecordedExchanges().recordPlain({
      responseHeaders,
      response: COMPLETION_RESPONSE,
    });
    expect(found).toMatchObject({ completionId: undefined, response: { body: undefined, truncated: false } });
  });

  test('costs no more than the limit if it decodes to nothing', async () => {
    // Each member is a gzip body without bytes.
    const empty = Buffer.alloc(9 * MIB, gzipSync(''));
    const responseHeaders = { 'content-encoding': 'gzip' };
    const exchange = { responseHeaders, response: empty, splitAt: [1e6, 5e6, 8.6e6] };
    const found = await new RecordedExchanges({ bodyLimit: MIB }).record(exchange);
    expect(found?.response).toEqual({ body: undefined, truncated: true });
  });

  test.for([
    ['identity, gzip', [gzipSync]],
    ['gzip, br', [gzipSync, brotli]],
    ['br, identity, gzip, zstd', [brotli, gzipSync, zstdCompressSync]],
  ] as const)('is decoded for several codings: %s', async ([encoding, compress]) => {
    const response = compress.reduce((bytes, each) => each(bytes), Buffer.from(COMPLETION_RESPONSE));
    const responseHeaders = { 'content-encoding': encoding };
    const found = await new RecordedExchanges().record({ responseHeaders, response });
    expect(found).toMatchObject({ completionId: 'c-1', response: { truncated: false } });
    expect(found?.response.body?.bytes.toString()).toBe(COMPLETION_RESPONSE);
  });
});
