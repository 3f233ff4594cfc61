import { expect, it } from 'vitest';
import { begunAndFailed, workTests } from './fixtures/work-tests.ts';

const tests = workTests();
const { registered, serviceWith, work, read, told } = tests;

it('a service that stays silent is given up after 5 s, once, and hears of it', async () => {
  const service = await registered('worker', {
    tool: (call) => (service.tools.length === 1 ? undefined : call.reply()),
  });
  const began = performance.now();
  const [isError, text] = await work();
  const took = performance.now() - began;
  expect([isError, text]).toEqual([
    true,
    expect.stringMatching(`^service worker at 127.0.0.1:${service.port} did not answer in time: `),
  ]);
  expect(took).toBeGreaterThan(4_900);
  expect(took).toBeLessThan(9_000);
  expect(service.tools).toHaveLength(1);
  await expect.poll(() => service.tools[0]?.cancelled).toBe(true);
  const events = await told();
  expect(events).toMatchObject(begunAndFailed('SERVICE_UNAVAILABLE', text));
  const [, end] = events;
  expect(end && 'duration' in end ? end.duration : 0).toBeGreaterThan(4_900);
  expect(await work()).toEqual([false, 'done']);
});

it('a service that stays silent is given up as soon as the settings say, also where it provides a resource', async () => {
  const on = await serviceWith({ SERVICE_BRIDGE_GRPC_TIMEOUT_MS: '150' });
  const service = await registered('worker', { tool: () => undefined, resource: () => undefined }, on);
  const message = expect.stringMatching(`^service worker at 127.0.0.1:${service.port} did not answer in time: `);
  expect(await work(on)).toEqual([true, message]);
  expect(await read(on)).toEqual({ code: -32603, message });
  expect([service.tools.length, service.resources.length]).toEqual([1, 1]);
  await expect.poll(() => [service.tools[0]?.cancelled, service.resources[0]?.cancelled]).toEqual([true, true]);
});
