import { beforeAll, beforeEach, describe, expect, it, vi } from 'vitest';
import {
  type EvaluatedService,
  errorOf,
  evaluator,
  ownTool,
  startEvaluatedService,
} from './fixtures/evaluated/evaluated-service.ts';
import { modernClient, post } from './fixtures/raw-client.ts';
import { parseObject } from './fixtures/raw-upstream/message.ts';
import { textResultText, toolList, toolText } from './fixtures/raw-upstream/texts.ts';
import { type RawUpstream, startRawUpstream } from './fixtures/raw-upstream.ts';

// Tool-call events and access lines of evaluated requests.

let evaluated: EvaluatedService;
let upstream: RawUpstream;
beforeAll(async () => {
  [evaluated, upstream] = await Promise.all([
    startEvaluatedService(),
    startRawUpstream({ scripts: { 'tools/list': toolList(toolText('a')), 'tools/call': textResultText('done') } }),
  ]);
  const { service } = evaluated;
  await service.register('forwards', { name: 'crm', address: upstream.url });
  await service.register('tools', ownTool('own'));
  await service.register('namespaces', { name: 'other' });
  await service.register('tools', ownTool('elsewhere', 'other'));
  await service.register('tools', {
    name: 'code',
    description: 'd',
    uri: 'code-execution-engine://docker/python',
    toolType: 'code-execution',
    input_schema: {},
  });
  return async () => {
    await evaluated.close();
    await upstream.close();
  };
}, 120_000);

/** Marks the latest request, so that its events and its line can be found. */
let id = '';
let requests = 0;
beforeEach(() => {
  id = `evaluated-${++requests}`;
});

const headers = () => ({ 'x-request-id': id, 'x-forwarded-user': 'ann' });

/** Events of the request, oldest first, without members that vary. */
async function events(count: number): Promise<unknown[]> {
  return await vi.waitFor(async () => {
    const { data } = await evaluated.service.manage('GET', '/tool-calls?limit=10');
    if (!Array.isArray(data)) throw new Error('no list');
    const own = data.map(parseObject).filter(({ requestId }) => requestId === id);
    expect(own).toHaveLength(count);
    return own.toReversed();
  });
}

async function accessLine(): Promise<unknown> {
  return await vi.waitFor(() => {
    const lines = evaluated.service.log.map(parseObject);
    const line = lines.find((each) => String(each.target).endsWith('::access') && each.x_request_id === id);
    if (!line) throw new Error('no line');
    return line;
  });
}

const evaluation = (name: string, verdict: string) => ({
  evaluator: name,
  verdict,
  duration: expect.any(Number),
});

describe.each(['legacy', 'modern'] as const)('a call of a %s client', (era) => {
  /** Calls a tool; a legacy client does so without a session, which would belong to a user. */
  const call = (name: string, more: Readonly<Record<string, string>> = headers()) => {
    const url = evaluated.service.url();
    const params = `{"name":"${name}","arguments":{"x":"y"}}`;
    if (era === 'modern') return modernClient(url).call('tools/call', params, more);
    return post(url, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":${params}}`, more);
  };

  it('that is blocked has a FAILED event with evaluator and reason, and so has its access line', async () => {
    await evaluated.apply(
      evaluator('first', { llmOutput: 'warn:careful' }),
      evaluator('gate', { llmOutput: 'block:not today' }),
      evaluator('last'),
    );
    expect(errorOf(await call('a'))).toMatchObject({ code: -32001 });
    const [event] = await events(1);
    expect(event).toMatchObject({
      eventType: 'FAILED',
      errorCategory: 'POLICY_BLOCKED',
      errorMessage: 'not today',
      evaluator: 'gate',
      reason: 'not today',
      evaluations: [evaluation('first', 'warn')],
      user: 'ann',
      transport: 'mcp',
      namespace: 'default',
      toolName: 'a',
      serviceAddress: new URL(upstream.url).origin,
      duration: 0,
    });
    expect(await accessLine()).toMatchObject({
      handled: 'rejected',
      error_code: -32001,
      evaluator: 'gate',
      reason: 'not today',
      error_category: 'POLICY_BLOCKED',
      event_id: parseObject(event).eventId,
      tool: 'a',
      user: 'ann',
    });
    const { data } = await evaluated.service.manage('GET', '/tool-calls?category=POLICY_BLOCKED&limit=1');
    expect(data).toEqual([event]);
  });

  it.each([
    ['own', { transport: 'grpc', toolType: 'own' }],
    ['code', { transport: 'code', toolName: 'code-execution/docker/python' }],
    ['elsewhere', { transport: 'mcp', toolType: '', toolName: 'elsewhere' }],
  ])('that is blocked has the transport that the call would have had: %s', async (name, identity) => {
    await evaluated.apply(evaluator('gate', { llmOutput: 'reject:malformed' }));
    expect(errorOf(await call(name))).toMatchObject({ code: -32002 });
    expect(await events(1)).toMatchObject([{ errorCategory: 'POLICY_BLOCKED', reason: 'malformed', ...identity }]);
  });

  it('has at most 1,000 characters of the reason in event and access line', async () => {
    await evaluated.apply(evaluator('gate', { llmOutput: `block:${'é'.repeat(1_001)}` }));
    await call('a');
    const reason = 'é'.repeat(1_000);
    expect(await events(1)).toMatchObject([{ errorMessage: reason, reason }]);
    expect(await accessLine()).toMatchObject({ reason });
  });

  it('that an evaluator with on_error: block could not evaluate is blocked as well', async () => {
    await evaluated.apply(evaluator('gate', { llmOutput: 'trap', on_error: 'block' }));
    await call('a');
    const reason = 'evaluator processor execution failed';
    expect(await events(1)).toMatchObject([{ errorCategory: 'POLICY_BLOCKED', evaluator: 'gate', reason }]);
  });

  it('that passes has the evaluations in all its events', async () => {
    await evaluated.apply(
      evaluator('one'),
      evaluator('two', { llmOutput: 'metadata:k=v' }),
      evaluator('three', { connection: 'nobody', on_error: 'continue' }),
      evaluator('four', { llmOutput: 'trap', on_error: 'continue' }),
    );
    await call('a');
    const evaluations = [
      evaluation('one', 'pass'),
      evaluation('two', 'set_metadata'),
      evaluation('three', 'llm_failure'),
      evaluation('four', 'action_failure'),
    ];
    expect(await events(2)).toMatchObject([
      { eventType: 'STARTED', user: 'ann', evaluations },
      { eventType: 'COMPLETED', user: 'ann', evaluations },
    ]);
    expect(await accessLine()).not.toHaveProperty('evaluator');
  });

  it('without evaluators and user has neither in its events', async () => {
    await evaluated.apply();
    await call('a', { 'x-request-id': id });
    for (const event of await events(2)) {
      expect(event).not.toHaveProperty('evaluations');
      expect(event).not.toHaveProperty('user');
    }
  });
});

it('a blocked list has no event, but evaluator and reason in its access line', async () => {
  await evaluated.apply(evaluator('gate', { method: 'tools/list', llmOutput: 'block:no lists' }));
  await modernClient(evaluated.service.url()).call('tools/list', '{}', headers());
  expect(await accessLine()).toMatchObject({ mcp_method: 'tools/list', evaluator: 'gate', reason: 'no lists' });
  await events(0);
});
