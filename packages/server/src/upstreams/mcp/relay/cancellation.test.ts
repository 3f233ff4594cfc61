import { describe, expect, it, onTestFinished, vi } from 'vitest';
import { startDualEra } from '../../../../../../test/fixtures/dual-era.ts';
import { post } from '../../../../../../test/fixtures/raw-client.ts';
import { connect } from '../../../../../../test/fixtures/sdk-client.ts';
import { liveTests, notification, responseTo } from '../../../../testing/live-tests.ts';
import { eras } from '../../../../testing/relay.ts';
import { startTestService } from '../../../../testing/service.ts';
import { callText, clientOf, ResponseReader, sessionClient } from '../../../../testing/session-client.ts';
import { callHeaders, callText as modernCallText } from '../../../../testing/streamer.ts';

const { live, onEnd, register } = liveTests();

const cancel = (id: string) =>
  notification('cancelled', `{"requestId":${id},"reason":"changed my \\u006dind","x":1.0}`);

/** An upstream, and a client with a session there whose first call has been answered. */
async function opened() {
  const { upstream, url } = await live();
  const client = await sessionClient(url);
  await settled();
  return { upstream, url, client, settled };

  /** A complete call: everything sent before it has arrived. */
  async function settled() {
    const reading = client.call('"settled"');
    (await upstream.calls.next()).json('x');
    await reading.ended;
  }
}

describe('a call canceled by its legacy client', () => {
  it.each([
    ['an upstream that has not answered', 'none'],
    ['an upstream whose stream has begun', 'begun'],
    ['a stream that has begun on both sides', 'spoken'],
    ['a JSON answer that has begun', 'json'],
  ])('is cancelled upstream and gets no answer: %s', async (_what, state) => {
    const { upstream, client, settled } = await opened();
    const reading = client.call('"c"', '"progressToken":1');
    const call = await upstream.calls.next();
    if (state === 'json') call.response.writeHead(200, { 'content-type': 'application/json' }).write('{"jsonrpc"');
    else if (state !== 'none') call.begin();
    if (state === 'spoken') {
      call.progress(1);
      await reading.message(0);
    }
    const { status, text } = await client.post(cancel('"c"'));
    expect([status, text]).toEqual([202, '']);
    expect(await reading.ended).toBe(true);
    expect(reading.messages).toHaveLength(state === 'spoken' ? 1 : 0);
    expect(reading.text).not.toMatch(/result|error/);
    await expect.poll(() => call.isDisconnected).toBe(true);
    await expect
      .poll(() => upstream.of('notifications/cancelled'))
      .toMatchObject([{ body: cancel(call.id), session: call.session }]);
    // The session stays open.
    await settled();
    expect(await client.end()).toBe(204);
    await expect.poll(() => upstream.sessions.size).toBe(0);
  });

  it('leaves only an empty stream to resume', async () => {
    const { upstream, client } = await opened();
    const reading = client.call('"c"', '"progressToken":1');
    const call = await upstream.calls.next();
    call.begin();
    call.progress(1);
    await reading.message(0);
    await client.post(cancel('"c"'));
    await reading.ended;
    const again = client.listen(reading.lastId);
    expect(await again.ended).toBe(true);
    expect(again.messages).toEqual([]);
  });

  it('abandons its pending server request', async () => {
    const { upstream, client } = await opened();
    const reading = client.call('"c"');
    const call = await upstream.calls.next();
    call.begin();
    call.request('1', 'roots/list');
    const request = await reading.message(0);
    await client.post(cancel('"c"'));
    await reading.ended;
    expect(reading.messages.slice(1).map((message) => JSON.parse(message))).toEqual([
      {
        jsonrpc: '2.0',
        method: 'notifications/cancelled',
        params: expect.objectContaining({ requestId: JSON.parse(request).id }),
      },
    ]);
    await client.post(responseTo(request));
    expect(upstream.answers()).toEqual([]);
  });

  it('is identified by session and id', async () => {
    const { upstream, client, url } = await opened();
    const other = await sessionClient(url);
    const [mine, theirs] = [client.call('1'), other.call('1')];
    const calls = [await upstream.calls.next(), await upstream.calls.next()];
    const text = client.call('"1"');
    const third = await upstream.calls.next();
    await client.post(cancel('1'));
    expect(await mine.ended).toBe(true);
    expect(mine.text).not.toMatch(/result|error/);
    await expect.poll(() => calls.filter(({ isDisconnected }) => isDisconnected)).toHaveLength(1);
    for (const call of [...calls, third]) if (!call.isDisconnected) call.json('y');
    await Promise.all([theirs.ended, text.ended]);
    for (const reading of [theirs, text]) expect(reading.text).toContain('"text":"y"');
    await expect.poll(() => upstream.of('notifications/cancelled')).toHaveLength(1);
  });

  it('is not one that is unknown, finished, or of another session', async () => {
    const { upstream, client, url, settled } = await opened();
    const reading = client.call('"c"');
    const call = await upstream.calls.next();
    const other = await sessionClient(url);
    const sessionless = clientOf(url, { 'mcp-protocol-version': '2025-11-25' });
    for (const each of [other, sessionless]) expect((await each.post(cancel('"c"'))).status).toBe(202);
    for (const id of ['"settled"', '"d"', '99', call.id, 'null', '{}']) {
      expect((await client.post(cancel(id))).status).toBe(202);
    }
    expect((await client.post(notification('cancelled'))).status).toBe(202);
    await settled();
    expect(upstream.of('notifications/cancelled')).toEqual([]);
    call.json('answered');
    await reading.ended;
    expect(reading.text).toContain('answered');
    await client.post(cancel('"c"'));
    await settled();
    expect(upstream.of('notifications/cancelled')).toEqual([]);
  });

  it('is never sent if its upstream session is still opening', async () => {
    const { upstream, url } = await live();
    const opening = Promise.withResolvers<string>();
    const initialized = String(upstream.results.initialize);
    const client = await sessionClient(url);
    const before = upstream.of('initialize').length;
    upstream.results.initialize = () => opening.promise;
    const reading = client.call('"c"');
    await expect.poll(() => upstream.of('initialize').length).toBe(before + 1);
    await client.post(cancel('"c"'));
    expect(await reading.ended).toBe(true);
    expect(reading.text).toBe('');
    opening.resolve(initialized);
    const next = client.call('"d"');
    (await upstream.calls.next()).json('second');
    await next.ended;
    expect(next.text).toContain('second');
    expect(upstream.calls.all).toHaveLength(1);
    expect(upstream.of('notifications/cancelled')).toEqual([]);
  });

  it('can be one of a batch whose other requests are answered', async () => {
    const { upstream, url } = await live();
    const client = await sessionClient(url, { version: '2025-03-26' });
    const reading = new ResponseReader(
      url,
      'POST',
      { 'content-type': 'application/json', accept: 'application/json', ...client.headers },
      `[${callText('1')},${callText('2')}]`,
    );
    const [first, second] = [await upstream.calls.next(), await upstream.calls.next()];
    await client.post(cancel('1'));
    await expect.poll(() => [first.isDisconnected, second.isDisconnected].filter(Boolean)).toHaveLength(1);
    (first.isDisconnected ? second : first).json('other');
    expect(await reading.ended).toBe(true);
    expect(JSON.parse(reading.text)).toMatchObject([{ id: 2, result: { content: [{ text: 'other' }] } }]);
  });
});

describe('a call without a waiting client', () => {
  it('is canceled at a legacy upstream when its modern client disconnects, streaming or not', async () => {
    const { upstream, url } = await live();
    for (const begun of [false, true]) {
      const reading = new ResponseReader(
        url,
        'POST',
        { 'content-type': 'application/json', accept: 'application/json, text/event-stream', ...callHeaders('modern') },
        modernCallText('modern', '"progressToken":"t"'),
      );
      const call = await upstream.calls.next();
      if (begun) {
        call.begin();
        call.progress(1);
        await reading.message(0);
      }
      reading.disconnect();
      await expect.poll(() => call.isDisconnected).toBe(true);
      await expect
        .poll(() => JSON.parse(upstream.of('notifications/cancelled').at(-1)?.body ?? '{}').params)
        .toEqual({
          requestId: JSON.parse(call.id),
          reason: 'the client has disconnected',
        });
    }
    expect(upstream.of('notifications/cancelled')).toHaveLength(2);
  });

  it('is canceled at a legacy upstream at its deadline', async () => {
    vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval', 'performance'] });
    onTestFinished(() => void vi.useRealTimers());
    const hasty = await startTestService({ SERVICE_UPSTREAM_IDLE_TIMEOUT_MS: '200' });
    onEnd(() => hasty.stop(0));
    const { upstream, url } = await live({}, hasty);
    const client = await sessionClient(url);
    const reading = client.call('1');
    const call = await upstream.calls.next();
    vi.advanceTimersByTime(300);
    await reading.ended;
    expect(reading.text).toContain('sent nothing for 0.2 s');
    await expect.poll(() => call.isDisconnected).toBe(true);
    await expect
      .poll(() => JSON.parse(upstream.of('notifications/cancelled')[0]?.body ?? '{}').params)
      .toEqual({
        requestId: JSON.parse(call.id),
        reason: expect.any(String),
      });
  });

  it('continues when its legacy client only loses the connection', async () => {
    const { upstream, client, settled } = await opened();
    const reading = client.call('"c"');
    const call = await upstream.calls.next();
    reading.disconnect();
    await reading.ended;
    await settled();
    expect([call.isDisconnected, upstream.of('notifications/cancelled').length]).toEqual([false, 0]);
    call.json('late');
    await expect.poll(() => call.response.writableFinished).toBe(true);
    expect(await client.end()).toBe(204);
    await expect.poll(() => upstream.sessions.size).toBe(0);
  });
});

describe.each(eras)('the official client (%s)', (era) => {
  it('cancels a call at the official server', async () => {
    const upstream = await startDualEra();
    onEnd(upstream.close);
    const url = await register(upstream.url);
    const { client, callText: call, close } = await connect(url, era);
    onEnd(close);
    const stop = new AbortController();
    const slow = client.callTool({ name: 'slow', arguments: { ms: 20_000 } }, { signal: stop.signal });
    const failed = expect(slow).rejects.toThrow();
    // Once this call is answered, the previous one has arrived.
    await call('session_counter');
    stop.abort('enough');
    await failed;
    await expect.poll(() => upstream.cancelled()).toBe(1);
    expect(await call('slow', { ms: 1 })).toBe('waited 1 ms');
  });
});

it('a request without a session cannot be canceled', async () => {
  const { upstream, url } = await live();
  const sessionless = clientOf(url, { 'mcp-protocol-version': '2025-11-25' });
  const reading = sessionless.call('1');
  const call = await upstream.calls.next();
  expect((await post(url, cancel('1'), sessionless.headers)).status).toBe(202);
  call.json('answered');
  await reading.ended;
  expect(reading.text).toContain('answered');
});

describe('an upstream that responds to a canceled call', () => {
  it.each([0, -32800])('has its response relayed, as without the gateway (code %i)', async (code) => {
    const { upstream, client, settled } = await opened();
    const reading = client.call('"c"');
    const call = await upstream.calls.next();
    call.begin();
    await client.post(cancel('"c"'));
    await expect.poll(() => upstream.of('notifications/cancelled')).toHaveLength(1);
    call.send(`{"jsonrpc":"2.0","id":${call.id},"error":{"code":${code},"message":"Request cancelled"}}`);
    call.response.end();
    expect(JSON.parse(await reading.message(0))).toEqual({
      jsonrpc: '2.0',
      id: 'c',
      error: { code, message: 'Request cancelled' },
    });
    await settled();
  });
});
