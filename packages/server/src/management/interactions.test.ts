import { expect, test } from 'vitest';
import { recordedInteraction } from '../inference/interaction.fixture.ts';
import { startApi } from './api.fixture.ts';

const PATH = '/api/v1/interactions';
const ASKED = '{"messages":[{"role":"user","content":"é"}],"seed":9223372036854775807}';

test('an interaction is returned with its bodies unchanged', async (context) => {
  const api = await startApi(context);
  const ids = { conversationId: 'a', completionId: 'c-1', model: 'm' };
  const whole = { epochMs: 5, requestText: ASKED, responseText: '{"id":"c-1","n":1.0}', ...ids };
  api.interactions.add(recordedInteraction(whole));
  api.interactions.add(recordedInteraction({ epochMs: 6, requestText: ASKED, responseText: 'cut "', truncated: true }));
  api.interactions.add(recordedInteraction({ epochMs: 7, statusCode: 0 }));
  const { status, text, headers } = await api.call('GET', PATH);
  expect([status, headers['content-type']]).toEqual([200, 'application/json']);
  const path = '/v1/chat/completions';
  const first = `{"epoch_ms":5,"path":"${path}","conversation_id":"a","completion_id":"c-1","model":"m","request_body":${ASKED},"response_body":{"id":"c-1","n":1.0},"status_code":200,"duration_ms":7}`;
  const second = `{"epoch_ms":6,"path":"${path}","request_body":${ASKED},"response_body":"cut \\"","status_code":200,"duration_ms":7,"response_truncated":true}`;
  const third = `{"epoch_ms":7,"path":"${path}","request_body":null,"response_body":null,"status_code":0,"duration_ms":7}`;
  expect(text).toBe(`{"data":[${first},${second},${third}],"error":null}`);
  expect((await api.call('GET', `${PATH}?bodies=false&limit=2`)).data).toEqual([
    { epoch_ms: 6, path, status_code: 200, duration_ms: 7, response_truncated: true },
    { epoch_ms: 7, path, status_code: 0, duration_ms: 7 },
  ]);
});

test('the requested number is returned, oldest first; an invalid limit is ignored', async (context) => {
  const api = await startApi(context);
  const told = [{ conversationId: 'a b' }, { completionId: 'x' }, { conversationId: 'a b', completionId: 'x' }, {}];
  for (const [at, each] of told.entries()) api.interactions.add(recordedInteraction({ epochMs: at + 1, ...each }));
  for (const [query, wanted] of [
    ['', [1, 2, 3, 4]],
    ['?conversation_id=a%20b', [1, 3]],
    ['?completion_id=x', [2, 3]],
    ['?completion_id=x&conversation_id=a+b', [3]],
    ['?conversation_id=none', []],
    ['?limit=2', [3, 4]],
    ['?limit=2&conversation_id=a%20b', [1, 3]],
    ['?limit=1&completion_id=x', [3]],
    ['?bodies=true', [1, 2, 3, 4]],
  ] as const) {
    const { data } = await api.call('GET', PATH + query);
    expect(data, query).toEqual(wanted.map((epoch_ms) => expect.objectContaining({ epoch_ms })));
  }
});

test('they are deleted by clear', async (context) => {
  const api = await startApi(context);
  api.interactions.add(recordedInteraction({ requestText: ASKED }));
  expect((await api.call('DELETE', PATH)).data).toEqual({ cleared: true });
  expect((await api.call('GET', PATH)).data).toEqual([]);
});
