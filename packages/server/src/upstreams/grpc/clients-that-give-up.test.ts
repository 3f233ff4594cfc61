import { status } from '@grpc/grpc-js';
import { expect, it } from 'vitest';
import { notification } from '../../../testing/live.ts';
import { callText, Reading, sessionClient } from '../../../testing/session-client.ts';
import { callHeaders, callText as modernCallText } from '../../../testing/streamer.ts';
import { BEGUN_AND_COMPLETED, begunAndFailed, workTests } from './fixtures/work-tests.ts';

const tests = workTests();
const { registered, serviceWith, told } = tests;

it('a client that leaves cancels at the service, in the modern era', async () => {
  const arrived = Promise.withResolvers<void>();
  const service = await registered('worker', { tool: () => arrived.resolve() });
  const headers = { 'content-type': 'application/json', accept: 'application/json, text/event-stream' };
  const reading = new Reading(
    tests.service.url(),
    'POST',
    { ...headers, ...callHeaders('modern') },
    modernCallText('modern'),
  );
  await arrived.promise;
  reading.leave();
  await expect.poll(() => service.tools[0]?.cancelled).toBe(true);
  expect(service.tools).toHaveLength(1);
  await expect.poll(() => told()).toMatchObject(begunAndFailed('UNKNOWN', 'the client has left'));
});

it('a client that says so cancels at the service, in the legacy era, and gets no answer', async () => {
  const arrived = Promise.withResolvers<void>();
  const service = await registered('worker', { tool: () => arrived.resolve() });
  const by = await sessionClient(tests.service.url());
  const reading = by.call('"c"');
  await arrived.promise;
  const { status: accepted } = await by.post(notification('cancelled', '{"requestId":"c"}'));
  expect(accepted).toBe(202);
  await reading.over;
  expect(reading.messages).toEqual([]);
  await expect.poll(() => service.tools[0]?.cancelled).toBe(true);
  await expect.poll(() => told()).toMatchObject(begunAndFailed('UNKNOWN', 'the client cancelled the call'));
});

it('a client that leaves cancels nothing in the legacy era', async () => {
  const arrived = Promise.withResolvers<void>();
  const service = await registered('worker', {
    tool: (call) => (service.tools.length === 1 ? arrived.resolve() : call.reply()),
  });
  const by = await sessionClient(tests.service.url());
  const reading = by.call('"c"');
  await arrived.promise;
  reading.leave();
  await reading.over;
  expect(JSON.parse((await by.post(callText('"d"'))).text).result.isError).toBe(false);
  expect(service.tools[0]?.cancelled).toBe(false);
  service.tools[0]?.reply(['unheard']);
  await expect.poll(() => told()).toMatchObject([{}, { ...BEGUN_AND_COMPLETED[1], content: ['unheard'] }]);
});

it('a client that loses the connection meanwhile comes back for the answer, in the legacy era', async () => {
  const arrived = Promise.withResolvers<void>();
  const service = await registered('worker', { tool: () => arrived.resolve() });
  const by = await sessionClient(tests.service.url());
  const reading = by.call('"c"');
  await arrived.promise;
  // Nothing has happened, but the client is told where to come back to.
  await reading.event(0);
  expect(reading.messages).toEqual([]);
  reading.leave();
  await reading.over;
  const again = by.listen(reading.lastId);
  expect((await again.head).statusCode).toBe(200);
  service.tools[0]?.reply(['late']);
  expect(JSON.parse(await again.message(0))).toMatchObject({ id: 'c', result: { content: [{ text: 'late' }] } });
  expect(await told()).toMatchObject([{}, { ...BEGUN_AND_COMPLETED[1], content: ['late'] }]);
});

it('a client that cancels ends the wait for the next attempt', async () => {
  const refused = Promise.withResolvers<void>();
  const on = await serviceWith({ SERVICE_BRIDGE_GRPC_RETRY_DELAY_MS: '60000' });
  const service = await registered(
    'worker',
    {
      tool: (call) => {
        call.refuse({ code: status.UNAVAILABLE, details: 'later' });
        refused.resolve();
      },
    },
    on,
  );
  const by = await sessionClient(on.url());
  const reading = by.call('"c"');
  await refused.promise;
  await by.post(notification('cancelled', '{"requestId":"c"}'));
  await reading.over;
  expect([reading.messages, service.tools.length]).toEqual([[], 1]);
  await expect.poll(() => told(on)).toMatchObject(begunAndFailed('UNKNOWN', 'the client cancelled the call'));
});
