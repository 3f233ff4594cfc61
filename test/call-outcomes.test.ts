import { type CallSeries, type ToolCallOutcome, timeSeries, toolCallEvent, toolCallOutcome } from '@sluice/contract';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { TrafficCounter } from '../packages/admin/src/api/traffic.ts';
import { EVENT_COLUMNS } from '../packages/cli/src/tool-calls/event.ts';
import { type Sample, samplesOf } from '../packages/server/testing/prometheus-text.ts';
import { ResponseReader } from '../packages/server/testing/session-client.ts';
import { callHeaders, callText } from '../packages/server/testing/streamer.ts';
import { eventsAt } from '../packages/server/testing/tool-call-events.ts';
import { type EvaluatedService, evaluator, startEvaluatedService } from './fixtures/evaluated/evaluated-service.ts';
import { parseObject } from './fixtures/raw-upstream/message.ts';
import { textResultText, toolList, toolText } from './fixtures/raw-upstream/texts.ts';
import { type RawUpstream, type RawUpstreamOptions, startRawUpstream } from './fixtures/raw-upstream.ts';

// One call per outcome, each in a namespace of its own with a forward of the same name, and every place that counts it.

const RESPONSES = {
  completed: textResultText('done'),
  tool_error: '{"content":[],"isError":true}',
  failed: { kind: 'error', text: '{"code":-32603,"message":"no"}' },
  timeout: { kind: 'silence' },
  canceled: { kind: 'silence' },
  blocked: textResultText('never sent'),
} as const satisfies Record<ToolCallOutcome, NonNullable<RawUpstreamOptions['scripts']>[string]>;

let evaluated: EvaluatedService;
/** Its upstreams time out: the only call of it is the one that does. */
let impatient: EvaluatedService;
const upstreams = new Map<ToolCallOutcome, RawUpstream>();
const serviceOf = (outcome: ToolCallOutcome) => (outcome === 'timeout' ? impatient : evaluated).service;

beforeAll(async () => {
  [evaluated, impatient] = await Promise.all([
    startEvaluatedService(),
    startEvaluatedService({ SERVICE_UPSTREAM_IDLE_TIMEOUT_MS: '50' }),
  ]);
  for (const outcome of toolCallOutcome.options) {
    const scripts = { 'tools/list': toolList(toolText('work')), 'tools/call': RESPONSES[outcome] };
    const upstream = await startRawUpstream({ eras: ['modern'], scripts });
    upstreams.set(outcome, upstream);
    await serviceOf(outcome).register('forwards', {
      name: nameOf(outcome),
      address: upstream.url,
      namespace: nameOf(outcome),
    });
  }
  await evaluated.apply(evaluator('gate', { namespace: 'blocked', llmOutput: 'block:no' }));
  for (const outcome of toolCallOutcome.options) await call(outcome);
}, 120_000);
afterAll(async () => {
  await Promise.all([evaluated?.close(), impatient?.close()]);
  for (const upstream of upstreams.values()) await upstream.close();
});

/** Name of namespace and forward. */
function nameOf(outcome: ToolCallOutcome): string {
  return outcome.replace('_', '-');
}

/** Makes the call, and waits until it has ended. */
async function call(outcome: ToolCallOutcome): Promise<void> {
  const url = serviceOf(outcome).url(nameOf(outcome));
  const headers = { 'content-type': 'application/json', accept: 'application/json, text/event-stream' };
  const reading = new ResponseReader(url, 'POST', { ...headers, ...callHeaders('modern') }, callText('modern'));
  if (outcome === 'canceled') {
    await vi.waitFor(() => expect(upstreams.get(outcome)?.count('tools/call')).toBe(1));
    reading.disconnect();
  }
  await reading.ended;
  await vi.waitFor(async () => expect((await eventsAt(serviceOf(outcome), url)).at(-1)).toHaveProperty('duration'));
}

const sum = (counts: readonly number[]) => counts.reduce((total, count) => total + count, 0);

/** The sums of a series. */
function sumsOf({ calls, errors, failed, tool_errors, timeouts, canceled, blocked }: CallSeries) {
  const sums = { calls, errors, failed, tool_error: tool_errors, timeout: timeouts, canceled, blocked };
  return Object.fromEntries(Object.entries(sums).map(([name, counts]) => [name, sum(counts)]));
}

/** The sums of a series with one call of this outcome. */
function oneCall(outcome: ToolCallOutcome) {
  const none = { calls: 1, errors: 0, failed: 0, tool_error: 0, timeout: 0, canceled: 0, blocked: 0 };
  const isError = ['failed', 'tool_error', 'timeout'].includes(outcome);
  return { ...none, errors: isError ? 1 : 0, ...(outcome !== 'completed' && { [outcome]: 1 }) };
}

async function seriesBy(outcome: ToolCallOutcome, by: string): Promise<CallSeries[]> {
  return timeSeries.parse((await serviceOf(outcome).manage('GET', `/time-series?by=${by}`)).data).series;
}

/** Samples of a metric with these labels. */
async function samples(outcome: ToolCallOutcome, name: string, labels: Sample['labels']): Promise<Sample[]> {
  const text = await (await fetch(`${serviceOf(outcome).management}/metrics`)).text();
  const all = samplesOf(text).filter((sample) => sample.name === name && sample.value > 0);
  return all.filter((sample) => Object.entries(labels).every(([key, value]) => sample.labels[key] === value));
}

describe.each(toolCallOutcome.options)('one call with the outcome %s', (outcome) => {
  const name = nameOf(outcome);
  const lastEvent = async () => (await eventsAt(serviceOf(outcome), serviceOf(outcome).url(name))).at(-1);

  it('has it in its last event, in the table of the command line, and in its access line', async () => {
    const event = toolCallEvent.parse(await lastEvent());
    expect(event).toMatchObject({ outcome });
    const column = EVENT_COLUMNS.find(({ title }) => title === 'EVENT');
    expect(column?.value(event)).toBe(outcome.toUpperCase());
    const lines = () =>
      serviceOf(outcome)
        .log.map(parseObject)
        .filter((line) => line.namespace === name && line.mcp_method === 'tools/call' && line.msg === 'request');
    await expect.poll(lines).toMatchObject([{ outcome }]);
  });

  it('is counted with it in the metrics of events, of requests, and of the upstream that it reached', async () => {
    const ended = await samples(outcome, 'sluice_tool_call_events_total', { sluice_outcome: outcome });
    expect(ended.map(({ value }) => value)).toEqual([1]);
    const requests = await samples(outcome, 'mcp_server_operation_duration_seconds_count', {
      sluice_namespace: name,
      mcp_method_name: 'tools/call',
    });
    expect(requests).toMatchObject([{ value: 1 }]);
    expect(requests[0]?.labels.sluice_outcome).toBe(outcome === 'completed' ? undefined : outcome);
    const sent = await samples(outcome, 'mcp_client_operation_duration_seconds_count', {
      server_port: String(upstreams.get(outcome)?.port),
      mcp_method_name: 'tools/call',
    });
    const errorTypes = {
      completed: [undefined],
      tool_error: ['tool_error'],
      failed: ['-32603'],
      timeout: ['timeout'],
      canceled: ['cancelled'],
      blocked: [],
    };
    expect(sent.map(({ labels }) => labels.error_type)).toEqual(errorTypes[outcome]);
  });

  it.each(['namespace', 'tool', 'outcome'] as const)('is counted with it in the time series by %s', async (by) => {
    const label = { namespace: name, tool: name, outcome }[by];
    const all = await seriesBy(outcome, by);
    const own = all.filter(({ labels }) => (by === 'outcome' ? labels.outcome : labels.namespace) === label);
    expect(own.map(sumsOf)).toEqual([oneCall(outcome)]);
  });

  it('is counted in the time series of its forward unless it was blocked', async () => {
    const own = (await seriesBy(outcome, 'forward')).filter(({ labels }) => labels.forward === name);
    expect(own.map(sumsOf)).toEqual(outcome === 'blocked' ? [] : [oneCall(outcome)]);
  });

  it('is counted with it in the traffic of the console, at the forward unless it was blocked', async () => {
    const event = await lastEvent();
    const counter = new TrafficCounter();
    counter.load(event ? [{ ...event, timestamp: new Date().toISOString() }] : [], true, 0);
    const { errors, blocked } = oneCall(outcome);
    const target = outcome === 'blocked' ? undefined : { kind: 'forward', name };
    expect(counter.traffic).toMatchObject([{ namespace: name, target, calls: 1, errors, blocked }]);
  });
});

it('requests by method are counted by outcome, too', async () => {
  const series = await seriesBy('blocked', 'method');
  const calls = series.filter(({ labels }) => labels.method === 'tools/call').map(sumsOf);
  expect(calls).toEqual([{ calls: 5, errors: 2, failed: 1, tool_error: 1, timeout: 0, canceled: 1, blocked: 1 }]);
});
