import { describe, expect, it } from 'vitest';
import {
  blackHole,
  type ConnectionHandler,
  connectingTo,
  openFaultyProxy,
  respondingWith,
} from '../../../testing/faulty-proxy.ts';
import type { TestService } from '../../../testing/service.ts';
import { operationTests, STARTED_AND_COMPLETED, startedAndFailed } from './fixtures/operation-tests.ts';
import { startWorkingService, type WorkingServiceOptions } from './fixtures/working-service.ts';

const tests = operationTests();
const { address, registered, onEnd, serviceWith, work, eventsOf } = tests;

/** A service registered with the address of a proxy in front of it. */
async function registerBehindProxy(options?: WorkingServiceOptions, behind?: ConnectionHandler, on?: TestService) {
  const service = await startWorkingService(options);
  onEnd(async () => service.close());
  const proxy = await openFaultyProxy(behind ?? connectingTo(service.port));
  onEnd(async () => proxy.close());
  await address('worker', proxy.port, {}, on);
  return { service, proxy };
}

const OUTPUT: readonly [what: string, bytes: string | Uint8Array][] = [
  ['HTTP/1.1', 'HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\nconnection: close\r\n\r\n'],
  ['HTTP/1.1 that asks for patience', 'HTTP/1.1 503 Service Unavailable\r\nretry-after: 1\r\n\r\n'],
  ['what nobody understands', Uint8Array.from({ length: 4096 }, (_, index) => (index * 89) % 251)],
  ['one byte', '\0'],
  ['nothing, and hangs up', ''],
];

it('a server that does not speak gRPC is not available, and the service that replaces it is', async () => {
  // Concurrently, since each waits for its retries.
  const calls = OUTPUT.map(async ([what, bytes]) => {
    const on = await serviceWith({});
    const { service, proxy } = await registerBehindProxy({}, respondingWith(bytes), on);
    const [isError, text] = await work(on);
    expect([isError, text], what).toEqual([
      true,
      expect.stringMatching(`^service worker at 127.0.0.1:${proxy.port} is not available: `),
    ]);
    expect(await eventsOf(on), what).toMatchObject(startedAndFailed('SERVICE_UNAVAILABLE', text));
    proxy.setHandler(connectingTo(service.port));
    // The library's reconnect delay is random.
    await expect.poll(() => work(on), { message: what }).toEqual([false, 'done']);
    expect(await eventsOf(on), what).toMatchObject(STARTED_AND_COMPLETED);
  });
  await Promise.all(calls);
});

it('a port that accepts connections without answering times out, and works once it answers', async () => {
  const on = await serviceWith({ SERVICE_BRIDGE_GRPC_TIMEOUT_MS: '200' });
  const service = await registered('elsewhere');
  const proxy = await openFaultyProxy(blackHole);
  onEnd(async () => proxy.close());
  await address('worker', proxy.port, {}, on);
  const [isError, text] = await work(on);
  expect([isError, text]).toEqual([
    true,
    expect.stringMatching(`^service worker at 127.0.0.1:${proxy.port} did not answer in time: `),
  ]);
  expect(await eventsOf(on)).toMatchObject(startedAndFailed('SERVICE_UNAVAILABLE', text, 'timeout'));
  proxy.setHandler(connectingTo(service.port));
  proxy.cut();
  // The 200 ms of a call include the new connection.
  await expect.poll(() => work(on)).toEqual([false, 'done']);
  expect(proxy.accepted).toBe(2);
});

describe('a connection that breaks', () => {
  it.each(['cut', 'reset'] as const)('that is %s during a call: the call is retried on a new one', async (how) => {
    const arrived = Promise.withResolvers<void>();
    const { service, proxy } = await registerBehindProxy({
      tool: (call) => (service.tools.length === 1 ? arrived.resolve() : call.reply()),
    });
    const response = work();
    await arrived.promise;
    proxy[how]();
    expect(await response).toEqual([false, 'done']);
    expect(await eventsOf()).toMatchObject(STARTED_AND_COMPLETED);
    expect([service.tools.length, proxy.accepted]).toEqual([2, 2]);
  });

  it('that is cut each time: the call fails after its retries, and the next one succeeds', async () => {
    let well = false;
    const { service, proxy } = await registerBehindProxy({ tool: (call) => (well ? call.reply() : proxy.cut()) });
    const [isError, text] = await work();
    expect([isError, text]).toEqual([true, expect.stringContaining(' is not available: ')]);
    expect(await eventsOf()).toMatchObject(startedAndFailed('SERVICE_UNAVAILABLE', text));
    expect(service.tools).toHaveLength(4);
    well = true;
    expect(await work()).toEqual([false, 'done']);
  });

  it('that is cut between two calls does not affect the second', async () => {
    const { proxy } = await registerBehindProxy();
    expect(await work()).toEqual([false, 'done']);
    proxy.cut();
    expect(await work()).toEqual([false, 'done']);
    expect(proxy.accepted).toBe(2);
  });
});

it('after GOAWAY, calls in progress finish and later calls use the next service', async () => {
  const arrived = Promise.withResolvers<() => void>();
  const first = await registered('worker', { tool: (call) => arrived.resolve(() => call.reply(['late'])) });
  const early = work();
  const response = await arrived.promise;
  const finished = first.finish();
  const second = await startWorkingService({ port: first.port, tool: (call) => call.reply(['new']) });
  onEnd(async () => second.close());
  expect(await work()).toEqual([false, 'new']);
  response();
  expect(await early).toEqual([false, 'late']);
  await finished;
  expect([first.tools.length, second.tools.length]).toEqual([1, 1]);
});

it('a service that closes idle connections is called on new ones', async () => {
  const { proxy } = await registerBehindProxy({ options: { 'grpc.max_connection_idle_ms': 50 } });
  for (let call = 0; call < 3; call++) {
    const before = proxy.accepted;
    expect(await work()).toEqual([false, 'done']);
    expect(proxy.accepted).toBeGreaterThan(before);
    await expect.poll(() => proxy.open).toBe(0);
  }
});
