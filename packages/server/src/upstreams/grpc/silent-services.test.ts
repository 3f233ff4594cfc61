import { afterEach, expect, it, vi } from 'vitest';
import { operationTests, startedAndFailed } from './fixtures/operation-tests.ts';

const tests = operationTests();
const { registered, serviceWith, work, read, eventsOf } = tests;

afterEach(() => {
  vi.useRealTimers();
});

it('an unresponsive service times out after 5 s, without a retry, and the call is canceled there', async () => {
  const arrived = Promise.withResolvers<void>();
  const service = await registered('worker', {
    tool: (call) => (service.tools.length === 1 ? arrived.resolve() : call.reply()),
  });
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'Date', 'performance'] });
  const response = work();
  await arrived.promise;
  vi.advanceTimersByTime(4_999);
  expect(await eventsOf()).toMatchObject([{ eventType: 'STARTED' }]);
  expect(service.tools[0]?.canceled).toBe(false);
  vi.advanceTimersByTime(1);
  const [isError, text] = await response;
  vi.useRealTimers();
  expect([isError, text]).toEqual([
    true,
    expect.stringMatching(`^service worker at 127.0.0.1:${service.port} did not answer in time: `),
  ]);
  expect(service.tools).toHaveLength(1);
  await expect.poll(() => service.tools[0]?.canceled).toBe(true);
  const events = await eventsOf();
  expect(events).toMatchObject(startedAndFailed('SERVICE_UNAVAILABLE', text, 'timeout'));
  const [, end] = events;
  expect(end).toMatchObject({ duration: 5_000 });
  expect(await work()).toEqual([false, 'done']);
});

it('the timeout is configurable, also for resources', async () => {
  const on = await serviceWith({ SERVICE_BRIDGE_GRPC_TIMEOUT_MS: '150' });
  const [invoked, requested] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  const service = await registered(
    'worker',
    { tool: () => invoked.resolve(), resource: () => requested.resolve() },
    on,
  );
  const message = expect.stringMatching(`^service worker at 127.0.0.1:${service.port} did not answer in time: `);
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
  const worked = work(on);
  await invoked.promise;
  vi.advanceTimersByTime(150);
  expect(await worked).toEqual([true, message]);
  const reads = read(on);
  await requested.promise;
  vi.advanceTimersByTime(150);
  expect(await reads).toEqual({ code: -32603, message });
  vi.useRealTimers();
  expect([service.tools.length, service.resources.length]).toEqual([1, 1]);
  await expect.poll(() => [service.tools[0]?.canceled, service.resources[0]?.canceled]).toEqual([true, true]);
});
