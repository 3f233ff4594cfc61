import { afterEach, beforeEach, expect, it, onTestFinished, vi } from 'vitest';
import { event } from '../../../../../../test/fixtures/raw-upstream/texts.ts';
import { type RawUpstream, startRawUpstream } from '../../../../../../test/fixtures/raw-upstream.ts';
import { type UpstreamTransport } from '../../../http/client/client.ts';
import { createTransport } from '../../../http/client/pool.ts';
import { openModern } from '../client.ts';
import { type ListeningOptions, ListenSubscription } from './listen-subscription.ts';

const WAIT = { timeout: 10_000, interval: 5 };
const METHOD = 'subscriptions/listen';
const NOTICE = '{"jsonrpc":"2.0","method":"notifications/tools/list_changed","params":{"n":1.0}}';
const GRANTED = 'granted {"toolsListChanged":true}';
const ACKNOWLEDGEMENT =
  '{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"notifications":{"toolsListChanged":true}}}';

let upstream: RawUpstream;
let transport: UpstreamTransport;
let listening: ListenSubscription | undefined;
let heard: string[];
beforeEach(async () => {
  upstream = await startRawUpstream({ eras: ['modern'] });
  transport = createTransport(upstream.url);
  heard = [];
});
afterEach(async () => {
  vi.useRealTimers();
  listening?.close();
  await transport.destroy();
  await upstream.close();
});

/** Begins to listen; what is called back is written down in `heard`. `take` answers `onNotification`. */
function listen(options: Partial<ListeningOptions> = {}, take: () => boolean = () => true): ListenSubscription {
  let id = 40;
  listening = new ListenSubscription({
    transport,
    clientInfo: { name: 'ann', version: '1' },
    capabilities: { sampling: {} },
    headers: ['x-tenant', 'a'],
    filter: { toolsListChanged: true },
    nextId: () => ++id,
    delays: { firstMs: 10 },
    sink: {
      onAcknowledged: (granted, gap) => heard.push(`granted ${JSON.stringify(granted)}${gap ? ' with a gap' : ''}`),
      onNotification: (text) => {
        heard.push(text);
        return take();
      },
      onRefused: ({ kind, code, status }, final) => {
        heard.push(`${final ? 'refused' : 'not now'}: ${[kind, code, status].filter((part) => part !== undefined)}`);
      },
    },
    ...options,
  });
  return listening;
}

async function hears(...expected: string[]): Promise<void> {
  await expect.poll(() => heard, WAIT).toEqual(expected);
}

it('the request carries filter, envelope and headers, and notifications come as they were spelled', async () => {
  listen();
  await hears(GRANTED);
  upstream.push(NOTICE);
  await hears(GRANTED, NOTICE);
  const [request] = upstream.seen;
  expect(request?.id).toBe('41');
  expect(request?.params).toEqual({
    notifications: { toolsListChanged: true },
    _meta: {
      'io.modelcontextprotocol/protocolVersion': '2026-07-28',
      'io.modelcontextprotocol/clientInfo': { name: 'ann', version: '1' },
      'io.modelcontextprotocol/clientCapabilities': { sampling: {} },
    },
  });
  expect(request?.headers).toMatchObject({ 'mcp-method': METHOD, 'x-tenant': 'a', 'x-service-hops': '1' });
});

it('a count of gateways among the headers is the one that is sent', async () => {
  listen({ headers: ['x-service-hops', '3'] });
  await hears(GRANTED);
  expect(upstream.seen[0]?.headers['x-service-hops']).toBe('3');
});

it('what comes before the acknowledgement, and requests, are dropped', async () => {
  const request = '{"jsonrpc":"2.0","id":1,"method":"ping"}';
  const body = [NOTICE, request, ACKNOWLEDGEMENT, request, NOTICE].map((message) => event(message)).join('');
  upstream.scripts[METHOD] = { kind: 'http', status: 200, type: 'text/event-stream', body };
  listen({ delays: { firstMs: 600_000 } });
  await hears(GRANTED, NOTICE);
});

it.each(['ended', 'broken'])('a stream that is %s is opened anew with another id, and has a gap', async (how) => {
  listen();
  await hears(GRANTED);
  if (how === 'ended') {
    upstream.push('{"jsonrpc":"2.0","id":41,"result":{"resultType":"complete"}}');
  } else {
    await upstream.down();
    await upstream.up();
  }
  await expect.poll(() => heard.at(-1), WAIT).toBe(`${GRANTED} with a gap`);
  expect(upstream.seen.at(-1)?.id).not.toBe('41');
  // The stream that was ended in good order is not read to its end.
  await expect.poll(() => upstream.streams(), WAIT).toBe(1);
});

it.each([
  ['-32601 with 404', { kind: 'error', status: 404, text: '{"code":-32601,"message":"no"}' }, 'rpc,-32601,404'],
  ['an error with 200', { kind: 'error', text: '{"code":-32603,"message":"no"}' }, 'rpc,-32603,200'],
  ['HTTP 405', { kind: 'http', status: 405, type: 'text/plain', body: 'no' }, 'http,405'],
  ['HTTP 501', { kind: 'http', status: 501, type: 'text/plain', body: 'no' }, 'http,501'],
  ['a result at once', { kind: 'result', text: '{}' }, 'invalid,200'],
  ['an empty stream', { kind: 'http', status: 200, type: 'text/event-stream', body: '' }, 'dropped'],
] as const)('an upstream that answers with %s is not asked again', async (_name, answer, what) => {
  upstream.scripts[METHOD] = answer;
  listen({ delays: { firstMs: 1 } });
  await hears(`refused: ${what}`);
  await transport.close();
  expect(upstream.count(METHOD)).toBe(1);
});

it('an error on the stream itself is a refusal', async () => {
  const body = event('{"jsonrpc":"2.0","id":$id,"error":{"code":-32601,"message":"no"}}');
  upstream.scripts[METHOD] = { kind: 'http', status: 200, type: 'text/event-stream', body };
  listen();
  await hears('refused: rpc,-32601');
});

it('an upstream that does not acknowledge in time is not asked again, unless it did before', async () => {
  // The time passes while it is looked.
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

it.each([503, 429, 408, 401, 403])('an upstream that answers %i is asked again', async (status) => {
  upstream.scripts[METHOD] = { kind: 'http', status, type: 'text/plain', body: 'later' };
  listen();
  await expect.poll(() => heard.length, WAIT).toBeGreaterThan(1);
  expect(new Set(heard)).toEqual(new Set([`not now: http,${status}`]));
  delete upstream.scripts[METHOD];
  await expect.poll(() => heard.at(-1), WAIT).toBe(GRANTED);
});

it('attempts come less often while the stream does not last', async () => {
  listen({ delays: { firstMs: 50, random: () => 0 }, settledMs: 600_000 });
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

it('a stream that has stood for a while is opened anew as soon as the first time', async () => {
  listen({ delays: { random: () => 0, firstMs: 10 }, settledMs: 0 });
  await hears(GRANTED);
  // Without beginning anew it would come to a minute.
  for (let round = 2; round <= 14; round++) {
    upstream.endStreams();
    await expect.poll(() => heard.length, { timeout: 5_000, interval: 5 }).toBe(round);
  }
});

it('nothing more is sent to a slow reader, and nothing lost', async () => {
  const slow = listen({}, () => false);
  await hears(GRANTED);
  const large = `{"method":"${'x'.repeat(256 * 1024)}"}`;
  for (let pushed = 0; pushed < 64; pushed++) upstream.push(large);
  await expect.poll(() => heard.length, WAIT).toBe(2);
  expect(upstream.unread()).toBeGreaterThan(large.length);
  const resuming = setInterval(() => slow.resume(), 1);
  onTestFinished(() => clearInterval(resuming));
  await expect.poll(() => heard.length, WAIT).toBe(65);
});

it('a stream that ends under a slow reader is opened anew only when the reader goes on', async () => {
  const body = [ACKNOWLEDGEMENT, NOTICE, 'x'.repeat(2_000)].map((message) => event(message)).join('');
  upstream.scripts[METHOD] = { kind: 'http', status: 200, type: 'text/event-stream', body };
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
  try {
    // Asked for when the delay is chosen.
    const random = vi.fn(() => 0);
    const slow = listen({ maxEventBytes: 1_000, delays: { firstMs: 60_000, random } }, () => false);
    await vi.waitFor(() => expect(random).toHaveBeenCalled(), WAIT);
    delete upstream.scripts[METHOD];
    vi.advanceTimersByTime(60_000);
    await openModern({ transport, capabilities: {}, clientInfo: {} });
    expect(upstream.count(METHOD)).toBe(1);
    slow.resume();
    await vi.waitFor(() => expect(heard).toEqual([GRANTED, NOTICE, `${GRANTED} with a gap`]), WAIT);
  } finally {
    vi.useRealTimers();
  }
});

it('closing ends the request, which is the cancellation', async () => {
  listen().close();
  const open = listen();
  await hears(GRANTED);
  open.close();
  await expect.poll(() => upstream.seen.map(({ left }) => left), WAIT).toEqual([true]);
  await transport.close();
  expect(heard).toEqual([GRANTED]);
});
