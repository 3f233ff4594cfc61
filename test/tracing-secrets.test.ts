import { randomBytes } from 'node:crypto';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { type ChatServer, startChatServer } from './fixtures/chat/server.ts';
import { legacyClient, modernClient, post, send } from './fixtures/raw-client.ts';
import { newTrace, startTraced, type TracedGateway } from './fixtures/traced-gateway.ts';

// Secrets of requests, at all possible places, appear in no span and in no line of the access log. Spans are exported
// when the process stops, not before.

const SECRET = `mk${randomBytes(8).toString('hex')}`;
const CREDENTIALS = {
  authorization: `Bearer ${SECRET}`,
  cookie: `_oauth2_proxy=${SECRET}`,
  'x-api-key': SECRET,
  'x-auth-request-access-token': SECRET,
};
const RUN = newTrace();
const HEADERS = { ...CREDENTIALS, traceparent: RUN.traceparent };

let traced: TracedGateway;
let chat: ChatServer;
let sessions: string[];
beforeAll(async () => {
  chat = await startChatServer();
  traced = await startTraced({
    env: {
      OTEL_BSP_SCHEDULE_DELAY: '600000',
      SERVICE_FORWARD_HEADERS: 'x-api-key',
      SERVICE_INFERENCE_UPSTREAM: `127.0.0.1:${chat.port}`,
    },
  });
  const { gateway, upstream } = traced;
  sessions = [];
  for (const fail of ['nothing', 'result', 'error']) {
    upstream.scripts['tools/call'] =
      fail === 'error'
        ? { kind: 'error', text: `{"code":-32055,"message":"${SECRET}","data":"${SECRET}"}` }
        : `{"content":[{"type":"text","text":"${SECRET}"}],"isError":${fail === 'result'},"resultType":"complete"}`;
    upstream.scripts['resources/read'] =
      fail === 'error' ? { kind: 'http', status: 500, type: 'text/plain', body: SECRET } : `{"contents":[]}`;
    const legacy = await legacyClient(`${gateway.url()}?access_token=${SECRET}`);
    sessions.push(String(legacy.headers['mcp-session-id']));
    const modern = modernClient(`${gateway.url()}?access_token=${SECRET}`, '{}', `"own":"${SECRET}"`);
    for (const client of [legacy, modern]) {
      await client.call('tools/call', `{"name":"up_tracked","arguments":{"a":"${SECRET}"}}`, HEADERS);
      await client.call('prompts/get', `{"name":"up_greeting","arguments":{"a":"${SECRET}"}}`, HEADERS);
      await client.call('resources/read', `{"uri":"db://us:${SECRET}@host/notes?${SECRET}"}`, HEADERS);
      await client.call('tools/call', `{"name":"unknown","arguments":{"a":"${SECRET}"}}`, HEADERS);
      await client.call('tools/list', `{"cursor":"${SECRET}"}`, HEADERS);
    }
    await send(`${gateway.url()}?${SECRET}`, 'DELETE', { ...HEADERS, ...legacy.headers });
  }
  const model = `http://${traced.inference()}/v1/chat/completions?api_key=${SECRET}`;
  for (const name of ['m-1', 'error']) {
    const completion = { model: name, user: SECRET, messages: [{ role: 'user', content: SECRET }] };
    await post(model, JSON.stringify(completion), HEADERS);
  }
  await post(`http://us:${SECRET}@${new URL(gateway.url()).host}/wrong?${SECRET}`, SECRET, HEADERS);
  expect(traced.receiver.spans).toEqual([]);
  expect(await gateway.stop()).toBe(0);
});
afterAll(async () => {
  await traced.close();
  await chat.close();
});

const accessLines = () => traced.gateway.logs.filter(({ target }) => /::access$/.test(String(target)));

it('completed spans are exported before the process exits', () => {
  const spans = traced.receiver.spans.filter(({ traceId }) => traceId === RUN.traceId);
  const named = (name: string) => spans.filter((span) => span.name === name).length;
  expect(named('tools/call up_tracked')).toBe(6);
  expect(named('tools/call tracked')).toBe(6);
  expect(named('prompts/get up_greeting')).toBe(6);
  expect(named('resources/read')).toBeGreaterThanOrEqual(6);
  expect(named('tools/list')).toBe(6);
  expect(spans.filter(({ attributes }) => attributes['url.path'] === '/v1/chat/completions')).toHaveLength(2);
  expect(new Set(spans.map(({ status }) => status))).toEqual(new Set(['unset', 'error']));
});

it('no span contains messages or credentials', () => {
  const text = JSON.stringify(traced.receiver.spans);
  expect(text).toContain('db://host/notes');
  expect(traced.receiver.spans.filter((span) => JSON.stringify(span).includes(SECRET))).toEqual([]);
  expect(sessions.filter((session) => session.length < 20 || text.includes(session))).toEqual([]);
});

it('no line of the access log contains them', () => {
  const lines = accessLines();
  expect(lines.length).toBeGreaterThan(35);
  expect(lines.filter((line) => JSON.stringify(line).includes(SECRET))).toEqual([]);
  const text = JSON.stringify(lines);
  expect(sessions.filter((session) => text.includes(session))).toEqual([]);
  expect(lines.filter(({ session_id }) => session_id !== undefined).length).toBeGreaterThan(10);
});
