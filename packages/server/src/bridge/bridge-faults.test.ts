import { status } from '@grpc/grpc-js';
import { beforeEach, describe, expect, it } from 'vitest';
import { reply } from '../../../../test/fixtures/raw-client.ts';
import { notification } from '../testing/live.ts';
import { client, errorOf } from '../testing/relay.ts';
import { startTestService, type TestService } from '../testing/service.ts';
import { callText, Reading, sessionClient } from '../testing/session-client.ts';
import { callHeaders, callText as modernCallText } from '../testing/streamer.ts';
import { bridgeTests, TAKES_ALL } from './fixtures/bridge-tests.ts';
import { startCapabilityService } from './fixtures/capability-service.ts';

const tests = bridgeTests();
const { registered, address, onEnd } = tests;

const HEADER = { target: 'header', scope: 'service' };
const WORK = { name: 'work', description: '', toolType: 'worker', uri: 'work://', input_schema: { type: 'object' } };
const PAGE = { name: 'page', location: 'page://1', type: 'worker' };

beforeEach(() => offer(tests.service));

/** Registers the tool `work` and the resource `page://1`, of the type `worker`, until the end of the test. */
async function offer(on: TestService, tool: object = {}): Promise<void> {
  await on.register('tools', { ...WORK, ...tool });
  await on.register('resources', PAGE);
  onEnd(() => on.manage('DELETE', '/resources/page'));
  onEnd(() => on.manage('DELETE', '/tools/work'));
}

/** A service of its own, with these settings of the bridge. */
async function serviceWith(env: Readonly<Record<string, string>>, tool?: object): Promise<TestService> {
  const service = await startTestService(env);
  onEnd(() => service.stop(0));
  await offer(service, tool);
  return service;
}

/** Calls the tool `work` with these arguments, JSON text; what the result says, and whether it is an error. */
async function work(on: TestService = tests.service, given = '{}'): Promise<[boolean, string]> {
  const by = await client('modern', on.url());
  const answer = await by.call('tools/call', `{"name":"work","arguments":${given}}`);
  const { result } = JSON.parse(reply(answer));
  return [result.isError, result.content.map(({ text }: { text: string }) => text).join()];
}

async function read(on: TestService = tests.service): Promise<{ code: number; message: string }> {
  const answer = await (await client('legacy', on.url())).call('resources/read', '{"uri":"page://1"}');
  expect(answer.status).toBe(200);
  return errorOf(answer);
}

/** A port that nothing listens on. */
async function deadPort(): Promise<number> {
  const { port, close } = await startCapabilityService();
  close();
  return port;
}

describe('a service that refuses the connection', () => {
  it('is named with its address, after the retries', async () => {
    const port = await deadPort();
    await address('worker', port);
    const started = performance.now();
    const [isError, text] = await work();
    expect(performance.now() - started).toBeGreaterThan(690);
    expect(isError).toBe(true);
    expect(text).toMatch(`service worker at 127.0.0.1:${port} is not available: `);
    expect(await read()).toEqual({
      code: -32603,
      message: expect.stringMatching(`^service worker at 127.0.0.1:${port} `),
    });
  });

  it('carries calls out again once it is there, also a call that waits for its next attempt', async () => {
    const port = await deadPort();
    await address('worker', port);
    // So many failures that the library waits for as long as it does.
    for (let failure = 0; failure < 3; failure++) expect((await work())[0]).toBe(true);
    const waiting = work();
    const { close } = await startCapabilityService({ port });
    onEnd(async () => close());
    expect(await waiting).toEqual([false, 'done']);
    expect(await work()).toEqual([false, 'done']);
  });
});

it('a service that was ended and started again is found again', async () => {
  const first = await registered('worker');
  expect(await work()).toEqual([false, 'done']);
  first.close();
  const second = await startCapabilityService({ port: first.port, tool: (call) => call.reply(['again']) });
  onEnd(async () => second.close());
  expect(await work()).toEqual([false, 'again']);
});

it('a service that is unavailable three times and then well has carried the call out', async () => {
  let attempts = 0;
  const refuse = { code: status.UNAVAILABLE, details: 'warming up' };
  const service = await registered('worker', { tool: (call) => (++attempts > 3 ? call.reply() : call.refuse(refuse)) });
  expect(await work()).toEqual([false, 'done']);
  // One call, for whoever follows it.
  expect(new Set(service.tools.map(({ requestId }) => String(requestId))).size).toBe(1);
  expect(attempts).toBe(4);
});

describe('a status', () => {
  it.each([
    [status.UNAVAILABLE, 'is not available: ', 4],
    [status.FAILED_PRECONDITION, 'cannot do this now: ', 1],
    [status.DEADLINE_EXCEEDED, 'did not answer in time: ', 1],
    [status.NOT_FOUND, undefined, 1],
    [status.INTERNAL, undefined, 1],
    [status.PERMISSION_DENIED, undefined, 1],
    [status.RESOURCE_EXHAUSTED, undefined, 1],
    [status.CANCELLED, undefined, 1],
  ])(
    '%i is told by its description, with service and address where it says little: %s',
    async (code, named, attempts) => {
      const refused = { code, details: 'such is life' };
      const service = await registered('worker', {
        tool: (call) => call.refuse(refused),
        resource: (call) => call.refuse(refused),
      });
      const message = named ? `service worker at 127.0.0.1:${service.port} ${named}such is life` : 'such is life';
      expect(await work()).toEqual([true, message]);
      expect(await read()).toEqual({ code: -32603, message });
      expect([service.tools.length, service.resources.length]).toEqual([attempts, attempts]);
    },
  );

  it('without a description is told by its name', async () => {
    await registered('worker', { tool: (call) => call.refuse({ code: status.ABORTED, details: '' }) });
    expect(await work()).toEqual([true, 'status ABORTED']);
  });
});

it('a service that stays silent is given up at the deadline, once, and hears of it', async () => {
  const on = await serviceWith({ SERVICE_BRIDGE_GRPC_TIMEOUT_MS: '150' });
  const service = await registered('worker', { tool: () => undefined }, on);
  const [isError, text] = await work(on);
  expect(isError).toBe(true);
  expect(text).toMatch(`service worker at 127.0.0.1:${service.port} did not answer in time: Deadline exceeded`);
  expect(service.tools).toHaveLength(1);
  await expect.poll(() => service.tools[0]?.cancelled).toBe(true);
});

it('retries are as many as the settings say', async () => {
  const on = await serviceWith({ SERVICE_BRIDGE_GRPC_MAX_RETRIES: '1', SERVICE_BRIDGE_GRPC_RETRY_DELAY_MS: '1' });
  const refused = { code: status.UNAVAILABLE, details: 'never' };
  const service = await registered('worker', { tool: (call) => call.refuse(refused) }, on);
  expect((await work(on))[0]).toBe(true);
  expect(service.tools).toHaveLength(2);
});

describe('a message of more than 4 MiB', () => {
  const large = 'x'.repeat(4 * 1024 * 1024);

  it('is told as what it is when it is the reply', async () => {
    const service = await registered('worker', {
      tool: (call) => call.reply([large]),
      resource: (call) => call.reply([large]),
      options: TAKES_ALL,
    });
    expect(await work()).toEqual([
      true,
      expect.stringMatching(/^Received message larger than max \(\d+ vs 4194304\)$/),
    ]);
    expect(await read()).toEqual({
      code: -32603,
      message: expect.stringContaining('Received message larger than max'),
    });
    // The channel goes on, and nothing was tried again.
    expect([service.tools.length, service.resources.length]).toEqual([1, 1]);
  });

  it('is told as what it is when it is the request', async () => {
    // The argument is a header too: so the message is twice as large as the client's.
    const on = await serviceWith({}, { input_schema: { type: 'object', properties: { big: HEADER } } });
    const service = await registered('worker', { options: TAKES_ALL }, on);
    const given = `{"big":"${large.slice(0, large.length / 2)}"}`;
    expect(await work(on, given)).toEqual([true, 'Attempted to send message with a size larger than 4194304']);
    expect(await work(on, '{"big":"small"}')).toEqual([false, 'done']);
    expect(service.tools).toHaveLength(1);
  });

  it('is carried in both directions up to there', async () => {
    const almost = large.slice(0, -1024);
    await registered('worker', {
      tool: ({ request, reply }) => reply([request.arguments.big ?? '']),
      options: TAKES_ALL,
    });
    expect(await work(tests.service, `{"big":"${almost}"}`)).toEqual([false, almost]);
  });
});

it('200 calls at a time are carried out, each with its own answer', async () => {
  const waiting: (() => void)[] = [];
  await registered('worker', {
    tool: (call) => {
      waiting.push(() => call.reply([call.request.arguments.n ?? '']));
      // None is answered before all are there.
      if (waiting.length === 200) for (const answer of waiting) answer();
    },
  });
  const answers = await Promise.all(Array.from({ length: 200 }, (_, n) => work(tests.service, `{"n":${n}}`)));
  expect(answers).toEqual(Array.from({ length: 200 }, (_, n) => [false, String(n)]));
});

describe('a client that gives up', () => {
  it('cancels at the service by leaving, in the modern era', async () => {
    const arrived = Promise.withResolvers<void>();
    const service = await registered('worker', { tool: () => arrived.resolve() });
    const headers = { 'content-type': 'application/json', accept: 'application/json, text/event-stream' };
    const reading = new Reading(
      tests.service.url(),
      'POST',
      { ...headers, ...callHeaders('modern') },
      modernCallText('modern'),
    );
    await arrived.promise;
    reading.leave();
    await expect.poll(() => service.tools[0]?.cancelled).toBe(true);
    expect(service.tools).toHaveLength(1);
  });

  it('cancels at the service by saying so, in the legacy era, and gets no answer', async () => {
    const arrived = Promise.withResolvers<void>();
    const service = await registered('worker', { tool: () => arrived.resolve() });
    const by = await sessionClient(tests.service.url());
    const reading = by.call('"c"');
    await arrived.promise;
    const { status: accepted } = await by.post(notification('cancelled', '{"requestId":"c"}'));
    expect(accepted).toBe(202);
    await reading.over;
    expect(reading.messages).toEqual([]);
    await expect.poll(() => service.tools[0]?.cancelled).toBe(true);
  });

  it('cancels nothing by leaving in the legacy era', async () => {
    const arrived = Promise.withResolvers<void>();
    const service = await registered('worker', {
      tool: (call) => (service.tools.length === 1 ? arrived.resolve() : call.reply()),
    });
    const by = await sessionClient(tests.service.url());
    const reading = by.call('"c"');
    await arrived.promise;
    reading.leave();
    await reading.over;
    expect(JSON.parse((await by.post(callText('"d"'))).text).result.isError).toBe(false);
    expect(service.tools[0]?.cancelled).toBe(false);
    service.tools[0]?.reply();
  });

  it('ends the wait for the next attempt', async () => {
    const refused = Promise.withResolvers<void>();
    const on = await serviceWith({ SERVICE_BRIDGE_GRPC_RETRY_DELAY_MS: '60000' });
    const service = await registered(
      'worker',
      {
        tool: (call) => {
          call.refuse({ code: status.UNAVAILABLE, details: 'later' });
          refused.resolve();
        },
      },
      on,
    );
    const by = await sessionClient(on.url());
    const reading = by.call('"c"');
    await refused.promise;
    await by.post(notification('cancelled', '{"requestId":"c"}'));
    await reading.over;
    expect([reading.messages, service.tools.length]).toEqual([[], 1]);
  });
});
