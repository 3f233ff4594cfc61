import { expect, onTestFinished, test } from 'vitest';
import { post } from '../../../../../test/fixtures/raw-client.ts';
import { startTestService } from '../../../testing/service.ts';
import { eventsOfLastCall } from '../../../testing/tool-call-events.ts';
import { startWorkingService, type WorkingServiceOptions } from './fixtures/working-service.ts';

/** Calls a tool of a capability service once, and gives what is told of it. */
async function told(tool: object, args: object, headers: Record<string, string>, options?: WorkingServiceOptions) {
  const service = await startTestService();
  onTestFinished(() => service.stop(0));
  const worker = await startWorkingService(options);
  onTestFinished(() => worker.close());
  const entry = { name: 'worker', serviceType: 'tool-invoker', host: '127.0.0.1', port: worker.port };
  await service.manage('POST', '/services', entry);
  const common = { name: 'work', description: '', toolType: 'worker', uri: 'x:1', input_schema: { type: 'object' } };
  await service.register('tools', { ...common, ...tool });
  const call = { jsonrpc: '2.0', id: 1, method: 'tools/call', params: { name: 'work', arguments: args } };
  await post(service.url(), JSON.stringify(call), headers);
  return { service, worker, events: await eventsOfLastCall(service, 'work') };
}

test.for([false, true])('a call that is answered with isError %s begins and is completed', async (isError) => {
  const ids = { 'x-request-id': 'req', 'x-conversation-id': 'conv' };
  const args = { text: 'S3CRET', service_auth_key: 'S3CRET', service_meta_trace: 'S3CRET' };
  const hidden = { secretsURI: 'S3CRET', configurationURI: 'S3CRET' };
  const { service, worker, events } = await told(hidden, args, ids, {
    tool: (call) => call.reply(['a', 'b'], isError),
  });
  const common = {
    eventId: events[0]?.eventId,
    transport: 'grpc',
    namespace: 'default',
    toolName: 'work',
    toolType: 'worker',
    serviceId: 'worker',
    serviceAddress: worker.address,
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
  expect(JSON.stringify(events) + service.log.join('')).not.toContain('S3CRET');
});

const HEADER = { properties: { h: { type: 'string', target: 'header', scope: 'service' } } };

test.for([
  ['without a required argument', { required: ['a'] }, 'INVALID_ARGUMENTS'],
  ['with a header that has no value', HEADER, 'TOOL_DEFINITION_ERROR'],
] as const)('a call %s has one FAILED event alone', async ([_case, schema, errorCategory]) => {
  const { events, worker } = await told({ input_schema: { type: 'object', ...schema } }, {}, {});
  expect(events).toMatchObject([
    { eventType: 'FAILED', errorCategory, transport: 'grpc', duration: 0, serviceAddress: worker.address },
  ]);
  expect(worker.tools).toEqual([]);
});
