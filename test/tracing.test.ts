import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { CapabilityService } from '../packages/server/testing/capability-service.ts';
import type { ExportedSpan } from '../packages/server/testing/otlp/read.ts';
import { type ChatServer, startChatServer } from './fixtures/chat/server.ts';
import { LEGACY, legacyClient, MODERN, modernClient, post } from './fixtures/raw-client.ts';
import { parseObject } from './fixtures/raw-upstream/message.ts';
import {
  type CalledService,
  newTrace,
  startTraced,
  startTracedService,
  type Traced,
  type TracedGateway,
} from './fixtures/traced-gateway.ts';

// A single trace from the agent, through the gateway, to the executor of its requests.

let traced: TracedGateway;
let chat: ChatServer;
let service: CapabilityService;
const reached: CalledService[] = [];
beforeAll(async () => {
  [chat, service] = await Promise.all([startChatServer(), startTracedService((call) => reached.push(call))]);
  traced = await startTraced({
    env: {
      SERVICE_INFERENCE_UPSTREAM: `127.0.0.1:${chat.port}`,
      OTEL_SERVICE_NAME: 'edge',
      OTEL_RESOURCE_ATTRIBUTES: 'deployment.environment.name=test,service.name=loses',
    },
  });
  const { address } = service;
  const register = async (kind: string, entry: object) =>
    expect(await traced.gateway.api('POST', `/api/v1/${kind}`, entry)).toMatchObject({ status: 201 });
  const engine = { serviceSubType: 'engine', languageName: 'code' };
  await register('services', { name: 'all', serviceType: 'multi-capability', address });
  await register('services', { name: 'runner', serviceType: 'code-execution-engine', ...engine, address });
  const tool = { description: '', input_schema: { type: 'object' } };
  await register('tools', { name: 'carried', uri: 'all://carried', toolType: 'all', ...tool });
  await register('tools', { name: 'run', uri: 'code-execution-engine://engine/code', toolType: 'x', ...tool });
  await register('resources', { location: 'all://kept', name: 'kept', type: 'all' });
});
afterAll(async () => {
  await traced.close();
  service.close();
  await chat.close();
});

/** The span of this trace with this kind, and with this method if there are several. */
const spanOf = ({ traceId }: Traced, kind: ExportedSpan['kind'], name?: string) =>
  traced.receiver.span(
    (span) => span.traceId === traceId && span.kind === kind && (name === undefined || span.name === name),
  );
/** The last upstream request. */
const request = (method: string) => traced.upstream.seen.findLast((each) => each.method === method);
/** `version-trace-span-flags`, in parts. */
const output = (traceparent: unknown) => {
  const [version, traceId, spanId, flags] = String(traceparent).split('-');
  return { version, traceId, spanId, flags };
};

describe.each(['legacy', 'modern'] as const)('a tool of an upstream, called by a %s client', (era) => {
  const clientWith = (meta: string) =>
    era === 'legacy' ? legacyClient(traced.gateway.url()) : modernClient(traced.gateway.url(), '{}', meta || undefined);
  /** Calls the tool, with its trace in `_meta` or in headers. */
  const call = async (agent: Traced, where: 'meta' | 'headers', args = '{}') => {
    const meta = where === 'meta' ? `"traceparent":"${agent.traceparent}","tracestate":"a=1","baggage":"k=v"` : '';
    const headers: Record<string, string> =
      where === 'headers' ? { traceparent: agent.traceparent, tracestate: 'a=1', baggage: 'k=v' } : {};
    const params = `{"name":"up_tracked","arguments":${args}${era === 'legacy' && meta ? `,"_meta":{${meta}}` : ''}}`;
    return (await clientWith(meta)).call('tools/call', params, headers);
  };

  it.each(['meta', 'headers'] as const)('continues the trace of its %s', async (where) => {
    const agent = newTrace();
    expect(await call(agent, where)).toMatchObject({ status: 200, text: expect.stringContaining('done') });
    const [server, client] = await Promise.all([spanOf(agent, 'server'), spanOf(agent, 'client')]);
    expect(server).toMatchObject({ parentSpanId: agent.spanId, traceState: 'a=1' });
    expect(client).toMatchObject({ parentSpanId: server.spanId, traceState: 'a=1' });

    const { headers = {}, params = {} } = request('tools/call') ?? {};
    const meta = parseObject(params._meta);
    expect(output(headers.traceparent)).toEqual({ version: '00', ...ids(client), flags: '01' });
    expect({ ...meta }).toMatchObject({ traceparent: headers.traceparent, tracestate: 'a=1' });
    expect(headers.tracestate).toBe('a=1');
    if (where === 'meta') expect(meta.baggage).toBe('k=v');
  });

  it('follows its _meta, which belongs to the message, not its headers, which belong to the connection', async () => {
    const [inner, outer] = [newTrace(), newTrace()];
    const meta = `"traceparent":"${inner.traceparent}"`;
    const params = `{"name":"up_tracked","arguments":{}${era === 'legacy' ? `,"_meta":{${meta}}` : ''}}`;
    await (await clientWith(meta)).call('tools/call', params, { traceparent: outer.traceparent, tracestate: 'b=2' });
    expect(await spanOf(inner, 'server')).toMatchObject({ parentSpanId: inner.spanId, traceState: '' });
    expect(request('tools/call')?.headers).not.toHaveProperty('tracestate');
    expect(traced.receiver.spans.filter(({ traceId }) => traceId === outer.traceId)).toEqual([]);
  });

  it('has spans with the requests and their targets', async () => {
    const agent = newTrace();
    await call(agent, 'headers');
    const [server, client] = await Promise.all([spanOf(agent, 'server'), spanOf(agent, 'client')]);
    expect(server).toMatchObject({ name: 'tools/call up_tracked', kind: 'server', status: 'unset' });
    expect(server.milliseconds).toBeGreaterThan(0);
    expect(server.milliseconds).toBeGreaterThanOrEqual(client.milliseconds);
    expect(server.resource).toMatchObject({
      'service.name': 'edge',
      'deployment.environment.name': 'test',
      'service.version': expect.stringMatching(/^\d/),
    });
    expect(server.attributes).toEqual({
      'mcp.method.name': 'tools/call',
      'mcp.protocol.version': era === 'legacy' ? LEGACY : MODERN,
      ...(era === 'legacy' && { 'mcp.session.id': expect.any(String) }),
      'gen_ai.tool.name': 'up_tracked',
      'gen_ai.operation.name': 'execute_tool',
      'jsonrpc.request.id': '1',
      'network.transport': 'tcp',
      'network.protocol.name': 'http',
      'client.address': '127.0.0.1',
      'sluice.handled': 'proxied',
      'sluice.namespace': 'default',
    });
    expect(client).toMatchObject({ name: 'tools/call tracked', kind: 'client', status: 'unset' });
    expect(client.attributes).toEqual({
      'mcp.method.name': 'tools/call',
      'gen_ai.tool.name': 'tracked',
      'gen_ai.operation.name': 'execute_tool',
      'network.transport': 'tcp',
      'network.protocol.name': 'http',
      'server.address': '127.0.0.1',
      'server.port': traced.upstream.port,
    });
  });

  it.each([
    ['whose result is an error', '{"fail":"result"}', { 'error.type': 'tool_error' }],
    ['that is refused', '{"fail":"error"}', { 'error.type': '-32055', 'rpc.response.status_code': '-32055' }],
  ])('has spans with the status of an error for a call %s', async (_, args, failure) => {
    const agent = newTrace();
    await call(agent, 'headers', args);
    for (const kind of ['server', 'client'] as const) {
      const { status, attributes } = await spanOf(agent, kind);
      expect({ status, attributes }).toEqual({ status: 'error', attributes: expect.objectContaining(failure) });
    }
  });

  it('is part of one trace with other requests of its agent', async () => {
    const agent = newTrace();
    const completion = { model: 'm-1', messages: [{ role: 'user', content: 'hello' }] };
    const response = await post(
      `http://${traced.inference()}/v1/chat/completions?key=of-query`,
      JSON.stringify(completion),
      {
        traceparent: agent.traceparent,
      },
    );
    expect(response.status).toBe(200);
    const client = await clientWith(`"traceparent":"${agent.traceparent}"`);
    const headers = { traceparent: agent.traceparent };
    await client.call('tools/call', '{"name":"up_tracked","arguments":{}}', headers);
    await client.call('prompts/get', '{"name":"up_greeting"}', headers);
    await client.call('resources/read', '{"uri":"file:///notes"}', headers);
    const tool = await spanOf(agent, 'server', 'tools/call up_tracked');
    const prompt = await spanOf(agent, 'server', 'prompts/get up_greeting');
    const resource = await spanOf(agent, 'server', 'resources/read');
    const inference = await traced.receiver.span(
      ({ traceId, attributes }) => traceId === agent.traceId && attributes['url.path'] === '/v1/chat/completions',
    );
    expect([tool, prompt, resource, inference].map(({ parentSpanId }) => parentSpanId)).toEqual(
      Array.from({ length: 4 }, () => agent.spanId),
    );
    expect(prompt.attributes).toMatchObject({ 'gen_ai.prompt.name': 'up_greeting' });
    expect(prompt.attributes).not.toHaveProperty('gen_ai.operation.name');
    expect(resource.attributes).toMatchObject({ 'mcp.resource.uri': 'file:///notes' });
    expect(inference).toMatchObject({
      kind: 'server',
      attributes: { 'http.request.method': 'POST', 'http.response.status_code': 200 },
    });
    for (const [method, name, parent] of [
      ['prompts/get', 'prompts/get greeting', prompt],
      ['resources/read', 'resources/read', resource],
    ] as const) {
      const upstream = await spanOf(agent, 'client', name);
      expect(upstream.parentSpanId).toBe(parent.spanId);
      expect(output(request(method)?.headers.traceparent)).toMatchObject(ids(upstream));
      expect(output(parseObject(request(method)?.params._meta).traceparent)).toMatchObject(ids(upstream));
    }
  });

  it.each([
    ['InvokeTool', 'tools/call', '{"name":"carried","arguments":{}}', 'tool.ToolInvoker/InvokeTool'],
    [
      'ExecuteCode',
      'tools/call',
      '{"name":"run","arguments":{"code":"eA=="}}',
      'codeexecution.CodeExecutor/ExecuteCode',
    ],
    ['ResourceAcquire', 'resources/read', '{"uri":"all://kept"}', 'resource.ResourceAcquirer/ResourceAcquire'],
  ] as const)('continues to a capability service for %s', async (method, of, params, name) => {
    const agent = newTrace();
    const { text } = await (await clientWith('')).call(of, params, {
      traceparent: agent.traceparent,
      tracestate: 'c=3',
    });
    expect(text).toContain('done');
    const [server, client] = await Promise.all([spanOf(agent, 'server'), spanOf(agent, 'client')]);
    expect(server).toMatchObject({ parentSpanId: agent.spanId, attributes: { 'sluice.handled': 'proxied' } });
    expect(client).toMatchObject({
      name,
      parentSpanId: server.spanId,
      attributes: { 'rpc.system.name': 'grpc', 'rpc.method': name, 'server.address': '127.0.0.1' },
    });
    const { metadata } = reached.findLast((each) => each.method === method) ?? {};
    expect(output(metadata?.traceparent)).toMatchObject({ ...ids(client), flags: '01' });
    expect(metadata?.tracestate).toBe('c=3');
  });

  it('starts a trace if the request has none', async () => {
    const before = traced.receiver.spans.length;
    await (await clientWith('')).call('tools/call', '{"name":"up_tracked","arguments":{}}');
    const { traceId } = output(request('tools/call')?.headers.traceparent);
    const server = await traced.receiver.span((span) => span.traceId === traceId && span.kind === 'server');
    expect(server).toMatchObject({ parentSpanId: undefined, traceId: expect.stringMatching(/^[0-9a-f]{32}$/) });
    expect(traced.receiver.spans.length).toBeGreaterThan(before);
  });
});

function ids({ traceId, spanId }: ExportedSpan) {
  return { traceId, spanId };
}
