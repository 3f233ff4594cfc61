import { randomBytes } from 'node:crypto';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { brotliCompressSync, deflateRawSync, deflateSync, gzipSync, zstdCompressSync } from 'node:zlib';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { decoderFor } from './decoder.ts';
import { ANSWER, ASKING, bodyValue, EVENTS, LIMIT, MIB, RecordedExchanges, sized } from './exchange.fixture.ts';
import { cuts } from './pieces.fixture.ts';
import { MemoryBudget } from './recorder.ts';

const ENCODINGS = [
  ['gzip', gzipSync],
  ['x-gzip', gzipSync],
  ['GZIP', gzipSync],
  ['deflate', deflateSync],
  ['deflate', deflateRawSync],
  ['br', brotliCompressSync],
  ['zstd', zstdCompressSync],
  ['identity', (bytes: Buffer) => bytes],
] as const;

describe.for(ENCODINGS)('%s', ([encoding, compress]) => {
  const headers = { 'content-encoding': encoding };

  test('is decoded, both ways and in any pieces', async () => {
    const exchanges = new RecordedExchanges();
    await fc.assert(
      fc.asyncProperty(cuts, async (places) => {
        const bodies = { request: compress(Buffer.from(ASKING)), answer: compress(Buffer.from(ANSWER)) };
        const found = await exchanges.record({ headers, answerHeaders: headers, ...bodies, places });
        expect(found).toMatchObject({
          completionId: 'c-1',
          request: { truncated: false },
          response: { truncated: false },
        });
        expect(found?.request.body?.bytes.toString()).toBe(ASKING);
        expect(found?.response.body?.bytes.toString()).toBe(ANSWER);
      }),
      { numRuns: 10 },
    );
  });

  test('is decoded as far as it came', async () => {
    const events = Array.from(
      { length: 5_000 },
      (_, at) => `data: {"id":"c-1","choices":[{"index":0,"delta":{"content":"${at},"}}]}\n\n`,
    ).join('');
    const whole = compress(Buffer.from(events));
    const found = await new RecordedExchanges().record({
      answerHeaders: { ...EVENTS, ...headers },
      answer: whole.subarray(0, whole.length * 0.9),
    });
    expect(found?.completionId).toBe('c-1');
    const body = JSON.stringify(found && bodyValue(found.response));
    expect(body).toMatch(/"content":"0,1,2,3,.*"finish_reason":null/);
    expect(body).not.toContain('4999');
  });

  test('is decoded up to 4 MiB, however much it would become', async () => {
    const bomb = compress(Buffer.from(sized(64 * MIB, '"id":"c-1","messages":[]')));
    const before = process.memoryUsage().rss;
    const exchanges = new RecordedExchanges();
    const found = await exchanges.record({
      headers,
      request: bomb,
      answerHeaders: headers,
      answer: bomb,
      places: [1e5],
    });
    expect(found).toMatchObject({ completionId: 'c-1', request: { truncated: true }, response: { truncated: true } });
    expect(found?.request.body?.bytes.length).toBe(LIMIT);
    expect(found?.response.body?.bytes.length).toBe(LIMIT);
    // Of identity the 64 MiB themselves are in there.
    if (encoding !== 'identity') expect(process.memoryUsage().rss - before).toBeLessThan(60 * MIB);
  });
});

test.for(['gzip', 'br', 'zstd', 'identity'] as const)('decoding ends when no more is wanted: %s', async (encoding) => {
  const compress = ENCODINGS.find(([name]) => name === encoding)?.[1] ?? gzipSync;
  const whole = compress(Buffer.alloc(MIB));
  const given: number[] = [];
  await new Promise<void>((resolve) => {
    const onDecoded = (piece: Buffer) => given.push(piece.length) < 3;
    const decoder = decoderFor(encoding, { onDecoded, onDecodedEnd: () => resolve() }, LIMIT, new MemoryBudget(LIMIT));
    for (let at = 0; at < whole.length; at += 1_000) decoder?.write(whole.subarray(at, at + 1_000));
    decoder?.end();
  });
  expect(given).toHaveLength(3);
});

test('decoding that ended early has ended when the body has', async () => {
  let ended = 0;
  const enough = Promise.withResolvers<void>();
  const onDecoded = () => {
    enough.resolve();
    return false;
  };
  const decoder = decoderFor('gzip', { onDecoded, onDecodedEnd: () => ended++ }, LIMIT, new MemoryBudget(LIMIT));
  // Too much to wait for more.
  decoder?.write(gzipSync(randomBytes(2_048)));
  await enough.promise;
  await nextTurn();
  expect(ended).toBe(0);
  decoder?.end();
  decoder?.end();
  expect(ended).toBe(1);
});

test.for(['gzip', 'br', 'zstd'] as const)('what waits to be decoded is in the budget: %s', async (encoding) => {
  const compress = ENCODINGS.find(([name]) => name === encoding)?.[1] ?? gzipSync;
  const whole = compress(randomBytes(MIB));
  const budget = new MemoryBudget(3.5 * whole.length);
  const decode = (wanted: boolean, sent = whole) =>
    new Promise<[number, boolean]>((resolve) => {
      let bytes = 0;
      const onDecoded = (piece: Buffer) => {
        bytes += piece.length;
        return wanted;
      };
      const sink = { onDecoded, onDecodedEnd: (cut: boolean) => resolve([bytes, cut]) };
      const decoder = decoderFor(encoding, sink, 2 * MIB, budget);
      decoder?.write(sent.subarray(0, MIB / 2));
      decoder?.write(sent.subarray(MIB / 2));
      decoder?.end();
    });
  const found = await Promise.all([1, 2, 3, 4, 5].map(() => decode(true)));
  expect(found.map(([bytes, cut]) => [bytes === MIB, cut])).toEqual([
    [true, false],
    [true, false],
    [true, false],
    [false, true],
    [false, true],
  ]);
  // What was decoded does not wait any more, nor does what nobody wanted or what cannot be decoded.
  await decode(false);
  await decode(true, Buffer.alloc(MIB, 'plain'));
  expect(budget.take(3.5 * whole.length)).toBe(true);
});

describe('what is not what its coding says', () => {
  test.for(['gzip', 'deflate', 'br', 'zstd'])('is kept as far as it can be read: %s', async (encoding) => {
    const answerHeaders = { 'content-encoding': encoding };
    const found = await new RecordedExchanges().record({ answerHeaders, answer: 'this is plain' });
    expect(found?.response).toEqual({ body: undefined, truncated: false });
  });

  test('is nothing for a coding that nobody knows', () => {
    const answerHeaders = { 'content-encoding': 'gzip, br' };
    const found = new RecordedExchanges().recordPlain({ answerHeaders, answer: ANSWER });
    expect(found).toMatchObject({ completionId: undefined, response: { body: undefined, truncated: false } });
  });

  test('costs no more than 8 MiB where it says nothing', async () => {
    // Each of these begins a body anew that has no bytes.
    const empty = Buffer.alloc(9 * MIB, gzipSync(''));
    const answerHeaders = { 'content-encoding': 'gzip' };
    const found = await new RecordedExchanges().record({ answerHeaders, answer: empty, places: [1e6, 5e6, 8.6e6] });
    expect(found?.response).toEqual({ body: undefined, truncated: true });
  });
});
