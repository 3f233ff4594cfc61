import { beforeAll, describe, expect, it } from 'vitest';
import {
  type EvaluatedService,
  errorOf,
  evaluator,
  ownTool,
  startEvaluatedService,
} from './fixtures/evaluated/evaluated-service.ts';
import { messages, modernClient, post, type RawResponse } from './fixtures/raw-client.ts';
import { parseObject } from './fixtures/raw-upstream/message.ts';

// Overload is no verdict: a request that cannot be evaluated in time does not pass.

let evaluated: EvaluatedService;
beforeAll(async () => {
  evaluated = await startEvaluatedService();
  for (const namespace of ['spinning', 'other'])
    await evaluated.service.manage('POST', '/namespaces', { name: namespace });
  for (const namespace of ['default', 'spinning', 'other'])
    await evaluated.service.register('tools', ownTool('gated', namespace));
  return () => evaluated.close();
}, 120_000);

const CALL = '{"name":"gated","arguments":{}}';

describe('with on_error: continue', () => {
  const flood = async (batchCount: number) => {
    await evaluated.apply(evaluator('gate', { llmOutput: 'block:no', on_error: 'continue' }));
    const batches = Array.from({ length: batchCount }, (_, at) => batchOf(100, at * 100));
    const session = await batchSession(evaluated.service.url());
    const responses = await Promise.all(batches.map((batch) => post(evaluated.service.url(), batch, session)));
    const codes = responses.flatMap(messages).map((text) => parseObject(parseObject(text).error).code);
    expect(codes).toHaveLength(batchCount * 100);
    // A call that passes has a result, since no service executes it. Only on a machine that is too slow for the
    // LLM or the action themselves may one pass, as on_error says.
    const failures = evaluated.lines('evaluator failed');
    expect(failures.filter(({ fault }) => fault !== 'timeout')).toEqual([]);
    expect(codes.filter((code) => code !== -32001 && code !== -32000)).toHaveLength(failures.length);
    expect(codes).toContain(-32001);
  };

  it('none of 300 simultaneous calls of a blocked tool passes', () => flood(3));

  it('none of 1,500 simultaneous calls of a blocked tool passes', { tags: ['slow'] }, () => flood(15));

  it('a call that has waited as long as its evaluation may take is rejected', { tags: ['slow'] }, async () => {
    const spun = await startSpinning();
    // Each takes a second, one after the other; the last ones have waited eleven seconds.
    const errors = (await Promise.all(spun)).map(errorOf);
    expect(errors.find((error) => parseObject(error).code === -32000)).toEqual({
      code: -32000,
      message: 'evaluator busy',
      data: { kind: 'busy', retry_after_ms: expect.any(Number) },
    });
  });

  it('spinning calls in one namespace do not fail those of another', { tags: ['slow'] }, async () => {
    const spinning = await startSpinning();
    let ended = 0;
    const onEnd = () => ended++;
    for (const call of spinning) call.then(onEnd, onEnd);
    const other = modernClient(evaluated.service.url('other'));
    // On a busy machine, an action may not end in time by itself: one call has to be evaluated while others spin.
    await expect
      .poll(async () => errorOf(await other.call('tools/call', CALL)), { timeout: 20_000 })
      .toMatchObject({ code: -32001 });
    expect(ended).toBeLessThan(spinning.length);
    // The spinning calls end with the service.
  });
});

/** A batch of calls, so that there are not as many connections as calls. */
function batchOf(count: number, firstId: number): string {
  const calls = Array.from({ length: count }, (_, at) => {
    return `{"jsonrpc":"2.0","id":${firstId + at},"method":"tools/call","params":${CALL}}`;
  });
  return `[${calls.join(',')}]`;
}

/** Headers of a session of the version with batches. */
async function batchSession(url: string): Promise<Record<string, string>> {
  const params = '{"protocolVersion":"2025-03-26","capabilities":{},"clientInfo":{"name":"c","version":"1"}}';
  const { headers } = await post(url, `{"jsonrpc":"2.0","id":0,"method":"initialize","params":${params}}`);
  return { 'mcp-session-id': String(headers['mcp-session-id']) };
}

/** Starts 70 calls in the namespace `spinning` whose action never ends. */
async function startSpinning(): Promise<readonly Promise<RawResponse>[]> {
  await evaluated.apply(evaluator('gate', { action: 'echo', on_error: 'continue' }));
  evaluated.llm.defaultResult = ({ messages: [, request] }) =>
    request?.content.includes('namespace: spinning') ? 'never ends' : 'block';
  const expected = evaluated.llm.requests.length + 70;
  const client = modernClient(evaluated.service.url('spinning'));
  const calls = Array.from({ length: 70 }, () => client.call('tools/call', CALL));
  for (const call of calls) call.catch(() => undefined);
  await expect.poll(() => evaluated.llm.requests.length, { timeout: 20_000 }).toBe(expected);
  return calls;
}
