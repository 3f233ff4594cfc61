import { beforeAll, describe, expect, it, test } from 'vitest';
import type { ReceivedCompletion } from '../packages/server/testing/chat-completions.ts';
import { notification } from '../packages/server/testing/live-tests.ts';
import {
  callText,
  ResponseReader,
  type SessionClient,
  sessionClient,
} from '../packages/server/testing/session-client.ts';
import { callHeaders, callText as modernCallText } from '../packages/server/testing/streamer.ts';
import { eventsAt } from '../packages/server/testing/tool-call-events.ts';
import { type EvaluatedService, evaluator, startEvaluatedService } from './fixtures/evaluated/evaluated-service.ts';
import { parseObject } from './fixtures/raw-upstream/message.ts';
import { textResultText, toolList, toolText } from './fixtures/raw-upstream/texts.ts';
import { type RawUpstream, startRawUpstream } from './fixtures/raw-upstream.ts';

// Requests that are canceled during their evaluation.

let evaluated: EvaluatedService;
let upstream: RawUpstream;
let url: string;
beforeAll(async () => {
  [evaluated, upstream] = await Promise.all([
    startEvaluatedService(),
    startRawUpstream({
      scripts: {
        'tools/list': toolList(toolText('work')),
        'tools/call': {
          kind: 'result',
          text: textResultText('done'),
          before: ['{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"error","data":"x"}}'],
        },
      },
    }),
  ]);
  await evaluated.service.register('forwards', { name: 'crm', address: upstream.url, namespace: 'crm' });
  url = evaluated.service.url('crm');
  return async () => {
    await evaluated.close();
    await upstream.close();
  };
}, 120_000);

/** The next LLM call, which the test completes. */
function blockedLlmCall() {
  const received = Promise.withResolvers<ReceivedCompletion>();
  const response = Promise.withResolvers<void>();
  evaluated.llm.script((completion) => {
    received.resolve(completion);
    return { content: 'pass', after: response.promise };
  });
  return { received: received.promise, answer: () => response.resolve() };
}

const legacy = (version?: string): Promise<SessionClient> => sessionClient(url, version ? { version } : {});
const modernCall = () => {
  const headers = { 'content-type': 'application/json', accept: 'application/json, text/event-stream' };
  return new ResponseReader(url, 'POST', { ...headers, ...callHeaders('modern') }, modernCallText('modern'));
};
const cancellation = (id: string) => notification('cancelled', `{"requestId":${id}}`);

/** Records the current state, from which a test counts. */
async function sinceNow() {
  const calls = upstream.count('tools/call');
  const lines = evaluated.lines().length;
  const llmCalls = evaluated.llm.requests.length;
  const counted = await counts();
  return {
    calls: () => upstream.count('tools/call') - calls,
    lines: () => evaluated.lines().slice(lines),
    llmCalls: () => evaluated.llm.requests.length - llmCalls,
    counted,
  };
}

async function counts() {
  const { decisions, llm, wasm } = (await evaluated.metrics()).evaluators.gate ?? {};
  const decided = Object.values(decisions ?? {}).reduce((sum, count) => sum + count, 0);
  return { decided, failedCalls: llm?.calls_failure ?? 0, runs: wasm?.executions ?? 0 };
}

/** Log lines of calls whose client has disconnected. */
const disconnections = () =>
  evaluated.service.log
    .map(parseObject)
    .filter(({ client_disconnected, mcp_method }) => client_disconnected && mcp_method === 'tools/call');

/** Log line of a canceled evaluation. */
const CANCELED = { level: 'info', msg: 'evaluation canceled', evaluator: 'gate', decision: 'cancelled' };

describe.each(['continue', 'block'] as const)(
  'a call that is canceled during its evaluation, on_error %s',
  (on_error) => {
    const applyEvaluators = () =>
      evaluated.apply(evaluator('gate', { on_error }), evaluator('next', { on_error, connection: 'keyless' }));

    it('by a cancellation of its legacy client is not forwarded, and has no response', async () => {
      await applyEvaluators();
      const client = await legacy();
      const since = await sinceNow();
      const llmCall = blockedLlmCall();
      const reading = client.call('"c"');
      const { disconnected } = await llmCall.received;
      expect(await client.post(cancellation('"c"'))).toMatchObject({ status: 202, text: '' });
      // Neither waits for the LLM, which has not responded.
      expect([await reading.ended, (await reading.head).statusCode, reading.text]).toEqual([true, 200, '']);
      await disconnected;
      await expect.poll(() => since.lines()).toMatchObject([{ ...CANCELED, reason: 'the client canceled the call' }]);
      expect([since.calls(), since.llmCalls(), await counts()]).toEqual([0, 1, since.counted]);
      // The session continues, and the id can be reused.
      llmCall.answer();
      const nextCall = client.call('"c"');
      await nextCall.matching(/done/);
      expect(since.calls()).toBe(1);
    });

    it('by its modern client, by disconnecting, is not forwarded', async () => {
      await applyEvaluators();
      const since = await sinceNow();
      const llmCall = blockedLlmCall();
      const reading = modernCall();
      const { disconnected } = await llmCall.received;
      reading.disconnect();
      await disconnected;
      await expect.poll(() => since.lines()).toMatchObject([{ ...CANCELED, reason: 'the client has disconnected' }]);
      expect([since.llmCalls(), await counts()]).toEqual([1, since.counted]);
      llmCall.answer();
      await modernCall().matching(/done/);
      expect(since.calls()).toBe(1);
    });
  },
);

test('a client that accepts no event stream receives 202 for its canceled call', async () => {
  await evaluated.apply(evaluator('gate'));
  const client = await legacy();
  const since = await sinceNow();
  const llmCall = blockedLlmCall();
  const response = client.post(callText('7'), { accept: 'application/json' });
  await llmCall.received;
  await client.post(cancellation('7'));
  expect(await response).toMatchObject({ status: 202, text: '' });
  expect(since.calls()).toBe(0);
});

test('a cancellation applies to the request with this id of its own session only', async () => {
  await evaluated.apply(evaluator('gate'));
  const [client, other] = await Promise.all([legacy(), legacy()]);
  const since = await sinceNow();
  const llmCall = blockedLlmCall();
  const reading = client.call('1');
  await llmCall.received;
  for (const id of ['"1"', '2']) expect((await client.post(cancellation(id))).status).toBe(202);
  expect((await other.post(cancellation('1'))).status).toBe(202);
  llmCall.answer();
  await reading.matching(/done/);
  expect(since.calls()).toBe(1);
});

test('a request of a batch is canceled individually', async () => {
  await evaluated.apply(evaluator('gate'));
  const client = await legacy('2025-03-26');
  const since = await sinceNow();
  const llmCall = blockedLlmCall();
  const response = client.post(`[${callText('"c"')},{"jsonrpc":"2.0","id":"p","method":"tools/list"}]`);
  await llmCall.received;
  await client.post(cancellation('"c"'));
  const { status, text } = await response;
  expect([status, text.match(/"id":"\w"/g), since.calls()]).toEqual([200, ['"id":"p"'], 0]);
});

test('a legacy client that disconnects has not canceled: its call is evaluated and forwarded', async () => {
  await evaluated.apply(evaluator('gate'));
  const client = await legacy();
  const since = await sinceNow();
  const disconnected = disconnections().length;
  const events = (await eventsAt(evaluated.service, url)).length;
  const llmCall = blockedLlmCall();
  const reading = client.call('"c"');
  await llmCall.received;
  reading.disconnect();
  await expect.poll(() => disconnections().length).toBe(disconnected + 1);
  expect(since.calls()).toBe(0);
  llmCall.answer();
  // The whole response is read from the upstream, although there is no client.
  await expect
    .poll(async () => (await eventsAt(evaluated.service, url)).slice(events))
    .toMatchObject([{ eventType: 'STARTED' }, { eventType: 'COMPLETED', isError: false }]);
  expect([since.calls(), since.lines()]).toMatchObject([1, [{ decision: 'pass' }]]);
  await client.call('"d"').matching(/done/);
});

test('a legacy client that has disconnected can still cancel', async () => {
  await evaluated.apply(evaluator('gate'));
  const client = await legacy();
  const since = await sinceNow();
  const disconnected = disconnections().length;
  const llmCall = blockedLlmCall();
  const reading = client.call('"c"');
  const received = await llmCall.received;
  reading.disconnect();
  await expect.poll(() => disconnections().length).toBe(disconnected + 1);
  await client.post(cancellation('"c"'));
  await received.disconnected;
  await expect.poll(() => since.lines()).toMatchObject([CANCELED]);
  llmCall.answer();
  await client.call('"d"').matching(/done/);
  expect(since.calls()).toBe(1);
});
