import { setTimeout as delay } from 'node:timers/promises';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { send } from '../../../../test/fixtures/raw-client.ts';
import { atService, liveTests, notification } from '../../testing/live-tests.ts';
import type { LiveUpstream } from '../../testing/live-upstream.ts';
import { startStreamingService, startTestService } from '../../testing/service.ts';
import { clientOf, type ResponseReader, type SessionClient, sessionClient } from '../../testing/session-client.ts';

const tests = liveTests();
const { live, onEnd } = tests;

const namespaceOf = (url: string) => new URL(url).pathname.split('/')[1];
const addTool = (url: string, name: string) =>
  tests.service.register('tools', {
    name,
    namespace: namespaceOf(url),
    description: '',
    uri: 'http://localhost',
    toolType: 'rest',
    inputSchema: {},
  });
let added = 0;
const TOOLS = notification('tools/list_changed');
const LIST_CHANGED = '{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}';

/** Has the client's session upstream opened, by a call. */
async function link(client: SessionClient, upstream: LiveUpstream): Promise<string> {
  const reading = client.call('"open"');
  const call = await upstream.calls.next();
  call.json('x');
  await reading.ended;
  return call.session;
}

afterEach(() => {
  vi.useRealTimers();
});

describe('the notification stream', () => {
  it('starts immediately, with a resumable event id if the version has one', async () => {
    const { url } = await live();
    for (const version of ['2025-11-25', '2025-06-18']) {
      const client = await sessionClient(url, { version });
      const stream = client.listen();
      const { statusCode, headers } = await stream.head;
      expect([statusCode, headers['content-type']]).toEqual([200, 'text/event-stream']);
      expect(headers['cache-control']).toContain('no-cache');
      await stream.matching(/\n\n/);
      expect(stream.events).toEqual(version === '2025-11-25' ? [{ data: '', id: expect.any(String) }] : []);
      stream.disconnect();
    }
  });

  it('reports a tool added here within a second, on one connection only', async () => {
    const { url } = await live();
    const client = await sessionClient(url);
    const streams = [client.listen(), client.listen(), client.listen()];
    for (const stream of streams) await stream.event(0);
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
    await addTool(url, 'first');
    vi.advanceTimersByTime(1_000);
    expect(await streams[2]?.message(0)).toBe(LIST_CHANGED);
    vi.useRealTimers();
    streams[2]?.disconnect();
    await streams[2]?.ended;
    // New messages go to the most recent connection.
    await expect
      .poll(async () => {
        await addTool(url, `n${++added}`);
        return streams[1]?.messages.length;
      })
      .toBeGreaterThan(0);
    expect(streams[0]?.messages).toEqual([]);
  });

  it('reports changes made while the client was disconnected on reconnect', async () => {
    const { url } = await live();
    const client = await sessionClient(url);
    const first = client.listen();
    await first.event(0);
    first.disconnect();
    await first.ended;
    await addTool(url, 'meanwhile');
    const second = client.listen(first.lastId);
    expect(await second.message(0)).toBe(LIST_CHANGED);
    await addTool(url, 'later');
    expect(await second.message(1)).toBe(LIST_CHANGED);
    expect((await client.request('tools/list')).result).toMatchObject({
      tools: expect.arrayContaining([expect.objectContaining({ name: 'later' })]),
    });
  });

  it('sends its head on reconnect even without pending messages', async () => {
    const { url } = await live();
    const client = await sessionClient(url);
    const first = client.listen();
    await first.event(0);
    first.disconnect();
    await first.ended;
    expect((await client.listen(first.lastId).head).statusCode).toBe(200);
  });

  it('is limited to eight; a ninth ends the oldest', async () => {
    const { url } = await live();
    const client = await sessionClient(url);
    const streams: ResponseReader[] = [];
    for (let number = 0; number < 9; number++) {
      const stream = client.listen();
      await stream.event(0);
      streams.push(stream);
    }
    expect(await streams[0]?.ended).toBe(true);
    await addTool(url, 'x');
    await streams[8]?.message(0);
    expect(streams.slice(0, 8).flatMap(({ messages }) => messages)).toEqual([]);
    // The others are still open.
    for (const stream of streams.slice(2).reverse()) stream.disconnect();
    await Promise.all(streams.slice(2).map(({ ended }) => ended));
    await expect
      .poll(async () => {
        await addTool(url, `n${++added}`);
        return streams[1]?.messages.length;
      })
      .toBeGreaterThan(0);
  });

  it('is rejected without a session, for an ended or foreign one, or without text/event-stream', async () => {
    const { url } = await live();
    const client = await sessionClient(url);
    const get = async (headers: Record<string, string>) =>
      (await send(url, 'GET', { accept: 'text/event-stream', ...headers })).status;
    expect(await get({ ...client.headers, accept: 'application/json' })).toBe(406);
    expect(await get({ 'mcp-protocol-version': '2025-11-25' })).toBe(405);
    expect(await get({ ...client.headers, 'mcp-protocol-version': '2026-07-28' })).toBe(405);
    const foreign = await sessionClient((await live()).url);
    expect(await get(foreign.headers)).toBe(404);
    expect(await get({ ...client.headers, 'x-forwarded-user': 'eve' })).toBe(404);
    expect(await client.end()).toBe(204);
    expect(await get(client.headers)).toBe(404);
  });

  it('ends with its session or namespace', async () => {
    const { url } = await live();
    const [one, two] = [await sessionClient(url), await sessionClient(url)];
    const [first, second] = [one.listen(), two.listen()];
    await Promise.all([first.event(0), second.event(0)]);
    expect(await one.end()).toBe(204);
    expect(await first.ended).toBe(true);
    await tests.service.manage('DELETE', `/namespaces/${namespaceOf(url)}?cascade=true`);
    expect(await second.ended).toBe(true);
    expect((await send(url, 'GET', two.headers)).status).toBe(404);
  });

  it('ends immediately when the service stops', async () => {
    const service = await startTestService();
    let running = true;
    onEnd(async () => running && service.stop(0));
    const { upstream, url } = await live({}, service);
    const client = await sessionClient(url);
    await link(client, upstream);
    const stream = client.listen();
    await stream.event(0);
    const before = performance.now();
    running = false;
    const stopped = service.stop(20_000);
    expect(await stream.ended).toBe(true);
    await stopped;
    expect(performance.now() - before).toBeLessThan(15_000);
  });

  it('sends comments when idle', async () => {
    const service = await startStreamingService();
    onEnd(() => service.stop(0));
    const { url } = await live({}, service);
    const client = await sessionClient(url);
    vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval', 'performance'] });
    const stream = client.listen();
    await stream.event(0);
    const before = stream.text;
    vi.advanceTimersByTime(15_000);
    await stream.matching(/\n\n:\n\n$/);
    expect(stream.text).toBe(`${before}:\n\n`);
  });
});

describe('an upstream’s notification stream', () => {
  it('is open upstream exactly while the client listens', async () => {
    const { upstream, url } = await live();
    // A version whose streams cannot be resumed before the first event.
    const client = await sessionClient(url, { version: '2025-06-18' });
    const session = await link(client, upstream);
    expect(upstream.streams.all).toEqual([]);
    for (const _ of [1, 2]) {
      const listening = client.listen();
      const stream = await upstream.streams.next();
      expect([stream.session, stream.headers['mcp-protocol-version'], stream.headers.accept]).toEqual([
        session,
        '2025-11-25',
        'text/event-stream',
      ]);
      expect(stream.isDisconnected).toBe(false);
      listening.disconnect();
      await expect.poll(() => stream.isDisconnected).toBe(true);
    }
    // A client that listens before an upstream session exists.
    const early = await sessionClient(url);
    const listening = early.listen();
    await listening.event(0);
    const second = await link(early, upstream);
    expect((await upstream.streams.next()).session).toBe(second);
    expect(upstream.streams.all).toHaveLength(3);
    await early.end();
    await expect.poll(() => upstream.streams.all[2]?.isDisconnected).toBe(true);
    await expect.poll(() => upstream.sessions.size).toBe(1);
  });

  it('delivers messages to their own client only, byte for byte', async () => {
    const { upstream, url } = await live();
    const clients = [await sessionClient(url), await sessionClient(url)];
    const listening = clients.map((client) => client.listen());
    for (const [at, client] of clients.entries()) {
      const session = await link(client, upstream);
      const stream = await upstream.streams.next();
      expect(stream.session).toBe(session);
      for (const text of [
        `{ "method":"notifications/example.com/${at}","params":{"n":1.0,"big":9223372036854775807},"jsonrpc":"2.0" }`,
        notification('resources/updated', `{"uri":"x://${at}","title":"\\u00e4"}`),
        notification('elicitation/complete', `{"elicitationId":"${at}"}`),
      ]) {
        stream.send(text);
      }
      await listening[at]?.message(2);
    }
    for (const [at, reading] of listening.entries()) {
      expect(reading.messages).toEqual([
        `{ "method":"notifications/example.com/${at}","params":{"n":1.0,"big":9223372036854775807},"jsonrpc":"2.0" }`,
        notification('resources/updated', `{"uri":"x://${at}","title":"\\u00e4"}`),
        notification('elicitation/complete', `{"elicitationId":"${at}"}`),
      ]);
    }
  });

  it("filters log messages by the session's level", async () => {
    const { upstream, url } = await live();
    const client = await sessionClient(url);
    const listening = client.listen();
    await link(client, upstream);
    const stream = await upstream.streams.next();
    const log = (level: string) => notification('message', `{"level":"${level}","data":"${level} 1"}`);
    stream.send(log('debug'));
    expect(await listening.message(0)).toBe(log('debug'));
    await client.request('logging/setLevel', '{"level":"warning"}');
    for (const level of ['debug', 'notice', 'warning', 'emergency', 'own']) stream.send(log(level));
    await listening.message(3);
    expect(listening.messages.slice(1)).toEqual(['warning', 'emergency', 'own'].map(log));
  });

  it("delivers a call's progress on the call's own stream", async () => {
    const { upstream, url } = await live();
    const client = await sessionClient(url);
    const listening = client.listen();
    await link(client, upstream);
    const stream = await upstream.streams.next();
    const reading = client.call('"c"', '"progressToken":"mine"');
    const call = await upstream.calls.next();
    const other = client.call('"d"', '"progressToken":"other"');
    const calls = [call, await upstream.calls.next()];
    stream.send(notification('progress', `{"progressToken":${call.progressToken},"progress":1.50}`));
    expect(await reading.message(0)).toBe(notification('progress', '{"progressToken":"mine","progress":1.50}'));
    // Progress of no pending call.
    stream.send(notification('progress', '{"progressToken":"mine","progress":2}'));
    for (const each of calls) each.json('done');
    await Promise.all([reading.ended, other.ended]);
    expect([reading.messages.length, other.messages.length]).toEqual([2, 1]);
    expect(listening.messages).toEqual([]);
  });

  it('delivers no progress of a call of another session', async () => {
    const { upstream, url } = await live();
    const [victim, attacker] = [await sessionClient(url), await sessionClient(url)];
    await link(victim, upstream);
    await link(attacker, upstream);
    attacker.listen();
    const stream = await upstream.streams.next();
    const reading = victim.call('"c"', '"progressToken":"mine"');
    const call = await upstream.calls.next();
    stream.send(notification('progress', `{"progressToken":${call.progressToken},"progress":1}`));
    // The client of the stream gets what follows: the progress before it was dropped.
    const other = attacker.call('"d"', '"progressToken":"other"');
    const second = await upstream.calls.next();
    stream.send(notification('progress', `{"progressToken":${second.progressToken},"progress":2}`));
    expect(await other.message(0)).toBe(notification('progress', '{"progressToken":"other","progress":2}'));
    call.json('done');
    second.json('done');
    await Promise.all([reading.ended, other.ended]);
    expect([reading.messages.length, other.messages.length]).toEqual([1, 2]);
  });

  it('sends a list change after the new list is visible', async () => {
    const { upstream, url } = await live();
    const client = await sessionClient(url);
    const listening = client.listen();
    await link(client, upstream);
    const stream = await upstream.streams.next();
    upstream.results['tools/list'] = '{"tools":[{"name":"changed","inputSchema":{"type":"object"}}]}';
    stream.send(TOOLS);
    expect(await listening.message(0)).toBe(LIST_CHANGED);
    expect((await client.request('tools/list')).result).toMatchObject({ tools: [{ name: 'changed' }] });
    expect(listening.messages).toHaveLength(1);
  });

  it('is resumed at the last event after it ended', async () => {
    const { upstream, url } = await live();
    const client = await sessionClient(url);
    const listening = client.listen();
    await link(client, upstream);
    const stream = await upstream.streams.next();
    stream.send(notification('example.com/one'), { id: 'e-1', retry: 50 });
    stream.response.end();
    const again = await upstream.resumptions.next();
    expect([again.headers['last-event-id'], again.session]).toEqual(['e-1', stream.session]);
    again.begin();
    again.send(notification('example.com/two'));
    expect(await listening.message(1)).toBe(notification('example.com/two'));
  });
});

describe('a client that reads its notification stream slowly', () => {
  it('applies backpressure to its own upstream only and loses nothing', async () => {
    const { upstream, url } = await live();
    const [client, other] = [await sessionClient(url), await sessionClient(url)];
    const [listening, theirs] = [client.listen(), other.listen()];
    await link(client, upstream);
    const stream = await upstream.streams.next();
    await link(other, upstream);
    const second = await upstream.streams.next();
    (await listening.head).pause();
    const padding = 'x'.repeat(64 * 1024);
    const note = (n: number) => notification('example.com/n', `{"n":${n},"padding":"${padding}"}`);
    const total = 600;
    let sent = 0;
    const flooding = (async () => {
      for (; sent < total; sent++) {
        stream.send(note(sent));
        if (stream.response.writableNeedDrain) await new Promise((resolve) => stream.response.once('drain', resolve));
      }
    })();
    // All three share one event loop: pending data would arrive in this many round trips.
    let quiet = 0;
    for (let number = 0; quiet < 20; number++) {
      const before = sent;
      second.send(notification('example.com/other', `{"n":${number}}`));
      expect(await theirs.message(number)).toContain(`"n":${number}`);
      await client.request('ping');
      await delay(2);
      quiet = sent > 0 && sent === before ? quiet + 1 : 0;
    }
    expect(sent).toBeLessThan(total / 2);
    (await listening.head).resume();
    await flooding;
    await listening.message(total - 1);
    expect(listening.messages.map((text) => JSON.parse(text).params.n)).toEqual(
      Array.from({ length: total }, (_, n) => n),
    );
  });

  it('is replaced by another stream, and the upstream continues there', async () => {
    const { upstream, url } = await live();
    const client = await sessionClient(url);
    const stuck = client.listen();
    await link(client, upstream);
    const stream = await upstream.streams.next();
    (await stuck.head).pause();
    const padding = 'x'.repeat(64 * 1024);
    let sent = 0;
    let quiet = 0;
    while (quiet < 20) {
      const before = sent;
      if (!stream.response.writableNeedDrain) {
        stream.send(notification('example.com/n', `{"n":${++sent},"padding":"${padding}"}`));
      }
      await client.request('ping');
      quiet = sent === before ? quiet + 1 : 0;
    }
    const fresh = client.listen();
    stream.send(notification('example.com/last'));
    await fresh.matching(/example\.com\/last/);
    stuck.disconnect();
  });
});

it('reopens after a restart and reports all lists as changed', async () => {
  const { service, restart } = await tests.persistent();
  const { upstream, url } = await live({}, service);
  const client = await sessionClient(url);
  const stream = client.listen();
  await stream.event(0);
  const restarted = await restart();
  await stream.ended;
  const again = clientOf(atService(restarted, url), client.headers).listen(stream.lastId);
  const kinds = [await again.message(0), await again.message(1), await again.message(2)];
  expect(kinds.map((text) => JSON.parse(text).method).sort()).toEqual([
    'notifications/prompts/list_changed',
    'notifications/resources/list_changed',
    'notifications/tools/list_changed',
  ]);
  expect(upstream.calls.all).toEqual([]);
  again.disconnect();
});
