import { Client, status } from '@grpc/grpc-js';
import { afterEach, expect, onTestFinished, test, vi } from 'vitest';
import { blackHole, type ConnectionHandler, connectingTo, openFaultyProxy } from '../../../testing/faulty-proxy.ts';
import { loadProtocols, plaintextCredentials } from './channels.ts';
import { startWorkingService, type WorkingServiceOptions } from './fixtures/working-service.ts';
import { callUnary } from './grpc-client.ts';

const { InvokeTool } = loadProtocols().toolInvoker;

afterEach(() => {
  vi.useRealTimers();
});

/** A service behind a controllable port, called over a channel with this first-frame timeout. */
async function connected(firstFrameMs: number, behind?: ConnectionHandler, options?: WorkingServiceOptions) {
  const service = await startWorkingService(options);
  onTestFinished(() => service.close());
  const proxy = await openFaultyProxy(behind ?? connectingTo(service.port));
  onTestFinished(() => proxy.close());
  const client = new Client(`127.0.0.1:${proxy.port}`, plaintextCredentials(firstFrameMs), {
    'grpc.initial_reconnect_backoff_ms': 100,
  });
  onTestFinished(() => client.close());
  const call = (timeoutMs = 20_000, maxRetries = 3) =>
    callUnary(client, InvokeTool, {}, { requestId: 'r' }, { timeoutMs, maxRetries, retryDelayMs: 100 });
  return { service, proxy, call };
}

test('an accepted connection without a frame is closed, and its calls are UNAVAILABLE', async () => {
  const { proxy, call } = await connected(50, blackHole);
  await expect(call(20_000, 0)).rejects.toMatchObject({
    code: status.UNAVAILABLE,
    details: expect.stringContaining('no HTTP/2 frame on an accepted connection'),
  });
  await expect.poll(() => proxy.accepted).toBeGreaterThan(0);
});

test.each([1, 8])('%i bytes, less than a frame, do not count', async (count) => {
  const { call } = await connected(50, (near) => void near.write(Buffer.alloc(count)));
  await expect(call(20_000, 0)).rejects.toMatchObject({
    code: status.UNAVAILABLE,
    details: expect.stringContaining('no HTTP/2 frame on an accepted connection'),
  });
});

test('a call that waited for such a connection uses the next one', async () => {
  const { service, proxy, call } = await connected(100, (near) => {
    blackHole(near);
    proxy.setHandler(connectingTo(service.port));
  });
  // Several retries, since on a slow machine the next connection may time out too.
  expect((await call(20_000, 8)).content).toEqual(['done']);
  expect(proxy.accepted).toBeGreaterThan(1);
});

test('a connection with a frame stays open, also during a long call', async () => {
  const arrived = Promise.withResolvers<() => void>();
  const { service, proxy, call } = await connected(1_000, undefined, {
    tool: (work) => (service.tools.length === 1 ? arrived.resolve(() => work.reply()) : work.reply()),
  });
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
  const long = call();
  const reply = await arrived.promise;
  vi.advanceTimersByTime(10_000);
  reply();
  expect((await long).content).toEqual(['done']);
  expect((await call()).content).toEqual(['done']);
  expect(proxy.accepted).toBe(1);
});
