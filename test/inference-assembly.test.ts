import { createServer } from 'node:http';
import fc from 'fast-check';
import { beforeAll, beforeEach, expect, test } from 'vitest';
import { type Inference, startInference } from './fixtures/chat/inference.ts';
import { listen } from './fixtures/http-server.ts';
import { propertyRuns } from './fixtures/seed.ts';

/** Next event stream of the upstream, in the chunks in which it is sent. */
let pieces: readonly Buffer[];
let inference: Inference;
beforeAll(async () => {
  const upstream = createServer(async (request, response) => {
    for await (const _ of request);
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    for (const piece of pieces) await new Promise((resolve) => response.write(piece, resolve));
    response.end();
  });
  inference = await startInference({ SERVICE_INFERENCE_UPSTREAM: `127.0.0.1:${await listen(upstream, 0)}` });
  return async () => {
    await inference.close();
    upstream.close();
  };
});
beforeEach(async () => void (await inference.service.manage('DELETE', '/interactions')));

const text = fc.string({ unit: fc.constantFrom('a', 'é', '水', '🚪', '"', '\n', '\\', '\u2028'), maxLength: 4 });
const texts = fc.array(text, { maxLength: 4 });

interface Delta {
  readonly index: number;
  readonly delta: object;
}

/** Returns the deltas of one choice: its texts and calls in order. */
const deltas = fc
  .record({
    content: fc.array(fc.option(text), { maxLength: 4 }),
    refusal: texts,
    calls: fc.array(texts, { maxLength: 2 }),
  })
  .map(({ content, refusal, calls }) => [
    ...content.map((piece) => ({ content: piece })),
    ...refusal.map((piece) => ({ refusal: piece })),
    ...calls.flatMap((args, index) => [
      { tool_calls: [{ index, id: `call_${index}`, type: 'function', function: { name: 'open', arguments: '' } }] },
      ...args.map((piece) => ({ tool_calls: [{ index, function: { arguments: piece } }] })),
    ]),
  ]);

/** Returns a stream with the interleaved deltas of its choices, one per chunk. */
const stream = fc.array(deltas, { minLength: 1, maxLength: 3 }).map((choices) => {
  const first = choices.map((_, index): Delta => ({ index, delta: { role: 'assistant' } }));
  const turns = Array.from({ length: Math.max(...choices.map(({ length }) => length)) }, (_, at) =>
    choices.flatMap((all, index) => all.slice(at, at + 1).map((delta): Delta => ({ index, delta }))),
  );
  const chunk = (deltas: readonly Delta[], finish_reason: string | null) => ({
    id: 'c-1',
    object: 'chat.completion.chunk',
    created: 1,
    model: 'm-1',
    choices: deltas.map((choice) => ({ ...choice, logprobs: null, finish_reason })),
  });
  const last = choices.map((_, index): Delta => ({ index, delta: {} }));
  const chunks = [chunk(first, null), ...turns.flat().map((delta) => chunk([delta], null)), chunk(last, 'stop')];
  return `${chunks.map((each) => `data: ${JSON.stringify(each)}\n\n`).join('')}data: [DONE]\n\n`;
});

/** Splits bytes anywhere, also within characters. */
function split(whole: string, at: readonly number[]): Buffer[] {
  const bytes = Buffer.from(whole);
  const offsets = [...new Set([0, ...at.map((place) => place % bytes.length), bytes.length])].sort((a, b) => a - b);
  return offsets.slice(1).map((end, index) => bytes.subarray(offsets[index], end));
}

test('a recorded stream equals what the client library assembles, however it is split', async () => {
  const client = inference.client();
  const property = fc.asyncProperty(stream, fc.array(fc.nat(), { maxLength: 12 }), async (whole, places) => {
    pieces = split(whole, places);
    const assembled = await client.chat.completions
      .stream({ model: 'm-1', messages: [], stream: true })
      .finalChatCompletion();
    const [found] = await inference.interactions('?limit=1');
    const choices = assembled.choices.map(({ message: { parsed: _, ...message }, ...choice }) => {
      // The library adds parsed arguments to calls, and null if there are none.
      const calls = message.tool_calls?.map((call) => ({
        ...call,
        function: { name: 'open', arguments: call.type === 'function' ? call.function.arguments : '' },
      }));
      return { ...choice, message: { ...message, tool_calls: calls } };
    });
    expect(found?.response_body).toEqual({ ...assembled, choices });
  });
  await fc.assert(property, { numRuns: propertyRuns(150) });
});
