import { describe, expect, it } from 'vitest';
import { histogramsOf, sampleOf, samplesOf } from '../../../testing/prometheus-text.ts';
import { PrometheusText } from './prometheus.ts';
import { quietSource, type ServiceState } from './quiet-state.fixture.ts';
import { RequestMetrics } from './request-metrics.ts';

async function scraped(requests: RequestMetrics, state?: Partial<ServiceState>): Promise<string> {
  const prometheus = new PrometheusText(quietSource(requests, state));
  return (await Array.fromAsync(prometheus.chunks())).join('');
}

describe('the Prometheus text', () => {
  it('has each metric with unit, help and type', async () => {
    const requests = new RequestMetrics();
    requests.http.record({ listener: 'mcp', method: 'POST', status: 200, seconds: 0.3 });
    const text = await scraped(requests);
    expect(text).toContain(
      [
        '# HELP http_server_request_duration_seconds Duration of HTTP requests',
        '# UNIT http_server_request_duration_seconds seconds',
        '# TYPE http_server_request_duration_seconds histogram',
        'http_server_request_duration_seconds_count{http_request_method="POST",url_scheme="http",sluice_listener="mcp",http_response_status_code="200"} 1',
        '',
      ].join('\n'),
    );
    expect(text).toContain('# TYPE sluice_registry_namespaces gauge\nsluice_registry_namespaces 0\n');
    expect(text).toMatch(/# TYPE process_cpu_time_seconds_total counter\nprocess_cpu_time_seconds_total\{/);
    expect(text).toContain('# TYPE nodejs_eventloop_utilization_ratio gauge\n');
    expect(text).toMatch(/^# HELP target_info .*\n# TYPE target_info gauge\ntarget_info\{.*service_name="sluice"/);
    expect(text.match(/target_info\{/g)).toHaveLength(1);
  });

  it('has cumulative buckets', async () => {
    const requests = new RequestMetrics();
    for (const seconds of [0.000_1, 0.002, 0.3, 0.3, 99]) requests.mcpServer.record({ method: 'ping', seconds });
    const samples = samplesOf(await scraped(requests));
    expect(histogramsOf(samples).size).toBe(1);
    const bucket = (le: string) => sampleOf(samples, 'mcp_server_operation_duration_seconds_bucket', { le });
    expect(['0.0005', '0.0025', '0.2', '0.5', '60', '120', '+Inf'].map(bucket)).toEqual([1, 2, 2, 4, 4, 5, 5]);
    expect(sampleOf(samples, 'mcp_server_operation_duration_seconds_sum')).toBeCloseTo(99.6021, 6);
  });

  it('escapes quotes, backslashes and line breaks', async () => {
    const requests = new RequestMetrics();
    const tools = ['say "hi"', 'C:\\new', 'two\nlines', '\\n', '","x="', 'Köln 🔑', '# HELP x y'];
    for (const name of tools) {
      requests.mcpServer.record({ method: 'tools/call', namespace: 'n', subject: { kind: 'tool', name }, seconds: 1 });
    }
    const samples = samplesOf(await scraped(requests));
    for (const gen_ai_tool_name of tools) {
      expect(sampleOf(samples, 'mcp_server_operation_duration_seconds_count', { gen_ai_tool_name })).toBe(1);
    }
  });

  it('limits a metric to 2,000 series, with one header', async () => {
    const requests = new RequestMetrics();
    for (let model = 0; model < 3_000; model++) {
      requests.completion({ operation: 'chat', requestModel: `model ${model}`, server: 'llm:1', seconds: 1 });
    }
    const text = await scraped(requests);
    const samples = samplesOf(text);
    expect(histogramsOf(samples).size).toBe(2_000);
    const counts = samples.filter(({ name }) => name === 'gen_ai_client_operation_duration_seconds_count');
    expect(counts).toHaveLength(2_000);
    expect(counts.reduce((sum, { value }) => sum + value, 0)).toBe(3_000);
    expect(sampleOf(counts, 'gen_ai_client_operation_duration_seconds_count', { otel_metric_overflow: 'true' })).toBe(
      1_001,
    );
    const heads = text.match(/^# (?:HELP|TYPE) \S+/gm) ?? [];
    expect(new Set(heads).size).toBe(heads.length);
  });

  it('is a snapshot although requests continue during rendering', async () => {
    const requests = new RequestMetrics();
    const names = Array.from({ length: 1_000 }, (_, index) => `tool ${index}`);
    const count = () => {
      for (const name of names) {
        const call = { method: 'tools/call', subject: { kind: 'tool', name }, seconds: 1 } as const;
        requests.mcpServer.record(call);
        requests.mcpClient.record({ ...call, server: 'up:1' });
      }
    };
    count();
    const prometheus = new PrometheusText(quietSource(requests));
    let text = '';
    let pieces = 0;
    for await (const piece of prometheus.chunks()) {
      text += piece;
      pieces++;
      count();
    }
    expect(pieces).toBeGreaterThan(2);
    const counts = samplesOf(text).filter(({ name }) => /^mcp_\w+_count$/.test(name));
    expect(counts).toHaveLength(2_000);
    expect(new Set(counts.map(({ value }) => value))).toEqual(new Set([1]));
  });

  it('contains the current state of the service', async () => {
    const duration = { count: 10, total_ms: 2_500, avg_ms: 250 };
    const text = await scraped(new RequestMetrics(), {
      filters: () => ({ cors: { requests_continue: 4, requests_reject: 3, requests_other: 2, errors: 1, duration } }),
      entries: () => ({ tool: 3, resource: 2, prompt: 1 }),
      forwards: () => [
        { name: 'up', available: true },
        { name: 'down', available: false },
      ],
      activeEvaluators: () => [
        { name: 'judging', loaded: true },
        { name: 'missing', loaded: false },
      ],
      hosts: () => ({ running: 1, idle: 2, spare: 3, waiting: 4, started: 5, ended: 6 }),
      services: () => [
        { name: 'a', serviceType: 'tool-invoker', health: 'healthy' },
        { name: 'b', serviceType: 'tool-invoker', health: 'down' },
        { name: 'c', serviceType: 'tool-invoker', health: 'pending' },
      ],
      interactions: () => ({ count: 5, bytes: 4_096 }),
      toolCallEvents: () => [{ transport: 'grpc', type: 'FAILED', category: 'UNKNOWN', count: 8 }],
      inFlightCalls: () => 6,
      tasks: () => ({ open: 7, ended: { completed: 8, failed: 0 } }),
      openStreams: () => 7,
      droppedLines: () => 9,
    });
    const samples = samplesOf(text);
    const value = (name: string, labels?: Record<string, string>) => sampleOf(samples, name, labels);
    const outcomes = ['continue', 'reject', 'other', 'error'].map((sluice_filter_outcome) =>
      value('sluice_filter_requests_total', { sluice_filter: 'cors', sluice_filter_outcome }),
    );
    expect(outcomes).toEqual([4, 3, 2, 1]);
    expect(value('sluice_filter_duration_seconds_total', { sluice_filter: 'cors' })).toBe(2.5);
    const kinds = ['tool', 'resource', 'prompt'].map((kind) =>
      value('sluice_registry_entries', { sluice_entry_kind: kind }),
    );
    expect(kinds).toEqual([3, 2, 1]);
    const forwards = ['up', 'down'].map((name) => value('sluice_forward_available', { sluice_forward: name }));
    expect(forwards).toEqual([1, 0]);
    const loaded = (name: string) => value('sluice_evaluator_loaded', { sluice_evaluator: name });
    expect(['judging', 'missing', 'other'].map(loaded)).toEqual([1, 0, undefined]);
    const hosts = ['running', 'idle', 'spare'].map((sluice_action_host_state) =>
      value('sluice_action_hosts', { sluice_action_host_state }),
    );
    expect(hosts).toEqual([1, 2, 3]);
    expect(value('sluice_action_waiting')).toBe(4);
    expect(value('sluice_action_hosts_started_total')).toBe(5);
    expect(value('sluice_action_hosts_ended_total')).toBe(6);
    const services = ['a', 'b', 'c'].map((name) => value('sluice_service_healthy', { sluice_service: name }));
    expect(services).toEqual([1, 0, undefined]);
    expect(value('sluice_interaction_records')).toBe(5);
    expect(value('sluice_interaction_size_bytes')).toBe(4_096);
    expect(value('sluice_tool_call_events_total', { sluice_transport: 'grpc', error_type: 'UNKNOWN' })).toBe(8);
    expect(value('sluice_call_active')).toBe(6);
    expect(value('sluice_task_open')).toBe(7);
    expect(value('sluice_task_ended_total', { sluice_task_outcome: 'completed' })).toBe(8);
    expect(value('sluice_stream_active')).toBe(7);
    expect(value('sluice_log_dropped_total')).toBe(9);
  });

  it('contains the counts of evaluators', async () => {
    const took = (total_ms: number) => ({ count: 3, total_ms, avg_ms: total_ms / 3 });
    const text = await scraped(new RequestMetrics(), {
      evaluators: () => [
        {
          name: 'say "hi"',
          counts: {
            decisions: { pass: 6, block: 5, reject_malformed: 4, warn: 3, filter_tools: 2, set_metadata: 1 },
            llm: { calls_success: 8, calls_failure: 7, empty_results: 0, duration: took(1_500) },
            schema: { validations_pass: 0, validations_fail: 0, retries_success: 0, retries_failure: 0 },
            wasm: { executions: 9, not_found: 0, duration: took(250) },
            pipeline_duration: took(1_800),
            failures: { llm_failure: 11, action_failure: 12, busy: 13, consecutive: 2 },
          },
        },
      ],
    });
    const samples = samplesOf(text).filter(({ labels }) => labels.sluice_evaluator === 'say "hi"');
    const values = (name: string, label: string) =>
      samples.filter((sample) => sample.name === name).map(({ labels, value }) => [labels[label], value]);
    expect(values('sluice_evaluator_decisions_total', 'sluice_evaluator_decision')).toEqual([
      ['pass', 6],
      ['block', 5],
      ['reject_malformed', 4],
      ['warn', 3],
      ['filter_tools', 2],
      ['set_metadata', 1],
    ]);
    expect(values('sluice_evaluator_failures_total', 'error_type')).toEqual([
      ['llm_failure', 11],
      ['action_failure', 12],
      ['busy', 13],
    ]);
    expect(values('sluice_evaluator_llm_calls_total', 'sluice_evaluator_llm_outcome')).toEqual([
      ['success', 8],
      ['failure', 7],
    ]);
    const value = (name: string) => sampleOf(samples, name, { sluice_evaluator: 'say "hi"' });
    expect(value('sluice_evaluator_action_runs_total')).toBe(9);
    expect(value('sluice_evaluator_llm_duration_seconds_total')).toBe(1.5);
    expect(value('sluice_evaluator_action_duration_seconds_total')).toBe(0.25);
  });

  it('contains the metrics of the process', async () => {
    const samples = samplesOf(await scraped(new RequestMetrics()));
    expect(sampleOf(samples, 'process_memory_usage_bytes')).toBeGreaterThan(10_000_000);
    expect(sampleOf(samples, 'process_uptime_seconds')).toBeGreaterThan(0);
    expect(sampleOf(samples, 'process_cpu_time_seconds_total', { cpu_mode: 'user' })).toBeGreaterThan(0.01);
    expect(sampleOf(samples, 'v8js_memory_heap_used_bytes', { v8js_heap_space_name: 'old_space' })).toBeGreaterThan(0);
    expect(
      sampleOf(samples, 'nodejs_eventloop_time_seconds_total', { nodejs_eventloop_state: 'active' }),
    ).toBeGreaterThan(0);
    expect(sampleOf(samples, 'nodejs_eventloop_utilization_ratio')).toBeLessThanOrEqual(1);
  });
});
