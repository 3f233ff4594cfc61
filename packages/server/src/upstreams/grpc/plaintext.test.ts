import { Client, status } from '@grpc/grpc-js';
import { afterEach, expect, onTestFinished, test, vi } from 'vitest';
import { type Behind, leadingTo, NOBODY, openDoor } from '../../../testing/door.ts';
import { loadProtocols, plaintext } from './channel.ts';
import { startWorkingService, type WorkingServiceOptions } from './fixtures/working-service.ts';
import { callUnary } from './unary.ts';

const { InvokeTool } = loadProtocols().toolInvoker;

afterEach(() => {
  vi.useRealTimers();
});

/** A service behind a door, and calls of it over a channel whose connections get so long for their first frame. */
async function connected(firstFrameMs: number, behind?: Behind, options?: WorkingServiceOptions) {
  const service = await startWorkingService(options);
  onTestFinished(() => service.close());
  const door = await openDoor(behind ?? leadingTo(service.port));
  onTestFinished(() => door.close());
  const client = new Client(`127.0.0.1:${door.port}`, plaintext(firstFrameMs), {
    'grpc.initial_reconnect_backoff_ms': 100,
  });
  onTestFinished(() => client.close());
  const call = (timeoutMs = 20_000, maxRetries = 3) =>
    callUnary(client, InvokeTool, {}, { requestId: 'r' }, { timeoutMs, maxRetries, retryDelayMs: 100 });
  return { service, door, call };
}

test('a connection that is accepted and never spoken on is cut, and its calls are unavailable', async () => {
  const { door, call } = await connected(50, NOBODY);
  await expect(call(20_000, 0)).rejects.toMatchObject({
    code: status.UNAVAILABLE,
    details: expect.stringContaining('it accepted the connection and said nothing'),
  });
  await expect.poll(() => door.accepted).toBeGreaterThan(0);
});

test.each([1, 8])('%i bytes, which are no frame yet, do not save it', async (count) => {
  const { call } = await connected(50, (near) => void near.write(Buffer.alloc(count)));
  await expect(call(20_000, 0)).rejects.toMatchObject({
    code: status.UNAVAILABLE,
    details: expect.stringContaining('it accepted the connection and said nothing'),
  });
});

test('a call that waited for such a connection goes over the next one', async () => {
  const { service, door, call } = await connected(100, (near) => {
    NOBODY(near);
    door.lead(leadingTo(service.port));
  });
  // As many attempts as a machine may need on which the next one, too, gets no word out in time.
  expect((await call(20_000, 8)).content).toEqual(['done']);
  expect(door.accepted).toBeGreaterThan(1);
});

test('a connection that was spoken on is kept, also where a call on it takes long', async () => {
  const arrived = Promise.withResolvers<() => void>();
  const { service, door, call } = await connected(1_000, undefined, {
    tool: (work) => (service.tools.length === 1 ? arrived.resolve(() => work.reply()) : work.reply()),
  });
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
  const long = call();
  const reply = await arrived.promise;
  vi.advanceTimersByTime(10_000);
  reply();
  expect((await long).content).toEqual(['done']);
  expect((await call()).content).toEqual(['done']);
  expect(door.accepted).toBe(1);
});
