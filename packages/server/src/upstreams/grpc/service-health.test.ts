import type { ServiceHealth } from '@sluice/contract';
import { expect, test } from 'vitest';
import { startCapabilityService, unaryHandler } from '../../../testing/capability-service.ts';
import { startTestService } from '../../../testing/service.ts';
import { clientOf } from '../../../testing/session-client.ts';
import { commit } from '../../registry/fixtures/commit.ts';
import { removeServices } from '../../registry/operations-topology.ts';
import { UNUSED_PORT } from './fixtures/operation-tests.ts';
import { pendingProbes, register, soon, startMoody, watching } from './fixtures/watched-health.ts';
import type { HealthProbeReply } from './generated/health/HealthProbeReply.ts';

test('an entry is pending until its first probe has ended', async (context) => {
  const { port } = await startMoody(context, { status: 'STARTED' });
  const { register, of } = await watching(context);
  await register(port, 'weather');
  expect(of('weather')).toBe('pending');
  await expect.poll(() => of('weather'), soon).toBe('healthy');
});

test('registered services are probed at the start of the process', async (context) => {
  const { port } = await startMoody(context, { status: 'STOPPING' });
  const { of } = await watching(context, { before: (registry) => register(registry, port, 'a', 'b') });
  await expect.poll(() => [of('a'), of('b')], soon).toEqual(['unhealthy', 'unhealthy']);
});

test('a change is logged once, and a restarted service becomes healthy', async (context) => {
  const mood: { status: HealthProbeReply['status'] } = { status: 'STARTED' };
  const service = await startMoody(context, mood);
  const { register, of, loggedHealth, lines } = await watching(context, { intervalMs: 5 });
  await register(service.port, 'weather');
  const settled = async (health: ServiceHealth) => {
    await expect.poll(() => of('weather'), soon).toBe(health);
    const { count } = service.probes;
    await expect.poll(() => service.probes.count, soon).toBeGreaterThan(count + 3);
  };
  await settled('healthy');
  mood.status = 'STOPPING';
  await settled('unhealthy');
  service.close();
  await expect.poll(() => of('weather'), soon).toBe('down');
  mood.status = 'STARTED';
  await service.restart();
  await settled('healthy');
  expect(loggedHealth()).toEqual(['healthy', 'unhealthy', 'down', 'healthy']);
  expect(JSON.parse(lines[1] ?? '')).toMatchObject({
    level: 'warn',
    target: 'service::bridge',
    service: 'weather',
    address: `127.0.0.1:${service.port}`,
    before: 'healthy',
    reason: 'status STOPPING',
  });
});

test('a replaced entry is pending at its new address, and a late probe of the old one is ignored', async (context) => {
  const { pending, probe } = pendingProbes();
  const { register, of } = await watching(context, { probe });
  await register(1, 'weather');
  pending[0]?.end('healthy');
  await expect.poll(() => of('weather'), soon).toBe('healthy');

  // An identical replacement is probed again and keeps its health meanwhile.
  await register(1, 'weather');
  expect([pending.length, of('weather')]).toEqual([2, 'healthy']);

  await register(2, 'weather');
  expect([pending.length, pending[1]?.signal.aborted, of('weather')]).toEqual([3, true, 'pending']);
  pending[1]?.end('down');
  pending[2]?.end('unhealthy');
  await expect.poll(() => of('weather'), soon).toBe('unhealthy');
  expect(pending.map(({ port }) => port)).toEqual([1, 1, 2]);
});

test('the probe of a removed entry is canceled', async (context) => {
  const { pending, probe } = pendingProbes();
  const { registry, register, health, loggedHealth } = await watching(context, { probe });
  const [entry] = await register(1, 'weather');
  if (!entry) throw new Error('nothing was registered');
  pending[0]?.end('healthy');
  await expect.poll(() => health.get(entry), soon).toBe('healthy');
  await register(1, 'weather');
  await commit(registry, (draft) => removeServices(draft, 'weather'));
  expect([pending[1]?.signal.aborted, health.get(entry)]).toEqual([true, 'pending']);
  pending[1]?.end('down');
  // A later registration is independent.
  await register(1, 'weather', 'other');
  expect(health.get(entry)).toBe('pending');
  pending[3]?.end('healthy');
  await expect.poll(loggedHealth, soon).toEqual(['healthy', 'healthy']);
});

test('the management API shows the health, and routing ignores it', async (context) => {
  const invoked: string[] = [];
  const second = await startCapabilityService((server, { healthProbe, toolInvoker }) => {
    server.addService(healthProbe, { Probe: unaryHandler(() => ({ status: 'STARTED' })) });
    server.addService(toolInvoker, {
      InvokeTool: unaryHandler(({ uri }: { uri: string }) => {
        invoked.push(uri);
        return { isError: false, content: [] };
      }),
    });
  });
  context.onTestFinished(() => second.close());
  const service = await startTestService();
  context.onTestFinished(() => service.stop());
  for (const [serviceType, address] of [
    ['multi-capability', `127.0.0.1:${UNUSED_PORT}`],
    ['tool-invoker', second.address],
  ] as const) {
    const made = await service.manage('POST', '/services', { name: 'weather', serviceType, address });
    expect(made).toMatchObject({ status: 201, data: { health: 'pending' } });
  }
  const getService = async (path: string) => (await service.manage('GET', path)).data;
  await expect
    .poll(() => getService('/services'), { interval: 5 })
    .toMatchObject([{ health: 'down' }, { health: 'healthy' }]);
  expect(await getService('/services/weather')).toMatchObject({ health: 'down', entries: [{}, { health: 'healthy' }] });
  expect(await getService('/services/weather?serviceType=tool-invoker')).toMatchObject({ health: 'healthy' });

  await service.register('tools', {
    name: 't',
    description: '',
    uri: 'weather://t',
    toolType: 'weather',
    input_schema: {},
  });
  const response = await clientOf(service.url(), {}).request('tools/call', '{"name":"t","arguments":{}}');
  expect(response).toMatchObject({ result: { isError: true } });
  expect(invoked).toEqual([]);
});
