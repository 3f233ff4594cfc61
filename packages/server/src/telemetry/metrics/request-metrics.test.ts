import { describe, expect, it } from 'vitest';
import type { Metric, MetricAttributes } from './instruments.ts';
import { RequestMetrics } from './request-metrics.ts';

const SECONDS = 0.004;

function metric(metrics: RequestMetrics, name: string): Metric {
  const found = metrics.metrics().find((each) => each.name === name);
  if (!found) throw new Error(`no metric ${name}`);
  return found;
}

/** The attributes of all series. */
function labels(metrics: RequestMetrics, name: string): MetricAttributes[] {
  return metric(metrics, name).series.map(({ attributes }) => attributes);
}

/** Count and sum of each series. */
function totals(metrics: RequestMetrics, name: string): { count: number; sum: number }[] {
  const found = metric(metrics, name);
  return found.kind === 'histogram' ? found.series.map(({ value: { count, sum } }) => ({ count, sum })) : [];
}

describe('the metrics of requests', () => {
  it('distinguish MCP requests of clients by method, namespace, tool, prompt and error', () => {
    const metrics = new RequestMetrics();
    const call = {
      method: 'tools/call',
      namespace: 'crm',
      subject: { kind: 'tool', name: 'find' },
      seconds: SECONDS,
    } as const;
    metrics.mcpServer.record(call);
    metrics.mcpServer.record({ ...call, seconds: 1 });
    metrics.mcpServer.record({ ...call, errorType: 'tool_error', outcome: 'tool_error' });
    // The code is that of an upstream's error, too.
    for (const outcome of ['blocked', 'failed'] as const)
      metrics.mcpServer.record({ ...call, errorType: '-32001', outcome });
    metrics.mcpServer.record({ ...call, subject: { kind: 'tool', name: 'add' } });
    metrics.mcpServer.record({ ...call, namespace: 'default' });
    metrics.mcpServer.record({
      method: 'prompts/get',
      namespace: 'crm',
      subject: { kind: 'prompt', name: 'find' },
      seconds: SECONDS,
    });
    metrics.mcpServer.record({ method: 'ping', seconds: SECONDS });
    const called = { 'mcp.method.name': 'tools/call', 'gen_ai.operation.name': 'execute_tool' };
    expect(labels(metrics, 'mcp.server.operation.duration')).toEqual([
      { ...called, 'gen_ai.tool.name': 'find', 'sluice.namespace': 'crm' },
      {
        ...called,
        'gen_ai.tool.name': 'find',
        'sluice.namespace': 'crm',
        'error.type': 'tool_error',
        'sluice.outcome': 'tool_error',
      },
      {
        ...called,
        'gen_ai.tool.name': 'find',
        'sluice.namespace': 'crm',
        'error.type': '-32001',
        'sluice.outcome': 'blocked',
      },
      {
        ...called,
        'gen_ai.tool.name': 'find',
        'sluice.namespace': 'crm',
        'error.type': '-32001',
        'sluice.outcome': 'failed',
      },
      { ...called, 'gen_ai.tool.name': 'add', 'sluice.namespace': 'crm' },
      { ...called, 'gen_ai.tool.name': 'find', 'sluice.namespace': 'default' },
      { 'mcp.method.name': 'prompts/get', 'gen_ai.prompt.name': 'find', 'sluice.namespace': 'crm' },
      { 'mcp.method.name': 'ping' },
    ]);
    expect(totals(metrics, 'mcp.server.operation.duration')).toEqual([
      { count: 2, sum: 1.004 },
      ...Array.from({ length: 7 }, () => ({ count: 1, sum: SECONDS })),
    ]);
  });

  it('merge unknown methods', () => {
    const metrics = new RequestMetrics();
    for (const method of ['x', 'y\n z', 'tools/Call', '']) metrics.mcpServer.record({ method, seconds: SECONDS });
    for (const method of ['x', '__proto__']) metrics.mcpClient.record({ method, server: 'up:1', seconds: SECONDS });
    for (const method of ['BREW', 'get'])
      metrics.http.record({ listener: 'mcp', method, status: 405, seconds: SECONDS });
    expect(labels(metrics, 'mcp.server.operation.duration')).toEqual([{ 'mcp.method.name': '_OTHER' }]);
    expect(totals(metrics, 'mcp.server.operation.duration')).toMatchObject([{ count: 4 }]);
    expect(labels(metrics, 'mcp.client.operation.duration')).toMatchObject([{ 'mcp.method.name': '_OTHER' }]);
    expect(labels(metrics, 'http.server.request.duration')).toMatchObject([{ 'http.request.method': '_OTHER' }]);
  });

  it('merge unknown error codes', () => {
    const metrics = new RequestMetrics();
    const known = ['-32700', '-32600', '-32602', '-32603', '-32000', '-32002', '-32021', '-32042', '400', '499', '503'];
    const words = ['tool_error', 'cancelled', 'timeout'];
    for (const errorType of [...known, ...words])
      metrics.mcpServer.record({ method: 'ping', errorType, seconds: SECONDS });
    const own = ['-32055', '7', '200', '604', '1e+300', '-9007199254740993'];
    for (const errorType of [...own, '_OTHER']) {
      metrics.mcpServer.record({ method: 'ping', errorType, seconds: SECONDS });
      metrics.mcpClient.record({ method: 'ping', errorType, server: 'up:1', seconds: SECONDS });
    }
    const types = (name: string) => labels(metrics, name).map((each) => each['error.type']);
    expect(types('mcp.server.operation.duration')).toEqual([...known, ...words, '_OTHER']);
    expect(types('mcp.client.operation.duration')).toEqual(['_OTHER']);
    expect(totals(metrics, 'mcp.client.operation.duration')).toMatchObject([{ count: own.length + 1 }]);
  });

  it.each([
    ['10.0.0.1:8080', { 'server.address': '10.0.0.1', 'server.port': 8080 }],
    ['[::1]:9', { 'server.address': '::1', 'server.port': 9 }],
  ])('identify the upstream %s by address and port', (server, address) => {
    const metrics = new RequestMetrics();
    metrics.mcpClient.record({ method: 'tools/list', server, seconds: SECONDS });
    expect(labels(metrics, 'mcp.client.operation.duration')).toEqual([{ 'mcp.method.name': 'tools/list', ...address }]);
  });

  it('distinguish calls of capability services by method, service and error', () => {
    const metrics = new RequestMetrics();
    const call = { method: 'tool.ToolInvoker/InvokeTool', server: 'svc:50051', seconds: SECONDS };
    metrics.rpcClient.record(call);
    metrics.rpcClient.record({ ...call, errorType: 'UNAVAILABLE' });
    const called = {
      'rpc.system.name': 'grpc',
      'rpc.method': call.method,
      'server.address': 'svc',
      'server.port': 50_051,
    };
    expect(labels(metrics, 'rpc.client.call.duration')).toEqual([called, { ...called, 'error.type': 'UNAVAILABLE' }]);
  });

  it('distinguish HTTP requests by listener, method and status', () => {
    const metrics = new RequestMetrics(new Set(['tls']));
    const request = { listener: 'mcp', method: 'POST', status: 200, seconds: SECONDS };
    metrics.http.record(request);
    metrics.http.record({ ...request, status: 503 });
    metrics.http.record({ ...request, status: undefined });
    metrics.http.record({ ...request, listener: 'tls', method: 'GET' });
    const mcp = { 'http.request.method': 'POST', 'url.scheme': 'http', 'sluice.listener': 'mcp' };
    expect(labels(metrics, 'http.server.request.duration')).toEqual([
      { ...mcp, 'http.response.status_code': 200 },
      { ...mcp, 'http.response.status_code': 503, 'error.type': '503' },
      mcp,
      {
        'http.request.method': 'GET',
        'url.scheme': 'https',
        'sluice.listener': 'tls',
        'http.response.status_code': 200,
      },
    ]);
  });

  it('count the HTTP requests in flight by listener', () => {
    const metrics = new RequestMetrics();
    for (const listener of ['mcp', 'mcp', 'inference']) metrics.activeRequests(listener).value++;
    metrics.activeRequests('mcp').value--;
    metrics.activeRequests('inference').value--;
    expect(metric(metrics, 'http.server.active_requests').series).toEqual([
      { attributes: { 'url.scheme': 'http', 'sluice.listener': 'mcp' }, value: 1 },
      { attributes: { 'url.scheme': 'http', 'sluice.listener': 'inference' }, value: 0 },
    ]);
  });

  it('count completions and their tokens by model', () => {
    const metrics = new RequestMetrics();
    const completion = { operation: 'chat', requestModel: 'm', responseModel: 'm-1', server: 'llm:443' } as const;
    metrics.completion({ ...completion, inputTokens: 100, outputTokens: 7, seconds: 2 });
    metrics.completion({ ...completion, inputTokens: 200, seconds: 3 });
    metrics.completion({ operation: 'chat', requestModel: 'm', server: 'llm:443', errorType: '500', seconds: 1 });
    const requested = {
      'gen_ai.operation.name': 'chat',
      'gen_ai.provider.name': 'openai',
      'gen_ai.request.model': 'm',
      'server.address': 'llm',
      'server.port': 443,
    };
    const answered = { ...requested, 'gen_ai.response.model': 'm-1' };
    expect(labels(metrics, 'gen_ai.client.operation.duration')).toEqual([
      answered,
      { ...requested, 'error.type': '500' },
    ]);
    expect(totals(metrics, 'gen_ai.client.operation.duration')).toEqual([
      { count: 2, sum: 5 },
      { count: 1, sum: 1 },
    ]);
    expect(labels(metrics, 'gen_ai.client.token.usage')).toEqual([
      { ...answered, 'gen_ai.token.type': 'input' },
      { ...answered, 'gen_ai.token.type': 'output' },
    ]);
    expect(totals(metrics, 'gen_ai.client.token.usage')).toEqual([
      { count: 2, sum: 300 },
      { count: 1, sum: 7 },
    ]);
  });

  it('distinguish models with any names', () => {
    const metrics = new RequestMetrics();
    const names: [string, string][] = [
      ['a', 'b c'],
      ['a b', 'c'],
      ['ab', ' c'],
      ['', 'ab c'],
    ];
    for (const [requestModel, responseModel] of names) {
      metrics.completion({ operation: 'chat', requestModel, responseModel, server: 'llm:1', seconds: SECONDS });
    }
    expect(labels(metrics, 'gen_ai.client.operation.duration')).toHaveLength(names.length);
  });

  it('truncate names to 256 characters of well-formed text', () => {
    const metrics = new RequestMetrics();
    const long = 'x'.repeat(5_000_000);
    metrics.completion({ operation: 'chat', requestModel: long, server: 'llm:1', seconds: SECONDS });
    metrics.completion({ operation: 'chat', requestModel: `${long}y`, server: 'llm:1', seconds: SECONDS });
    metrics.mcpServer.record({
      method: 'tools/call',
      subject: { kind: 'tool', name: 'half a \ud83d' },
      seconds: SECONDS,
    });
    const [completion, ...others] = labels(metrics, 'gen_ai.client.operation.duration');
    expect(others).toEqual([]);
    expect(completion?.['gen_ai.request.model']).toBe('x'.repeat(256));
    metrics.mcpServer.record({
      method: 'tools/call',
      subject: { kind: 'tool', name: `${'x'.repeat(255)}\u{1f600}` },
      seconds: SECONDS,
    });
    expect(labels(metrics, 'mcp.server.operation.duration')).toMatchObject([
      { 'gen_ai.tool.name': 'half a \ufffd' },
      { 'gen_ai.tool.name': 'x'.repeat(255) },
    ]);
  });
});
