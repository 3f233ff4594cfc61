import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import type { ReceivedMessage, ScriptedResponse } from '../../../../../../test/fixtures/raw-upstream/message.ts';
import { type RawUpstream, startRawUpstream } from '../../../../../../test/fixtures/raw-upstream.ts';
import { notification } from '../../../../testing/live-tests.ts';
import { outlineOf } from '../../../access/fixtures/access.ts';
import { Upstream } from '../upstream.ts';
import { Subscription, type SubscriptionOptions } from './subscription.ts';

const WAIT = { timeout: 10_000, interval: 5 };
const INITIALIZED = (subscribe: boolean) =>
  `{"protocolVersion":"2025-11-25","capabilities":{"resources":{"subscribe":${subscribe}}},"serverInfo":{"name":"l","version":"1"}}`;
const UNAVAILABLE: ScriptedResponse = { kind: 'http', status: 405, type: 'text/plain', body: '' };
const NOT_FOUND: ScriptedResponse = { kind: 'error', text: '{"code":-32601,"message":"no"}' };
const UNKNOWN: ScriptedResponse = { kind: 'error', text: '{"code":-32602,"message":"unknown"}' };

let upstream: RawUpstream;
let server: Upstream;
let listening: Subscription | undefined;
/** Callbacks of the handler, in order. */
let calls: string[];
beforeEach(async () => {
  upstream = await startRawUpstream({
    eras: ['legacy'],
    scripts: { initialize: INITIALIZED(true), 'resources/subscribe': '{}' },
  });
  calls = [];
  server = new Upstream(upstream.url);
  server.changed.subscribe(({ kind }) => kind === 'lists' && calls.push('changed'));
});
afterEach(async () => {
  vi.useRealTimers();
  listening?.close();
  await server.close(0);
  await upstream.close();
});

/** Subscribes to these uris. `take` is the result of `onUpdated`. */
function watch(
  uris: readonly string[],
  options: Partial<SubscriptionOptions> = {},
  take: () => boolean = () => true,
): Subscription {
  listening = new Subscription({
    upstream: server,
    era: 'legacy',
    client: { clientInfo: { name: 'watcher' }, capabilities: {}, headers: ['x-service-hops', '3', 'x-tenant', 'a'] },
    filter: {},
    resources: { permit: outlineOf('crm'), uris },
    delays: { firstMs: 10, maxMs: 20 },
    handler: {
      // Requested concurrently, they may be granted in any order.
      onGranted: ({ uris }, gap) => calls.push(`${gap ? 'again' : 'granted'} ${[...uris].toSorted()}`),
      onUpdated: (_uri, text) => {
        calls.push(text);
        return take();
      },
      onRejected: ({ message }, final) => calls.push(`${final ? 'refused' : 'later'}: ${message}`),
      onUpstreamClosed: () => calls.push('closed'),
    },
    ...options,
  });
  return listening;
}

const expectCalls = (...expected: readonly unknown[]) => expect.poll(() => calls, WAIT).toEqual(expected);
const refused = (what: string) => expect.stringMatching(`^refused: upstream .* ${what}`);
const subscribed = () =>
  upstream.seen.filter(({ method }) => method === 'resources/subscribe').map(({ params }) => params.uri);
const updated = (uri: string) => notification('resources/updated', `{"uri":"${uri}","n":1.0}`);

describe('a legacy upstream that sends the head of its stream with the first event', () => {
  it('gets the subscriptions while the stream is not answered, and its first event is relayed alone', async () => {
    const first = Promise.withResolvers<ScriptedResponse>();
    upstream.scripts.GET = () => first.promise;
    watch(['a://1', 'a://2']);
    await expectCalls('granted a://1,a://2');
    expect(upstream.seen.map(({ http, method }) => method ?? http)).toContain('GET');
    upstream.scripts.GET = { kind: 'silence' };
    const body = `event: message\ndata: ${updated('a://1')}\n\n`;
    first.resolve({ kind: 'http', status: 200, type: 'text/event-stream', body });
    await expectCalls('granted a://1,a://2', updated('a://1'));
  });

  it('is watched for lists, too', async () => {
    upstream.scripts.GET = { kind: 'silence' };
    watch([]);
    await expectCalls('granted ');
  });

  it('and then rejects it, offers no subscriptions', async () => {
    const first = Promise.withResolvers<ScriptedResponse>();
    upstream.scripts.GET = () => first.promise;
    watch(['a://1']);
    await expectCalls('granted a://1');
    first.resolve(UNAVAILABLE);
    await expectCalls('granted a://1', refused('offers no notification stream'));
  });
});

describe('a legacy upstream', () => {
  it('gets a dedicated session without capabilities, with the client’s headers', async () => {
    watch(['a://1', 'a://2']);
    await expectCalls('granted a://1,a://2');
    const [opening] = upstream.seen;
    expect(opening?.params).toMatchObject({ capabilities: {}, clientInfo: { name: 'watcher' } });
    for (const { headers, method } of upstream.seen) {
      expect(headers).toMatchObject({ 'x-service-hops': '3', 'x-tenant': 'a' });
      if (method !== 'initialize') expect(headers['mcp-session-id']).toBe(opening?.session);
    }
    upstream.push(` ${updated('a://1')}`);
    upstream.push(notification('resources/list_changed'));
    upstream.push(updated('b://1'));
    upstream.push(updated('a://2'));
    await expectCalls('granted a://1,a://2', ` ${updated('a://1')}`, 'changed', updated('a://2'));
  });

  it('grants the accepted uris, without the rejected ones', async () => {
    upstream.scripts['resources/subscribe'] = ({ params }) => (params.uri === 'a://2' ? UNKNOWN : '{}');
    watch(['a://1', 'a://2', 'a://3']);
    await expectCalls('granted a://1,a://3');
  });

  it('gets no subscription before its stream is open', async () => {
    upstream.scripts.GET = { kind: 'http', status: 503, type: 'text/plain', body: '' };
    watch(['a://1']);
    await expect.poll(() => upstream.seen.filter(({ http }) => http === 'GET').length, WAIT).toBeGreaterThan(2);
    expect(subscribed()).toEqual([]);
    delete upstream.scripts.GET;
    await expectCalls('granted a://1');
  });

  it('gets eight subscriptions at a time', async () => {
    const pending: ((answer: string) => void)[] = [];
    upstream.scripts['resources/subscribe'] = () => new Promise<string>((resolve) => pending.push(resolve));
    const uris = Array.from({ length: 20 }, (_, n) => `a://${n}`);
    watch(uris);
    await expect.poll(() => pending.length, WAIT).toBe(8);
    pending.shift()?.('{}');
    await expect.poll(() => pending.length, WAIT).toBe(8);
    expect(subscribed()).toHaveLength(9);
    upstream.scripts['resources/subscribe'] = '{}';
    for (const answer of pending) answer('{}');
    await expect.poll(() => calls.length, WAIT).toBe(1);
    expect(calls[0]?.split(' ')[1]?.split(',').sort()).toEqual(uris.sort());
  });

  it('that is slow with one uri grants the others in time', async () => {
    upstream.scripts['resources/subscribe'] = ({ params }) => (params.uri === 'a://1' ? { kind: 'silence' } : '{}');
    // Polling advances the time.
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
    watch(['a://1', 'a://2'], { grantMs: 300 });
    await expectCalls('granted a://2');
    upstream.push(updated('a://2'));
    await expectCalls('granted a://2', updated('a://2'));
  });

  it('gets no further subscription once the grant is final', async () => {
    const pending: ((answer: string) => void)[] = [];
    const hold = () => new Promise<string>((resolve) => pending.push(resolve));
    upstream.scripts['resources/subscribe'] = ({ params }) => (params.uri === 'a://0' ? '{}' : hold());
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
    watch(
      Array.from({ length: 20 }, (_, n) => `a://${n}`),
      { grantMs: 300 },
    );
    await expectCalls('granted a://0');
    for (const answer of pending) answer('{}');
    upstream.push(updated('a://0'));
    await expectCalls('granted a://0', updated('a://0'));
    expect(subscribed()).toHaveLength(9);
  });

  it('has its requests rejected and pings answered', async () => {
    watch(['a://1']);
    await expectCalls('granted a://1');
    upstream.push('{"jsonrpc":"2.0","id":"p","method":"ping"}');
    upstream.push('{"jsonrpc":"2.0","id":7.0,"method":"elicitation/create","params":{}}');
    const answers = () => upstream.seen.filter(({ body }) => /"id":("p"|7\.0)/.test(body)).map(({ body }) => body);
    await expect
      .poll(() => answers().sort(), WAIT)
      .toEqual([
        '{"jsonrpc":"2.0","id":"p","result":{}}',
        expect.stringMatching(/^\{"jsonrpc":"2.0","id":7\.0,"error":\{"code":-32601,/),
      ]);
    expect(calls).toHaveLength(1);
  });

  it('is paused by a slow reader and resumes', async () => {
    let takes = false;
    const watching = watch(['a://1'], {}, () => takes);
    await expectCalls('granted a://1');
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
    await expect.poll(() => calls.length, WAIT).toBe(1 + total);
  });
});

describe('a subscription at a legacy upstream is rejected for good', () => {
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
    await expectCalls(refused(reason));
    // Nothing is left upstream.
    await expect.poll(upstream.sessions, WAIT).toBe(0);
    expect([upstream.count('initialize'), calls.length]).toEqual([1, 1]);
  });
});

describe('a lost session', () => {
  it('is replaced with the granted uris, and a gap is reported', async () => {
    upstream.scripts['resources/subscribe'] = ({ params }) => (params.uri === 'a://2' ? UNKNOWN : '{}');
    watch(['a://1', 'a://2']);
    await expectCalls('granted a://1');
    upstream.forgetSessions();
    upstream.endStreams();
    await expectCalls('granted a://1', expect.stringMatching(/^later: .*no longer knows the session/), 'again a://1');
    expect(subscribed().toSorted()).toEqual(['a://1', 'a://1', 'a://2']);
    expect(subscribed().at(-1)).toBe('a://1');
    upstream.push(updated('a://1'));
    await expect.poll(() => calls.at(-1), WAIT).toBe(updated('a://1'));
    expect(upstream.sessions()).toBe(1);
  });

  it('is replaced at once if it was stable', async () => {
    watch(['a://1'], { stableMs: 0, delays: { firstMs: 600_000 } });
    await expectCalls('granted a://1');
    // A short retry time of the stream alone.
    upstream.push(updated('a://1'), { retry: 50 });
    await expectCalls('granted a://1', updated('a://1'));
    upstream.forgetSessions();
    upstream.endStreams();
    await expect.poll(() => calls.at(-1), WAIT).toBe('again a://1');
  });

  it('is replaced after the upstream was down', async () => {
    watch(['a://1']);
    await expectCalls('granted a://1');
    await upstream.down();
    await upstream.up();
    await expect.poll(() => calls.at(-1), WAIT).toBe('again a://1');
    expect(upstream.sessions()).toBe(1);
  });

  it('is replaced after any failure in between', async () => {
    const scripts: (string | ScriptedResponse)[] = [
      { kind: 'http', status: 503, type: 'text/plain', body: '' },
      { kind: 'cut' },
    ];
    upstream.scripts['resources/subscribe'] = () => scripts.shift() ?? '{}';
    watch(['a://1']);
    await expectCalls(expect.stringMatching(/^later: .*503/), expect.stringMatching(/^later/), 'granted a://1');
    await expect.poll(upstream.sessions, WAIT).toBe(1);
  });

  it('reports a gap when only its stream is reopened', async () => {
    watch(['a://1']);
    await expectCalls('granted a://1');
    upstream.endStreams();
    await expectCalls('granted a://1', 'again a://1');
    expect(subscribed()).toEqual(['a://1']);
  });

  it('is not replaced if the upstream then rejects the subscription', async () => {
    watch(['a://1', 'a://2']);
    await expectCalls('granted a://1,a://2');
    upstream.scripts['resources/subscribe'] = ({ params }: ReceivedMessage) =>
      params.uri === 'a://2' ? UNKNOWN : '{}';
    upstream.forgetSessions();
    upstream.endStreams();
    await expect.poll(() => calls.at(-1), WAIT).toEqual(refused('answered resources/subscribe with error -32602'));
    await expect.poll(upstream.sessions, WAIT).toBe(0);
  });

  it('is not replaced at an upstream that now supports the other era', async () => {
    watch(['a://1']);
    await expectCalls('granted a://1');
    upstream.scripts.initialize = { ...UNKNOWN, status: 400, text: '{"code":-32022,"message":"m"}' };
    upstream.forgetSessions();
    upstream.endStreams();
    await expect.poll(() => calls.at(-1), WAIT).toEqual(refused('answered initialize with error -32022'));
  });

  it('is not waited for when the upstream is closed', async () => {
    upstream.scripts.initialize = { kind: 'silence' };
    watch(['a://1']);
    await expect.poll(() => upstream.count('initialize'), WAIT).toBe(1);
    await server.close();
    expect(calls).toEqual(['closed']);
  });

  it('is closed by the subscriber, also while it is opening', async () => {
    watch(['a://1']);
    await expectCalls('granted a://1');
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
    expect(calls).toEqual(['granted a://1']);
  });
});
