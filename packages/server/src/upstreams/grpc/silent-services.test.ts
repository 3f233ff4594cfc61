import { afterEach, expect, it, vi } from 'vitest';
import { begunAndFailed, workTests } from './fixtures/work-tests.ts';

const tests = workTests();
const { registered, serviceWith, work, read, told } = tests;

afterEach(() => {
  vi.useRealTimers();
});

it('a service that stays silent is given up after 5 s, once, and hears of it', async () => {
  const arrived = Promise.withResolvers<void>();
  const service = await registered('worker', {
    tool: (call) => (service.tools.length === 1 ? arrived.resolve() : call.reply()),
  });
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'Date', 'performance'] });
  const answer = work();
  await arrived.promise;
  vi.advanceTimersByTime(4_999);
  expect(await told()).toMatchObject([{ eventType: 'STARTED' }]);
  expect(service.tools[0]?.cancelled).toBe(false);
  vi.advanceTimersByTime(1);
  const [isError, text] = await answer;
  vi.useRealTimers();
  expect([isError, text]).toEqual([
    true,
    expect.stringMatching(`^service worker at 127.0.0.1:${service.port} did not answer in time: `),
  ]);
  expect(service.tools).toHaveLength(1);
  await expect.poll(() => service.tools[0]?.cancelled).toBe(true);
  const events = await told();
  expect(events).toMatchObject(begunAndFailed('SERVICE_UNAVAILABLE', text));
  const [, end] = events;
  expect(end).toMatchObject({ duration: 5_000 });
  expect(await work()).toEqual([false, 'done']);
});

it('a service that stays silent is given up as soon as the settings say, also where it provides a resource', async () => {
  const on = await serviceWith({ SERVICE_BRIDGE_GRPC_TIMEOUT_MS: '150' });
  const [invoked, asked] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  const service = await registered('worker', { tool: () => invoked.resolve(), resource: () => asked.resolve() }, on);
  const message = expect.stringMatching(`^service worker at 127.0.0.1:${service.port} did not answer in time: `);
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
  const worked = work(on);
  await invoked.promise;
  vi.advanceTimersByTime(150);
  expect(await worked).toEqual([true, message]);
  const reads = read(on);
  await asked.promise;
  vi.advanceTimersByTime(150);
  expect(await reads).toEqual({ code: -32603, message });
  vi.useRealTimers();
  expect([service.tools.length, service.resources.length]).toEqual([1, 1]);
  await expect.poll(() => [service.tools[0]?.cancelled, service.resources[0]?.cancelled]).toEqual([true, true]);
});
