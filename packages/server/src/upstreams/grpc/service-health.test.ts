import type { ServiceHealth } from '@sluice/contract';
import { expect, test } from 'vitest';
import { answering, startCapabilityService } from '../../../testing/capability-service.ts';
import { startTestService } from '../../../testing/service.ts';
import { clientOf } from '../../../testing/session-client.ts';
import { removeServices } from '../../registry/operations-topology.ts';
import { heldProbes, register, soon, startMoody, watching } from './fixtures/watched-health.ts';
import { DEAD_PORT } from './fixtures/work-tests.ts';
import type { HealthProbeReply } from './generated/health/HealthProbeReply.ts';

test('an entry is pending until the probe at its registration has ended', async (context) => {
  const { port } = await startMoody(context, { status: 'STARTED' });
  const { register, of } = await watching(context);
  await register(port, 'weather');
  expect(of('weather')).toBe('pending');
  await expect.poll(() => of('weather'), soon).toBe('healthy');
});

test('what is registered when the process starts is probed then', async (context) => {
  const { port } = await startMoody(context, { status: 'STOPPING' });
  const { of } = await watching(context, { before: (registry) => register(registry, port, 'a', 'b') });
  await expect.poll(() => [of('a'), of('b')], soon).toEqual(['unhealthy', 'unhealthy']);
});

test('a change is told in the log once, however often it is found, and a service that comes back is found well', async (context) => {
  const mood: { status: HealthProbeReply['status'] } = { status: 'STARTED' };
  const service = await startMoody(context, mood);
  const { register, of, told, lines } = await watching(context, { intervalMs: 5 });
  await register(service.port, 'weather');
  const settled = async (health: ServiceHealth) => {
    await expect.poll(() => of('weather'), soon).toBe(health);
    const { times } = service.asked;
    await expect.poll(() => service.asked.times, soon).toBeGreaterThan(times + 3);
  };
  await settled('healthy');
  mood.status = 'STOPPING';
  await settled('unhealthy');
  service.close();
  await expect.poll(() => of('weather'), soon).toBe('down');
  mood.status = 'STARTED';
  await service.restart();
  await settled('healthy');
  expect(told()).toEqual(['healthy', 'unhealthy', 'down', 'healthy']);
  expect(JSON.parse(lines[1] ?? '')).toMatchObject({
    level: 'warn',
    target: 'service::bridge',
    service: 'weather',
    address: `127.0.0.1:${service.port}`,
    before: 'healthy',
    reason: 'its status is STOPPING',
  });
});

test('an entry that is replaced is pending at its new address, and what was found at the old one does not count', async (context) => {
  const { held, probe } = heldProbes();
  const { register, of } = await watching(context, { probe });
  await register(1, 'weather');
  held[0]?.end('healthy');
  await expect.poll(() => of('weather'), soon).toBe('healthy');

  // The same again is probed again, and known all the while.
  await register(1, 'weather');
  expect([held.length, of('weather')]).toEqual([2, 'healthy']);

  await register(2, 'weather');
  expect([held.length, held[1]?.signal.aborted, of('weather')]).toEqual([3, true, 'pending']);
  held[1]?.end('down');
  held[2]?.end('unhealthy');
  await expect.poll(() => of('weather'), soon).toBe('unhealthy');
  expect(held.map(({ port }) => port)).toEqual([1, 1, 2]);
});

test('an entry that is removed is forgotten, and its probe ends', async (context) => {
  const { held, probe } = heldProbes();
  const { registry, register, health, told } = await watching(context, { probe });
  const [entry] = await register(1, 'weather');
  if (!entry) throw new Error('nothing was registered');
  held[0]?.end('healthy');
  await expect.poll(() => health.of(entry), soon).toBe('healthy');
  await register(1, 'weather');
  await registry.commit((draft) => removeServices(draft, 'weather'));
  expect([held[1]?.signal.aborted, health.of(entry)]).toEqual([true, 'pending']);
  held[1]?.end('down');
  // One that is registered later is another one.
  await register(1, 'weather', 'other');
  expect(health.of(entry)).toBe('pending');
  held[3]?.end('healthy');
  await expect.poll(told, soon).toEqual(['healthy', 'healthy']);
});

test('the management API shows it, and the first registered is called all the same', async (context) => {
  const invoked: string[] = [];
  const second = await startCapabilityService((server, { healthProbe, toolInvoker }) => {
    server.addService(healthProbe, { Probe: answering(() => ({ status: 'STARTED' })) });
    server.addService(toolInvoker, {
      InvokeTool: answering(({ uri }: { uri: string }) => {
        invoked.push(uri);
        return { isError: false, content: [] };
      }),
    });
  });
  context.onTestFinished(() => second.close());
  const service = await startTestService();
  context.onTestFinished(() => service.stop());
  for (const [serviceType, address] of [
    ['multi-capability', `127.0.0.1:${DEAD_PORT}`],
    ['tool-invoker', second.address],
  ] as const) {
    const made = await service.manage('POST', '/services', { name: 'weather', serviceType, address });
    expect(made).toMatchObject({ status: 201, data: { health: 'pending' } });
  }
  const shown = async (path: string) => (await service.manage('GET', path)).data;
  await expect
    .poll(() => shown('/services'), { interval: 5 })
    .toMatchObject([{ health: 'down' }, { health: 'healthy' }]);
  expect(await shown('/services/weather')).toMatchObject({ health: 'down', entries: [{}, { health: 'healthy' }] });
  expect(await shown('/services/weather?serviceType=tool-invoker')).toMatchObject({ health: 'healthy' });

  await service.register('tools', {
    name: 't',
    description: '',
    uri: 'weather://t',
    toolType: 'weather',
    input_schema: {},
  });
  const answer = await clientOf(service.url(), {}).ask('tools/call', '{"name":"t","arguments":{}}');
  expect(answer).toMatchObject({ result: { isError: true } });
  expect(invoked).toEqual([]);
});
