import { Client as ModernClient, StreamableHTTPClientTransport as ModernTransport } from '@modelcontextprotocol/client';
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { describe, expect, it } from 'vitest';
import { liveTests } from '../../testing/live-tests.ts';
import type { LiveCall } from '../../testing/live-upstream.ts';
import { startStreamingService } from '../../testing/service.ts';
import { type ResponseReader, type SessionClient, sessionClient } from '../../testing/session-client.ts';

const tests = liveTests(startStreamingService);
const { live, onEnd } = tests;

/** An official client that reconnects at once, with the statuses of its GET requests and the notifications that it got. */
interface ObservedClient {
  readonly gets: readonly number[];
  readonly notifications: readonly string[];
  /** Calls the tool `work`. Never rejects. */
  call(signal: AbortSignal): Promise<void>;
  ping(): Promise<unknown>;
}

const INFO = { name: 'official', version: '1' };
const WORK = { name: 'work' };
const reconnectionOptions = {
  initialReconnectionDelay: 1,
  maxReconnectionDelay: 1,
  reconnectionDelayGrowFactor: 1,
  maxRetries: 2,
};

async function official(sdk: string, url: string): Promise<ObservedClient> {
  const gets: number[] = [];
  const notifications: string[] = [];
  const options = {
    reconnectionOptions,
    fetch: async (input: string | URL, init?: RequestInit) => {
      const response = await fetch(input, init);
      if (init?.method === 'GET') gets.push(response.status);
      return response;
    },
  };
  const ignore = () => undefined;
  if (sdk === '1.x') {
    const client = new Client(INFO);
    client.fallbackNotificationHandler = async ({ method }) => void notifications.push(method);
    await client.connect(new StreamableHTTPClientTransport(new URL(url), options));
    onEnd(() => client.close());
    const call = (signal: AbortSignal) => client.callTool(WORK, undefined, { signal }).then(ignore, ignore);
    return { gets, notifications, call, ping: () => client.ping() };
  }
  const client = new ModernClient(INFO, { versionNegotiation: { mode: 'legacy' } });
  client.fallbackNotificationHandler = async ({ method }) => void notifications.push(method);
  await client.connect(new ModernTransport(new URL(url), options));
  onEnd(() => client.close());
  const call = (signal: AbortSignal) => client.callTool(WORK, { signal }).then(ignore, ignore);
  return { gets, notifications, call, ping: () => client.ping() };
}

const CANCELLATIONS = 'cancellations and timeouts';

/** Ends of a call whose event stream has begun. */
const ENDINGS: Readonly<Record<string, (call: LiveCall, controller: AbortController) => void>> = {
  [CANCELLATIONS]: (_, controller) => controller.abort(),
  'late errors': (call) => {
    call.send(`{"jsonrpc":"2.0","id":${call.id},"error":{"code":-32000,"message":"too late"}}`);
    call.response.end();
  },
  'late failures': (call) => call.response.destroy(),
};

const COUNT = 10;

describe.each(['1.x', '2.x'])('the official client %s', (sdk) => {
  it.each(Object.keys(ENDINGS))('requests no stream after %s', async (ending) => {
    const { upstream, url } = await live();
    const client = await official(sdk, url);
    await expect.poll(() => client.gets).toEqual([200]);
    const controllers = Array.from({ length: COUNT }, () => new AbortController());
    const calls = controllers.map(({ signal }) => client.call(signal));
    for (const controller of controllers) {
      const call = await upstream.calls.next();
      call.begin();
      // Begins the client's event stream.
      call.send('{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"error","data":"begun"}}');
      await expect.poll(() => client.notifications.length).toBeGreaterThan(controllers.indexOf(controller));
      ENDINGS[ending]?.(call, controller);
    }
    await Promise.all(calls);
    // Version 2 takes an error for the end of its call, as it should.
    const reconnects = sdk === '1.x' || ending === CANCELLATIONS ? COUNT : 0;
    const expected = [200, ...Array.from({ length: reconnects }, () => 405)];
    await expect.poll(() => client.gets).toEqual(expected);
    // A client whose request were answered with a stream would reconnect again.
    for (let round = 0; round < 20; round++) await client.ping();
    expect(client.gets).toEqual(expected);
    expect(new Set(client.notifications)).toEqual(new Set(['notifications/message']));
  });
});

/** Opens notification streams. */
async function listening(client: SessionClient, count: number): Promise<ResponseReader[]> {
  const streams: ResponseReader[] = [];
  for (let number = 0; number < count; number++) {
    const stream = client.listen();
    await stream.event(0);
    streams.push(stream);
  }
  return streams;
}

async function statusOf(stream: ResponseReader): Promise<number | undefined> {
  const { statusCode } = await stream.head;
  await stream.ended;
  return statusCode;
}

it('a new stream reports messages that another one missed once only', async () => {
  const { url } = await live();
  const client = await sessionClient(url);
  const [first] = await listening(client, 1);
  const [other] = await listening(await sessionClient(url), 1);
  first?.disconnect();
  await first?.ended;
  await tests.service.register('tools', {
    name: 'added',
    namespace: new URL(url).pathname.split('/')[1],
    description: '',
    uri: 'http://localhost',
    toolType: 'rest',
    inputSchema: {},
  });
  // Until then, the first one has not missed anything.
  await other?.message(0);
  const second = client.listen();
  expect(await second.message(2)).toContain('list_changed');
  const third = client.listen();
  await third.event(0);
  await client.request('ping');
  expect(third.messages).toEqual([]);
});

describe('a GET with the event id', () => {
  it('of a stream that has ended is 405 once nothing is left to send', async () => {
    const { upstream, url } = await live();
    const client = await sessionClient(url);
    const reading = client.call('1');
    const call = await upstream.calls.next();
    call.begin();
    await reading.event(0);
    const beginning = reading.lastId;
    call.end('done');
    await reading.ended;
    const again = client.listen(beginning);
    await again.ended;
    expect(again.messages).toEqual(reading.messages);
    for (let round = 0; round < 3; round++) expect(await statusOf(client.listen(reading.lastId))).toBe(405);
    const { headers } = await client.listen(reading.lastId).head;
    expect(headers.allow).toBe('GET, POST, DELETE, OPTIONS');
  });

  it('of a displaced notification stream is 409, and the others remain', async () => {
    const { url } = await live();
    const client = await sessionClient(url);
    const [displaced, ...others] = await listening(client, 9);
    expect(await displaced?.ended).toBe(true);
    for (let round = 0; round < 3; round++) expect(await statusOf(client.listen(displaced?.lastId))).toBe(409);
    // None of the others was displaced in turn, and none has a notice of missed changes.
    const [next] = others;
    next?.disconnect();
    await next?.ended;
    const resumed = client.listen(next?.lastId);
    expect((await resumed.head).statusCode).toBe(200);
    expect([...others, resumed].flatMap(({ messages }) => messages)).toEqual([]);
  });
});
