import { expect, test } from 'vitest';
import { DEFAULT_LOG_FILTER } from '../app/config/environment.ts';
import { createLogger } from './log.ts';
import { RequestMetrics } from './metrics/request-metrics.ts';
import { TimeSeries, type TimeSeriesQuery } from './time-series.ts';
import { codeSummary, NO_CONTENT, type ToolCallIdentity } from './tool-calls/event.ts';
import { ToolCallEvents } from './tool-calls/events.ts';
import { identity } from './tool-calls/identities.fixture.ts';

const START = Date.UTC(2026, 0, 2, 3, 0, 0);
const STEP = 10_000;

/** Time series with a manual clock. */
function start() {
  let now = START;
  let completions = 0;
  const toolCalls = new ToolCallEvents(
    createLogger(DEFAULT_LOG_FILTER, () => {}),
    { now: () => now },
  );
  const requests = new RequestMetrics();
  const series = new TimeSeries({ toolCalls, requests, completions: () => completions, now: () => now });
  return {
    series,
    requests,
    pass: (ms: number) => {
      now += ms;
    },
    complete: (count: number) => {
      completions += count;
    },
    call(durationMs: number, of: Partial<ToolCallIdentity> = {}, isError = false) {
      const details = { type: 'COMPLETED', durationMs, isError, content: NO_CONTENT } as const;
      toolCalls.record('id', identity(of), { type: 'STARTED', summary: codeSummary(0) });
      toolCalls.record('id', identity(of), details);
    },
    fail(of: Partial<ToolCallIdentity> = {}) {
      toolCalls.of(identity(of)).failed('UNKNOWN', '');
    },
    reject(category: 'POLICY_BLOCKED' | 'SERVICE_UNAVAILABLE', of: Partial<ToolCallIdentity> = {}) {
      toolCalls.of(identity(of)).rejected(category, 'gate', '');
    },
    read: ({ since = START - 3_600_000, step = STEP, by }: Partial<TimeSeriesQuery> = {}) => {
      const reading = series.read({ since, step, by });
      return { ...reading, series: [...reading.series] };
    },
  };
}

test('calls are counted per step of ten seconds, with errors and latencies', () => {
  const { call, fail, pass, read } = start();
  for (let at = 0; at < 100; at++) call(at < 50 ? 4 : 80);
  call(4, {}, true);
  pass(STEP);
  fail();
  pass(2 * STEP);
  const { since, step, series } = read({ since: START });
  expect([since, step]).toEqual(['2026-01-02T03:00:00.000Z', 10]);
  expect(series).toEqual([
    {
      labels: {},
      calls: [101, 1, 0, 0],
      errors: [1, 1, 0, 0],
      failed: [0, 1, 0, 0],
      tool_errors: [1, 0, 0, 0],
      timeouts: [0, 0, 0, 0],
      canceled: [0, 0, 0, 0],
      blocked: [0, 0, 0, 0],
      p50_ms: [expect.closeTo(4.98, 1), null, null, null],
      p95_ms: [expect.closeTo(97.5, 0), null, null, null],
    },
  ]);
});

test('steps can be combined', () => {
  const { call, pass, read } = start();
  for (let at = 0; at < 9; at++) {
    call(1);
    pass(STEP);
  }
  const [series] = read({ since: START, step: 3 * STEP }).series;
  expect(series?.calls).toEqual([3, 3, 3, 0]);
});

test('calls are grouped by namespace, tool, and forward or service', () => {
  const { call, read } = start();
  call(1, { namespace: 'a', toolName: 't', forward: 'f' });
  call(1, { namespace: 'b', toolName: 't', forward: 'f' });
  call(1, { namespace: 'b', toolName: 'u', forward: undefined, service: { id: 's' } });
  call(1, { namespace: 'b', toolName: 'u', forward: undefined, service: { id: 'r' } });
  call(1, { namespace: 'b', toolName: 'u', forward: 'g' });
  call(1, { namespace: 'b', toolName: 'u', forward: 'h' });
  const labels = (by: 'namespace' | 'forward' | 'tool') => read({ by }).series.map(({ labels }) => labels);
  expect(labels('namespace')).toEqual([{ namespace: 'b' }, { namespace: 'a' }]);
  expect(labels('forward')).toEqual([
    { forward: 'f' },
    { forward: 'g' },
    { forward: 'h' },
    { service: 's' },
    { service: 'r' },
  ]);
  expect(labels('tool')).toEqual([
    { namespace: 'b', tool: 'u' },
    { namespace: 'a', tool: 't' },
    { namespace: 'b', tool: 't' },
  ]);
});

test('calls are grouped by outcome', () => {
  const { call, fail, read } = start();
  for (let at = 0; at < 3; at++) call(1);
  for (let at = 0; at < 2; at++) call(1, {}, true);
  fail();
  const { series } = read({ by: 'outcome' });
  expect(series.map(({ labels, calls }) => [labels, calls.at(-1)])).toEqual([
    [{ outcome: 'completed' }, 3],
    [{ outcome: 'tool_error' }, 2],
    [{ outcome: 'failed', category: 'UNKNOWN' }, 1],
  ]);
});

test('calls that an evaluator rejected are none of their forward or service', () => {
  const { call, reject, read } = start();
  const sums = (by: 'namespace' | 'forward') =>
    read({ by }).series.map(({ labels, calls, errors, blocked }) => [
      labels,
      calls.at(-1),
      errors.at(-1),
      blocked.at(-1),
    ]);
  // The same identity: whether a call was sent must not be that of the call before.
  for (const of of [{ forward: 'f' }, { service: { id: 's' } }]) {
    call(1, of);
    reject('POLICY_BLOCKED', of);
    reject('SERVICE_UNAVAILABLE', of);
    call(1, of);
  }
  expect(sums('forward')).toEqual([
    [{ forward: 'f' }, 2, 0, 0],
    [{ service: 's' }, 2, 0, 0],
  ]);
  expect(sums('namespace')).toEqual([[{ namespace: 'default' }, 8, 2, 2]]);
});

test('requests are grouped by method: what was counted between two steps', () => {
  const { series, requests, pass, read } = start();
  const list = { method: 'tools/list', namespace: 'a', seconds: 0.006 };
  requests.mcpServer.record(list);
  requests.mcpServer.record({ ...list, namespace: 'b' });
  pass(STEP);
  series.sample();
  requests.mcpServer.record({ ...list, errorType: '-32603' });
  requests.mcpServer.record({ method: 'ping', seconds: 0.0001 });
  expect(read({ since: START, by: 'method' }).series).toMatchObject([
    {
      labels: { method: 'tools/list' },
      calls: [2, 1],
      errors: [0, 1],
      failed: [0, 1],
      p50_ms: [6.25, 6.25],
      p95_ms: [9.625, 9.625],
    },
    { labels: { method: 'ping' }, calls: [0, 1], errors: [0, 0], p50_ms: [null, 0.25], p95_ms: [null, 0.475] },
  ]);
});

test('beyond 200 groups calls are in one series, until others had none for an hour', () => {
  const { call, pass, read } = start();
  for (let at = 0; at < 205; at++) call(1, { toolName: `t${at}` });
  const first = read({ by: 'tool' }).series;
  expect(first).toHaveLength(201);
  expect(first[0]).toMatchObject({ labels: { other: true } });
  expect(first[0]?.calls.at(-1)).toBe(5);
  pass(3_600_000);
  call(1, { toolName: 'late' });
  expect(read({ by: 'tool' }).series.map(({ labels }) => labels)).toEqual([{ namespace: 'default', tool: 'late' }]);
});

test('counts of an hour ago are overwritten', () => {
  const { call, pass, read } = start();
  call(1);
  pass(3_600_000);
  expect(read().series[0]?.calls).toEqual(new Array(360).fill(0));
  call(1);
  expect(read().series[0]?.calls.at(-1)).toBe(1);
});

test('no call is lost between two readings, however many there are', () => {
  const { call, read } = start();
  for (let at = 0; at < 12_345; at++) call(1);
  expect(read({ since: START }).series[0]?.calls).toEqual([12_345]);
});

test('the process is sampled for the step that has ended', () => {
  const { series, pass, complete, read } = start();
  complete(3);
  pass(STEP);
  series.sample();
  complete(2);
  pass(STEP);
  series.sample();
  const { service } = read({ since: START });
  expect(service.completions).toEqual([3, 2, null]);
  expect(service.rss_bytes).toEqual([expect.any(Number), expect.any(Number), null]);
  expect(read({ since: START, step: 3 * STEP }).service.completions).toEqual([5]);
});
