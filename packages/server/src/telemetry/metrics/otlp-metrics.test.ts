import { describe, expect, it, onTestFinished, vi } from 'vitest';
import { type OtlpReceiver, type OtlpRequest, startOtlpReceiver } from '../../../testing/otlp-receiver.ts';
import { DEFAULT_LOG_FILTER } from '../../app/config/environment.ts';
import { createLogger } from '../log.ts';
import type { OtlpProtocol } from '../otlp.ts';
import { exportMetrics, type MetricExport } from './otlp-export.ts';
import { quietSource, type ServiceState } from './quiet-state.fixture.ts';
import { RequestMetrics } from './request-metrics.ts';

interface Exporting {
  readonly requests: RequestMetrics;
  readonly exported: MetricExport;
  /** Lines of the log, without their time. */
  readonly log: readonly Record<string, unknown>[];
}

/** Exports every hour, so in practice when flushed, until the end of the test; the library reads `env` itself. */
async function exporting(
  protocol: OtlpProtocol,
  env: Readonly<Record<string, string>>,
  state?: Partial<ServiceState>,
): Promise<Exporting> {
  for (const [name, value] of Object.entries(env)) vi.stubEnv(name, value);
  onTestFinished(() => {
    vi.unstubAllEnvs();
  });
  const requests = new RequestMetrics();
  const log: Record<string, unknown>[] = [];
  const logger = createLogger(DEFAULT_LOG_FILTER, (line) => {
    const { ts: _ts, ...rest } = JSON.parse(line);
    log.push(rest);
  });
  const source = quietSource(requests, state);
  const settings = { protocol, intervalMs: 3_600_000, timeoutMs: 20_000 };
  const exported = await exportMetrics(source, settings, logger.target('service'));
  onTestFinished(() => exported.close(1_000));
  return { requests, exported, log };
}

/** A collector that is stopped after the test. */
async function receiving(protocol?: OtlpProtocol): Promise<OtlpReceiver> {
  const receiver = await startOtlpReceiver(protocol);
  onTestFinished(receiver.close);
  return receiver;
}

/** A metric in the JSON encoding of OTLP. */
function metricIn({ body }: OtlpRequest, name: string): unknown {
  const { resourceMetrics } = JSON.parse(body.toString());
  return resourceMetrics[0].scopeMetrics[0].metrics.find((metric: { name: string }) => metric.name === name);
}

/** The metrics of one request as received by a collector. */
const PINGED = { name: 'mcp.server.operation.duration', attributes: { 'mcp.method.name': 'ping' }, count: 1, value: 1 };
const point = (value: object) => ({ dataPoints: [expect.objectContaining(value)] });

describe('metrics sent to a collector', () => {
  it('have the recorded values and the resource', async () => {
    const { url, requests: received } = await receiving();
    const before = Date.now();
    const { requests, exported } = await exporting('http/json', {
      OTEL_EXPORTER_OTLP_ENDPOINT: url,
      OTEL_EXPORTER_OTLP_HEADERS: 'x-token=secret%201',
      OTEL_RESOURCE_ATTRIBUTES: 'deployment.environment.name=test',
    });
    requests.mcpServer.record({ method: 'ping', seconds: 0.3 });
    requests.activeRequests('mcp').value++;
    await exported.flush();
    expect(received).toHaveLength(1);
    const [sent] = received;
    if (!sent) return;
    expect(sent.path).toBe('/v1/metrics');
    expect(sent.headers).toMatchObject({ 'x-token': 'secret 1', 'content-type': 'application/json' });
    const { resource, scopeMetrics } = JSON.parse(sent.body.toString()).resourceMetrics[0];
    expect(resource.attributes).toEqual(
      expect.arrayContaining([
        { key: 'service.name', value: { stringValue: 'sluice' } },
        { key: 'deployment.environment.name', value: { stringValue: 'test' } },
      ]),
    );
    expect(scopeMetrics[0].scope).toMatchObject({ name: 'sluice' });
    const duration = metricIn(sent, 'mcp.server.operation.duration');
    expect(duration).toMatchObject({
      unit: 's',
      histogram: {
        aggregationTemporality: 2,
        ...point({
          attributes: [{ key: 'mcp.method.name', value: { stringValue: 'ping' } }],
          count: 1,
          sum: 0.3,
          explicitBounds: expect.arrayContaining([0.0005, 0.2, 0.5, 300]),
        }),
      },
    });
    expect(metricIn(sent, 'http.server.active_requests')).toMatchObject({
      sum: { isMonotonic: false, ...point({ asInt: 1 }) },
    });
    expect(metricIn(sent, 'process.cpu.time')).toMatchObject({ unit: 's', sum: { isMonotonic: true } });
    expect(metricIn(sent, 'process.uptime')).toMatchObject({ gauge: point({ asDouble: expect.any(Number) }) });
    const [, start, end] =
      /"startTimeUnixNano":"(\d+)\d{6}","timeUnixNano":"(\d+)\d{6}"/.exec(JSON.stringify(duration)) ?? [];
    expect(Number(start)).toBeGreaterThanOrEqual(before);
    expect(Number(end)).toBeGreaterThanOrEqual(Number(start));
    expect(Number(end)).toBeLessThanOrEqual(Date.now());
  });

  it('are cumulative by default', async () => {
    const all = await receiving();
    const { requests, exported } = await exporting('http/json', { OTEL_EXPORTER_OTLP_ENDPOINT: all.url });
    for (const seconds of [1, 2]) {
      requests.mcpServer.record({ method: 'ping', seconds });
      await exported.flush();
    }
    const counted = all.requests.map((sent) => metricIn(sent, 'mcp.server.operation.duration'));
    expect(counted).toMatchObject([
      { histogram: point({ count: 1, sum: 1 }) },
      { histogram: point({ count: 2, sum: 3 }) },
    ]);
  });

  it.each([
    ['delta', 1, [1, 1], [5, 2]],
    ['lowmemory', 2, [1, 1], [5, 7]],
    ['cumulative', 2, [1, 2], [5, 7]],
  ])('follow the preference %s', async (preference, counterTemporality, histograms, counters) => {
    const { url, requests: received } = await receiving();
    let events = 5;
    const { requests, exported } = await exporting(
      'http/json',
      { OTEL_EXPORTER_OTLP_ENDPOINT: url, OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE: preference },
      {
        toolCallEvents: () => [{ transport: 'mcp', type: 'STARTED', count: events }],
        namespaces: () => 3,
      },
    );
    requests.mcpServer.record({ method: 'ping', seconds: 1 });
    await exported.flush();
    events = 7;
    requests.mcpServer.record({ method: 'ping', seconds: 1 });
    await exported.flush();
    const each = (name: string) => received.map((sent) => metricIn(sent, name));
    expect(each('mcp.server.operation.duration')).toMatchObject(
      histograms.map((count) => ({ histogram: point({ count }) })),
    );
    expect(each('sluice.tool_call.events')).toMatchObject(
      counters.map((asInt) => ({ sum: { aggregationTemporality: counterTemporality, ...point({ asInt }) } })),
    );
    // The current number is never a delta.
    expect(each('sluice.registry.namespaces')).toMatchObject(
      [3, 3].map((asInt) => ({ sum: { aggregationTemporality: 2, ...point({ asInt }) } })),
    );
  });

  it('are sent as Protobuf to the configured endpoint, compressed if configured', async () => {
    const { url, requests: received, points } = await receiving();
    const { requests, exported } = await exporting('http/protobuf', {
      OTEL_EXPORTER_OTLP_ENDPOINT: 'http://127.0.0.1:1',
      OTEL_EXPORTER_OTLP_METRICS_ENDPOINT: `${url}/v1/metrics`,
      OTEL_EXPORTER_OTLP_COMPRESSION: 'gzip',
    });
    requests.mcpServer.record({ method: 'ping', seconds: 1 });
    await exported.flush();
    expect(received).toMatchObject([
      { path: '/v1/metrics', headers: { 'content-type': 'application/x-protobuf', 'content-encoding': 'gzip' } },
    ]);
    expect(points).toContainEqual(expect.objectContaining(PINGED));
  });

  it('are sent over gRPC with the configured headers', async () => {
    const { url, requests: received, points } = await receiving('grpc');
    const { requests, exported } = await exporting('grpc', {
      OTEL_EXPORTER_OTLP_ENDPOINT: url,
      OTEL_EXPORTER_OTLP_METRICS_HEADERS: 'x-token=secret',
    });
    requests.mcpServer.record({ method: 'ping', seconds: 1 });
    await exported.flush();
    expect(received).toMatchObject([{ headers: { 'x-token': 'secret' } }]);
    expect(points).toContainEqual(expect.objectContaining(PINGED));
  });

  it('are split into several requests', async () => {
    const { url, requests: received } = await receiving();
    const { requests, exported } = await exporting('http/json', { OTEL_EXPORTER_OTLP_ENDPOINT: url });
    for (let tool = 0; tool < 1_500; tool++)
      requests.mcpServer.record({ method: 'tools/call', subject: { kind: 'tool', name: `t${tool}` }, seconds: 1 });
    await exported.flush();
    expect(received.length).toBeGreaterThan(1);
    const tools = received.flatMap(({ body }) => body.toString().match(/"gen_ai.tool.name"/g) ?? []);
    expect(tools).toHaveLength(1_500);
  });

  it('log once when exports fail and once when they succeed again', async () => {
    const receiver = await receiving();
    receiver.behavior = { kind: 'responds', status: 400, body: 'no' };
    const { exported, log } = await exporting('http/protobuf', {
      OTEL_EXPORTER_OTLP_ENDPOINT: receiver.url.replace('//', '//user:passw0rd@'),
      OTEL_EXPORTER_OTLP_HEADERS: 'authorization=Bearer s3cret',
    });
    for (let time = 0; time < 3; time++) await exported.flush();
    expect(log).toEqual([
      {
        level: 'warn',
        target: 'service',
        msg: 'exporting metrics failed; the values are sent with the next successful export',
        reason: 'HTTP status 400',
      },
    ]);
    receiver.behavior = { kind: 'accepts' };
    for (let time = 0; time < 2; time++) await exported.flush();
    expect(log.slice(1)).toEqual([{ level: 'info', target: 'service', msg: 'exporting metrics succeeds again' }]);
  });

  it('are sent a last time at shutdown, which does not wait for an unreachable collector', async () => {
    const { url, requests: received } = await receiving();
    const there = await exporting('http/json', { OTEL_EXPORTER_OTLP_ENDPOINT: url });
    await there.exported.close(5_000);
    expect(received).toHaveLength(1);
    const nowhere = await exporting('http/json', { OTEL_EXPORTER_OTLP_ENDPOINT: 'http://127.0.0.1:1' });
    const begun = performance.now();
    await nowhere.exported.close(100);
    // The library itself retries for at least 6.5 s.
    expect(performance.now() - begun).toBeLessThan(5_000);
  });

  it('are not sent if the state of the service cannot be read', async () => {
    const { url, requests: received } = await receiving();
    const { exported, log } = await exporting(
      'http/json',
      { OTEL_EXPORTER_OTLP_ENDPOINT: url },
      {
        namespaces: () => {
          throw new Error('broken');
        },
      },
    );
    await exported.flush();
    expect(received).toEqual([]);
    expect(log).toMatchObject([{ level: 'error', msg: 'reading metrics failed', error: { message: 'broken' } }]);
  });
});
