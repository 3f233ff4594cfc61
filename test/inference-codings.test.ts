import type OpenAI from 'openai';
import { beforeAll, beforeEach, expect, test } from 'vitest';
import { type ChatRequest, completionOf } from './fixtures/chat/completion.ts';
import { type Inference, startInference } from './fixtures/chat/inference.ts';
import { expectUntouched } from './fixtures/chat/untouched.ts';
import { wireFetch } from './fixtures/chat/wire-fetch.ts';

let inference: Inference;
beforeAll(async () => {
  inference = await startInference();
  return () => inference.close();
});
beforeEach(async () => void (await inference.service.manage('DELETE', '/interactions')));

const REQUEST: ChatRequest & OpenAI.ChatCompletionCreateParamsNonStreaming = {
  model: 'm-1',
  messages: [{ role: 'user', content: 'gleich '.repeat(2_000) }],
  n: 2,
};

/** Codings of the request and the response. */
const CODINGS = [
  ['gzip', 'gzip'],
  ['br', 'br'],
  ['gzip', undefined],
  [undefined, 'br'],
] as const;

test.for(CODINGS)('encoded bodies are proxied unchanged and recorded decoded: %s, %s', async ([request, response]) => {
  const wire = wireFetch();
  const client = inference.client({ fetch: wire.fetch });
  wire.coding = request;
  inference.upstream.coding = response;

  const whole = await client.chat.completions.create(REQUEST);
  expectUntouched(wire.exchanges[0], inference.upstream.requests.at(-1));
  // Bodies are decoded concurrently, and may complete after the exchange.
  await expect.poll(async () => (await inference.interactions()).length).toBe(1);
  const stream = client.chat.completions.stream({ ...REQUEST, stream: true });
  const assembled = await stream.finalChatCompletion();
  expectUntouched(wire.exchanges[1], inference.upstream.requests.at(-1));
  const plainBytes = JSON.stringify(REQUEST).length;
  if (request) expect(wire.exchanges[0]?.sentBody.bytes).toBeLessThan(plainBytes / 10);
  expect(wire.exchanges.map(({ receivedHeaders }) => receivedHeaders.includes('Content-Encoding'))).toEqual([
    response !== undefined,
    response !== undefined,
  ]);

  await expect.poll(async () => (await inference.interactions()).length).toBe(2);
  const [first, second] = await inference.interactions();
  expect(first?.request_body).toEqual(REQUEST);
  expect(first?.response_body).toEqual(whole);
  expect(second?.request_body).toEqual({ ...REQUEST, stream: true });
  const { usage: _, ...expected } = completionOf(REQUEST);
  expect(second?.response_body).toEqual(expected);
  expect(assembled.choices.map(({ message }) => message.content)).toEqual(
    expected.choices.map(({ message }) => message.content),
  );
});
