import { connectivityState, status } from '@grpc/grpc-js';
import type { ServiceInput } from '@sluice/contract';
import { Emitter } from '@sluice/protocol/emitter';
import { expect, it, vi } from 'vitest';
import { blackHole, connectingTo, openFaultyProxy } from '../../../testing/faulty-proxy.ts';
import { DEFAULT_NAMESPACE } from '../../registry/entries.ts';
import { commit } from '../../registry/fixtures/commit.ts';
import { registerService, removeServices } from '../../registry/operations-topology.ts';
import { Registry, type RegistryCommit } from '../../registry/registry.ts';
import { memoryLog } from '../../registry/store/record-log.ts';
import { GrpcChannels, loadProtocols } from './channels.ts';
import { startWorkingService } from './fixtures/working-service.ts';
import { callUnary } from './grpc-client.ts';

/** Services with these names and ports, and their channels. */
async function channelsTo(services: Readonly<Record<string, number>>, restAfterMs?: number) {
  const registry = new Registry(memoryLog());
  await registry.load();
  const put = (name: string, port: number) => {
    const input: ServiceInput = { name, host: '127.0.0.1', port, serviceType: 'tool-invoker', labels: {} };
    return commit(registry, (draft) => registerService(draft, input));
  };
  for (const [name, port] of Object.entries(services)) await put(name, port);
  const remove = (name: string) => commit(registry, (draft) => removeServices(draft, name));
  return { registry, channels: new GrpcChannels(registry, restAfterMs), put, remove };
}

const target = (port: number) => `127.0.0.1:${port}`;
const SETTINGS = { timeoutMs: 5_000, maxRetries: 3, retryDelayMs: 100 };
const { toolInvoker } = loadProtocols();

it('there is one channel per target', async () => {
  const { channels } = await channelsTo({ a: 1, b: 1, c: 2 });
  expect(channels.get(target(1))).toBe(channels.get(target(1)));
  expect(channels.get(target(2))).not.toBe(channels.get(target(1)));
  expect(channels.targets).toEqual([target(1), target(2)]);
  channels.close();
});

it.each(['unix:1', 'dns:1', '[::1]:1', 'weather.example:1'])(
  '%s is a host and a port, whatever the host is called',
  async (address) => {
    const { channels } = await channelsTo({});
    const channel = channels.get(address).getChannel();
    expect(channel.getTarget()).toBe(`dns:${address}`);
    channels.close();
  },
);

it('a channel is open while a registered service has the address', async () => {
  const { channels, put, remove } = await channelsTo({ a: 1, b: 1, c: 2 });
  const first = channels.get(target(1));
  channels.get(target(2));
  await remove('a');
  expect(channels.targets).toEqual([target(1), target(2)]);
  await put('b', 3);
  expect(channels.targets).toEqual([target(2)]);
  await put('a', 1);
  expect(channels.get(target(1))).not.toBe(first);
  channels.close();
});

it('unrelated changes do not affect channels', async () => {
  const { channels, registry } = await channelsTo({});
  channels.get(target(1));
  await commit(registry, (draft) => draft.putNamespace(DEFAULT_NAMESPACE, { changed: 'yes' }));
  expect(channels.targets).toEqual([target(1)]);
  channels.close();
});

it('a call in progress on a closed channel finishes, and later calls use a new one', async (context) => {
  const arrived = Promise.withResolvers<() => void>();
  const service = await startWorkingService({
    tool: (call) => (service.tools.length === 1 ? arrived.resolve(() => call.reply(['late'])) : call.reply()),
  });
  context.onTestFinished(() => service.close());
  const { channels, put, remove } = await channelsTo({ a: service.port });
  context.onTestFinished(() => channels.close());
  const call = () =>
    callUnary(channels.get(target(service.port)), toolInvoker.InvokeTool, {}, { requestId: 'r' }, SETTINGS);

  const early = call();
  const response = await arrived.promise;
  await remove('a');
  await put('a', service.port);
  expect((await call()).content).toEqual(['done']);
  response();
  expect((await early).content).toEqual(['late']);
});

it('an idle channel disconnects and does not reconnect to a stopped service', async (context) => {
  const proxy = await openFaultyProxy((near) => near.destroy());
  context.onTestFinished(() => proxy.close());
  const { channels } = await channelsTo({ a: proxy.port }, 1_000);
  context.onTestFinished(() => channels.close());
  const client = channels.get(target(proxy.port));
  const call = (maxRetries: number) =>
    callUnary(client, toolInvoker.InvokeTool, {}, { requestId: 'r' }, { ...SETTINGS, maxRetries });
  await expect(call(0)).rejects.toMatchObject({ code: status.UNAVAILABLE });
  const state = () => client.getChannel().getConnectivityState(false);
  expect(state()).not.toBe(connectivityState.IDLE);
  await expect.poll(state).toBe(connectivityState.IDLE);
  // Restarted at its address, it is reached within the retries of a call.
  const service = await startWorkingService();
  context.onTestFinished(() => service.close());
  proxy.setHandler(connectingTo(service.port));
  expect((await call(3)).content).toEqual(['done']);
});

it('proxies of the environment are not used', async (context) => {
  const proxy = await openFaultyProxy(blackHole);
  context.onTestFinished(() => proxy.close());
  for (const name of ['grpc_proxy', 'https_proxy', 'http_proxy']) vi.stubEnv(name, `http://127.0.0.1:${proxy.port}`);
  for (const name of ['no_grpc_proxy', 'no_proxy']) vi.stubEnv(name, '');
  context.onTestFinished(() => void vi.unstubAllEnvs());
  const service = await startWorkingService();
  context.onTestFinished(() => service.close());
  const { channels } = await channelsTo({ a: service.port });
  context.onTestFinished(() => channels.close());
  const call = { requestId: 'r' };
  const reply = await callUnary(channels.get(target(service.port)), toolInvoker.InvokeTool, {}, call, SETTINGS);
  expect([reply.content, proxy.accepted]).toEqual([['done'], 0]);
});

it('close closes all channels and unsubscribes from the registry', async () => {
  const { registry } = await channelsTo({ a: 1 });
  let listeners = 0;
  const channels = new GrpcChannels({
    current: registry.current,
    committed: Object.assign(new Emitter<RegistryCommit>(), {
      subscribe: () => {
        listeners++;
        return () => void listeners--;
      },
    }),
  });
  channels.get(target(1));
  expect(listeners).toBe(1);
  channels.close();
  expect([listeners, channels.targets]).toEqual([0, []]);
});
