import type { ServiceHealth } from '@sluice/contract';
import { afterEach, expect, type TestContext, test, vi } from 'vitest';
import { DEFAULT_LOG_FILTER } from '../config/log-directives.ts';
import { registerService, removeServices } from '../registry/operations/services.ts';
import { Registry } from '../registry/registry.ts';
import { memoryStore } from '../registry/store/memory.ts';
import { createLogger } from '../telemetry/log.ts';
import { answering, startCapabilityService } from '../testing/capability-service.ts';
import { startTestService } from '../testing/service.ts';
import { clientOf } from '../testing/session-client.ts';
import { Channels } from './channels.ts';
import type { HealthProbeReply } from './generated/health/HealthProbeReply.ts';
import { type Finding, probeHealth } from './health-probe.ts';
import { loadProtocols } from './protocols.ts';
import { HealthOfServices, type HealthOptions } from './service-health.ts';

afterEach(() => {
  vi.useRealTimers();
});

const NOBODY = 9;
const SETTINGS = { timeoutMs: 5_000, maxRetries: 0, retryDelayMs: 0 };

/** A registry whose services are watched; unless `options` says otherwise, by real probes. */
async function watching(
  context: Pick<TestContext, 'onTestFinished'>,
  options: Partial<HealthOptions> & { readonly before?: (registry: Registry) => Promise<unknown> } = {},
) {
  const registry = new Registry(memoryStore());
  await registry.load();
  await options.before?.(registry);
  const lines: string[] = [];
  const channels = new Channels(registry);
  const protocols = loadProtocols();
  const health = new HealthOfServices({
    registry,
    probe: (entry, signal) =>
      probeHealth(channels.to(`${entry.host}:${entry.port}`), protocols, entry, signal, SETTINGS),
    intervalMs: 0,
    log: createLogger(DEFAULT_LOG_FILTER, (line) => lines.push(line)).target('service::bridge'),
    ...options,
  });
  health.start();
  context.onTestFinished(async () => {
    health.close();
    channels.close();
    await registry.close();
  });
  return {
    registry,
    health,
    /** Health that was told, in that order. */
    told: () => lines.map((line) => /"msg":"capability service is (\w+)"/.exec(line)?.[1]),
    lines,
    /** Registers services at these ports; they are probed as soon as a place is free. */
    register: (port: number, ...names: string[]) => register(registry, port, ...names),
    of: (name: string): ServiceHealth | undefined => {
      const [entry] = registry.current.services.named(name);
      return entry && health.of(entry);
    },
  };
}

function register(registry: Registry, port: number, ...names: string[]) {
  return registry.commit((draft) =>
    names.map((name) => registerService(draft, { name, host: '127.0.0.1', port, serviceType: 'tool-invoker' }).entry),
  );
}

/** A service whose status the test sets, and that counts how often it was asked. */
async function startMoody(context: Pick<TestContext, 'onTestFinished'>, mood: { status: HealthProbeReply['status'] }) {
  const asked = { times: 0 };
  const start = (port = 0) =>
    startCapabilityService((server, { healthProbe }) => {
      const Probe = answering(() => {
        asked.times++;
        return { status: mood.status };
      });
      server.addService(healthProbe, { Probe });
    }, port);
  let service = await start();
  context.onTestFinished(() => service.close());
  return {
    asked,
    port: service.port,
    close: () => service.close(),
    restart: async () => {
      service = await start(service.port);
    },
  };
}

/** Probes that end when the test says so. */
function heldProbes() {
  const held: { name: string; port: number; signal: AbortSignal; end: (health: Finding['health']) => void }[] = [];
  const probe: HealthOptions['probe'] = ({ name, port }, signal) =>
    new Promise((resolve) => held.push({ name, port, signal, end: (health) => resolve({ health }) }));
  return { held, probe };
}

const soon = { interval: 1 };

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

test.for([
  [30_000, [1, 1, 2, 3]],
  [0, [1, 1, 1, 1]],
] as const)(
  'with an interval of %d ms it is probed at registration and then %j times',
  async ([intervalMs, times], context) => {
    vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] });
    let probes = 0;
    const { health, register } = await watching(context, {
      intervalMs,
      probe: async () => {
        probes++;
        return { health: 'healthy' };
      },
    });
    await register(NOBODY, 'weather');
    const seen = [probes];
    for (const step of [29_999, 1, 30_000]) {
      await vi.advanceTimersByTimeAsync(step);
      seen.push(probes);
    }
    expect(seen).toEqual(times);
    health.close();
    await vi.advanceTimersByTimeAsync(300_000);
    expect(probes).toBe(times[3]);
  },
);

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

test('only so many probes are under way at a time, and the others follow in their order', async (context) => {
  const { held, probe } = heldProbes();
  const { registry, register, of } = await watching(context, { probe, probesAtOnce: 2 });
  await register(NOBODY, 'a', 'b', 'c', 'd', 'e');
  const asked = () => held.map(({ name }) => name);
  expect(asked()).toEqual(['a', 'b']);
  // One that waits and is removed is never asked.
  await registry.commit((draft) => removeServices(draft, 'c'));
  held[1]?.end('healthy');
  await expect.poll(asked, soon).toEqual(['a', 'b', 'd']);
  held[2]?.end('healthy');
  held[0]?.end('down');
  await expect.poll(asked, soon).toEqual(['a', 'b', 'd', 'e']);
  held[3]?.end('healthy');
  await expect.poll(() => ['a', 'b', 'd', 'e'].map(of), soon).toEqual(['down', 'healthy', 'healthy', 'healthy']);
});

test('a round finds those that the last one has not come to, and asks nobody twice at a time', async (context) => {
  vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] });
  const { held, probe } = heldProbes();
  const { register } = await watching(context, { probe, probesAtOnce: 1, intervalMs: 1_000 });
  await register(NOBODY, 'a', 'b');
  await vi.advanceTimersByTimeAsync(5_000);
  expect(held.map(({ name }) => name)).toEqual(['a']);
  held[0]?.end('healthy');
  await expect.poll(() => held.map(({ name }) => name), soon).toEqual(['a', 'b']);
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
  const first = await startCapabilityService(() => {});
  first.close();
  const service = await startTestService();
  context.onTestFinished(() => service.stop());
  for (const [serviceType, { address }] of [
    ['multi-capability', first],
    ['tool-invoker', second],
  ] as const) {
    const made = await service.manage('POST', '/services', { name: 'weather', serviceType, address });
    expect(made).toMatchObject({ status: 201, data: { health: 'pending' } });
  }
  const shown = async (path: string) => (await service.manage('GET', path)).data;
  await expect
    .poll(() => shown('/services'), { interval: 5, timeout: 5_000 })
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
