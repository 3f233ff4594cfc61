import { setTimeout as delay } from 'node:timers/promises';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { startEverything } from './fixtures/everything.ts';
import { freePort } from './fixtures/free-port.ts';
import { type Gateway, startGateway } from './fixtures/gateway.ts';
import { legacyClient, modernClient, type RawClient, reply } from './fixtures/raw-client.ts';
import type { Era, ScriptedResponse } from './fixtures/raw-upstream/message.ts';
import { event, pagedTools, textResultText, toolList, toolText } from './fixtures/raw-upstream/texts.ts';
import { type RawUpstream, type RawUpstreamOptions, startRawUpstream } from './fixtures/raw-upstream.ts';
import { connect, type SdkClient } from './fixtures/sdk-client.ts';

const IDLE_TIMEOUT_MS = 5000;
// Attempts are at most 1.5 s apart; the machine may be slow.
const RETURN_DEADLINE_MS = 10_000;
// Far above the duration of a call through an idle gateway, far below any deadline that a broken forward could impose.
const STEADY_MS = 3000;
const eras: readonly Era[] = ['legacy', 'modern'];

let gateway: Gateway;
let healthy: RawUpstream;
let silentUpstream: RawUpstream;
let silentRegistered: Promise<{ status: number; body: unknown; ms: number }>;
let steadyClient: readonly RawClient[];
const opened: (() => Promise<void>)[] = [];

beforeAll(async () => {
  gateway = await startGateway({ env: { SERVICE_UPSTREAM_IDLE_TIMEOUT_MS: String(IDLE_TIMEOUT_MS) } });
  healthy = await startRawUpstream({
    scripts: { 'tools/list': toolList(toolText('steady')), 'tools/call': textResultText('steady') },
  });
  await gateway.forward('healthy', healthy.url);
  // Its registration takes the 30 s that a discovery may take: all other drills run meanwhile.
  silentUpstream = await startRawUpstream();
  silentUpstream.fault = { kind: 'silence' };
  const before = performance.now();
  silentRegistered = gateway
    .api('POST', '/api/v1/forwards', { name: 'mute', address: silentUpstream.url })
    .then(({ status, body }) => ({ status, body, ms: performance.now() - before }));
  // If only some of the drills run, nothing waits for it, and it fails when the gateway is closed.
  silentRegistered.catch(() => undefined);
  steadyClient = [await legacyClient(gateway.url()), modernClient(gateway.url())];
});
afterEach(async () => {
  while (opened.length > 0) await opened.pop()?.();
});
afterAll(async () => {
  await gateway.close();
  await Promise.all([healthy.close(), silentUpstream.close()]);
});

/** Starts an upstream whose tool `{name}` returns `{name}`, registers it, and removes both after the test. */
async function register(
  name: string,
  options: RawUpstreamOptions = {},
): Promise<{ upstream: RawUpstream; data: unknown }> {
  const upstream = await start(name, options);
  opened.push(async () => void (await gateway.api('DELETE', `/api/v1/forwards/${name}`)));
  return { upstream, data: await gateway.forward(name, upstream.url) };
}

async function start(name: string, options: RawUpstreamOptions = {}): Promise<RawUpstream> {
  const upstream = await startRawUpstream({
    ...options,
    scripts: { 'tools/list': toolList(toolText(name)), 'tools/call': textResultText(name), ...options.scripts },
  });
  opened.push(upstream.close);
  return upstream;
}

async function sdk(era: Era): Promise<SdkClient> {
  const client = await connect(gateway.url(), era);
  opened.push(client.close);
  return client;
}

/** Runs a drill while both eras call the healthy forward without a pause; every call must succeed, and soon. */
async function withSteadyCalls<T>(drill: () => Promise<T>): Promise<T> {
  let over = false;
  const latencies: number[] = [];
  const loop = async (client: RawClient) => {
    do {
      const before = performance.now();
      const text = reply(await client.call('tools/call', '{"name":"steady","arguments":{}}'));
      latencies.push(performance.now() - before);
      expect(text).toContain('"text":"steady"');
      expect(reply(await client.call('tools/list'))).toContain('"name":"steady"');
      await delay(20);
    } while (!over);
  };
  const loops = Promise.allSettled(steadyClient.map(loop));
  try {
    return await drill();
  } finally {
    over = true;
    for (const result of await loops) if (result.status === 'rejected') expect.unreachable(String(result.reason));
    expect(Math.max(...latencies)).toBeLessThan(STEADY_MS);
  }
}

/** Repeats a call until it succeeds; returns the elapsed milliseconds. Fails after 20 s with the last error. */
async function waitUntilCallSucceeds(call: () => Promise<unknown>): Promise<number> {
  const before = performance.now();
  for (;;) {
    try {
      await call();
      return performance.now() - before;
    } catch (error) {
      if (performance.now() - before > 20_000) throw error;
      await delay(25);
    }
  }
}

function forwardState(name: string): Promise<unknown> {
  return gateway.api('GET', `/api/v1/forwards/${name}`).then(({ body }) => body);
}

const failedCall = { code: -32603, message: expect.stringMatching(/forwarded tool call failed: ./) };

describe('an upstream that is down', () => {
  it.each(eras)('at its registration serves %s clients soon after it is up', async (era) => {
    const name = `late-${era}`;
    const port = await freePort();
    const data = await gateway.forward(name, `http://127.0.0.1:${port}/mcp`);
    opened.push(async () => void (await gateway.api('DELETE', `/api/v1/forwards/${name}`)));
    expect(data).toMatchObject({ available: false, statusMessage: expect.stringMatching(/./) });
    await withSteadyCalls(async () => {
      const duringOutage = await sdk(era);
      await expect(duringOutage.callText(name)).rejects.toMatchObject({ code: -32602 });
      await start(name, { port });
      expect(await waitUntilCallSucceeds(() => duringOutage.callText(name))).toBeLessThan(RETURN_DEADLINE_MS);
      expect(duringOutage.sent.filter((method) => method === 'initialize').length).toBe(era === 'legacy' ? 1 : 0);
    });
  });

  it.each(eras)('between two calls fails them as -32603 and serves %s clients soon after its return', async (era) => {
    const { upstream } = await register('crashing', { port: await freePort() });
    const client = await sdk(era);
    expect(await client.callText('crashing')).toBe('crashing');
    await upstream.down();
    await withSteadyCalls(async () => {
      await expect(client.callText('crashing')).rejects.toMatchObject(failedCall);
      expect(reply(await modernClient(gateway.url()).call('tools/list'))).toContain('"name":"crashing"');
      expect(await forwardState('crashing')).toMatchObject({ data: { available: false } });
      const meanwhile = await sdk(era);
      await upstream.up();
      expect(await waitUntilCallSucceeds(() => client.callText('crashing'))).toBeLessThan(RETURN_DEADLINE_MS);
      expect(await meanwhile.callText('crashing')).toBe('crashing');
    });
  });
});

describe('an upstream that loses its sessions', () => {
  it.each(eras)('by being killed and restarted between two calls does not fail the second (%s)', async (era) => {
    const { upstream } = await register('restarted', { port: await freePort() });
    const client = await sdk(era);
    await withSteadyCalls(async () => {
      expect(await client.callText('restarted')).toBe('restarted');
      await upstream.down();
      await upstream.up();
      expect(await client.callText('restarted')).toBe('restarted');
    });
    expect(client.sent.filter((method) => method === 'initialize').length).toBe(era === 'legacy' ? 1 : 0);
  });

  it('by being killed and restarted does not fail the next call, also with the reference server', async () => {
    const port = await freePort();
    let upstream = await startEverything(port);
    opened.push(() => upstream.close());
    opened.push(async () => void (await gateway.api('DELETE', '/api/v1/forwards/everything')));
    await gateway.forward('everything', upstream.url);
    const client = await sdk('legacy');
    await withSteadyCalls(async () => {
      expect(await client.callText('echo', { message: 'one' })).toBe('Echo: one');
      await upstream.close();
      upstream = await startEverything(port);
      expect(await client.callText('echo', { message: 'two' })).toBe('Echo: two');
    });
    expect(client.sent.filter((method) => method === 'initialize')).toHaveLength(1);
  });

  it('by responding 404 gets a new session, and receives the call once', async () => {
    const executed: unknown[] = [];
    const { upstream } = await register('forgetful', {
      eras: ['legacy'],
      scripts: {
        'tools/call': ({ params }) => {
          executed.push(params.arguments);
          return textResultText('forgetful');
        },
      },
    });
    const client = await sdk('legacy');
    await withSteadyCalls(async () => {
      await client.callText('forgetful', { n: 1 });
      const before = upstream.count('initialize');
      upstream.forgetSessions();
      expect(await client.callText('forgetful', { n: 2 })).toBe('forgetful');
      expect(upstream.count('initialize')).toBeGreaterThan(before);
    });
    expect(executed).toEqual([{ n: 1 }, { n: 2 }]);
    expect(client.sent.filter((method) => method === 'initialize')).toHaveLength(1);
  });

  it('by always responding 404 fails the call instead of retrying forever', async () => {
    const { upstream } = await register('amnesiac', { eras: ['legacy'] });
    const client = await sdk('legacy');
    upstream.scripts['tools/call'] = { kind: 'error', status: 404, text: '{"code":-32001,"message":"no session"}' };
    await withSteadyCalls(() => expect(client.callText('amnesiac')).rejects.toMatchObject(failedCall));
    expect(upstream.count('tools/call')).toBe(2);
  });
});

describe('an upstream that does not respond', () => {
  const expectTimelyFailure = (client: SdkClient) =>
    withSteadyCalls(async () => {
      const before = performance.now();
      await expect(client.callText('silent')).rejects.toMatchObject(failedCall);
      expect(performance.now() - before).toBeGreaterThanOrEqual(IDLE_TIMEOUT_MS - 50);
      expect(performance.now() - before).toBeLessThan(IDLE_TIMEOUT_MS * 2);
    });

  it.each(eras)('fails the call of a %s client after the idle timeout', async (era) => {
    const { upstream } = await register('silent');
    const client = await sdk(era);
    expect(await client.callText('silent')).toBe('silent');
    upstream.fault = { kind: 'silence' };
    await expectTimelyFailure(client);
  });

  it('fails a call in the same time when the session cannot be opened', async () => {
    const { upstream } = await register('silent');
    const client = await sdk('legacy');
    upstream.fault = { kind: 'silence' };
    await expectTimelyFailure(client);
  });

  it('gets a closed connection when a modern client disconnects', async () => {
    const { upstream } = await register('abandoned');
    upstream.scripts['tools/call'] = { kind: 'silence' };
    const client = await sdk('modern');
    const disconnect = new AbortController();
    const call = client.client.callTool({ name: 'abandoned' }, { signal: disconnect.signal });
    const calls = () => upstream.seen.filter((seen) => seen.method === 'tools/call');
    await expect.poll(() => calls().length).toBe(1);
    disconnect.abort();
    await expect(call).rejects.toThrow();
    await expect
      .poll(() => calls().map((seen) => seen.isDisconnected), { timeout: IDLE_TIMEOUT_MS - 500 })
      .toEqual([true]);
  });
});

describe('an upstream that breaks its event stream', () => {
  const half = 'event: message\ndata: {"jsonrpc":"2.0","id":';
  const note = '{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"on my way"}}';
  const breaks: Readonly<Record<string, ScriptedResponse>> = {
    'cut in the middle of an event': { kind: 'broken stream', bytes: half },
    'cut after a message': { kind: 'broken stream', bytes: event(note) },
    'cut in the middle of a second event': { kind: 'broken stream', bytes: event(note) + half },
    'ended without an answer': { kind: 'http', status: 200, type: 'text/event-stream', body: event(note) },
    'cut before any answer': { kind: 'cut' },
  };
  it.each(eras.flatMap((era) => Object.entries(breaks).map(([title, answer]) => ({ era, title, answer }))))(
    '$title, fails the call on the stream of a $era client',
    async ({ era, answer }) => {
      const { upstream } = await register('broken');
      const client = era === 'legacy' ? await legacyClient(gateway.url()) : modernClient(gateway.url());
      upstream.scripts['tools/call'] = answer;
      const responded = await withSteadyCalls(() => client.call('tools/call', '{"name":"broken"}'));
      expect(responded.status).toBe(200);
      expect(JSON.parse(reply(responded))).toMatchObject({ jsonrpc: '2.0', id: 1, error: failedCall });
    },
  );
});

describe('an upstream with a long catalog', () => {
  it('is read completely: 10,000 tools on 200 pages', async () => {
    const list = pagedTools(10_000, 50);
    await withSteadyCalls(async () => {
      const { data } = await register('long', { scripts: { 'tools/list': list } });
      expect(data).toMatchObject({ available: true, tools_discovered: 10_000 });
    });
    const legacy = await sdk('legacy');
    const { tools } = await legacy.client.listTools();
    const names = tools.map((tool) => tool.name).filter((name) => name.startsWith('tool-'));
    expect(names).toEqual(Array.from({ length: 10_000 }, (_, i) => `tool-${i}`));
    expect(await legacy.callText('tool-9999')).toBe('long');
  });

  it('that repeats a cursor forever is read up to the repetition, with a warning in the log', async () => {
    const endless = `{"tools":[${toolText('endless')}],"nextCursor":"again","resultType":"complete","ttlMs":0,"cacheScope":"private"}`;
    await withSteadyCalls(async () => {
      const { upstream, data } = await register('endless', { scripts: { 'tools/list': endless } });
      expect(data).toMatchObject({
        available: true,
        tools_discovered: 1,
        statusMessage: expect.stringMatching(/cursor/),
      });
      // At most: both eras, two sets of client capabilities, two pages and the repeated one.
      expect(upstream.count('tools/list')).toBeLessThanOrEqual(12);
    });
    expect(await (await sdk('modern')).callText('endless')).toBe('endless');
  });
});

describe('an upstream that sends invalid JSON', () => {
  const garbage = { kind: 'http', status: 200, type: 'application/json', body: '{"jsonrpc":"2.0","id":$id,' } as const;

  it('is registered as unavailable', async () => {
    const upstream = await start('garbled');
    upstream.fault = garbage;
    opened.push(async () => void (await gateway.api('DELETE', '/api/v1/forwards/garbled')));
    const data = await withSteadyCalls(() => gateway.forward('garbled', upstream.url));
    expect(data).toMatchObject({ available: false, statusMessage: expect.stringMatching(/./), tools_discovered: 0 });
  });

  it('in response to a refresh keeps its last valid catalog', async () => {
    const { upstream } = await register('garbling');
    upstream.fault = garbage;
    const refresh = await withSteadyCalls(() => gateway.api('POST', '/api/v1/forwards/garbling/refreshes'));
    expect(refresh).toMatchObject({ status: 502, body: { data: null, error: { code: 'BAD_GATEWAY' } } });
    expect(await forwardState('garbling')).toMatchObject({ data: { available: false, tools_discovered: 1 } });
    expect(reply(await modernClient(gateway.url()).call('tools/list'))).toContain('"name":"garbling"');
  });

  it.each(
    eras.flatMap((era) => [
      { era, form: 'a JSON body', answer: garbage },
      { era, form: 'an event', answer: { ...garbage, type: 'text/event-stream', body: 'data: {"jsonrpc"\n\n' } },
      { era, form: 'a page of HTML', answer: { ...garbage, status: 502, type: 'text/html', body: '<h1>oops</h1>' } },
    ]),
  )('to a call, as $form, fails it ($era)', async ({ era, answer }) => {
    const { upstream } = await register('garbler');
    const client = await sdk(era);
    upstream.scripts['tools/call'] = answer;
    await withSteadyCalls(() => expect(client.callText('garbler')).rejects.toMatchObject(failedCall));
  });
});

describe('an upstream that accepts connections and never responds', () => {
  it('is registered as unavailable after 30 s', { timeout: 60_000 }, async () => {
    const { status, body, ms } = await withSteadyCalls(() => silentRegistered);
    expect(status).toBe(201);
    expect(body).toMatchObject({ data: { name: 'mute', available: false, statusMessage: expect.stringMatching(/./) } });
    expect(ms).toBeLessThan(35_000);
  });
});
