import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { startGateway } from './fixtures/gateway.ts';
import { legacyClient, modernClient } from './fixtures/raw-client.ts';
import { parseObject } from './fixtures/raw-upstream/message.ts';
import { newTrace, startTraced, type TracedGateway } from './fixtures/traced-gateway.ts';

// Sampling decisions, and their propagation to upstreams.

const REPORT_LOADED = fileURLToPath(new URL('fixtures/report-loaded.ts', import.meta.url));
const CALL = '{"name":"up_tracked","arguments":{}}';

/** Trace context of the last upstream call: the header, and `_meta`. */
function received({ upstream }: TracedGateway) {
  const {
    headers = {},
    params = {},
    body = '',
  } = upstream.seen.findLast(({ method }) => method === 'tools/call') ?? {};
  return { header: headers.traceparent, state: headers.tracestate, meta: parseObject(params._meta), body };
}

/** Packages of OpenTelemetry's that the process has loaded. */
function loaded({ gateway }: TracedGateway): unknown[] {
  return gateway.logs
    .filter(({ msg }) => msg === 'loaded')
    .map((line) => line.package)
    .filter((name) => String(name).startsWith('@opentelemetry/'));
}

describe('of the gateway by default', () => {
  let traced: TracedGateway;
  beforeAll(async () => {
    traced = await startTraced({ protocol: 'http/json', nodeArgs: ['--import', REPORT_LOADED] });
  });
  afterAll(() => traced.close());

  it("respects the agent's decision not to record, and propagates it", async () => {
    const [unsampled, sampled] = [newTrace('00'), newTrace('01')];
    const client = modernClient(traced.gateway.url());
    for (const [agent, flags] of [
      [unsampled, '00'],
      [sampled, '01'],
    ] as const) {
      await client.call('tools/call', CALL, { traceparent: agent.traceparent });
      const { header, meta } = received(traced);
      expect(header).toMatch(new RegExp(`^00-${agent.traceId}-[0-9a-f]{16}-${flags}$`));
      expect(header).not.toContain(agent.spanId);
      expect(meta.traceparent).toBe(header);
    }
    // Earlier spans have been exported before.
    await traced.receiver.span(({ traceId, kind }) => traceId === sampled.traceId && kind === 'server');
    expect(traced.receiver.spans.filter(({ traceId }) => traceId === unsampled.traceId)).toEqual([]);
  });

  it.each([
    ['in upper case', newTrace().traceparent.toUpperCase()],
    ['of zeros', `00-${'0'.repeat(32)}-${'0'.repeat(16)}-01`],
    ['of version ff', newTrace().traceparent.replace(/^00/, 'ff')],
    ['with more than there is', `${newTrace().traceparent}-more`],
    ['of 10 kB', 'f'.repeat(10_000)],
  ])('starts a new trace without a valid traceparent, with %s', async (_, traceparent) => {
    const client = await legacyClient(traced.gateway.url());
    const params = `{"name":"up_tracked","arguments":{},"_meta":{"traceparent":"${traceparent}","tracestate":"a=1"}}`;
    expect(await client.call('tools/call', params, { traceparent, tracestate: 'a=1' })).toMatchObject({ status: 200 });
    const { header, state, meta, body } = received(traced);
    expect(header).toMatch(/^00-[0-9a-f]{32}-[0-9a-f]{16}-01$/);
    expect({ ...meta, state }).toEqual({ traceparent: header });
    expect(body.match(/traceparent/g)).toHaveLength(1);
    const [, traceId] = String(header).split('-');
    const span = await traced.receiver.span((each) => each.traceId === traceId && each.kind === 'server');
    expect(span.parentSpanId).toBeUndefined();
  });

  it('loads the packages that it exports with', () => {
    expect(loaded(traced)).toContain('@opentelemetry/sdk-trace');
  });
});

describe('without a collector', () => {
  let traced: TracedGateway;
  beforeAll(async () => {
    const none = { OTEL_EXPORTER_OTLP_ENDPOINT: '', OTEL_METRICS_EXPORTER: '' };
    traced = await startTraced({ env: none, nodeArgs: ['--import', REPORT_LOADED] });
  });
  afterAll(() => traced.close());

  it.each(['legacy', 'modern'] as const)('the trace context of a %s client is forwarded unchanged', async (era) => {
    const meta = '"tracepare\\u006et" : "What it Says",  "tracestate":"  "';
    const url = traced.gateway.url();
    const client = era === 'legacy' ? await legacyClient(url) : modernClient(url, '{}', meta);
    const params = `{"name":"up_tracked","arguments":{}${era === 'legacy' ? `,"_meta":{${meta}}` : ''}}`;
    await client.call('tools/call', params, { traceparent: newTrace().traceparent });
    const { header, body } = received(traced);
    expect(header).toBeUndefined();
    expect(body).toContain(meta);
    expect(body.match(/tracepare/g)).toHaveLength(1);
  });

  it.each(['legacy', 'modern'] as const)('nothing is added to the requests of a %s client', async (era) => {
    const url = traced.gateway.url();
    await (era === 'legacy' ? await legacyClient(url) : modernClient(url)).call('tools/call', CALL);
    const { header, state, body } = received(traced);
    expect({ header, state }).toEqual({});
    expect(body).not.toContain('trace');
  });

  it('does not load the exporter packages', () => {
    expect(traced.gateway.logs.filter(({ msg }) => msg === 'loaded').length).toBeGreaterThan(5);
    expect(loaded(traced)).toEqual([]);
  });

  it('nothing is exported', async () => {
    await traced.gateway.stop();
    expect(traced.receiver.requests).toEqual([]);
  });
});

it('does not start with an invalid variable', async () => {
  const starting = startGateway({ env: { OTEL_TRACES_SAMPLER: 'sometimes' } });
  const problem = await starting.then(
    (gateway) => gateway.close().then(() => 'it has started'),
    (error: unknown) => String(error),
  );
  const lines = problem.split('\n').slice(1);
  expect(lines).toEqual([expect.stringMatching(/OTEL_TRACES_SAMPLER: .*sometimes.* expected /)]);
});
