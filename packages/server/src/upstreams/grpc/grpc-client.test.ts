import { Client, type ClientOptions, credentials, InterceptingCall, type Interceptor, status } from '@grpc/grpc-js';
import { afterEach, expect, it } from 'vitest';
import { loadProtocols } from './channels.ts';
import { type ReceivedCall, startWorkingService, type WorkingServiceOptions } from './fixtures/working-service.ts';
import { type CallSettings, callUnary } from './grpc-client.ts';

const { InvokeTool } = loadProtocols().toolInvoker;
const LATER = { code: status.UNAVAILABLE, details: 'later' };
const closers: (() => void)[] = [];
afterEach(() => {
  for (const close of closers.splice(0)) close();
});

/** A service and a channel to it. */
async function connected(options?: WorkingServiceOptions, ofClient?: ClientOptions) {
  const service = await startWorkingService(options);
  const client = new Client(`127.0.0.1:${service.port}`, credentials.createInsecure(), ofClient);
  closers.push(() => client.close(), service.close);
  const call = (settings: Partial<CallSettings>, signal?: AbortSignal) =>
    callUnary(
      client,
      InvokeTool,
      {},
      { requestId: 'r', signal },
      { timeoutMs: 5_000, maxRetries: 3, retryDelayMs: 100, ...settings },
    );
  return { service, client, call };
}

/** One attempt with any outcome. */
function rawCall(client: Client): Promise<unknown> {
  const { path, requestSerialize, responseDeserialize } = InvokeTool;
  return new Promise((done) => client.makeUnaryRequest(path, requestSerialize, responseDeserialize, {}, done));
}

it('the delay doubles with each retry', async () => {
  const times: number[] = [];
  const { call } = await connected({
    tool: (arrived) => {
      times.push(performance.now());
      arrived.reject(LATER);
    },
  });
  await expect(call({})).rejects.toMatchObject({ code: status.UNAVAILABLE, details: 'later' });
  const waits = times.slice(1).map((time, index) => time - (times[index] ?? 0));
  expect(waits).toHaveLength(3);
  [100, 200, 400].forEach((least, index) => {
    expect(waits[index]).toBeGreaterThan(least - 5);
  });
});

it('a delay over the maximum of a timer is limited', async () => {
  const rejected = Promise.withResolvers<void>();
  const { service, client, call } = await connected({
    tool: (arrived) => {
      arrived.reject(LATER);
      rejected.resolve();
    },
  });
  const ending = new AbortController();
  const calling = call({ retryDelayMs: 2 ** 31, maxRetries: 100 }, ending.signal).catch((error: Error) => error.name);
  await rejected.promise;
  // Enough for an immediate attempt to arrive.
  for (let turn = 0; turn < 3; turn++) await rawCall(client);
  ending.abort();
  expect(await calling).toBe('AbortError');
  expect(service.tools).toHaveLength(4);
});

it('a channel closed between two attempts rejects with the status of the first', async () => {
  const closesAfterwards: Interceptor = (options, nextCall) =>
    new InterceptingCall(nextCall(options), {
      start: (metadata, _listener, next) =>
        next(metadata, {
          onReceiveStatus: (status, pass) => {
            pass(status);
            client.close();
          },
        }),
    });
  const rejecting = { tool: (arrived: ReceivedCall<unknown>) => arrived.reject(LATER) };
  const { service, client, call } = await connected(rejecting, { interceptors: [closesAfterwards] });
  await expect(call({ retryDelayMs: 1 })).rejects.toMatchObject({ code: status.UNAVAILABLE, details: 'later' });
  expect(service.tools).toHaveLength(1);
});

it('a canceled call is not sent', async () => {
  const { service, call } = await connected();
  await expect(call({}, AbortSignal.abort())).rejects.toMatchObject({ code: status.CANCELLED });
  expect((await call({})).content).toEqual(['done']);
  expect(service.tools).toHaveLength(1);
});
