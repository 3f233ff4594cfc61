import type OpenAI from 'openai';
import { beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { type ChatRequest, completionId, completionOf } from './fixtures/chat/completion.ts';
import { type Inference, startInference } from './fixtures/chat/inference.ts';
import { expectUntouched } from './fixtures/chat/untouched.ts';
import { type WireFetch, wireFetch } from './fixtures/chat/wire-fetch.ts';

let inference: Inference;
let wire: WireFetch;
let client: OpenAI;
beforeAll(async () => {
  inference = await startInference();
  return () => inference.close();
});
beforeEach(async () => {
  await inference.service.manage('DELETE', '/interactions');
  wire = wireFetch();
  client = inference.client({ fetch: wire.fetch });
});

/** Parameters of requests. */
type Params = ChatRequest & OpenAI.ChatCompletionCreateParamsNonStreaming;

const tool = (name: string) => ({ type: 'function', function: { name, parameters: { type: 'object' } } }) as const;
const TOOLS = [tool('open'), tool('close')];
const REQUEST: Params = {
  model: 'm-1',
  messages: [
    { role: 'system', content: 'Antworte kurz. 水\u2028' },
    { role: 'user', content: 'Wie?' },
  ],
  temperature: 0.1,
};
const VARIANTS: readonly [string, Params][] = [
  ['a text', REQUEST],
  ['several choices', { ...REQUEST, n: 3 }],
  ['log probabilities', { ...REQUEST, logprobs: true }],
  ['tool calls', { ...REQUEST, tools: TOOLS }],
  ['tool calls in several choices', { ...REQUEST, n: 2, tools: TOOLS }],
];

/** Returns the only recorded interaction. */
async function recorded() {
  const [interaction, ...more] = await inference.interactions();
  expect(more).toEqual([]);
  return interaction;
}

/** Returns the latest exchange on both sides. */
function expectLatestUntouched(): void {
  const { upstream } = inference;
  expect(wire.exchanges).toHaveLength(1);
  expectUntouched(wire.exchanges[0], upstream.requests.at(-1));
}

describe('a completion is proxied unchanged and recorded', () => {
  test.for(VARIANTS)('without streaming: %s', async ([, params]) => {
    const completion = await client.chat.completions.create(params);
    expectLatestUntouched();
    expect(completion).toEqual(completionOf(params));
    expect(await recorded()).toEqual({
      epoch_ms: expect.any(Number),
      duration_ms: expect.any(Number),
      path: '/v1/chat/completions',
      completion_id: completionId(params),
      model: 'm-1',
      request_body: params,
      response_body: completion,
      status_code: 200,
    });
  });

  test.for(VARIANTS)('as a stream: %s', async ([, params]) => {
    const stream = await client.chat.completions.create({ ...params, stream: true });
    const chunks = await Array.fromAsync(stream);
    expectLatestUntouched();
    expect(chunks.length).toBeGreaterThan(5);
    const { usage: _, ...whole } = completionOf(params);
    expect(await recorded()).toMatchObject({
      completion_id: completionId(params),
      model: 'm-1',
      request_body: { ...params, stream: true },
      status_code: 200,
    });
    // Equals the response of the server without streaming.
    expect((await recorded())?.response_body).toEqual(whole);
  });

  test.for(VARIANTS)('as the client library assembles it: %s', async ([, params]) => {
    const stream = client.chat.completions.stream({ ...params, stream: true, stream_options: { include_usage: true } });
    const assembled = await stream.finalChatCompletion();
    expectLatestUntouched();
    const body = (await recorded())?.response_body;
    expect(body).toEqual(completionOf(params));
    expect(body).toMatchObject({ id: assembled.id, model: assembled.model, created: assembled.created });
    expect(body).toHaveProperty('usage', await stream.totalUsage());
    // The library adds `parsed`, and the log probabilities of a choice's first chunk twice; here that chunk has none.
    const choices = assembled.choices.map(({ message: { parsed: _, ...message }, ...choice }) => ({
      ...choice,
      message: { ...message, tool_calls: message.tool_calls },
    }));
    expect(body).toHaveProperty('choices', choices);
  });
});
