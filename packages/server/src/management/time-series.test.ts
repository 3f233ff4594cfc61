import { timeSeries } from '@sluice/contract';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { modernClient } from '../../../../test/fixtures/raw-client.ts';
import { textResultText, toolList, toolText } from '../../../../test/fixtures/raw-upstream/texts.ts';
import { type RawUpstream, startRawUpstream } from '../../../../test/fixtures/raw-upstream.ts';
import { startTestService, type TestService } from '../../testing/service.ts';

let upstream: RawUpstream;
let service: TestService;
beforeAll(async () => {
  upstream = await startRawUpstream({
    scripts: { 'tools/list': toolList(toolText('echo')), 'tools/call': textResultText('done') },
  });
  service = await startTestService();
  await service.register('forwards', { name: 'up', address: upstream.url });
  const client = modernClient(service.url());
  await client.call('tools/call', '{"name":"echo"}');
  await client.call('tools/call', '{"name":"echo"}');
});
afterAll(async () => {
  await service.stop();
  await upstream.close();
});

const sum = (counts: readonly number[] = []) => counts.reduce((total, count) => total + count, 0);

test.for([
  ['', {}],
  ['namespace', { namespace: 'default' }],
  ['forward', { forward: 'up' }],
  ['tool', { namespace: 'default', tool: 'echo' }],
  ['method', { method: 'tools/call' }],
  ['outcome', { outcome: 'completed' }],
] as const)('calls are in the series by %j', async ([by, labels]) => {
  const { status, data } = await service.manage('GET', `/time-series${by && `?by=${by}`}`);
  expect(status).toBe(200);
  const { step, series, service: process } = timeSeries.parse(data);
  expect([step, series.length, series[0]?.labels]).toEqual([10, 1, labels]);
  expect([sum(series[0]?.calls), sum(series[0]?.errors)]).toEqual([2, 0]);
  expect(series[0]?.p95_ms.some((ms) => ms !== null && ms > 0)).toBe(true);
  expect(series[0]?.calls.length).toBe(360);
  for (const values of Object.values(process)) expect(values).toHaveLength(360);
});

test('the period and the step can be chosen', async () => {
  const { data } = await service.manage('GET', '/time-series?since=10m&step=60');
  const { step, series, since } = timeSeries.parse(data);
  expect(step).toBe(60);
  expect(series[0]?.calls.length).toBeGreaterThanOrEqual(10);
  expect(series[0]?.calls.length).toBeLessThanOrEqual(12);
  const again = timeSeries.parse((await service.manage('GET', `/time-series?step=1m&since=${since}`)).data);
  expect(again.since).toBe(since);
});

test.for([
  ['by=user', /^invalid by "user": expected one of namespace, forward, tool, method, outcome/],
  ['step=15s', /^invalid step "15s": expected a multiple of 10s, up to 1h/],
  ['step=0', /^invalid step/],
  ['step=2h', /^invalid step/],
  ['since=yesterday', /^invalid since "yesterday": expected an ISO 8601 time/],
  ['since=2026-13-01T00:00:00Z', /^invalid since/],
] as const)('%s is rejected', async ([query, message]) => {
  const response = await fetch(`${service.management}/api/v1/time-series?${query}`);
  const { error } = Object(await response.json());
  expect([response.status, error.message]).toEqual([400, expect.stringMatching(message)]);
});
