import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { sampleOf, samplesOf } from '../packages/server/testing/prometheus-text.ts';
import { completionId } from './fixtures/chat/completion.ts';
import { type ChatServer, startChatServer } from './fixtures/chat/server.ts';
import { post } from './fixtures/raw-client.ts';
import { newTrace, startTraced, type Traced, type TracedGateway } from './fixtures/traced-gateway.ts';

// Spans of completions that pass the inference listener.

let traced: TracedGateway;
let chat: ChatServer;
beforeAll(async () => {
  chat = await startChatServer();
  traced = await startTraced({ env: { SERVICE_INFERENCE_UPSTREAM: `127.0.0.1:${chat.port}` } });
});
afterAll(async () => {
  await traced.close();
  await chat.close();
});

const SECRET = 'S3CRET';
const messages = [{ role: 'user', content: SECRET }];

/** Requests a completion; returns its spans. */
async function request(agent: Traced, body: object, path = '/v1/chat/completions') {
  const headers = { traceparent: agent.traceparent, 'x-conversation-id': 'talk-1' };
  const { status } = await post(`http://${traced.inference()}${path}?key=${SECRET}`, JSON.stringify(body), headers);
  const span = (kind: string) => traced.receiver.span((each) => each.traceId === agent.traceId && each.kind === kind);
  return { status, server: await span('server'), span };
}

describe('a completion', () => {
  it.each([
    ['in one piece', {}],
    ['as a stream', { stream: true, stream_options: { include_usage: true } }],
  ])('%s has a span with its models, its tokens and its finish reason', async (_, more) => {
    const agent = newTrace();
    const body = { model: 'm-1', messages, ...more };
    const { server, span } = await request(agent, body);
    expect(server).toMatchObject({ name: 'POST', parentSpanId: agent.spanId, status: 'unset' });
    expect(server.attributes).toMatchObject({
      'http.request.method': 'POST',
      'http.response.status_code': 200,
      'url.path': '/v1/chat/completions',
      'sluice.handled': 'proxied',
    });
    const client = await span('client');
    expect(client).toMatchObject({ name: 'chat m-1', parentSpanId: server.spanId, status: 'unset' });
    expect(client.attributes).toEqual({
      'gen_ai.operation.name': 'chat',
      'gen_ai.provider.name': 'openai',
      'gen_ai.request.model': 'm-1',
      'gen_ai.response.model': 'm-1',
      'gen_ai.response.id': completionId({ messages }),
      'gen_ai.conversation.id': 'talk-1',
      'gen_ai.usage.input_tokens': expect.any(Number),
      'gen_ai.usage.output_tokens': expect.any(Number),
      'gen_ai.response.finish_reasons': ['stop'],
      'server.address': '127.0.0.1',
      'server.port': chat.port,
    });
    expect(client.milliseconds).toBeLessThanOrEqual(server.milliseconds);
    expect(JSON.stringify(traced.receiver.spans)).not.toContain(SECRET);
  });

  it('that is rejected has an error span', async () => {
    const { status, server, span } = await request(newTrace(), { model: 'error', messages });
    expect(status).toBe(429);
    const failed = { status: 'error', attributes: { 'error.type': '429' } };
    expect(server).toMatchObject(failed);
    expect(await span('client')).toMatchObject({ name: 'chat error', ...failed });
  });

  it.each([false, true])(
    'with an error in its response has an error span and is counted as failed (stream: %s)',
    async (stream) => {
      const { status, span } = await request(newTrace(), { model: `overloaded-${stream}`, messages, stream });
      expect(status).toBe(200);
      const failed = { status: 'error', attributes: { 'error.type': 'overloaded_error' } };
      expect(await span('client')).toMatchObject({ name: `chat overloaded-${stream}`, ...failed });
      const metrics = await (await fetch(`http://${traced.gateway.management()}/metrics`)).text();
      const labels = { gen_ai_request_model: `overloaded-${stream}`, error_type: 'overloaded_error' };
      expect(sampleOf(samplesOf(metrics), 'gen_ai_client_operation_duration_seconds_count', labels)).toBe(1);
    },
  );

  it('that is interrupted has an error span and a log line', async () => {
    const agent = newTrace();
    const broken = { model: 'dying', messages, stream: true };
    await expect(request(agent, broken)).rejects.toThrow();
    const span = (kind: string) => traced.receiver.span((each) => each.traceId === agent.traceId && each.kind === kind);
    for (const kind of ['server', 'client']) {
      expect(await span(kind)).toMatchObject({ status: 'error', attributes: { 'error.type': 'dropped' } });
    }
    const line = () => traced.gateway.logs.find(({ trace_id }) => trace_id === agent.traceId);
    await expect.poll(line).toMatchObject({ status: 200, error_type: 'dropped', handled: 'proxied' });
    expect(line()).not.toHaveProperty('client_disconnected');
  });

  it('is forwarded as its %s client sent it, without additions', async () => {
    const agent = newTrace();
    await request(agent, { model: 'm-1', messages });
    const { rawHeaders = [] } = chat.requests.at(-1) ?? {};
    expect(rawHeaders.filter((name) => /^trace/i.test(name))).toEqual(['traceparent']);
    expect(rawHeaders[rawHeaders.indexOf('traceparent') + 1]).toBe(agent.traceparent);
  });
});

it('other requests have only the span of the request', async () => {
  const agent = newTrace();
  const { status, server } = await request(agent, { input: 'x', model: 'm-1' }, '/v1/embeddings');
  expect(status).toBe(200);
  // Its end is exported after all its effects.
  expect(traced.receiver.spans.filter(({ traceId }) => traceId === agent.traceId)).toEqual([server]);
});
