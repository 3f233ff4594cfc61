import { once } from 'node:events';
import { request } from 'node:http';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { sessionClient } from '../packages/server/testing/session-client.ts';
import { taskClient } from '../packages/server/testing/task-client.ts';
import { legacyClient, modernClient } from './fixtures/raw-client.ts';
import { parseObject } from './fixtures/raw-upstream/message.ts';
import { textResultText, toolList, toolText } from './fixtures/raw-upstream/texts.ts';
import { type RawUpstream, startRawUpstream } from './fixtures/raw-upstream.ts';
import { startTasksUpstream } from './fixtures/tasks-upstream.ts';
import { newTrace, startTraced, type Traced, type TracedGateway } from './fixtures/traced-gateway.ts';

// Traces of clients and upstreams of different eras, of batches, and of disconnecting clients.

let traced: TracedGateway;
let old: RawUpstream;
beforeAll(async () => {
  old = await startRawUpstream({
    eras: ['legacy'],
    scripts: { 'tools/list': toolList(toolText('tracked')), 'tools/call': textResultText('done') },
  });
  traced = await startTraced({ protocol: 'grpc', eras: ['modern'] });
  const forward = { name: 'old', address: old.url, prefix: 'old_' };
  expect(await traced.gateway.api('POST', '/api/v1/forwards', forward)).toMatchObject({ status: 201 });
});
afterAll(async () => {
  await traced.close();
  await old.close();
});

const spanOf = ({ traceId }: Traced, kind: string) =>
  traced.receiver.span((span) => span.traceId === traceId && span.kind === kind);
/** Lines of the access log, once there is a matching one. */
const lines = (fits: (line: Record<string, unknown>) => boolean) =>
  vi.waitFor(
    () => {
      const found = traced.gateway.logs.filter((line) => line.target === 'service::mcp::access' && fits(line));
      expect(found).not.toEqual([]);
      return found;
    },
    { timeout: 10_000 },
  );

describe.each([
  ['legacy', 'modern', 'up_tracked'],
  ['modern', 'legacy', 'old_tracked'],
] as const)('a %s client whose upstream is %s', (era, towards, tool) => {
  const ARGUMENTS = '{ "n" : 1.0,"big":12345678901234567890, "u":"\\u00e9"  }';

  it.each([
    ['nothing', ''],
    ['a progress token and members of its own', '"progressToken":"p-1","own" : [1,  2.0]'],
    ['a trace in the middle', '"own" : [1,  2.0], "traceparent" : "$" ,"tracestate":"a=1","baggage":"k=v"'],
  ])('propagates its trace, and relays everything else unchanged, with %s in its _meta', async (_, members) => {
    const agent = newTrace();
    const meta = members.replace('$', agent.traceparent);
    const url = traced.gateway.url();
    const client = era === 'legacy' ? await legacyClient(url) : modernClient(url, '{}', meta || undefined);
    const own = era === 'legacy' && meta !== '' ? `,"_meta":{${meta}}` : '';
    const headers: Record<string, string> = meta.includes('traceparent') ? {} : { traceparent: agent.traceparent };
    const response = await client.call('tools/call', `{"name":"${tool}","arguments":${ARGUMENTS}${own}}`, headers);
    expect(response).toMatchObject({ status: 200, text: expect.stringContaining('done') });

    const [server, span] = await Promise.all([spanOf(agent, 'server'), spanOf(agent, 'client')]);
    expect(server).toMatchObject({ parentSpanId: agent.spanId, name: `tools/call ${tool}` });
    expect(span).toMatchObject({ parentSpanId: server.spanId, name: 'tools/call tracked' });

    const upstream = towards === 'legacy' ? old : traced.upstream;
    const seen = upstream.seen.findLast(({ method }) => method === 'tools/call');
    const { body = '', headers: sent = {} } = seen ?? {};
    expect(seen?.era).toBe(towards);
    const { params } = JSON.parse(body);
    expect(params).toMatchObject({ name: 'tracked', _meta: { traceparent: `00-${agent.traceId}-${span.spanId}-01` } });
    expect(sent.traceparent).toBe(params._meta.traceparent);
    expect(body).toContain(`"arguments":${ARGUMENTS}`);
    for (const name of ['traceparent', 'tracestate', '_meta', 'progressToken', 'clientCapabilities']) {
      expect([name, body.split(`${name}"`).length - 1]).toEqual([name, expect.toBeOneOf([0, 1])]);
    }
    if (meta.includes('own')) expect(body).toContain('"own" : [1,  2.0]');
    if (meta.includes('baggage')) expect(params._meta).toMatchObject({ tracestate: 'a=1', baggage: 'k=v' });
    expect(Object.keys(params._meta).some((name) => name.startsWith('io.modelcontextprotocol/'))).toBe(
      towards === 'modern',
    );
  });
});

it('a task has a span from its creation to its end, in the trace of the call that it continues', async () => {
  const tasks = await startTasksUpstream();
  await traced.gateway.forward('jobs', tasks.url, 'jobs');
  const agent = newTrace();
  const client = taskClient(traced.gateway.url('jobs'));
  const params = { name: 'failing_job', arguments: {} };
  const { result } = await client.request('tools/call', params, { traceparent: agent.traceparent });
  await client.until(String(result.taskId), 'completed');
  const [call, task] = await Promise.all([
    spanOf(agent, 'client'),
    traced.receiver.span(({ name }) => name === 'task failing_job'),
  ]);
  expect(task).toMatchObject({ traceId: agent.traceId, parentSpanId: call.spanId, kind: 'internal' });
  expect(task.attributes).toMatchObject({
    'gen_ai.tool.name': 'failing_job',
    'sluice.task.outcome': 'completed',
  });
  await tasks.close();
});

it('a batch has a span and a line for each of its messages', async () => {
  const [outer, inner] = [newTrace(), newTrace()];
  const client = await sessionClient(traced.gateway.url(), { version: '2025-03-26' });
  const call = (id: string, meta: string) =>
    `{"jsonrpc":"2.0","id":${id},"method":"tools/call","params":{"name":"old_tracked","arguments":{}${meta}}}`;
  const notification = '{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}';
  const batch = [call('7', ''), notification, call('"b"', `,"_meta":{"traceparent":"${inner.traceparent}"}`)];
  const headers = { traceparent: outer.traceparent, 'x-request-id': 'batch-1' };
  expect(await client.post(`[${batch.join(',')}]`, headers)).toMatchObject({ status: 200 });

  const one = await traced.receiver.span((span) => span.attributes['jsonrpc.request.id'] === '7');
  const other = await traced.receiver.span((span) => span.attributes['jsonrpc.request.id'] === 'b');
  const received = await traced.receiver.span(
    ({ name, traceId }) => name === 'notifications/roots/list_changed' && traceId === outer.traceId,
  );
  expect([one, received, other].map(({ parentSpanId }) => parentSpanId)).toEqual([
    outer.spanId,
    outer.spanId,
    inner.spanId,
  ]);
  expect(one.attributes['mcp.session.id']).toBe(other.attributes['mcp.session.id']);
  expect(JSON.stringify([one, received, other])).not.toContain(client.headers['mcp-session-id']);
  const roots = traced.receiver.spans.filter(({ parentSpanId }) => parentSpanId === outer.spanId);
  expect(roots).toHaveLength(2);

  await lines((line) => line.x_request_id === 'batch-1' && line.in_batch === undefined);
  const all = await lines((line) => line.x_request_id === 'batch-1');
  const called = { in_batch: true, mcp_method: 'tools/call', tool: 'old_tracked', handled: 'proxied', status: 200 };
  expect(all).toHaveLength(4);
  expect(all).toEqual(
    expect.arrayContaining([
      expect.objectContaining({ ...called, trace_id: outer.traceId }),
      expect.objectContaining({ ...called, trace_id: inner.traceId }),
      expect.objectContaining({ in_batch: true, mcp_method: 'notifications/roots/list_changed', status: 202 }),
      expect.not.objectContaining({ mcp_method: expect.anything() }),
    ]),
  );
});

it('a call whose client disconnects has a complete span and a log line', async () => {
  const arrived = Promise.withResolvers<void>();
  const before = traced.upstream.scripts['tools/call'];
  traced.upstream.scripts['tools/call'] = () => {
    arrived.resolve();
    return { kind: 'silence' };
  };
  const agent = newTrace();
  const req = request(traced.gateway.url(), {
    method: 'POST',
    agent: false,
    headers: {
      'content-type': 'application/json',
      accept: 'application/json, text/event-stream',
      'mcp-protocol-version': '2026-07-28',
      'mcp-method': 'tools/call',
      'mcp-name': 'up_tracked',
      traceparent: agent.traceparent,
    },
  });
  const meta = '"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}';
  const params = `{"name":"up_tracked","arguments":{},"_meta":{${meta}}}`;
  req.end(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":${params}}`);
  const failed = once(req, 'error');
  await arrived.promise;
  req.destroy(new Error('left'));
  await failed;
  const [server, client] = await Promise.all([spanOf(agent, 'server'), spanOf(agent, 'client')]);
  expect(server).toMatchObject({
    status: 'error',
    attributes: { 'error.type': '499', 'gen_ai.tool.name': 'up_tracked' },
  });
  expect(client).toMatchObject({ status: 'error', attributes: { 'error.type': 'cancelled' } });
  expect(await lines((line) => line.trace_id === agent.traceId)).toEqual([
    expect.objectContaining({ client_disconnected: true, status: 499, tool: 'up_tracked', handled: 'proxied' }),
  ]);
  if (before !== undefined) traced.upstream.scripts['tools/call'] = before;
});

it('calls are not affected when the collector responds with errors', async () => {
  traced.receiver.behavior = { kind: 'responds', status: 500, body: 'no' };
  const { length } = traced.receiver.requests;
  const client = modernClient(traced.gateway.url());
  for (let calls = 0; calls < 5; calls++) {
    const { text } = await client.call('tools/call', '{"name":"old_tracked","arguments":{}}');
    expect(parseObject(text).result).toMatchObject({ content: [{ text: 'done' }] });
  }
  await traced.receiver.requested(length + 1);
  traced.receiver.behavior = { kind: 'silent' };
  expect(await client.call('tools/call', '{"name":"old_tracked","arguments":{}}')).toMatchObject({ status: 200 });
});
