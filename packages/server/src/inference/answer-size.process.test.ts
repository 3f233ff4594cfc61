import { setImmediate as nextTurn } from 'node:timers/promises';
import { createGzip } from 'node:zlib';
import { describe, expect, test } from 'vitest';
import { bodyValue, COMPLETION_REQUEST, LIMIT, MIB, RecordedExchanges } from './exchange.fixture.ts';

const PIECE = 'x'.repeat(48 * 1024);

/** Parts of an answer of about this size, which is never in memory as a whole. */
type Parts = (bytes: number) => Generator<string>;

function* text(bytes: number): Generator<string> {
  for (let left = bytes; left > 0; left -= PIECE.length) yield PIECE.slice(0, left);
}

const END = '"finish_reason":"length"}],"usage":{"prompt_tokens":7,"completion_tokens":9},"error":{"type":"busy"}}';

const FORMS: Readonly<Record<string, Parts>> = {
  *JSON(bytes) {
    yield '{"id":"c-1","model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"';
    yield* text(bytes);
    yield `"},${END}`;
  },
  *'JSON with log probabilities'(bytes) {
    const token = '{"token":"ab","logprob":-0.25,"bytes":[97,98]}';
    yield `{"id":"c-1","model":"m","choices":[{"index":0,"logprobs":{"content":[${token}`;
    const piece = `,${token}`.repeat(1000);
    for (let left = bytes; left > 0; left -= piece.length) yield piece;
    yield `]},${END}`;
  },
  *'a stream'(bytes) {
    const chunk = (more: string) => `data: {"id":"c-1","model":"m","choices":[{"index":0,${more}\n\n`;
    const piece = chunk('"delta":{"content":"some words "}}]}').repeat(500);
    for (let left = bytes; left > 0; left -= piece.length) yield piece;
    yield chunk(`"delta":{},${END}`);
  },
  *'a stream with a large last event'(bytes) {
    yield 'data: {"type":"response.created","response":{"id":"c-1","model":"m","status":"in_progress"}}\n\n';
    yield 'data: {"type":"response.completed","response":{"id":"c-1","output":[{"content":[{"text":"';
    yield* text(bytes);
    yield '"}]}],"status":"incomplete","incomplete_details":{"reason":"length"},';
    yield '"usage":{"input_tokens":7,"output_tokens":9},"error":{"code":"busy"}}}\n\n';
  },
  *lines(bytes) {
    const line = '{"model":"m","message":{"role":"assistant","content":"some words "},"done":false}\n';
    const piece = line.repeat(500);
    for (let left = bytes; left > 0; left -= piece.length) yield piece;
    yield '{"model":"m","message":{},"done":true,"done_reason":"length","prompt_eval_count":7,"eval_count":9}\n';
  },
};

const SIZES = [1024, 300 * 1024, 6 * MIB, 100 * MIB];

describe.each(SIZES)('of %i bytes', (bytes) => {
  const tags = bytes > 10 * MIB ? ['slow'] : [];
  test.for(Object.keys(FORMS))(
    'fields are read from %s in bounded memory',
    { tags, timeout: 300_000 },
    async (name) => {
      const exchanges = new RecordedExchanges();
      const { startRecording, completions, store, log } = exchanges;
      const recording = startRecording({ method: 'POST', target: '/v1/x', headers: {} }, (completion) =>
        completions.push(completion),
      );
      recording?.requestChunk(Buffer.from(COMPLETION_REQUEST));
      recording?.requestEnd();
      recording?.responseHead(200, {});
      const before = process.memoryUsage().rss;
      let most = 0;
      let parts = 0;
      for (const part of FORMS[name]?.(bytes) ?? []) {
        recording?.responseChunk(Buffer.from(part));
        if (++parts % 64 !== 0) continue;
        most = Math.max(most, process.memoryUsage().rss - before);
        await nextTurn();
      }
      recording?.end();
      expect(log).toEqual([]);
      expect(completions).toMatchObject([{ inputTokens: 7, outputTokens: 9, finishReasons: ['length'] }]);
      if (name !== 'lines') expect(completions).toMatchObject([{ completionId: 'c-1', errorType: 'busy' }]);
      expect(most).toBeLessThan(100 * MIB);
      const [found] = store.list();
      // Of a stream, the text counts.
      const isStream = name === 'a stream' || name === 'lines';
      expect(found?.response.truncated).toBe(bytes > (isStream ? 8 * LIMIT : LIMIT));
      expect(found?.response.body?.bytes.length).toBeLessThanOrEqual(LIMIT);
      expect(found && bodyValue(found.response)).toBeDefined();
    },
  );
});

test('fields are read from compressed answers of 100 MB', { tags: ['slow'] }, async () => {
  const exchanges = new RecordedExchanges();
  const { startRecording, completions } = exchanges;
  const recording = startRecording({ method: 'POST', target: '/v1/x', headers: {} }, (completion) =>
    completions.push(completion),
  );
  recording?.requestChunk(Buffer.from(COMPLETION_REQUEST));
  recording?.requestEnd();
  recording?.responseHead(200, { 'content-encoding': 'gzip' });
  const gzip = createGzip({ level: 1 });
  gzip.on('data', (chunk: Buffer) => recording?.responseChunk(chunk));
  for (const part of FORMS['a stream']?.(100 * MIB) ?? []) {
    if (!gzip.write(part)) await new Promise((resolve) => gzip.once('drain', resolve));
  }
  await new Promise<void>((resolve) => gzip.end(resolve));
  recording?.end();
  await expect.poll(() => completions.length, { timeout: 60_000 }).toBe(1);
  expect(completions).toMatchObject([{ inputTokens: 7, outputTokens: 9, finishReasons: ['length'] }]);
});
