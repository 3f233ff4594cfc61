import { status } from '@grpc/grpc-js';
import { expect, it } from 'vitest';
import { operationTests, startedAndFailed } from './fixtures/operation-tests.ts';

const tests = operationTests();
const { registered, work, read, eventsOf } = tests;

it.each([
  [status.UNAVAILABLE, 'is not available: ', 4],
  [status.FAILED_PRECONDITION, 'cannot do this now: ', 1],
  [status.DEADLINE_EXCEEDED, 'did not answer in time: ', 1],
  [status.CANCELLED, undefined, 1],
  [status.UNKNOWN, undefined, 1],
  [status.INVALID_ARGUMENT, undefined, 1],
  [status.NOT_FOUND, undefined, 1],
  [status.ALREADY_EXISTS, undefined, 1],
  [status.PERMISSION_DENIED, undefined, 1],
  [status.RESOURCE_EXHAUSTED, undefined, 1],
  [status.ABORTED, undefined, 1],
  [status.OUT_OF_RANGE, undefined, 1],
  [status.UNIMPLEMENTED, undefined, 1],
  [status.INTERNAL, undefined, 1],
  [status.DATA_LOSS, undefined, 1],
  [status.UNAUTHENTICATED, undefined, 1],
])(
  'status %i becomes its description, with service and address if that is unspecific: %s',
  async (code, named, attempts) => {
    const rejected = { code, details: 'such is life' };
    const service = await registered('worker', {
      tool: (call) => call.reject(rejected),
      resource: (call) => call.reject(rejected),
    });
    const message = named ? `service worker at 127.0.0.1:${service.port} ${named}such is life` : 'such is life';
    const responses = await Promise.all([work(), read()]);
    expect(responses).toEqual([[true, message], { code: -32603, message }]);
    expect(await eventsOf()).toMatchObject(
      startedAndFailed('SERVICE_UNAVAILABLE', message, code === status.DEADLINE_EXCEEDED ? 'timeout' : 'failed'),
    );
    expect([service.tools.length, service.resources.length]).toEqual([attempts, attempts]);
  },
);

it('a status without details is shown by its name', async () => {
  await registered('worker', { tool: (call) => call.reject({ code: status.ABORTED, details: '' }) });
  expect(await work()).toEqual([true, 'status ABORTED']);
});
