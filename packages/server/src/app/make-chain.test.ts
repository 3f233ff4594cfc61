import { metrics as body } from '@sluice/contract';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { modernClient, post, send } from '../../../../test/fixtures/raw-client.ts';
import { rpc } from '../../testing/listener.ts';
import { startTestService, type TestService } from '../../testing/service.ts';

/** Filters of the embedded MCP chain in order. */
const FILTERS = ['cors', 'mcp', 'service_namespace', 'service_well_known', 'service_evaluator', 'service_methods'];
/** Filters of the embedded inference chain. */
const INFERENCE_FILTERS = ['service_intercept', 'router', 'load_balancer'];

let service: TestService;

beforeEach(async () => {
  service = await startTestService();
});
afterEach(() => service.stop());

/** Counters continue, reject, other and errors of the filters that a request has reached. */
async function counts(): Promise<Record<string, number[]>> {
  const { data } = await service.manage('GET', '/metrics');
  const reached = Object.entries(body.parse(data).filters).filter(([, { duration }]) => duration.count > 0);
  return Object.fromEntries(
    reached.map(([name, { requests_continue, requests_reject, requests_other, errors }]) => [
      name,
      [requests_continue, requests_reject, requests_other, errors],
    ]),
  );
}

/** Counters of the filters before `service_methods` after this many requests. */
const passed = (times: number) => Object.fromEntries(FILTERS.slice(0, -1).map((name) => [name, [times, 0, 0, 0]]));

describe('the metrics of the embedded pipeline', () => {
  it('include all filters from the start', async () => {
    const { status, data } = await service.manage('GET', '/metrics');
    expect([status, Object.keys(body.parse(data).filters)]).toEqual([200, [...FILTERS, ...INFERENCE_FILTERS]]);
    expect(await counts()).toEqual({});
  });

  it('count the outcome of each filter and method', async () => {
    const { call } = modernClient(service.url());
    await call('tools/list');
    expect(await counts()).toEqual({ ...passed(1), 'service_methods tools/list': [0, 0, 1, 0] });
    await call('tools/call', '{"name":"none"}');
    await call('vendor/unknown');
    expect(await counts()).toEqual({
      ...passed(3),
      'service_methods tools/list': [0, 0, 1, 0],
      'service_methods tools/call': [0, 1, 0, 0],
      'service_methods other': [1, 0, 0, 0],
    });
  });

  it('distinguish preflights and rejected paths', async () => {
    await send(service.url(), 'OPTIONS');
    await post(service.url('nowhere'), rpc('ping'));
    expect(await counts()).toEqual({ cors: [1, 0, 1, 0], mcp: [1, 0, 0, 0], service_namespace: [0, 1, 0, 0] });
  });

  it('count a batch and each of its messages', async () => {
    const client = { protocolVersion: '2025-03-26', capabilities: {}, clientInfo: { name: 'c', version: '1' } };
    const { headers } = await post(service.url(), rpc('initialize', client));
    expect(await counts()).toEqual({ ...passed(1), 'service_methods initialize': [0, 0, 1, 0] });
    const batch = `[${rpc('ping')},${rpc('ping', {}, 2)},7]`;
    await post(service.url(), batch, { 'mcp-session-id': String(headers['mcp-session-id']) });
    expect(await counts()).toEqual({
      cors: [5, 0, 0, 0],
      mcp: [4, 1, 0, 0],
      service_namespace: [3, 0, 1, 0],
      service_well_known: [3, 0, 0, 0],
      service_evaluator: [3, 0, 0, 0],
      'service_methods initialize': [0, 0, 1, 0],
      'service_methods ping': [0, 0, 2, 0],
    });
  });
});
