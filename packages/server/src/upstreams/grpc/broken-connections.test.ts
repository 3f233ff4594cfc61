import { describe, expect, it } from 'vitest';
import {
  type ConnectionHandler,
  connectingTo,
  openFaultyProxy,
  refusing,
  respondingWith,
} from '../../../testing/faulty-proxy.ts';
import type { TestService } from '../../../testing/service.ts';
import { operationTests, STARTED_AND_COMPLETED, startedAndFailed } from './fixtures/operation-tests.ts';
import { startWorkingService, type WorkingServiceOptions } from './fixtures/working-service.ts';

const tests = operationTests();
const { address, registered, onEnd, serviceWith, work, eventsOf } = tests;

/** A service that is registered at a door in front of it. */
async function behindDoor(options?: WorkingServiceOptions, behind?: ConnectionHandler, on?: TestService) {
  const service = await startWorkingService(options);
  onEnd(async () => service.close());
  const door = await openFaultyProxy(behind ?? connectingTo(service.port));
  onEnd(async () => door.close());
  await address('worker', door.port, {}, on);
  return { service, door };
}

const SAID: readonly [what: string, bytes: string | Uint8Array][] = [
  ['HTTP/1.1', 'HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\nconnection: close\r\n\r\n'],
  ['HTTP/1.1 that asks for patience', 'HTTP/1.1 503 Service Unavailable\r\nretry-after: 1\r\n\r\n'],
  ['what nobody understands', Uint8Array.from({ length: 4096 }, (_, index) => (index * 89) % 251)],
  ['one byte', '\0'],
  ['nothing, and hangs up', ''],
];

it('a server that does not speak gRPC is not available, and the service that replaces it is', async () => {
  // Concurrently, since each waits for its retries.
  const calls = SAID.map(async ([what, bytes]) => {
    const on = await serviceWith({});
    const { service, door } = await behindDoor({}, respondingWith(bytes), on);
    const [isError, text] = await work(on);
    expect([isError, text], what).toEqual([
      true,
      expect.stringMatching(`^service worker at 127.0.0.1:${door.port} is not available: `),
    ]);
    expect(await eventsOf(on), what).toMatchObject(startedAndFailed('SERVICE_UNAVAILABLE', text));
    door.lead(connectingTo(service.port));
    // The library's reconnect delay is random.
    await expect.poll(() => work(on), { message: what }).toEqual([false, 'done']);
    expect(await eventsOf(on), what).toMatchObject(STARTED_AND_COMPLETED);
  });
  await Promise.all(calls);
});

it('a port that accepts connections without answering times out, and works once it answers', async () => {
  const on = await serviceWith({ SERVICE_BRIDGE_GRPC_TIMEOUT_MS: '200' });
  const service = await registered('elsewhere');
  const door = await openFaultyProxy(refusing);
  onEnd(async () => door.close());
  await address('worker', door.port, {}, on);
  const [isError, text] = await work(on);
  expect([isError, text]).toEqual([
    true,
    expect.stringMatching(`^service worker at 127.0.0.1:${door.port} did not answer in time: `),
  ]);
  expect(await eventsOf(on)).toMatchObject(startedAndFailed('SERVICE_UNAVAILABLE', text));
  door.lead(connectingTo(service.port));
  door.cut();
  // The 200 ms of a call include the new connection.
  await expect.poll(() => work(on)).toEqual([false, 'done']);
  expect(door.accepted).toBe(2);
});

describe('a connection that breaks', () => {
  it.each(['cut', 'reset'] as const)('that is %s during a call: the call is retried on a new one', async (how) => {
    const arrived = Promise.withResolvers<void>();
    const { service, door } = await behindDoor({
      tool: (call) => (service.tools.length === 1 ? arrived.resolve() : call.reply()),
    });
    const answer = work();
    await arrived.promise;
    door[how]();
    expect(await answer).toEqual([false, 'done']);
    expect(await eventsOf()).toMatchObject(STARTED_AND_COMPLETED);
    expect([service.tools.length, door.accepted]).toEqual([2, 2]);
  });

  it('that is cut each time: the call fails after its retries, and the next one succeeds', async () => {
    let well = false;
    const { service, door } = await behindDoor({ tool: (call) => (well ? call.reply() : door.cut()) });
    const [isError, text] = await work();
    expect([isError, text]).toEqual([true, expect.stringContaining(' is not available: ')]);
    expect(await eventsOf()).toMatchObject(startedAndFailed('SERVICE_UNAVAILABLE', text));
    expect(service.tools).toHaveLength(4);
    well = true;
    expect(await work()).toEqual([false, 'done']);
  });

  it('that is cut between two calls does not affect the second', async () => {
    const { door } = await behindDoor();
    expect(await work()).toEqual([false, 'done']);
    door.cut();
    expect(await work()).toEqual([false, 'done']);
    expect(door.accepted).toBe(2);
  });
});

it('after GOAWAY, calls in progress finish and later calls use the next service', async () => {
  const arrived = Promise.withResolvers<() => void>();
  const first = await registered('worker', { tool: (call) => arrived.resolve(() => call.reply(['late'])) });
  const early = work();
  const answer = await arrived.promise;
  const finished = first.finish();
  const second = await startWorkingService({ port: first.port, tool: (call) => call.reply(['new']) });
  onEnd(async () => second.close());
  expect(await work()).toEqual([false, 'new']);
  answer();
  expect(await early).toEqual([false, 'late']);
  await finished;
  expect([first.tools.length, second.tools.length]).toEqual([1, 1]);
});

it('a service that closes idle connections is called on new ones', async () => {
  const { door } = await behindDoor({ options: { 'grpc.max_connection_idle_ms': 50 } });
  for (let call = 0; call < 3; call++) {
    const before = door.accepted;
    expect(await work()).toEqual([false, 'done']);
    expect(door.accepted).toBeGreaterThan(before);
    await expect.poll(() => door.open).toBe(0);
  }
});
