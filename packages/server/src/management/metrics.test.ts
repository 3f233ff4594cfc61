import { metrics as metricsOutput } from '@sluice/contract';
import { expect, onTestFinished, test } from 'vitest';
import { modernClient, post } from '../../../../test/fixtures/raw-client.ts';
import { textResultText, toolList, toolText } from '../../../../test/fixtures/raw-upstream/texts.ts';
import { startRawUpstream } from '../../../../test/fixtures/raw-upstream.ts';
import { startTestService } from '../testing/service.ts';

/** The service, and how its counters of one filter differ from those of the last look. */
async function startCounted() {
  const service = await startTestService();
  onTestFinished(() => service.stop());
  const read = async () => {
    const answer = await fetch(`${service.management}/api/v1/metrics`, { headers: { connection: 'close' } });
    expect([answer.status, answer.headers.get('content-type')]).toEqual([200, 'application/json']);
    const { data, error }: { data: unknown; error: unknown } = Object(await answer.json());
    expect(error).toBeNull();
    return metricsOutput.parse(data);
  };
  return { service, read };
}

test('before the first request every counter is there, and is 0', async () => {
  const { read } = await startCounted();
  const { filters, evaluators, pipeline, gauges } = await read();
  const names = ['cors', 'mcp', 'service_namespace', 'service_mcp_init', 'service_tool_list', 'service_tool_call'];
  expect(Object.keys(filters)).toEqual(expect.arrayContaining(names));
  for (const filter of Object.values(filters)) {
    expect(filter).toEqual({
      requests_continue: 0,
      requests_reject: 0,
      requests_other: 0,
      errors: 0,
      duration: { count: 0, total_ms: 0, avg_ms: 0 },
    });
  }
  expect(evaluators).toEqual({});
  expect(pipeline).toEqual({
    trigger_matches: 0,
    trigger_misses: 0,
    skipped_no_method: 0,
    skipped_no_state: 0,
    skipped_no_match: 0,
    skipped_no_registry: 0,
    skipped_no_interactions: 0,
  });
  expect(gauges).toEqual({ evaluators_loaded: 0, wasm_compiled: 0, namespace_bindings: 0 });
});

test('a call counts at each filter that it passes and at the one that answers it, and asking counts nothing', async () => {
  const { service, read } = await startCounted();
  const upstream = await startRawUpstream({
    scripts: { 'tools/list': toolList(toolText('echo')), 'tools/call': textResultText('done') },
  });
  onTestFinished(upstream.close);
  await service.register('forwards', { name: 'up', address: upstream.url });
  expect((await read()).filters.cors?.duration.count).toBe(0);

  const client = modernClient(service.url());
  for (let time = 0; time < 3; time++) {
    expect((await client.call('tools/call', '{"name":"echo","arguments":{}}')).status).toBe(200);
  }
  await client.call('tools/list', '{}');
  const { filters } = await read();
  expect(filters.cors).toMatchObject({ requests_continue: 4, requests_reject: 0, requests_other: 0, errors: 0 });
  expect(filters.service_tool_list).toMatchObject({ requests_continue: 3, requests_other: 1 });
  // A call that goes upstream is answered by it, however that ends.
  expect(filters.service_tool_call).toMatchObject({ requests_continue: 0, requests_reject: 0, requests_other: 3 });
  expect(filters.service_prompt_get?.duration.count).toBe(0);
  const { count, total_ms, avg_ms } = filters.service_tool_call?.duration ?? { count: 0, total_ms: 0, avg_ms: 0 };
  expect(count).toBe(3);
  expect(total_ms).toBeGreaterThan(0);
  expect(avg_ms).toBeCloseTo(total_ms / 3, 2);
  expect((await read()).filters).toEqual(filters);
});

test('what a filter refuses counts as rejected', async () => {
  const { service, read } = await startCounted();
  await post(service.url(), 'no JSON');
  await post(service.url('no-such-namespace'), '{"jsonrpc":"2.0","id":1,"method":"ping"}');
  const { filters } = await read();
  expect(filters.mcp).toMatchObject({ requests_continue: 1, requests_reject: 1, requests_other: 0 });
  expect(filters.service_namespace).toMatchObject({ requests_continue: 0, requests_reject: 1, requests_other: 0 });
  expect(filters.service_mcp_init?.duration.count).toBe(0);
});

test('counters are of the process, so that another service begins with none', async () => {
  const { service } = await startCounted();
  await post(service.url(), '{"jsonrpc":"2.0","id":1,"method":"ping"}');
  const { read } = await startCounted();
  expect((await read()).filters.cors?.duration.count).toBe(0);
});
