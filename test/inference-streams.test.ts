import { beforeAll, expect, test } from 'vitest';
import { completionId, completionOf } from './fixtures/chat/completion.ts';
import { type Inference, startInference } from './fixtures/chat/inference.ts';

const STREAMS = 500;

let inference: Inference;
beforeAll(async () => {
  inference = await startInference();
  return () => inference.close();
});

const requestAt = (at: number) => ({
  model: `held-${at % 3}`,
  messages: [{ role: 'user' as const, content: `number ${at}` }],
  stream: true as const,
});

test('500 concurrent streams complete, each with its own bytes, and are recorded', async () => {
  const { upstream } = inference;
  const client = inference.client();
  const streams = await Promise.all(
    Array.from({ length: STREAMS }, (_, at) =>
      client.chat.completions.create(requestAt(at), { headers: { 'x-conversation-id': `talk-${at % 10}` } }),
    ),
  );
  // All have started, and none can end.
  expect(upstream.requests).toHaveLength(STREAMS);
  expect(await inference.interactions('?bodies=false')).toEqual([]);
  upstream.release();
  const texts = await Promise.all(
    streams.map(async (stream) => {
      let text = '';
      for await (const { id, choices } of stream) text += `${id} ${choices[0]?.delta.content ?? ''}|`;
      return text;
    }),
  );
  for (const [at, text] of texts.entries()) {
    const id = completionId(requestAt(at));
    expect(text.replaceAll(`${id} `, '').replaceAll('|', '')).toBe(contentOf(at));
    expect(text.split(`${id} `).length).toBeGreaterThan(8);
  }

  await expect.poll(async () => (await inference.interactions('?bodies=false')).length).toBe(STREAMS);
  const found = new Map((await inference.interactions()).map((each) => [each.completion_id, each]));
  expect(found.size).toBe(STREAMS);
  for (let at = 0; at < STREAMS; at++) {
    const { usage: _, ...whole } = completionOf(requestAt(at));
    expect(found.get(whole.id)).toMatchObject({
      conversation_id: `talk-${at % 10}`,
      model: `held-${at % 3}`,
      request_body: requestAt(at),
      response_body: whole,
      status_code: 200,
    });
  }
  expect(await inference.interactions('?bodies=false&conversation_id=talk-3')).toHaveLength(STREAMS / 10);
}, 120_000);

function contentOf(at: number): unknown {
  return completionOf(requestAt(at)).choices[0]?.message.content;
}
