import { beforeAll, describe, expect, it, vi } from 'vitest';
import { histogramsOf, type Sample, sampleOf, samplesOf } from '../packages/server/testing/prometheus-text.ts';
import { type MeasuredService, MINIMAL_TOOL, startMeasuredService } from './fixtures/measured-service.ts';

// /metrics of a whole service with traffic at all of its listeners.

const COUNT = 'http_server_request_duration_seconds_count';
const ACTIVE = 'http_server_active_requests';

let measured: MeasuredService;
beforeAll(async () => {
  measured = await startMeasuredService();
  return measured.close;
});

const scrape = async (): Promise<Sample[]> => samplesOf(await measured.exposition());

describe('/metrics of a service after traffic', () => {
  let samples: Sample[];
  beforeAll(async () => {
    await measured.serveTraffic();
    // A client may get its response before the service counts it.
    await vi.waitFor(async () => {
      samples = await scrape();
      for (const sluice_listener of ['mcp', 'inference']) expect(value(ACTIVE, { sluice_listener })).toBe(0);
      expect(sum(COUNT, { sluice_listener: 'management', http_request_method: 'GET' })).toBeGreaterThan(1);
    }, 20_000);
  });
  const value = (name: string, labels?: Readonly<Record<string, string>>) => sampleOf(samples, name, labels);
  const sum = (name: string, labels: Readonly<Record<string, string>>) =>
    samples
      .filter(
        (sample) => sample.name === name && Object.entries(labels).every(([key, of]) => sample.labels[key] === of),
      )
      .reduce((total, sample) => total + sample.value, 0);

  it('counts HTTP requests by listener', () => {
    expect(sum(COUNT, { sluice_listener: 'mcp', http_request_method: 'POST' })).toBe(10);
    expect(value(COUNT, { sluice_listener: 'inference', http_response_status_code: '200' })).toBe(2);
    expect(sum(COUNT, { sluice_listener: 'management', http_request_method: 'POST' })).toBe(3);
  });

  it('counts client requests by method, tool and error', () => {
    const count = 'mcp_server_operation_duration_seconds_count';
    const calls = { mcp_method_name: 'tools/call', gen_ai_operation_name: 'execute_tool', sluice_namespace: 'crm' };
    expect(value(count, { mcp_method_name: 'tools/list', sluice_namespace: 'crm' })).toBe(1);
    expect(sum(count, { ...calls, gen_ai_tool_name: 'a' })).toBe(4);
    expect(value(count, { ...calls, gen_ai_tool_name: 'a', error_type: 'tool_error' })).toBe(1);
    expect(value(count, { ...calls, gen_ai_tool_name: MINIMAL_TOOL })).toBe(1);
    expect(value(count, { mcp_method_name: '_OTHER', sluice_namespace: 'crm' })).toBe(1);
    // Without names of unknown tools.
    expect(sum(count, { ...calls, gen_ai_tool_name: 'unknown tool' })).toBe(0);
    expect(sum(count, calls)).toBe(8);
  });

  it('counts upstream requests', () => {
    const count = 'mcp_client_operation_duration_seconds_count';
    const at = {
      server_address: '127.0.0.1',
      server_port: String(measured.upstream.port),
      mcp_method_name: 'tools/call',
    };
    expect(sum(count, { ...at, gen_ai_tool_name: 'a' })).toBe(4);
    expect(sum(count, at)).toBe(5);
    const called = { rpc_system_name: 'grpc', server_port: String(measured.worker.port) };
    expect(value('rpc_client_call_duration_seconds_count', called)).toBe(2);
  });

  it('counts completions and their tokens', () => {
    const requested = { gen_ai_request_model: 'm-1', gen_ai_operation_name: 'chat' };
    expect(value('gen_ai_client_operation_duration_seconds_count', requested)).toBe(2);
    for (const gen_ai_token_type of ['input', 'output']) {
      expect(value('gen_ai_client_token_usage_count', { ...requested, gen_ai_token_type })).toBe(2);
      expect(value('gen_ai_client_token_usage_sum', { ...requested, gen_ai_token_type })).toBeGreaterThan(0);
    }
  });

  it('reports the health of a service', async () => {
    const worker = { sluice_service: 'worker' };
    await expect.poll(async () => sampleOf(await scrape(), 'sluice_service_healthy', worker)).toBe(1);
  });

  it('reports the number of resources', () => {
    expect(value('sluice_forward_available', { sluice_forward: 'crm' })).toBe(1);
    expect(value('sluice_registry_entries', { sluice_entry_kind: 'tool' })).toBe(3);
    expect(value('sluice_interaction_records')).toBe(2);
    expect(value('sluice_interaction_size_bytes')).toBeGreaterThan(0);
    expect(value('sluice_tool_call_events_total', { sluice_transport: 'mcp', sluice_event_type: 'STARTED' })).toBe(5);
    const completed = (sluice_transport: string) =>
      value('sluice_tool_call_events_total', {
        sluice_transport,
        sluice_event_type: 'COMPLETED',
        sluice_outcome: 'completed',
      });
    expect([completed('mcp'), completed('grpc')]).toEqual([4, 2]);
    expect(value('sluice_filter_requests_total', { sluice_filter: 'mcp', sluice_filter_outcome: 'continue' })).toBe(10);
    expect(value('sluice_call_active')).toBe(0);
  });

  it('stays consistent under load, without losses', async () => {
    const before = histogramsOf(await scrape());
    const workers = Array.from({ length: 8 }, async () => {
      for (let time = 0; time < 25; time++) await measured.call('a');
    });
    let running = true;
    const load = Promise.all(workers).finally(() => {
      running = false;
    });
    let last = before;
    let scrapes = 0;
    while (running) {
      const now = histogramsOf(await scrape());
      for (const [series, count] of last) expect(now.get(series)).toBeGreaterThanOrEqual(count);
      last = now;
      scrapes++;
    }
    await load;
    expect(scrapes).toBeGreaterThan(1);
    const gained = async () =>
      [...histogramsOf(await scrape())]
        .filter(([series, count]) => series.startsWith('mcp_') && count !== before.get(series))
        .map(([series, count]) => count - (before.get(series) ?? 0));
    await expect.poll(gained).toEqual([200, 200]);
  });
});
