import { expect, it } from 'vitest';
import { post, reply } from '../../../../../../test/fixtures/raw-client.ts';
import { errorOf, relayTests } from '../../../../testing/relay.ts';

const { register, upstreamWith } = relayTests();

const RESULT = '{"content":[{"type":"text","text":"done"}]}';
const rootsRequest = (id: number) => `{"jsonrpc":"2.0","id":"s${id}","method":"roots/list"}`;

const CALL = '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a"}}';

/** A call of a client without a session, which does not support server requests. */
async function callWith(before: readonly string[]) {
  const upstream = await upstreamWith({ 'tools/call': { kind: 'result', text: RESULT, before } }, { eras: ['legacy'] });
  return { upstream, answer: await post(await register(upstream.url), CALL) };
}

it('messages in an array are processed one by one, nested arrays are skipped, however deep', async () => {
  const { answer } = await callWith(['[{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info"}}]']);
  expect(reply(answer)).toContain('"text":"done"');

  const deep = '['.repeat(4_000) + ']'.repeat(4_000);
  const began = performance.now();
  expect(reply((await callWith([deep])).answer)).toContain('"text":"done"');
  expect(performance.now() - began).toBeLessThan(5_000);
});

it('a call fails if its upstream keeps sending requests the client does not support', async () => {
  const few = await callWith([rootsRequest(1), rootsRequest(2)]);
  expect(reply(few.answer)).toContain('"text":"done"');
  await expect.poll(() => few.upstream.seen.filter(({ body }) => body.includes('-32601')).length).toBe(2);

  const { upstream, answer } = await callWith(Array.from({ length: 100 }, (_, index) => rootsRequest(index)));
  expect(errorOf(answer).message).toContain('keeps sending requests');
  expect(upstream.seen.filter(({ body }) => body.includes('-32601')).length).toBeLessThanOrEqual(16);
});
