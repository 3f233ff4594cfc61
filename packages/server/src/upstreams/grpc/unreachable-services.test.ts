import { setTimeout as delay } from 'node:timers/promises';
import { status } from '@grpc/grpc-js';
import { describe, expect, it } from 'vitest';
import { BEGUN_AND_COMPLETED, begunAndFailed, DEAD_PORT, workTests } from './fixtures/work-tests.ts';
import { startWorkingService, type Work } from './fixtures/working-service.ts';

const tests = workTests();
const { registered, address, onEnd, serviceWith, work, read, told } = tests;

describe('a service that refuses the connection', () => {
  it('is named with its address, after the retries', async () => {
    await address('worker', DEAD_PORT);
    const started = performance.now();
    const [[isError, text], error] = await Promise.all([work(), read()]);
    expect(performance.now() - started).toBeGreaterThan(690);
    expect(isError).toBe(true);
    expect(text).toMatch(`service worker at 127.0.0.1:${DEAD_PORT} is not available: `);
    expect(await told()).toMatchObject(begunAndFailed('SERVICE_UNAVAILABLE', text));
    expect(error).toEqual({
      code: -32603,
      message: expect.stringMatching(`^service worker at 127.0.0.1:${DEAD_PORT} `),
    });
    // A read has no events: the log tells of it.
    const warned = tests.service.log.filter((line) => line.includes('resource read failed'));
    const named = `"warn".*"service":"worker","service_address":"127.0.0.1:${DEAD_PORT}"`;
    expect(warned).toEqual([expect.stringMatching(named)]);
  });

  it('carries calls out again once it is there, also a call that waits for its next attempt', async () => {
    // It waits for its attempts for 6 s in all: more than a slow machine takes to start the service.
    const on = await serviceWith({ SERVICE_BRIDGE_GRPC_MAX_RETRIES: '6' });
    const { port, close } = await startWorkingService();
    close();
    await address('worker', port, {}, on);
    const waiting = work(on);
    // So many failures that the library waits for as long as it does.
    await delay(1_000);
    const service = await startWorkingService({ port });
    onEnd(async () => service.close());
    expect(await waiting).toEqual([false, 'done']);
    expect(await told(on)).toMatchObject(BEGUN_AND_COMPLETED);
    expect(await work(on)).toEqual([false, 'done']);
  });
});

it('a service that was ended and started again is found again', async () => {
  const first = await registered('worker');
  expect(await work()).toEqual([false, 'done']);
  first.close();
  const second = await startWorkingService({ port: first.port, tool: (call) => call.reply(['again']) });
  onEnd(async () => second.close());
  expect(await work()).toEqual([false, 'again']);
});

describe('a service that says it is unavailable', () => {
  const LATER = { code: status.UNAVAILABLE, details: 'warming up' };
  const quickly = (more = {}) => serviceWith({ SERVICE_BRIDGE_GRPC_RETRY_DELAY_MS: '1', ...more });

  it('three times and then is well has carried the call out', async () => {
    const on = await quickly();
    let attempts = 0;
    const tool: Work<unknown> = (call) => (++attempts > 3 ? call.reply() : call.refuse(LATER));
    const service = await registered('worker', { tool }, on);
    expect(await work(on)).toEqual([false, 'done']);
    // One call, for whoever follows it.
    expect(new Set(service.tools.map(({ requestId }) => String(requestId))).size).toBe(1);
    expect(attempts).toBe(4);
    expect(await told(on)).toMatchObject(BEGUN_AND_COMPLETED);
  });

  it('four times has not', async () => {
    const on = await quickly();
    let attempts = 0;
    const tool: Work<unknown> = (call) => (++attempts > 4 ? call.reply() : call.refuse(LATER));
    const { port } = await registered('worker', { tool }, on);
    const message = `service worker at 127.0.0.1:${port} is not available: warming up`;
    expect(await work(on)).toEqual([true, message]);
    expect(attempts).toBe(4);
    expect(await told(on)).toMatchObject(begunAndFailed('SERVICE_UNAVAILABLE', message));
    expect(await work(on)).toEqual([false, 'done']);
  });

  it('is asked again as often as the settings say', async () => {
    const on = await quickly({ SERVICE_BRIDGE_GRPC_MAX_RETRIES: '1' });
    const service = await registered('worker', { tool: (call) => call.refuse(LATER) }, on);
    expect((await work(on))[0]).toBe(true);
    expect(service.tools).toHaveLength(2);
  });
});
