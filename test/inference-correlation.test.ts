import { beforeAll, expect, test } from 'vitest';
import { type Inference, startInference } from './fixtures/chat/inference.ts';
import { modernClient } from './fixtures/raw-client.ts';
import { textResultText, toolList, toolText } from './fixtures/raw-upstream/texts.ts';
import { type RawUpstream, startRawUpstream } from './fixtures/raw-upstream.ts';

let inference: Inference;
let tools: RawUpstream;
beforeAll(async () => {
  inference = await startInference();
  tools = await startRawUpstream({
    scripts: { 'tools/list': toolList(toolText('open')), 'tools/call': textResultText('done') },
  });
  await inference.service.register('forwards', { name: 'tools', address: tools.url });
  return async () => {
    await inference.close();
    await tools.close();
  };
});

const request = (content: string) => ({
  model: 'm-1',
  messages: [{ role: 'user' as const, content }],
  tools: [{ type: 'function' as const, function: { name: 'open' } }],
});

test('a completion and its tool call refer to each other', async () => {
  const client = inference.client();
  const withConversation = { headers: { 'x-conversation-id': 'talk-1' } };
  const completion = await client.chat.completions.create(request('one'), withConversation);
  await client.chat.completions.create(request('two'), { headers: { 'x-request-id': 'talk-2' } });
  await client.chat.completions.create(request('three'));

  const [called] = completion.choices[0]?.message.tool_calls ?? [];
  if (called?.type !== 'function') throw new Error('no tool was asked for');
  const { service } = inference;
  const agent = modernClient(service.url());
  const params = JSON.stringify({ name: called.function.name, arguments: JSON.parse(called.function.arguments) });
  const { text } = await agent.call('tools/call', params, {
    'x-request-id': completion.id,
    ...withConversation.headers,
  });
  expect(text).toContain('done');

  const ids = { conversationId: 'talk-1', requestId: completion.id };
  expect((await service.manage('GET', '/tool-calls?toolName=open')).data).toEqual([
    expect.objectContaining({ eventType: 'COMPLETED', ...ids }),
    expect.objectContaining({ eventType: 'STARTED', ...ids }),
  ]);
  await agent.call('tools/call', params, { 'x-request-id': 'unknown' });
  const lines = () =>
    service.log.map((each) => JSON.parse(each)).filter(({ event_type }) => event_type === 'COMPLETED');
  await expect.poll(lines).toHaveLength(2);
  const [line, other] = lines();
  const logged = { tool: 'open', x_request_id: completion.id, completion_id: completion.id };
  expect(line).toMatchObject({ ...logged, conversation_id: 'talk-1' });
  expect(other).toMatchObject({ x_request_id: 'unknown', conversation_id: 'unknown' });
  expect(other).not.toHaveProperty('completion_id');

  const idsOf = async (query: string) =>
    (await inference.interactions(query)).map(({ completion_id, conversation_id }) => [completion_id, conversation_id]);
  const [, second, third] = (await idsOf('')).map(([id]) => id);
  expect(await idsOf('?conversation_id=talk-1')).toEqual([[completion.id, 'talk-1']]);
  expect(await idsOf(`?completion_id=${completion.id}`)).toEqual([[completion.id, 'talk-1']]);
  expect(await idsOf('?conversation_id=talk-2')).toEqual([[second, 'talk-2']]);
  expect(await idsOf(`?completion_id=${third}`)).toEqual([[third, undefined]]);
  expect(new Set([completion.id, second, third]).size).toBe(3);
});
