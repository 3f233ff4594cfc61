import { status } from '@grpc/grpc-js';
import { expect, it } from 'vitest';
import { notification } from '../../../testing/live-tests.ts';
import { startStreamingService } from '../../../testing/service.ts';
import { callText, ResponseReader, sessionClient } from '../../../testing/session-client.ts';
import { callHeaders, callText as modernCallText } from '../../../testing/streamer.ts';
import { operationTests, STARTED_AND_COMPLETED, startedAndFailed } from './fixtures/operation-tests.ts';

const tests = operationTests(startStreamingService);
const { registered, serviceWith, eventsOf } = tests;

it('a disconnecting modern client cancels the call at the service', async () => {
  const arrived = Promise.withResolvers<void>();
  const service = await registered('worker', { tool: () => arrived.resolve() });
  const headers = { 'content-type': 'application/json', accept: 'application/json, text/event-stream' };
  const reading = new ResponseReader(
    tests.service.url(),
    'POST',
    { ...headers, ...callHeaders('modern') },
    modernCallText('modern'),
  );
  await arrived.promise;
  reading.disconnect();
  await expect.poll(() => service.tools[0]?.canceled).toBe(true);
  expect(service.tools).toHaveLength(1);
  await expect
    .poll(() => eventsOf())
    .toMatchObject(startedAndFailed('UNKNOWN', 'the client has disconnected', 'canceled'));
});

it('a legacy client’s cancellation cancels the call at the service, without a response', async () => {
  const arrived = Promise.withResolvers<void>();
  const service = await registered('worker', { tool: () => arrived.resolve() });
  const by = await sessionClient(tests.service.url());
  const reading = by.call('"c"');
  await arrived.promise;
  const { status: accepted } = await by.post(notification('cancelled', '{"requestId":"c"}'));
  expect(accepted).toBe(202);
  await reading.ended;
  expect(reading.messages).toEqual([]);
  await expect.poll(() => service.tools[0]?.canceled).toBe(true);
  await expect
    .poll(() => eventsOf())
    .toMatchObject(startedAndFailed('UNKNOWN', 'the client canceled the call', 'canceled'));
});

it('the disconnect of a legacy client cancels nothing', async () => {
  const arrived = Promise.withResolvers<void>();
  const service = await registered('worker', {
    tool: (call) => (service.tools.length === 1 ? arrived.resolve() : call.reply()),
  });
  const by = await sessionClient(tests.service.url());
  const reading = by.call('"c"');
  await arrived.promise;
  reading.disconnect();
  await reading.ended;
  expect(JSON.parse((await by.post(callText('"d"'))).text).result.isError).toBe(false);
  expect(service.tools[0]?.canceled).toBe(false);
  service.tools[0]?.reply(['unheard']);
  await expect.poll(() => eventsOf()).toMatchObject([{}, { ...STARTED_AND_COMPLETED[1], content: ['unheard'] }]);
});

it('a legacy client that reconnects gets the response', async () => {
  const arrived = Promise.withResolvers<void>();
  const service = await registered('worker', { tool: () => arrived.resolve() });
  const by = await sessionClient(tests.service.url());
  const reading = by.call('"c"');
  await arrived.promise;
  // No message yet, only an event id to resume from.
  await reading.event(0);
  expect(reading.messages).toEqual([]);
  reading.disconnect();
  await reading.ended;
  const again = by.listen(reading.lastId);
  expect((await again.head).statusCode).toBe(200);
  service.tools[0]?.reply(['late']);
  expect(JSON.parse(await again.message(0))).toMatchObject({ id: 'c', result: { content: [{ text: 'late' }] } });
  expect(await eventsOf()).toMatchObject([{}, { ...STARTED_AND_COMPLETED[1], content: ['late'] }]);
});

it('a cancellation ends the wait for a retry', async () => {
  const rejected = Promise.withResolvers<void>();
  const on = await serviceWith({ SERVICE_BRIDGE_GRPC_RETRY_DELAY_MS: '60000' });
  const service = await registered(
    'worker',
    {
      tool: (call) => {
        call.reject({ code: status.UNAVAILABLE, details: 'later' });
        rejected.resolve();
      },
    },
    on,
  );
  const by = await sessionClient(on.url());
  const reading = by.call('"c"');
  await rejected.promise;
  await by.post(notification('cancelled', '{"requestId":"c"}'));
  await reading.ended;
  expect([reading.messages, service.tools.length]).toEqual([[], 1]);
  await expect
    .poll(() => eventsOf(on))
    .toMatchObject(startedAndFailed('UNKNOWN', 'the client canceled the call', 'canceled'));
});
