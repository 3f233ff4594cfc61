import { afterEach, beforeEach, expect, it, onTestFinished, vi } from 'vitest';
import { event } from '../../../../../../test/fixtures/raw-upstream/texts.ts';
import { type RawUpstream, startRawUpstream } from '../../../../../../test/fixtures/raw-upstream.ts';
import { accessTo, outlineOf } from '../../../access/fixtures/access.ts';
import { ANONYMOUS } from '../../../identity/principal.ts';
import { changeForwardInSteps } from '../../../registry/change-forward.ts';
import type { Draft } from '../../../registry/draft.ts';
import { DEFAULT_NAMESPACE } from '../../../registry/entries.ts';
import { commit } from '../../../registry/fixtures/commit.ts';
import { addForward } from '../../../registry/fixtures/upstreams.ts';
import { Registry } from '../../../registry/registry.ts';
import { runSteps } from '../../../registry/steps.ts';
import { memoryLog } from '../../../registry/store/record-log.ts';
import { openModern } from '../rpc-client.ts';
import { Upstream } from '../upstream.ts';
import { Subscription, type SubscriptionOptions } from './subscription.ts';

const WAIT = { timeout: 10_000, interval: 5 };
const METHOD = 'subscriptions/listen';
const NOTICE = '{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"a://1","n":1.0}}';
const GRANTED = 'granted a://1';
const ACKNOWLEDGEMENT =
  '{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"notifications":{"resourceSubscriptions":["a://1"]}}}';

let upstream: RawUpstream;
let server: Upstream;
let listening: Subscription | undefined;
let heard: string[];
beforeEach(async () => {
  upstream = await startRawUpstream({ eras: ['modern'] });
  heard = [];
  server = new Upstream(upstream.url);
  server.changed.subscribe(({ kind }) => kind === 'lists' && heard.push('changed'));
});
afterEach(async () => {
  vi.useRealTimers();
  listening?.close();
  await server.close(0);
  await upstream.close();
});

/** Subscribes; `heard` records the callbacks. `take` is the result of `onUpdated`. */
function listen(options: Partial<SubscriptionOptions> = {}, take: () => boolean = () => true): Subscription {
  listening = new Subscription({
    upstream: server,
    era: 'modern',
    client: { clientInfo: { name: 'ann', version: '1' }, capabilities: { sampling: {} }, headers: ['x-tenant', 'a'] },
    filter: {},
    resources: { permit: outlineOf('crm'), uris: ['a://1'] },
    delays: { firstMs: 10 },
    handler: {
      onGranted: ({ uris }, gap) => heard.push(`granted ${[...uris]}${gap ? ' with a gap' : ''}`),
      onUpdated: (_uri, text) => {
        heard.push(text);
        return take();
      },
      onRejected: ({ kind, code, status }, final) => {
        heard.push(`${final ? 'refused' : 'not now'}: ${[kind, code, status].filter((part) => part !== undefined)}`);
      },
      onUpstreamClosed: () => heard.push('closed'),
    },
    ...options,
  });
  return listening;
}

async function hears(...expected: string[]): Promise<void> {
  await expect.poll(() => heard, WAIT).toEqual(expected);
}

it('the request carries filter, envelope and headers, and notifications keep their exact text', async () => {
  listen();
  await hears(GRANTED);
  upstream.push(NOTICE);
  upstream.push('{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}');
  await hears(GRANTED, NOTICE, 'changed');
  const [request] = upstream.seen;
  expect(request?.id).toMatch(/^[1-9][0-9]*$/);
  expect(request?.params).toEqual({
    notifications: { resourceSubscriptions: ['a://1'] },
    _meta: {
      'io.modelcontextprotocol/protocolVersion': '2026-07-28',
      'io.modelcontextprotocol/clientInfo': { name: 'ann', version: '1' },
      'io.modelcontextprotocol/clientCapabilities': { sampling: {} },
    },
  });
  expect(request?.headers).toMatchObject({ 'mcp-method': METHOD, 'x-tenant': 'a', 'x-service-hops': '1' });
});

it('a hop count among the headers is the one that is sent', async () => {
  listen({ client: { clientInfo: {}, capabilities: {}, headers: ['x-service-hops', '3'] } });
  await hears(GRANTED);
  expect(upstream.seen[0]?.headers['x-service-hops']).toBe('3');
});

it('messages before the acknowledgment, and requests, are dropped', async () => {
  const request = '{"jsonrpc":"2.0","id":1,"method":"ping"}';
  const body = [NOTICE, request, ACKNOWLEDGEMENT, request, NOTICE].map((message) => event(message)).join('');
  upstream.scripts[METHOD] = { kind: 'http', status: 200, type: 'text/event-stream', body };
  listen({ delays: { firstMs: 600_000 } });
  await hears(GRANTED, NOTICE);
});

it.each(['ended', 'broken'])('a stream that is %s is reopened with another id and a gap', async (how) => {
  listen();
  await hears(GRANTED);
  const first = upstream.seen.at(-1)?.id;
  if (how === 'ended') {
    upstream.push(`{"jsonrpc":"2.0","id":${first},"result":{"resultType":"complete"}}`);
  } else {
    await upstream.down();
    await upstream.up();
  }
  await expect.poll(() => heard.at(-1), WAIT).toBe(`${GRANTED} with a gap`);
  expect(upstream.seen.at(-1)?.id).not.toBe(first);
  // A stream ended by a response is not read to its end.
  await expect.poll(() => upstream.streams(), WAIT).toBe(1);
});

it('a uri that an operator has hidden gets no updates, and is left out when the stream is opened again', async () => {
  const registry = new Registry(memoryLog());
  await registry.load();
  const change = (operation: (draft: Draft) => unknown) => commit(registry, operation);
  await change((draft) => addForward(draft, 'crm'));
  const permit = accessTo(registry).outline(ANONYMOUS, { namespace: DEFAULT_NAMESPACE, forward: 'crm' });
  listen({ resources: { permit, uris: ['a://1', 'b://1'] } });
  await hears('granted a://1,b://1');
  await change((draft) => {
    const forward = draft.forwards.get('crm') ?? expect.fail('no forward');
    runSteps(changeForwardInSteps(draft, forward, { expose: { resources: { deny: ['a:**'] } } }));
  });
  upstream.push(NOTICE);
  upstream.push('{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}');
  await hears('granted a://1,b://1', 'changed');
  upstream.endStreams();
  await expect.poll(() => upstream.count(METHOD), WAIT).toBe(2);
  expect(upstream.seen.map(({ params }) => params.notifications)).toEqual([
    { resourceSubscriptions: ['a://1', 'b://1'] },
    { resourceSubscriptions: ['b://1'] },
  ]);
});

it.each([
  ['-32601 with 404', { kind: 'error', status: 404, text: '{"code":-32601,"message":"no"}' }, 'rpc,-32601,404'],
  ['an error with 200', { kind: 'error', text: '{"code":-32603,"message":"no"}' }, 'rpc,-32603,200'],
  ['HTTP 405', { kind: 'http', status: 405, type: 'text/plain', body: 'no' }, 'http,405'],
  ['HTTP 501', { kind: 'http', status: 501, type: 'text/plain', body: 'no' }, 'http,501'],
  ['a result at once', { kind: 'result', text: '{}' }, 'invalid,200'],
  ['an empty stream', { kind: 'http', status: 200, type: 'text/event-stream', body: '' }, 'dropped'],
] as const)('an upstream that responds with %s is not retried', async (_name, answer, what) => {
  upstream.scripts[METHOD] = answer;
  listen({ delays: { firstMs: 1 } });
  await hears(`refused: ${what}`);
  await server.transport.close();
  expect(upstream.count(METHOD)).toBe(1);
});

it('an error on the stream is a rejection', async () => {
  const body = event('{"jsonrpc":"2.0","id":$id,"error":{"code":-32601,"message":"no"}}');
  upstream.scripts[METHOD] = { kind: 'http', status: 200, type: 'text/event-stream', body };
  listen();
  await hears('refused: rpc,-32601');
});

it('an upstream that does not acknowledge in time is not retried, unless it did before', async () => {
  // Polling advances the time.
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
  upstream.scripts[METHOD] = { kind: 'silence' };
  listen({ acknowledgeMs: 20 });
  await hears('refused: timeout');
  delete upstream.scripts[METHOD];
  heard = [];
  listen({ acknowledgeMs: 500 });
  await hears(GRANTED);
  upstream.scripts[METHOD] = { kind: 'silence' };
  upstream.endStreams();
  await hears(GRANTED, 'not now: timeout');
  delete upstream.scripts[METHOD];
  await hears(GRANTED, 'not now: timeout', `${GRANTED} with a gap`);
});

it.each([503, 429, 408, 401, 403])('an upstream that answers %i is retried', async (status) => {
  upstream.scripts[METHOD] = { kind: 'http', status, type: 'text/plain', body: 'later' };
  listen();
  await expect.poll(() => heard.length, WAIT).toBeGreaterThan(1);
  expect(new Set(heard)).toEqual(new Set([`not now: http,${status}`]));
  delete upstream.scripts[METHOD];
  await expect.poll(() => heard.at(-1), WAIT).toBe(GRANTED);
});

it('the delay increases while the stream does not last', async () => {
  listen({ delays: { firstMs: 50, random: () => 0 }, stableMs: 600_000 });
  await hears(GRANTED);
  let endedAt = 0;
  for (let round = 2; round <= 4; round++) {
    endedAt = performance.now();
    upstream.endStreams();
    await expect.poll(() => heard.length, WAIT).toBe(round);
  }
  // After 50 and half of 100 ms: half of 200.
  expect(performance.now() - endedAt).toBeGreaterThanOrEqual(99);
});

it('a stable stream resets the delay', async () => {
  listen({ delays: { random: () => 0, firstMs: 10 }, stableMs: 0 });
  await hears(GRANTED);
  // Without the reset it would be a minute.
  for (let round = 2; round <= 14; round++) {
    upstream.endStreams();
    await expect.poll(() => heard.length, { timeout: 5_000, interval: 5 }).toBe(round);
  }
});

it('a slow reader gets no more messages until it resumes, and loses none', async () => {
  const slow = listen({}, () => false);
  await hears(GRANTED);
  const large = NOTICE.replace('1.0', `"${'x'.repeat(256 * 1024)}"`);
  for (let pushed = 0; pushed < 64; pushed++) upstream.push(large);
  await expect.poll(() => heard.length, WAIT).toBe(2);
  expect(upstream.unread()).toBeGreaterThan(large.length);
  const resuming = setInterval(() => slow.resume(), 1);
  onTestFinished(() => clearInterval(resuming));
  await expect.poll(() => heard.length, WAIT).toBe(65);
});

it('a stream that ends while the reader is paused is reopened only on resume', async () => {
  const body = [ACKNOWLEDGEMENT, NOTICE, 'x'.repeat(2_000)].map((message) => event(message)).join('');
  upstream.scripts[METHOD] = { kind: 'http', status: 200, type: 'text/event-stream', body };
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
  try {
    // Called when the delay is chosen.
    const random = vi.fn(() => 0);
    const slow = listen({ maxEventBytes: 1_000, delays: { firstMs: 60_000, random } }, () => false);
    await vi.waitFor(() => expect(random).toHaveBeenCalled(), WAIT);
    delete upstream.scripts[METHOD];
    vi.advanceTimersByTime(60_000);
    await openModern({ transport: server.transport, capabilities: {}, clientInfo: {} });
    expect(upstream.count(METHOD)).toBe(1);
    slow.resume();
    await vi.waitFor(
      () => expect(heard).toEqual([GRANTED, NOTICE, 'not now: too-large,200', `${GRANTED} with a gap`]),
      WAIT,
    );
  } finally {
    vi.useRealTimers();
  }
});

it('close aborts the request, which cancels it upstream', async () => {
  listen().close();
  const open = listen();
  await hears(GRANTED);
  open.close();
  await expect.poll(() => upstream.seen.map(({ isDisconnected }) => isDisconnected), WAIT).toEqual([true]);
  await server.transport.close();
  expect(heard).toEqual([GRANTED]);
});
