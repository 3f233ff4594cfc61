import { describe, expect, it } from 'vitest';
import { failure, InteractiveClient, inputRequired, resultText } from '../../../../testing/interactive-client.ts';
import { liveTests, notification } from '../../../../testing/live-tests.ts';
import { type LiveCall, type LiveUpstream, startLiveUpstream } from '../../../../testing/live-upstream.ts';
import { startTestService } from '../../../../testing/service.ts';
import { InFlightCalls } from '../../in-flight-calls.ts';
import { Upstream } from '../upstream.ts';
import { CallSessionPool } from './call-session-pool.ts';

const { live, onEnd } = liveTests();

/** Makes a call and returns the upstream session that it was sent in. */
async function called(client: InteractiveClient, upstream: LiveUpstream): Promise<string> {
  const reading = client.send();
  const call = await upstream.calls.next();
  call.json('done');
  expect(await resultText(reading)).toBe('done');
  return call.session;
}

/** A call that has reached the upstream. */
async function begun(client: InteractiveClient, upstream: LiveUpstream) {
  const reading = client.send();
  const call = await upstream.calls.next();
  call.begin();
  return { reading, call };
}

describe('upstream sessions of calls with server requests', () => {
  it('are exclusive to a call, and reused by later calls', async () => {
    const { upstream, url } = await live();
    const client = new InteractiveClient(url);
    const one = await called(client, upstream);
    expect(await called(new InteractiveClient(url), upstream)).toBe(one);
    const [first, second] = [await begun(client, upstream), await begun(client, upstream)];
    expect(first.call.session).toBe(one);
    expect(second.call.session).not.toBe(one);
    for (const { call, reading } of [first, second]) {
      call.end('done');
      await resultText(reading);
    }
    const [third, fourth] = [await begun(client, upstream), await begun(client, upstream)];
    const before = [first, second].map(({ call }) => call.session).toSorted();
    expect([third, fourth].map(({ call }) => call.session).toSorted()).toEqual(before);
    expect(upstream.sessions.size).toBe(2);
  });

  it('are leased by a suspended call until it is over', async () => {
    const { upstream, url } = await live();
    const client = new InteractiveClient(url);
    const { reading, call } = await begun(client, upstream);
    call.request('1', 'roots/list');
    const pending = await inputRequired(reading);
    expect(await called(client, upstream)).not.toBe(call.session);
    const retry = client.retry(pending.state, `{"${pending.keys[0]}":{}}`);
    await expect.poll(upstream.answers).toHaveLength(1);
    call.end('done');
    await resultText(retry);
    expect(await called(client, upstream)).toBe(call.session);
  });

  it('are closed, the oldest first, when more than 32 are idle', async () => {
    const { upstream, url } = await live();
    const sessions: string[] = [];
    for (let at = 0; at < 35; at++) {
      sessions.push(await called(new InteractiveClient(url, `{"roots":{"x":${at}}}`), upstream));
    }
    await expect.poll(() => [...upstream.sessions].toSorted()).toEqual(sessions.slice(-33).toSorted());
  });

  it('declare no capabilities for a client with oversized ones', async () => {
    const { upstream, url } = await live();
    const { reading, call } = await begun(
      new InteractiveClient(url, `{"roots":{"x":"${'x'.repeat(5_000)}"}}`),
      upstream,
    );
    call.request('1', 'roots/list');
    await expect.poll(upstream.answers).toEqual([expect.stringContaining('-32601')]);
    call.end('went on');
    expect(await resultText(reading)).toBe('went on');
    expect(upstream.of('initialize').at(-1)?.params.capabilities).toEqual({});
  });

  it('are reused only by clients that look the same to the upstream', async () => {
    const on = await startTestService({ SERVICE_FORWARD_HEADERS: 'x-tenant' });
    onEnd(() => on.stop(0));
    const { upstream, url } = await live({}, on);
    const tool = { name: 'work', uri: upstream.url, toolType: 'mcp', description: '', input_schema: {} };
    await on.register('tools', { ...tool, namespace: 'twin' });
    const clients = [
      new InteractiveClient(url),
      new InteractiveClient(url, '{"roots":{}}'),
      new InteractiveClient(url, undefined, { 'x-forwarded-user': 'ann' }),
      new InteractiveClient(url, undefined, { 'x-forwarded-user': 'bob' }),
      new InteractiveClient(url, undefined, { 'x-tenant': 't' }),
      new InteractiveClient(on.url('twin')),
    ];
    const sessions: string[] = [];
    for (const client of [...clients, ...clients]) sessions.push(await called(client, upstream));
    expect(new Set(sessions).size).toBe(clients.length);
    expect(sessions.slice(clients.length)).toEqual(sessions.slice(0, clients.length));
  });

  it('are separate from those of clients without server requests', async () => {
    const { upstream, url } = await live();
    const [pending, plain] = [new InteractiveClient(url), new InteractiveClient(url, '{}')];
    const one = await called(plain, upstream);
    expect(await called(pending, upstream)).not.toBe(one);
    const both = [await begun(plain, upstream), await begun(plain, upstream)];
    expect(both.map(({ call }) => call.session)).toEqual([one, one]);
    expect(upstream.streams.all.map(({ session }) => session)).not.toContain(one);
  });

  it.each<[string, (call: LiveCall, upstream: LiveUpstream) => unknown]>([
    ['breaks off', (call) => call.response.destroy()],
    ['ends without a response', (call) => call.response.end()],
    ['sends no message', (call) => call.response.end('data: no message\n\n')],
  ])('are not reused after a call that %s', async (_what, end) => {
    const { upstream, url } = await live();
    const client = new InteractiveClient(url);
    const { reading, call } = await begun(client, upstream);
    end(call, upstream);
    expect((await failure(reading)).code).toBe(-32603);
    expect(await called(client, upstream)).not.toBe(call.session);
    await expect.poll(() => upstream.sessions.has(call.session)).toBe(false);
  });

  it('are not reused after a call whose client has disconnected, but are after an error', async () => {
    const { upstream, url } = await live();
    const client = new InteractiveClient(url);
    const { reading, call } = await begun(client, upstream);
    call.send(`{"jsonrpc":"2.0","id":${call.id},"error":{"code":-32050,"message":"m"}}`);
    expect((await failure(reading)).code).toBe(-32050);
    const next = await begun(client, upstream);
    expect(next.call.session).toBe(call.session);
    next.reading.disconnect();
    await expect.poll(() => upstream.of('notifications/cancelled')).toHaveLength(1);
    expect(await called(client, upstream)).not.toBe(call.session);
  });

  it('are reused if the client disconnected before they were open', async () => {
    const { upstream, url } = await live();
    const client = new InteractiveClient(url);
    await begun(client, upstream);
    const [opened, gate] = [upstream.of('initialize').length, Promise.withResolvers<void>()];
    const { initialize } = upstream.results;
    upstream.results.initialize = async () => {
      await gate.promise;
      return String(initialize);
    };
    const reading = client.send();
    await expect.poll(() => upstream.of('initialize').length).toBe(opened + 1);
    reading.disconnect();
    await reading.ended;
    // Once this is answered, the service has detected the disconnect.
    await client.send({ method: 'tools/list', params: '"x":1' }).ended;
    gate.resolve();
    await expect.poll(() => upstream.streams.all).toHaveLength(2);
    await expect.poll(() => called(client, upstream)).toBe(upstream.streams.all[1]?.session);
    expect(upstream.of('notifications/cancelled')).toEqual([]);
  });

  it('are opened again if the upstream lost them', async () => {
    const { upstream, url } = await live();
    const client = new InteractiveClient(url);
    const one = await called(client, upstream);
    upstream.forgetSessions();
    const two = await called(client, upstream);
    expect(two).not.toBe(one);
    expect(await called(client, upstream)).toBe(two);
    const stream = upstream.streams.all.find(({ session }) => session === two);
    const { reading } = await begun(client, upstream);
    stream?.send('{"jsonrpc":"2.0","id":1,"method":"roots/list"}');
    expect((await inputRequired(reading)).keys).toHaveLength(1);
  });

  it('reject server requests without a call, and report changed lists', async () => {
    const { upstream, url } = await live();
    const client = new InteractiveClient(url);
    await called(client, upstream);
    const stream = await upstream.streams.next();
    stream.send('{"jsonrpc":"2.0","id":"q","method":"roots/list"}');
    stream.send('{"jsonrpc":"2.0","id":"p","method":"ping"}');
    await expect.poll(upstream.answers).toHaveLength(2);
    const responses = upstream.answers().map((text) => JSON.parse(text));
    expect(responses.find(({ id }) => id === 'q')).toMatchObject({ error: { code: -32601 } });
    expect(responses.find(({ id }) => id === 'p')).toMatchObject({ result: {} });
    const before = upstream.of('tools/list').length;
    stream.send(notification('tools/list_changed'));
    await expect.poll(() => upstream.of('tools/list').length).toBeGreaterThan(before);
  });

  it.each([
    ['offer no stream for them', 405],
    ['reject it with "session not found"', 404],
    ['respond only with the first message', 0],
  ])('work with upstreams that %s', async (_what, status) => {
    const { upstream, url } = await live();
    upstream.streamStatus = status;
    const client = new InteractiveClient(url);
    const began = performance.now();
    const { reading, call } = await begun(client, upstream);
    // The call waits for the stream: earlier messages would be lost.
    if (status === 0) expect(performance.now() - began).toBeGreaterThan(450);
    call.request('1', 'roots/list');
    const pending = await inputRequired(reading);
    const retry = client.retry(pending.state, `{"${pending.keys[0]}":{}}`);
    await expect.poll(upstream.answers).toHaveLength(1);
    call.end('done');
    expect(await resultText(retry)).toBe('done');
    expect(await called(client, upstream)).toBe(call.session);
  });

  it('are closed with their stream when idle, and not during a call', async () => {
    const upstream = await startLiveUpstream();
    onEnd(upstream.close);
    const there = new Upstream(upstream.url);
    onEnd(() => there.close(0));
    const calls = new InFlightCalls({ idleMs: 60_000, totalMs: 60_000 });
    onEnd(async () => calls.close());
    const sessions = new CallSessionPool(calls);
    const clientInfo = { name: 'c', version: '1' };
    const owner = { key: 'k', protocolVersion: '2025-11-25', capabilities: { roots: {} }, clientInfo, headers: [] };
    const [idle, busy] = [await sessions.acquire(there, owner), await sessions.acquire(there, owner)];
    const streams = await Promise.all([upstream.streams.next(), upstream.streams.next()]);
    idle.use.inFlight++;
    there.sessions.release(idle, 0);
    there.sessions.closeIdle(1_000, Number.MAX_SAFE_INTEGER);
    await expect.poll(() => [...upstream.sessions]).toEqual([busy.sessionId]);
    const stream = streams.find(({ session }) => session === idle.sessionId);
    await expect.poll(() => stream?.isDisconnected).toBe(true);
    const next = await sessions.acquire(there, owner);
    expect([idle.sessionId, busy.sessionId]).not.toContain(next.sessionId);
  });
});
