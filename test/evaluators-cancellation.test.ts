import { beforeAll, describe, expect, it, test } from 'vitest';
import type { AskedCompletion } from '../packages/server/testing/chat-completions.ts';
import { notification } from '../packages/server/testing/live.ts';
import { callText, Reading, type SessionClient, sessionClient } from '../packages/server/testing/session-client.ts';
import { callHeaders, callText as modernCallText } from '../packages/server/testing/streamer.ts';
import { eventsAt } from '../packages/server/testing/tool-call-events.ts';
import { type EvaluatedService, evaluator, startEvaluatedService } from './fixtures/evaluated/evaluated-service.ts';
import { parseObject } from './fixtures/raw-upstream/message.ts';
import { textResultText, toolList, toolText } from './fixtures/raw-upstream/texts.ts';
import { type RawUpstream, startRawUpstream } from './fixtures/raw-upstream.ts';

// Requests that nobody waits for any more while they are judged (mcp 1 and 4).

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

/** The next question to the LLM: it is not answered before the test says so. */
function heldQuestion() {
  const asked = Promise.withResolvers<AskedCompletion>();
  const answer = Promise.withResolvers<void>();
  evaluated.llm.script((completion) => {
    asked.resolve(completion);
    return { content: 'pass', after: answer.promise };
  });
  return { asked: asked.promise, answer: () => answer.resolve() };
}

const legacy = (version?: string): Promise<SessionClient> => sessionClient(url, version ? { version } : {});
const modernCall = () => {
  const headers = { 'content-type': 'application/json', accept: 'application/json, text/event-stream' };
  return new Reading(url, 'POST', { ...headers, ...callHeaders('modern') }, modernCallText('modern'));
};
const cancellation = (id: string) => notification('cancelled', `{"requestId":${id}}`);

/** Notes what there is, to tell what comes of a test. */
async function sinceNow() {
  const calls = upstream.count('tools/call');
  const lines = evaluated.lines().length;
  const questions = evaluated.llm.asked.length;
  const counted = await counts();
  return {
    calls: () => upstream.count('tools/call') - calls,
    lines: () => evaluated.lines().slice(lines),
    questions: () => evaluated.llm.asked.length - questions,
    counted,
  };
}

async function counts() {
  const { decisions, llm, wasm } = (await evaluated.metrics()).evaluators.gate ?? {};
  const decided = Object.values(decisions ?? {}).reduce((sum, count) => sum + count, 0);
  return { decided, failedCalls: llm?.calls_failure ?? 0, runs: wasm?.executions ?? 0 };
}

/** A line per request that came to its end without its client. */
const departures = () =>
  evaluated.service.log
    .map(parseObject)
    .filter(({ client_left, mcp_method }) => client_left && mcp_method === 'tools/call');

const CANCELLED = { level: 'info', msg: 'evaluator not waited for', evaluator: 'gate', decision: 'cancelled' };

describe.each(['continue', 'block'] as const)(
  'a call that is taken back while it is judged, on_error %s',
  (on_error) => {
    const judging = () =>
      evaluated.apply(evaluator('gate', { on_error }), evaluator('next', { on_error, connection: 'keyless' }));

    it('by a cancellation of its legacy client is not carried out, and has no answer', async () => {
      await judging();
      const client = await legacy();
      const told = await sinceNow();
      const question = heldQuestion();
      const reading = client.call('"c"');
      const { left } = await question.asked;
      expect(await client.post(cancellation('"c"'))).toMatchObject({ status: 202, text: '' });
      // Neither of these waits for the LLM, which is still silent.
      expect([await reading.over, (await reading.head).statusCode, reading.text]).toEqual([true, 200, '']);
      await left;
      await expect.poll(() => told.lines()).toMatchObject([{ ...CANCELLED, reason: 'the client cancelled the call' }]);
      expect([told.calls(), told.questions(), await counts()]).toEqual([0, 1, told.counted]);
      // The session goes on, and the id can be used again.
      question.answer();
      const again = client.call('"c"');
      await again.matching(/done/);
      expect(told.calls()).toBe(1);
    });

    it('by its modern client’s leaving is not carried out', async () => {
      await judging();
      const told = await sinceNow();
      const question = heldQuestion();
      const reading = modernCall();
      const { left } = await question.asked;
      reading.leave();
      await left;
      await expect.poll(() => told.lines()).toMatchObject([{ ...CANCELLED, reason: 'the client has left' }]);
      expect([told.questions(), await counts()]).toEqual([1, told.counted]);
      question.answer();
      await modernCall().matching(/done/);
      expect(told.calls()).toBe(1);
    });
  },
);

test('a client that reads no event streams is told that its cancelled call was accepted, and no more', async () => {
  await evaluated.apply(evaluator('gate'));
  const client = await legacy();
  const told = await sinceNow();
  const question = heldQuestion();
  const answer = client.post(callText('7'), { accept: 'application/json' });
  await question.asked;
  await client.post(cancellation('7'));
  expect(await answer).toMatchObject({ status: 202, text: '' });
  expect(told.calls()).toBe(0);
});

test('a cancellation ends its own session’s request of this very id and no other', async () => {
  await evaluated.apply(evaluator('gate'));
  const [client, other] = await Promise.all([legacy(), legacy()]);
  const told = await sinceNow();
  const question = heldQuestion();
  const reading = client.call('1');
  await question.asked;
  for (const id of ['"1"', '2']) expect((await client.post(cancellation(id))).status).toBe(202);
  expect((await other.post(cancellation('1'))).status).toBe(202);
  question.answer();
  await reading.matching(/done/);
  expect(told.calls()).toBe(1);
});

test('a request of a batch is cancelled alone', async () => {
  await evaluated.apply(evaluator('gate'));
  const client = await legacy('2025-03-26');
  const told = await sinceNow();
  const question = heldQuestion();
  const answer = client.post(`[${callText('"c"')},{"jsonrpc":"2.0","id":"p","method":"tools/list"}]`);
  await question.asked;
  await client.post(cancellation('"c"'));
  const { status, text } = await answer;
  expect([status, text.match(/"id":"\w"/g), told.calls()]).toEqual([200, ['"id":"p"'], 0]);
});

test('a legacy client that leaves has not cancelled: its call is judged to the end and carried out', async () => {
  await evaluated.apply(evaluator('gate'));
  const client = await legacy();
  const told = await sinceNow();
  const left = departures().length;
  const events = (await eventsAt(evaluated.service, url)).length;
  const question = heldQuestion();
  const reading = client.call('"c"');
  await question.asked;
  reading.leave();
  await expect.poll(() => departures().length).toBe(left + 1);
  expect(told.calls()).toBe(0);
  question.answer();
  // Its whole answer is taken from the upstream, though there is nobody to hand it to.
  await expect
    .poll(async () => (await eventsAt(evaluated.service, url)).slice(events))
    .toMatchObject([{ eventType: 'STARTED' }, { eventType: 'COMPLETED', isError: false }]);
  expect([told.calls(), told.lines()]).toMatchObject([1, [{ decision: 'pass' }]]);
  await client.call('"d"').matching(/done/);
});

test('a legacy client that has left can still cancel', async () => {
  await evaluated.apply(evaluator('gate'));
  const client = await legacy();
  const told = await sinceNow();
  const left = departures().length;
  const question = heldQuestion();
  const reading = client.call('"c"');
  const asked = await question.asked;
  reading.leave();
  await expect.poll(() => departures().length).toBe(left + 1);
  await client.post(cancellation('"c"'));
  await asked.left;
  await expect.poll(() => told.lines()).toMatchObject([CANCELLED]);
  question.answer();
  await client.call('"d"').matching(/done/);
  expect(told.calls()).toBe(1);
});
