import { setTimeout as delay } from 'node:timers/promises';
import { status } from '@grpc/grpc-js';
import { describe, expect, it } from 'vitest';
import { operationTests, STARTED_AND_COMPLETED, startedAndFailed, UNUSED_PORT } from './fixtures/operation-tests.ts';
import { startWorkingService, type Work } from './fixtures/working-service.ts';

const tests = operationTests();
const { registered, address, onEnd, serviceWith, work, read, eventsOf } = tests;

describe('a service that refuses the connection', () => {
  it('is reported with its address after the retries', async () => {
    await address('worker', UNUSED_PORT);
    const started = performance.now();
    const [[isError, text], error] = await Promise.all([work(), read()]);
    expect(performance.now() - started).toBeGreaterThan(690);
    expect(isError).toBe(true);
    expect(text).toMatch(`service worker at 127.0.0.1:${UNUSED_PORT} is not available: `);
    expect(await eventsOf()).toMatchObject(startedAndFailed('SERVICE_UNAVAILABLE', text));
    expect(error).toEqual({
      code: -32603,
      message: expect.stringMatching(`^service worker at 127.0.0.1:${UNUSED_PORT} `),
    });
    // A read has no events, so it is logged.
    const warned = tests.service.log.filter((line) => line.includes('resource read failed'));
    const named = `"warn".*"service":"worker","service_address":"127.0.0.1:${UNUSED_PORT}"`;
    expect(warned).toEqual([expect.stringMatching(named)]);
  });

  it('executes calls once it is running, also a call that waits for a retry', async () => {
    // Its retries take 6 s in all, more than a slow machine needs to start the service.
    const on = await serviceWith({ SERVICE_BRIDGE_GRPC_MAX_RETRIES: '6' });
    const { port, close } = await startWorkingService();
    close();
    await address('worker', port, {}, on);
    const waiting = work(on);
    // Enough failures for the library's maximum delay.
    await delay(1_000);
    const service = await startWorkingService({ port });
    onEnd(async () => service.close());
    expect(await waiting).toEqual([false, 'done']);
    expect(await eventsOf(on)).toMatchObject(STARTED_AND_COMPLETED);
    expect(await work(on)).toEqual([false, 'done']);
  });
});

it('a restarted service is reached again', async () => {
  const first = await registered('worker');
  expect(await work()).toEqual([false, 'done']);
  first.close();
  const second = await startWorkingService({ port: first.port, tool: (call) => call.reply(['again']) });
  onEnd(async () => second.close());
  expect(await work()).toEqual([false, 'again']);
});

describe('a service that is UNAVAILABLE', () => {
  const LATER = { code: status.UNAVAILABLE, details: 'warming up' };
  const quickly = (more = {}) => serviceWith({ SERVICE_BRIDGE_GRPC_RETRY_DELAY_MS: '1', ...more });

  it('three times and then succeeds executes the call', async () => {
    const on = await quickly();
    let attempts = 0;
    const tool: Work<unknown> = (call) => (++attempts > 3 ? call.reply() : call.reject(LATER));
    const service = await registered('worker', { tool }, on);
    expect(await work(on)).toEqual([false, 'done']);
    // One call in the events.
    expect(new Set(service.tools.map(({ requestId }) => String(requestId))).size).toBe(1);
    expect(attempts).toBe(4);
    expect(await eventsOf(on)).toMatchObject(STARTED_AND_COMPLETED);
  });

  it('four times does not', async () => {
    const on = await quickly();
    let attempts = 0;
    const tool: Work<unknown> = (call) => (++attempts > 4 ? call.reply() : call.reject(LATER));
    const { port } = await registered('worker', { tool }, on);
    const message = `service worker at 127.0.0.1:${port} is not available: warming up`;
    expect(await work(on)).toEqual([true, message]);
    expect(attempts).toBe(4);
    expect(await eventsOf(on)).toMatchObject(startedAndFailed('SERVICE_UNAVAILABLE', message));
    expect(await work(on)).toEqual([false, 'done']);
  });

  it('is retried as often as configured', async () => {
    const on = await quickly({ SERVICE_BRIDGE_GRPC_MAX_RETRIES: '1' });
    const service = await registered('worker', { tool: (call) => call.reject(LATER) }, on);
    expect((await work(on))[0]).toBe(true);
    expect(service.tools).toHaveLength(2);
  });
});
