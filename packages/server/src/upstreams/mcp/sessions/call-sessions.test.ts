import { describe, expect, it } from 'vitest';
import { AskableClient, failure, inputRequired, resultText } from '../../../../testing/askable-client.ts';
import { liveTests, notification } from '../../../../testing/live.ts';
import { type LiveCall, type LiveUpstream, startLiveUpstream } from '../../../../testing/live-upstream.ts';
import { startTestService } from '../../../../testing/service.ts';
import { type InFlightCall, InFlightCalls } from '../relay/in-flight.ts';
import { Upstream } from '../upstream.ts';
import { CallSessionPool } from './call-sessions.ts';

const { live, onEnd } = liveTests();

/** Has the client call, and the upstream answer; the session that the call came in. */
async function called(client: AskableClient, upstream: LiveUpstream): Promise<string> {
  const reading = client.send();
  const call = await upstream.calls.next();
  call.json('done');
  expect(await resultText(reading)).toBe('done');
  return call.session;
}

/** A call that has reached the upstream. */
async function begun(client: AskableClient, upstream: LiveUpstream) {
  const reading = client.send();
  const call = await upstream.calls.next();
  call.begin();
  return { reading, call };
}

describe('the upstream sessions of calls that can ask', () => {
  it('are one for each call at a time, and shared by those that follow on each other', async () => {
    const { upstream, url } = await live();
    const client = new AskableClient(url);
    const one = await called(client, upstream);
    expect(await called(new AskableClient(url), upstream)).toBe(one);
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

  it('are kept by a call that is parked until it is over', async () => {
    const { upstream, url } = await live();
    const client = new AskableClient(url);
    const { reading, call } = await begun(client, upstream);
    call.ask('1', 'roots/list');
    const asked = await inputRequired(reading);
    expect(await called(client, upstream)).not.toBe(call.session);
    const retry = client.retry(asked.state, `{"${asked.keys[0]}":{}}`);
    await expect.poll(upstream.answers).toHaveLength(1);
    call.end('done');
    await resultText(retry);
    expect(await called(client, upstream)).toBe(call.session);
  });

  it('are ended, the oldest first, when more than 32 of them wait for a call', async () => {
    const { upstream, url } = await live();
    const sessions: string[] = [];
    for (let at = 0; at < 35; at++) {
      sessions.push(await called(new AskableClient(url, `{"roots":{"x":${at}}}`), upstream));
    }
    await expect.poll(() => [...upstream.sessions].toSorted()).toEqual(sessions.slice(-33).toSorted());
  });

  it('are not told of a client that describes itself without an end, and it cannot be asked', async () => {
    const { upstream, url } = await live();
    const { reading, call } = await begun(new AskableClient(url, `{"roots":{"x":"${'x'.repeat(5_000)}"}}`), upstream);
    call.ask('1', 'roots/list');
    await expect.poll(upstream.answers).toEqual([expect.stringContaining('-32601')]);
    call.end('went on');
    expect(await resultText(reading)).toBe('went on');
    expect(upstream.of('initialize').at(-1)?.params.capabilities).toEqual({});
  });

  it('are shared only by those who look the same to the upstream', async () => {
    const on = await startTestService({ SERVICE_FORWARD_HEADERS: 'x-tenant' });
    onEnd(() => on.stop(0));
    const { upstream, url } = await live({}, on);
    const tool = { name: 'work', uri: upstream.url, toolType: 'mcp', description: '', input_schema: {} };
    await on.register('tools', { ...tool, namespace: 'twin' });
    const clients = [
      new AskableClient(url),
      new AskableClient(url, '{"roots":{}}'),
      new AskableClient(url, undefined, { 'x-forwarded-user': 'ann' }),
      new AskableClient(url, undefined, { 'x-forwarded-user': 'bob' }),
      new AskableClient(url, undefined, { 'x-tenant': 't' }),
      new AskableClient(on.url('twin')),
    ];
    const sessions: string[] = [];
    for (const client of [...clients, ...clients]) sessions.push(await called(client, upstream));
    expect(new Set(sessions).size).toBe(clients.length);
    expect(sessions.slice(clients.length)).toEqual(sessions.slice(0, clients.length));
  });

  it('are not those of clients that cannot be asked', async () => {
    const { upstream, url } = await live();
    const [asked, plain] = [new AskableClient(url), new AskableClient(url, '{}')];
    const one = await called(plain, upstream);
    expect(await called(asked, upstream)).not.toBe(one);
    const both = [await begun(plain, upstream), await begun(plain, upstream)];
    expect(both.map(({ call }) => call.session)).toEqual([one, one]);
    expect(upstream.streams.all.map(({ session }) => session)).not.toContain(one);
  });

  it.each<[string, (call: LiveCall, upstream: LiveUpstream) => unknown]>([
    ['breaks off', (call) => call.response.destroy()],
    ['ends without an answer', (call) => call.response.end()],
    ['sends what is no message', (call) => call.send('no message')],
  ])('are not used again after a call that %s', async (_what, end) => {
    const { upstream, url } = await live();
    const client = new AskableClient(url);
    const { reading, call } = await begun(client, upstream);
    end(call, upstream);
    expect((await failure(reading)).code).toBe(-32603);
    expect(await called(client, upstream)).not.toBe(call.session);
    await expect.poll(() => upstream.sessions.has(call.session)).toBe(false);
  });

  it('are not used again after a call that its client has left, but are after an error', async () => {
    const { upstream, url } = await live();
    const client = new AskableClient(url);
    const { reading, call } = await begun(client, upstream);
    call.send(`{"jsonrpc":"2.0","id":${call.id},"error":{"code":-32050,"message":"m"}}`);
    expect((await failure(reading)).code).toBe(-32050);
    const next = await begun(client, upstream);
    expect(next.call.session).toBe(call.session);
    next.reading.leave();
    await expect.poll(() => upstream.of('notifications/cancelled')).toHaveLength(1);
    expect(await called(client, upstream)).not.toBe(call.session);
  });

  it('are used by the next call when the client has left before they were open', async () => {
    const { upstream, url } = await live();
    const client = new AskableClient(url);
    await begun(client, upstream);
    const [opened, gate] = [upstream.of('initialize').length, Promise.withResolvers<void>()];
    const { initialize } = upstream.results;
    upstream.results.initialize = async () => {
      await gate.promise;
      return String(initialize);
    };
    const reading = client.send();
    await expect.poll(() => upstream.of('initialize').length).toBe(opened + 1);
    reading.leave();
    await reading.over;
    // By the time that this is answered, the service knows that the client has left.
    await client.send({ method: 'tools/list', params: '"x":1' }).over;
    gate.resolve();
    await expect.poll(() => upstream.streams.all).toHaveLength(2);
    await expect.poll(() => called(client, upstream)).toBe(upstream.streams.all[1]?.session);
    expect(upstream.of('notifications/cancelled')).toEqual([]);
  });

  it('are opened again when the upstream has forgotten them', async () => {
    const { upstream, url } = await live();
    const client = new AskableClient(url);
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

  it('refuse what is asked while no call is there, and tell of changed lists', async () => {
    const { upstream, url } = await live();
    const client = new AskableClient(url);
    await called(client, upstream);
    const stream = await upstream.streams.next();
    stream.send('{"jsonrpc":"2.0","id":"q","method":"roots/list"}');
    stream.send('{"jsonrpc":"2.0","id":"p","method":"ping"}');
    await expect.poll(upstream.answers).toHaveLength(2);
    const answers = upstream.answers().map((text) => JSON.parse(text));
    expect(answers.find(({ id }) => id === 'q')).toMatchObject({ error: { code: -32601 } });
    expect(answers.find(({ id }) => id === 'p')).toMatchObject({ result: {} });
    const before = upstream.of('tools/list').length;
    stream.send(notification('tools/list_changed'));
    await expect.poll(() => upstream.of('tools/list').length).toBeGreaterThan(before);
  });

  it.each([
    ['offer no stream for them', 405],
    ['do not know them when asked for it', 404],
    ['only begin it when they have something to say', 0],
  ])('are good for calls to upstreams that %s', async (_what, status) => {
    const { upstream, url } = await live();
    upstream.streamStatus = status;
    const client = new AskableClient(url);
    const began = performance.now();
    const { reading, call } = await begun(client, upstream);
    // It is waited for: what comes before it is there would be lost.
    if (status === 0) expect(performance.now() - began).toBeGreaterThan(450);
    call.ask('1', 'roots/list');
    const asked = await inputRequired(reading);
    const retry = client.retry(asked.state, `{"${asked.keys[0]}":{}}`);
    await expect.poll(upstream.answers).toHaveLength(1);
    call.end('done');
    expect(await resultText(retry)).toBe('done');
    expect(await called(client, upstream)).toBe(call.session);
  });

  it('are ended when nobody has used them for long, with their stream, and not below a call', async () => {
    const upstream = await startLiveUpstream();
    onEnd(upstream.close);
    const there = new Upstream(upstream.url, { failed: () => {}, succeeded: () => {}, changed: () => {} });
    onEnd(() => there.destroy());
    const calls = new InFlightCalls<InFlightCall>({ silenceMs: 60_000, totalMs: 60_000 });
    onEnd(async () => calls.close());
    const sessions = new CallSessionPool(calls);
    const clientInfo = { name: 'c', version: '1' };
    const owner = { key: 'k', protocolVersion: '2025-11-25', capabilities: { roots: {} }, clientInfo, headers: [] };
    const [idle, busy] = [await sessions.take(there, owner), await sessions.take(there, owner)];
    const streams = await Promise.all([upstream.streams.next(), upstream.streams.next()]);
    idle.active++;
    there.links.release(idle, 0);
    there.links.closeIdle(1_000, Number.MAX_SAFE_INTEGER);
    await expect.poll(() => [...upstream.sessions]).toEqual([busy.sessionId]);
    const stream = streams.find(({ session }) => session === idle.sessionId);
    await expect.poll(() => stream?.left).toBe(true);
    const next = await sessions.take(there, owner);
    expect([idle.sessionId, busy.sessionId]).not.toContain(next.sessionId);
  });
});
