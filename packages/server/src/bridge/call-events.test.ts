import { type ToolCallEvent, toolCallEvent } from '@sluice/contract';
import { beforeAll, expect, onTestFinished, test } from 'vitest';
import { post } from '../../../../test/fixtures/raw-client.ts';
import { startTestService, type TestService } from '../testing/service.ts';
import { startWorkingService } from './fixtures/working-service.ts';

let service: TestService;
beforeAll(async () => {
  service = await startTestService();
  return () => service.stop();
});

let made = 0;

/** Registers a tool of a type of its own, calls it, and resolves with the events of it in their order. */
async function eventsOf(
  port: number | undefined,
  tool: object,
  args: object,
  headers: Record<string, string> = {},
): Promise<ToolCallEvent[]> {
  const name = `t${made++}`;
  if (port !== undefined) {
    const entry = { name, serviceType: 'tool-invoker', host: '127.0.0.1', port };
    expect((await service.manage('POST', '/services', entry)).status).toBe(201);
  }
  const body = { name, description: '', toolType: name, uri: 'x:1', input_schema: { type: 'object' }, ...tool };
  await service.register('tools', body);
  const call = { jsonrpc: '2.0', id: 1, method: 'tools/call', params: { name, arguments: args } };
  await post(service.url(), JSON.stringify(call), headers);
  const { data } = await service.manage('GET', `/tool-calls?limit=1000`);
  return toolCallEvent
    .array()
    .parse(data)
    .filter(({ toolType }) => toolType === name)
    .reverse();
}

async function start(reply: { isError: boolean; content: string[] }): Promise<number> {
  const started = await startWorkingService({ tool: (call) => call.reply(reply.content, reply.isError) });
  onTestFinished(() => started.close());
  return started.port;
}

test.for([false, true])('a call that is answered with isError %s begins and is completed', async (isError) => {
  const port = await start({ isError, content: ['a', 'b'] });
  const ids = { 'x-request-id': 'req', 'x-conversation-id': 'conv' };
  const args = { text: 'S3CRET', service_auth_key: 'S3CRET', service_meta_trace: 'S3CRET' };
  const events = await eventsOf(port, { secretsURI: 'S3CRET', configurationURI: 'S3CRET' }, args, ids);
  const common = {
    eventId: events[0]?.eventId,
    transport: 'grpc',
    namespace: 'default',
    serviceAddress: `127.0.0.1:${port}`,
    conversationId: 'conv',
    requestId: 'req',
  };
  expect(events).toMatchObject([
    {
      ...common,
      eventType: 'STARTED',
      argumentNames: ['text', 'service_meta_trace'],
      argumentCount: 3,
      headers: { key: '[REDACTED]', trace: '[REDACTED]' },
    },
    { ...common, eventType: 'COMPLETED', isError, content: ['a', 'b'] },
  ]);
  expect(events[0]?.serviceId).toBe(events[0]?.toolName);
  expect(JSON.stringify(events) + service.log.join('')).not.toContain('S3CRET');
});

test('a call that a service cannot be reached for begins and fails', async () => {
  // Nobody listens there.
  const events = await eventsOf(9, {}, {});
  expect(events.map(({ eventType }) => eventType)).toEqual(['STARTED', 'FAILED']);
  expect(events[1]).toMatchObject({ eventId: events[0]?.eventId, errorCategory: 'SERVICE_UNAVAILABLE' });
});

const HEADER = { properties: { h: { type: 'string', target: 'header', scope: 'service' } } };

test.for([
  [
    'without a required argument',
    9,
    { input_schema: { type: 'object', required: ['a'] } },
    'INVALID_ARGUMENTS',
    'grpc',
  ],
  [
    'with a header that has no value',
    9,
    { input_schema: { type: 'object', ...HEADER } },
    'TOOL_DEFINITION_ERROR',
    'grpc',
  ],
  ['that nothing carries out', undefined, {}, 'SERVICE_UNAVAILABLE', 'grpc'],
  ['of code that no engine executes', undefined, { uri: 'code-execution-engine://e/l' }, 'SERVICE_UNAVAILABLE', 'code'],
] as const)('a call %s has one FAILED event alone', async ([_case, port, tool, errorCategory, transport]) => {
  const events = await eventsOf(port, tool, {});
  expect(events).toMatchObject([{ eventType: 'FAILED', errorCategory, transport, duration: 0 }]);
  if (port === undefined) expect(events[0]).toMatchObject({ serviceAddress: '' });
  if (transport === 'code') expect(events[0]?.toolName).toBe('code-execution/e/l');
});
