import { afterAll, beforeAll, expect, it, vi } from 'vitest';
import { legacyClient } from '../../../../test/fixtures/raw-client.ts';
import { textResultText, toolList, toolText } from '../../../../test/fixtures/raw-upstream/texts.ts';
import { type RawUpstream, startRawUpstream } from '../../../../test/fixtures/raw-upstream.ts';
import { startTestService, type TestService } from '../../testing/service.ts';

let upstream: RawUpstream;
let service: TestService;
beforeAll(async () => {
  upstream = await startRawUpstream({
    eras: ['legacy'],
    scripts: { 'tools/list': toolList(toolText('work')), 'tools/call': textResultText('S3CRET') },
  });
  service = await startTestService();
  await service.register('forwards', { name: 'up', address: upstream.url });
  await service.register('tools', {
    name: 'lost',
    namespace: 'default',
    description: '',
    uri: 'grpc://none',
    toolType: 'none',
    input_schema: {},
  });
});
afterAll(async () => {
  await service?.stop(0);
  await upstream?.close();
});

/** Calls a tool and returns all lines of the log that the call has caused. */
async function linesOfCall(tool: string): Promise<Record<string, unknown>[]> {
  const client = await legacyClient(service.url());
  const before = service.log.length;
  await client.call('tools/call', JSON.stringify({ name: tool, arguments: { a: 'S3CRET' } }), {
    'x-request-id': 'r-1',
  });
  return vi.waitFor(() => {
    const lines = service.log.slice(before).map((line): Record<string, unknown> => JSON.parse(line));
    expect(lines.map(({ mcp_method }) => mcp_method)).toContain('tools/call');
    return lines.filter(({ mcp_method, tool: name }) => mcp_method === 'tools/call' || name === tool);
  });
}

it('logs a tool call as one line at level info, with the last event of the call and without its content', async () => {
  const lines = await linesOfCall('work');
  expect(lines).toEqual([
    expect.objectContaining({
      level: 'info',
      target: 'service::mcp::access',
      msg: 'request',
      namespace: 'default',
      tool: 'work',
      x_request_id: 'r-1',
      duration_ms: expect.any(Number),
      event_id: expect.stringMatching(/^[0-9a-f-]{36}$/),
      event_type: 'COMPLETED',
      transport: 'mcp',
      tool_type: 'mcp-forward',
      service_address: new URL(upstream.url).origin,
      is_error: false,
      call_duration_ms: expect.any(Number),
    }),
  ]);
  expect(JSON.stringify(lines)).not.toMatch(/S3CRET|event_tool/);
  const events = (await service.manage('GET', '/tool-calls?toolName=work')).data;
  expect(events).toMatchObject([{ eventId: lines[0]?.event_id, eventType: 'COMPLETED' }, { eventType: 'STARTED' }]);
});

it('logs the failure of a tool call in the line of its request', async () => {
  expect(await linesOfCall('lost')).toEqual([
    expect.objectContaining({
      level: 'info',
      msg: 'request',
      tool: 'lost',
      event_type: 'FAILED',
      transport: 'grpc',
      error_category: 'SERVICE_UNAVAILABLE',
      call_duration_ms: 0,
    }),
  ]);
});
