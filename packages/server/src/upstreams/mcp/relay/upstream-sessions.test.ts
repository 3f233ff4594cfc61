import { describe, expect, it } from 'vitest';
import { LEGACY, legacyClient, modernClient, post, reply, send } from '../../../../../../test/fixtures/raw-client.ts';
import { textResultText } from '../../../../../../test/fixtures/raw-upstream/texts.ts';
import type { RawUpstream } from '../../../../../../test/fixtures/raw-upstream.ts';
import { errorOf, relayTests } from '../../../../testing/relay.ts';
import { startTestService } from '../../../../testing/service.ts';

const relay = relayTests();
const { onEnd, register, streamer, upstreamWith } = relay;

/** Resolves when a legacy upstream is watched for changes, which needs no further session. */
async function watched(upstream: RawUpstream): Promise<void> {
  await expect.poll(upstream.streams).toBe(1);
}

describe('upstream sessions', () => {
  const call = '{"name":"a"}';
  /** Sessions of received calls, in order. */
  const used = (upstream: RawUpstream) =>
    upstream.seen.filter(({ method }) => method === 'tools/call').map(({ session }) => session);
  const stateless = (url: string, headers: Record<string, string> = {}) =>
    post(url, '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a"}}', headers);

  it('exist once per legacy client session, opened with its identity and closed with it', async () => {
    const upstream = await upstreamWith({}, { eras: ['legacy'] });
    const url = await register(upstream.url);
    // Sessions of discovery are ended separately; the one that watches for changes remains.
    await watched(upstream);
    await expect.poll(() => upstream.sessions()).toBe(1);
    const one = await legacyClient(url, '{"sampling":{},"x":1.0}');
    const two = await legacyClient(url);
    for (const caller of [one, two, one, two]) await caller.call('tools/call', call);
    const [a, b] = used(upstream);
    expect(used(upstream)).toEqual([a, b, a, b]);
    expect(a).not.toBe(b);
    const opening = upstream.seen.find(({ session }) => session === a);
    expect(opening).toMatchObject({ method: 'initialize' });
    expect(opening?.params).toEqual({
      protocolVersion: LEGACY,
      capabilities: { sampling: {}, x: 1 },
      clientInfo: { name: 'raw', version: '1' },
    });
    expect(upstream.sessions()).toBe(3);
    await send(url, 'DELETE', one.headers);
    await expect.poll(() => upstream.sessions()).toBe(2);
    expect(reply(await two.call('tools/call', call))).toContain('done');
  });

  it('are opened only when needed', async () => {
    const upstream = await upstreamWith({}, { eras: ['legacy'] });
    const url = await register(upstream.url);
    await watched(upstream);
    const before = upstream.count('initialize');
    const caller = await legacyClient(url);
    await caller.call('tools/list');
    expect(upstream.count('initialize')).toBe(before);
  });

  it('are shared by clients without a session that look identical to the upstream', async () => {
    const named = await startTestService({ SERVICE_FORWARD_HEADERS: 'x-tenant' });
    onEnd(named.stop);
    const upstream = await upstreamWith({}, { eras: ['legacy'] });
    const url = await register(upstream.url, {}, named);
    const headers: Record<string, string>[] = [
      {},
      {},
      { 'x-forwarded-user': 'ann' },
      { 'x-forwarded-user': 'bob' },
      { 'x-forwarded-user': 'ann' },
      { 'x-tenant': 't1' },
      { 'x-tenant': 't2' },
      { 'x-tenant': 't1' },
      { 'x-tenant': 't1', 'x-forwarded-user': 'ann' },
      { 'x-unnamed': '1' },
    ];
    for (const each of headers) expect((await stateless(url, each)).status).toBe(200);
    const order = [...new Set(used(upstream))];
    expect(used(upstream).map((session) => order.indexOf(session))).toEqual([0, 0, 1, 2, 1, 3, 4, 3, 5, 0]);
  });

  it('are opened once for concurrent calls', async () => {
    const upstream = await upstreamWith({}, { eras: ['legacy'] });
    const url = await register(upstream.url);
    await watched(upstream);
    const before = upstream.count('initialize');
    await Promise.all(Array.from({ length: 20 }, () => stateless(url)));
    expect(upstream.count('initialize')).toBe(before + 1);
    expect(new Set(used(upstream)).size).toBe(1);
  });

  it('do not exist for modern clients', async () => {
    const upstream = await upstreamWith();
    const url = await register(upstream.url);
    await watched(upstream);
    const before = upstream.count('initialize');
    await modernClient(url).call('tools/call', call);
    expect(upstream.count('initialize')).toBe(before);
    expect(used(upstream)).toEqual([undefined]);
  });

  it('that were lost are reopened once for all calls, and each call is retried once', async () => {
    const executed: unknown[] = [];
    const upstream = await upstreamWith(
      {
        'tools/call': ({ params }) => {
          executed.push(params.arguments);
          return textResultText('done');
        },
      },
      { eras: ['legacy'] },
    );
    const caller = await legacyClient(await register(upstream.url));
    await caller.call('tools/call', '{"name":"a","arguments":{"n":0}}');
    await watched(upstream);
    const before = upstream.count('initialize');
    upstream.forgetSessions();
    const responses = await Promise.all(
      [1, 2, 3, 4].map((n) => caller.call('tools/call', `{"name":"a","arguments":{"n":${n}}}`)),
    );
    for (const response of responses) expect(reply(response)).toContain('done');
    expect(upstream.count('initialize')).toBe(before + 1);
    expect(executed.length).toBe(5);
    expect(executed).toEqual(expect.arrayContaining([{ n: 0 }, { n: 1 }, { n: 2 }, { n: 3 }, { n: 4 }]));
  });

  it('that were lost do not lose a byte of a large call, whose memory is freed after its response only', async () => {
    const executed: unknown[] = [];
    const upstream = await upstreamWith(
      {
        'tools/call': ({ params }) => {
          executed.push(params.arguments);
          return textResultText('done');
        },
      },
      { eras: ['legacy'] },
    );
    const caller = await legacyClient(await register(upstream.url));
    const text = 'x'.repeat(300_000);
    for (const isLost of [false, true, false]) {
      if (isLost) upstream.forgetSessions();
      const response = await caller.call('tools/call', `{"name":"a","arguments":{"text":"${text}"}}`);
      expect(reply(response)).toContain('done');
    }
    expect(executed).toEqual([{ text }, { text }, { text }]);
  });

  it.each([
    ['404', 404, '{"code":-32001,"message":"Session not found"}'],
    ['404 without JSON', 404, undefined],
    ['400 and -32000', 400, '{"code":-32000,"message":"Bad Request: No valid session ID provided"}'],
  ])('that are lost each time (%s) fail the call after the second try', async (_what, status, text) => {
    const upstream = await upstreamWith({}, { eras: ['legacy'] });
    const caller = await legacyClient(await register(upstream.url));
    upstream.scripts['tools/call'] =
      text === undefined ? { kind: 'http', status, type: 'text/plain', body: 'gone' } : { kind: 'error', status, text };
    await watched(upstream);
    const before = upstream.count('initialize');
    const response = await caller.call('tools/call', call);
    expect([response.status, errorOf(response)]).toEqual([
      200,
      {
        code: -32603,
        message: expect.stringMatching(/^forwarded tool call failed: .* session that it has just opened/),
      },
    ]);
    expect(upstream.count('tools/call')).toBe(2);
    expect(upstream.count('initialize')).toBe(before + 2);
  });

  it('are not reopened for any other failure, and the call is not retried', async () => {
    const upstream = await upstreamWith({}, { eras: ['legacy'] });
    const caller = await legacyClient(await register(upstream.url));
    await caller.call('tools/call', call);
    await watched(upstream);
    const [before, calls] = [upstream.count('initialize'), upstream.count('tools/call')];
    const responses = [
      { kind: 'error', status: 400, text: '{"code":-32602,"message":"m"}' },
      { kind: 'error', status: 200, text: '{"code":-32000,"message":"m"}' },
      { kind: 'error', status: 500, text: '{"code":-32603,"message":"m"}' },
      { kind: 'http', status: 503, type: 'text/plain', body: 'later' },
    ] as const;
    for (const response of responses) {
      upstream.scripts['tools/call'] = response;
      expect(errorOf(await caller.call('tools/call', call)).code).toBeLessThan(0);
    }
    expect(upstream.count('initialize')).toBe(before);
    expect(upstream.count('tools/call')).toBe(calls + responses.length);
  });

  it('that cannot be opened fail the call, and the next call tries again', async () => {
    const upstream = await upstreamWith({}, { eras: ['legacy'] });
    const caller = await legacyClient(await register(upstream.url));
    upstream.scripts.initialize = { kind: 'error', text: '{"code":-32050,"message":"not today"}' };
    expect(errorOf(await caller.call('tools/call', call))).toMatchObject({
      code: -32603,
      message: expect.stringContaining('not today'),
    });
    delete upstream.scripts.initialize;
    expect(reply(await caller.call('tools/call', call))).toContain('done');
  });

  it('are not closed before in-flight calls end when the forward is removed', async () => {
    const upstream = await streamer();
    const namespace = 'removed';
    await relay.service.register('forwards', { name: namespace, address: upstream.url, namespace });
    const caller = await legacyClient(relay.service.url(namespace));
    const response = caller.call('tools/call', '{"name":"work"}');
    const call = await upstream.next();
    expect((await relay.service.manage('DELETE', `/forwards/${namespace}`)).status).toBe(200);
    call.begin();
    call.end('still there');
    expect(reply(await response)).toContain('still there');
    expect(errorOf(await caller.call('tools/call', '{"name":"work"}')).message).toBe('tool not found: work');
  });
});
