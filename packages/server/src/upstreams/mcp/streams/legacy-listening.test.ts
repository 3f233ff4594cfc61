import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import type { Answer, Seen } from '../../../../../../test/fixtures/raw-upstream/message.ts';
import { type RawUpstream, startRawUpstream } from '../../../../../../test/fixtures/raw-upstream.ts';
import { notification } from '../../../../testing/live.ts';
import { type UpstreamTransport } from '../../../http/client/client.ts';
import { createTransport } from '../../../http/client/pool.ts';
import { type LegacyListeningOptions, LegacySubscription } from './legacy-subscription.ts';

const WAIT = { timeout: 10_000, interval: 5 };
const INITIALIZED = (subscribe: boolean) =>
  `{"protocolVersion":"2025-11-25","capabilities":{"resources":{"subscribe":${subscribe}}},"serverInfo":{"name":"l","version":"1"}}`;
const UNAVAILABLE: Answer = { kind: 'http', status: 405, type: 'text/plain', body: '' };
const NOT_FOUND: Answer = { kind: 'error', text: '{"code":-32601,"message":"no"}' };
const UNKNOWN: Answer = { kind: 'error', text: '{"code":-32602,"message":"unknown"}' };

let upstream: RawUpstream;
let transport: UpstreamTransport;
let listening: LegacySubscription | undefined;
/** What the sink was told, in order. */
let told: string[];
beforeEach(async () => {
  upstream = await startRawUpstream({
    eras: ['legacy'],
    scripts: { initialize: INITIALIZED(true), 'resources/subscribe': '{}' },
  });
  transport = createTransport(upstream.url);
  told = [];
});
afterEach(async () => {
  vi.useRealTimers();
  listening?.close();
  await transport.destroy();
  await upstream.close();
});

/** Watches these uris. `take` answers `onNotification`. */
function watch(
  uris: readonly string[],
  options: Partial<LegacyListeningOptions> = {},
  take: () => boolean = () => true,
): LegacySubscription {
  listening = new LegacySubscription({
    transport,
    clientInfo: { name: 'watcher' },
    headers: ['x-service-hops', '3', 'x-tenant', 'a'],
    uris,
    changed: () => told.push('changed'),
    delays: { firstMs: 10, maxMs: 20 },
    sink: {
      // Asked for at the same time, they may be granted in any order.
      onAcknowledged: ({ resourceSubscriptions = [] }, gap) =>
        told.push(`${gap ? 'again' : 'granted'} ${resourceSubscriptions.toSorted()}`),
      onNotification: (text) => {
        told.push(text);
        return take();
      },
      onRefused: ({ message }, final) => told.push(`${final ? 'refused' : 'later'}: ${message}`),
    },
    ...options,
  });
  return listening;
}

const tells = (...expected: readonly unknown[]) => expect.poll(() => told, WAIT).toEqual(expected);
const refused = (what: string) => expect.stringMatching(`^refused: upstream .* ${what}`);
const subscribed = () =>
  upstream.seen.filter(({ method }) => method === 'resources/subscribe').map(({ params }) => params.uri);
const updated = (uri: string) => notification('resources/updated', `{"uri":"${uri}","n":1.0}`);

describe('a legacy upstream', () => {
  it('is watched in a session of its own, of a client that can do nothing, with the client’s headers', async () => {
    watch(['a://1', 'a://2']);
    await tells('granted a://1,a://2');
    const [opening] = upstream.seen;
    expect(opening?.params).toMatchObject({ capabilities: {}, clientInfo: { name: 'watcher' } });
    for (const { headers, method } of upstream.seen) {
      expect(headers).toMatchObject({ 'x-service-hops': '3', 'x-tenant': 'a' });
      if (method !== 'initialize') expect(headers['mcp-session-id']).toBe(opening?.session);
    }
    upstream.push(` ${updated('a://1')}`);
    upstream.push(notification('resources/list_changed'));
    upstream.push(updated('b://1'));
    await tells('granted a://1,a://2', ` ${updated('a://1')}`, 'changed', updated('b://1'));
  });

  it('grants what it has taken, and what it refuses is left out', async () => {
    upstream.scripts['resources/subscribe'] = ({ params }) => (params.uri === 'a://2' ? UNKNOWN : '{}');
    watch(['a://1', 'a://2', 'a://3']);
    await tells('granted a://1,a://3');
  });

  it('is not subscribed at until it can tell: its stream is open', async () => {
    upstream.scripts.GET = { kind: 'http', status: 503, type: 'text/plain', body: '' };
    watch(['a://1']);
    await expect.poll(() => upstream.seen.filter(({ http }) => http === 'GET').length, WAIT).toBeGreaterThan(2);
    expect(subscribed()).toEqual([]);
    delete upstream.scripts.GET;
    await tells('granted a://1');
  });

  it('is asked for eight at a time', async () => {
    const held: ((answer: string) => void)[] = [];
    upstream.scripts['resources/subscribe'] = () => new Promise<string>((resolve) => held.push(resolve));
    const uris = Array.from({ length: 20 }, (_, n) => `a://${n}`);
    watch(uris);
    await expect.poll(() => held.length, WAIT).toBe(8);
    held.shift()?.('{}');
    await expect.poll(() => held.length, WAIT).toBe(8);
    expect(subscribed()).toHaveLength(9);
    upstream.scripts['resources/subscribe'] = '{}';
    for (const answer of held) answer('{}');
    await expect.poll(() => told.length, WAIT).toBe(1);
    expect(told[0]?.split(' ')[1]?.split(',').sort()).toEqual(uris.sort());
  });

  it('that is slow with one uri has granted the others in time', async () => {
    upstream.scripts['resources/subscribe'] = ({ params }) => (params.uri === 'a://1' ? { kind: 'silence' } : '{}');
    // The time passes while it is looked.
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
    watch(['a://1', 'a://2'], { grantMs: 300 });
    await tells('granted a://2');
    upstream.push(updated('a://2'));
    await tells('granted a://2', updated('a://2'));
  });

  it('is not asked for more once it has granted', async () => {
    const held: ((answer: string) => void)[] = [];
    const hold = () => new Promise<string>((resolve) => held.push(resolve));
    upstream.scripts['resources/subscribe'] = ({ params }) => (params.uri === 'a://0' ? '{}' : hold());
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
    watch(
      Array.from({ length: 20 }, (_, n) => `a://${n}`),
      { grantMs: 300 },
    );
    await tells('granted a://0');
    for (const answer of held) answer('{}');
    upstream.push(updated('a://0'));
    await tells('granted a://0', updated('a://0'));
    expect(subscribed()).toHaveLength(9);
  });

  it('has its requests refused, and pings answered', async () => {
    watch(['a://1']);
    await tells('granted a://1');
    upstream.push('{"jsonrpc":"2.0","id":"p","method":"ping"}');
    upstream.push('{"jsonrpc":"2.0","id":7.0,"method":"elicitation/create","params":{}}');
    const answers = () => upstream.seen.filter(({ body }) => /"id":("p"|7\.0)/.test(body)).map(({ body }) => body);
    await expect
      .poll(() => answers().sort(), WAIT)
      .toEqual([
        '{"jsonrpc":"2.0","id":"p","result":{}}',
        expect.stringMatching(/^\{"jsonrpc":"2.0","id":7\.0,"error":\{"code":-32601,/),
      ]);
    expect(told).toHaveLength(1);
  });

  it('is slowed down by a slow reader, and goes on', async () => {
    let takes = false;
    const watching = watch(['a://1'], {}, () => takes);
    await tells('granted a://1');
    const padding = 'x'.repeat(256 * 1024);
    const total = 64;
    for (let n = 0; n < total; n++)
      upstream.push(notification('resources/updated', `{"uri":"a://1","p":"${padding}"}`));
    let before = -1;
    const moved = () => {
      const since = before - upstream.unread();
      before = upstream.unread();
      return since;
    };
    await expect.poll(moved, { interval: 200, timeout: 10_000 }).toBe(0);
    expect(upstream.unread()).toBeGreaterThan(padding.length);
    takes = true;
    watching.resume();
    await expect.poll(() => told.length, WAIT).toBe(1 + total);
  });
});

describe('watching at a legacy upstream is refused for good', () => {
  it.each<[string, () => void, string]>([
    ['declares no subscriptions', () => (upstream.scripts.initialize = INITIALIZED(false)), 'does not declare'],
    ['knows no subscriptions', () => (upstream.scripts['resources/subscribe'] = NOT_FOUND), 'answered resources/sub'],
    ['has no notification stream', () => (upstream.scripts.GET = UNAVAILABLE), 'offers no notification stream'],
    [
      'says 404 for one, in a session that it knows',
      () => (upstream.scripts.GET = { ...UNAVAILABLE, status: 404 }),
      'offers no notification stream',
    ],
    ['refuses the session', () => (upstream.fault = UNKNOWN), 'answered initialize'],
    ['is modern', () => (upstream.fault = { ...UNKNOWN, text: '{"code":-32022,"message":"m"}' }), 'answ'],
  ])('where it %s', async (_what, arrange, reason) => {
    arrange();
    watch(['a://1', 'a://2']);
    await tells(refused(reason));
    // Nothing is left there.
    await expect.poll(upstream.sessions, WAIT).toBe(0);
    expect([upstream.count('initialize'), told.length]).toEqual([1, 1]);
  });
});

describe('a session that is over', () => {
  it('is opened again, with what was granted, and what may have been missed is told', async () => {
    upstream.scripts['resources/subscribe'] = ({ params }) => (params.uri === 'a://2' ? UNKNOWN : '{}');
    watch(['a://1', 'a://2']);
    await tells('granted a://1');
    upstream.forgetSessions();
    upstream.endStreams();
    await tells('granted a://1', expect.stringMatching(/^later: .*no longer knows the session/), 'again a://1');
    expect(subscribed().toSorted()).toEqual(['a://1', 'a://1', 'a://2']);
    expect(subscribed().at(-1)).toBe('a://1');
    upstream.push(updated('a://1'));
    await expect.poll(() => told.at(-1), WAIT).toBe(updated('a://1'));
    expect(upstream.sessions()).toBe(1);
  });

  it('comes back after the upstream was down', async () => {
    watch(['a://1']);
    await tells('granted a://1');
    await upstream.down();
    await upstream.up();
    await expect.poll(() => told.at(-1), WAIT).toBe('again a://1');
    expect(upstream.sessions()).toBe(1);
  });

  it('comes back after any failure in between', async () => {
    const scripts: (string | Answer)[] = [{ kind: 'http', status: 503, type: 'text/plain', body: '' }, { kind: 'cut' }];
    upstream.scripts['resources/subscribe'] = () => scripts.shift() ?? '{}';
    watch(['a://1']);
    await tells(expect.stringMatching(/^later: .*503/), expect.stringMatching(/^later/), 'granted a://1');
    await expect.poll(upstream.sessions, WAIT).toBe(1);
  });

  it('tells of what may have been missed when its stream is opened anew alone', async () => {
    watch(['a://1']);
    await tells('granted a://1');
    upstream.endStreams();
    await tells('granted a://1', 'again a://1');
    expect(subscribed()).toEqual(['a://1']);
  });

  it('is not opened again for what the upstream then refuses', async () => {
    watch(['a://1', 'a://2']);
    await tells('granted a://1,a://2');
    upstream.scripts['resources/subscribe'] = ({ params }: Seen) => (params.uri === 'a://2' ? UNKNOWN : '{}');
    upstream.forgetSessions();
    upstream.endStreams();
    await expect.poll(() => told.at(-1), WAIT).toEqual(refused('answered resources/subscribe with error -32602'));
    await expect.poll(upstream.sessions, WAIT).toBe(0);
  });

  it('is not opened again at an upstream that speaks the other era by now', async () => {
    watch(['a://1']);
    await tells('granted a://1');
    upstream.scripts.initialize = { ...UNKNOWN, status: 400, text: '{"code":-32022,"message":"m"}' };
    upstream.forgetSessions();
    upstream.endStreams();
    await expect.poll(() => told.at(-1), WAIT).toEqual(refused('answered initialize with error -32022'));
  });

  it('is ended by whoever watched, also while it is being opened', async () => {
    watch(['a://1']);
    await tells('granted a://1');
    listening?.close();
    await expect.poll(upstream.sessions, WAIT).toBe(0);
    const opened = Promise.withResolvers<string>();
    upstream.scripts.initialize = () => opened.promise;
    const opening = watch(['a://1']);
    await expect.poll(() => upstream.count('initialize'), WAIT).toBe(2);
    opening.close();
    opened.resolve(INITIALIZED(true));
    await expect.poll(() => upstream.seen.filter(({ http }) => http === 'DELETE').length, WAIT).toBe(2);
    expect(upstream.sessions()).toBe(0);
    expect(told).toEqual(['granted a://1']);
  });
});
