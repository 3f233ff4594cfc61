import { once } from 'node:events';
import { createServer, type Socket } from 'node:net';
import { describe, expect, it, vi } from 'vitest';
import { startDualEra } from '../../../../test/fixtures/dual-era.ts';
import { connect } from '../../../../test/fixtures/sdk-client.ts';
import { atService, liveTests, notification, responseTo } from '../../testing/live-tests.ts';
import type { LiveCall, LiveUpstream } from '../../testing/live-upstream.ts';
import { startStreamingService, startTestService } from '../../testing/service.ts';
import { clientOf, type ResponseReader, type SessionClient, sessionClient } from '../../testing/session-client.ts';

const tests = liveTests(startStreamingService);
const { live, onEnd, register } = tests;

const TOKEN = '"progressToken":"p"';
/** The upstream's progress as the client sees it. */
const progress = (value: number) => notification('progress', `{"progressToken":"p","progress":${value}}`);
const resultEvent = (text: string, id = '"c"') =>
  `{"jsonrpc":"2.0","id":${id},"result":{"content":[{"type":"text","text":"${text}"}]}}`;

interface Calling {
  readonly upstream: LiveUpstream;
  readonly url: string;
  readonly client: SessionClient;
  readonly reading: ResponseReader;
  readonly call: LiveCall;
}

/** A call whose stream has delivered this many messages to the client. */
async function streaming(count: number, version = '2025-11-25'): Promise<Calling> {
  const { upstream, url } = await live();
  const client = await sessionClient(url, { version });
  const reading = client.call('"c"', TOKEN);
  const call = await upstream.calls.next();
  call.begin();
  for (let value = 1; value <= count; value++) call.progress(value);
  if (count > 0) await reading.message(count - 1);
  return { upstream, url, client, reading, call };
}

async function left({ reading }: Calling): Promise<Calling['reading']['events']> {
  reading.disconnect();
  await reading.ended;
  return reading.events;
}

describe('a call’s stream that broke off', () => {
  it.each(['2025-11-25', '2025-06-18'])(
    'resumes with missed messages, new messages and the response (%s)',
    async (version) => {
      const calling = await streaming(3, version);
      const { client, call } = calling;
      const events = await left(calling);
      const ids = events.map(({ id }) => id);
      expect(new Set(ids).size).toBe(3);
      call.progress(4);
      const again = client.listen(ids[0]);
      await again.message(2);
      expect(again.messages).toEqual([progress(2), progress(3), progress(4)]);
      expect(again.events.slice(0, 2)).toEqual(events.slice(1));
      call.progress(5);
      expect(await again.message(3)).toBe(progress(5));
      call.end('done');
      expect(await again.ended).toBe(true);
      expect(again.messages[4]).toBe(resultEvent('done'));
    },
  );

  it('stores the response that arrives while it is disconnected', async () => {
    const calling = await streaming(1);
    await left(calling);
    calling.call.end('done');
    await expect.poll(() => calling.call.response.writableFinished).toBe(true);
    const again = calling.client.listen(calling.reading.lastId);
    expect(await again.ended).toBe(true);
    expect(again.messages).toEqual([resultEvent('done')]);
    // Also after a second disconnect.
    const third = calling.client.listen(calling.reading.lastId);
    expect(await third.ended).toBe(true);
    expect(third.messages).toEqual([resultEvent('done')]);
    const last = calling.client.listen(third.lastId);
    expect([await last.ended, (await last.head).statusCode, last.messages]).toEqual([true, 405, []]);
  });

  it('can be resumed repeatedly', async () => {
    const calling = await streaming(1);
    const { client, call } = calling;
    let { lastId } = calling.reading;
    await left(calling);
    for (let value = 2; value < 6; value++) {
      const again = client.listen(lastId);
      expect((await again.head).statusCode).toBe(200);
      call.progress(value);
      expect(await again.message(0)).toBe(progress(value));
      ({ lastId } = again);
      again.disconnect();
      await again.ended;
    }
    call.end('done');
    const final = client.listen(lastId);
    await final.ended;
    expect(final.messages).toEqual([resultEvent('done')]);
  });

  it('that is still connected moves to the new connection and ends the old one', async () => {
    const { client, call, reading } = await streaming(2);
    const again = client.listen(reading.events[0]?.id);
    expect(await again.message(0)).toBe(progress(2));
    expect(await reading.ended).toBe(true);
    call.progress(3);
    expect(await again.message(1)).toBe(progress(3));
    call.end('done');
    await again.ended;
    expect(reading.messages).toEqual([progress(1), progress(2)]);
  });

  it('is not removed when a replaced connection closes', async () => {
    const calling = await streaming(1);
    const { client, call, reading } = calling;
    const second = client.listen(reading.lastId);
    await second.head;
    await reading.ended;
    call.progress(2);
    expect(await second.message(0)).toBe(progress(2));
    second.disconnect();
    await second.ended;
    call.end('done');
    const third = client.listen(second.lastId);
    await third.ended;
    expect(third.messages).toEqual([resultEvent('done')]);
  });

  it('applies backpressure only while a slow client is connected', async () => {
    const { call, client, reading } = await streaming(1);
    (await reading.head).pause();
    const padding = 'x'.repeat(64 * 1024);
    // Several times the size of the system buffers between the three.
    const total = 1_000;
    let sent = 0;
    const flooding = (async () => {
      for (; sent < total; sent++) {
        call.send(notification('example.com/n', `{"n":${sent},"padding":"${padding}"}`));
        if (call.response.writableNeedDrain) await once(call.response, 'drain');
      }
    })();
    // All share one event loop: pending data would arrive in this many round trips.
    for (let quiet = 0; quiet < 20; ) {
      const before = sent;
      await client.request('ping');
      quiet = sent > 0 && sent === before ? quiet + 1 : 0;
    }
    expect(sent).toBeLessThan(total / 2);
    reading.disconnect();
    await flooding;
    const again = client.listen(reading.lastId);
    await again.matching(/"n":999/);
    // Only the latest events are stored.
    expect(again.messages.length).toBeLessThan(total / 4);
    call.end('done');
    expect(await again.ended).toBe(true);
    expect(again.messages.at(-1)).toBe(resultEvent('done'));
  });

  it('resends its pending server requests and accepts their responses', async () => {
    const calling = await streaming(1);
    const { client, call, upstream } = calling;
    await left(calling);
    call.request('1', 'roots/list');
    const again = client.listen(calling.reading.lastId);
    await client.post(responseTo(await again.message(0)));
    expect(upstream.answers()).toEqual(['{"jsonrpc":"2.0","id":1,"result":{}}']);
    call.end('done');
    expect(await again.ended).toBe(true);
  });

  it('is one of several that resume independently', async () => {
    const { upstream, url } = await live();
    const client = await sessionClient(url);
    const readings = Array.from({ length: 10 }, (_, at) => client.call(String(at), `"progressToken":${at}`));
    const calls: LiveCall[] = [];
    for (const _ of readings) calls.push(await upstream.calls.next());
    for (const call of calls) {
      call.begin();
      call.progress(1);
    }
    await Promise.all(readings.map((reading) => reading.message(0)));
    for (const reading of readings) reading.disconnect();
    await Promise.all(readings.map(({ ended }) => ended));
    for (const call of calls) call.end('done');
    for (const [at, reading] of readings.entries()) {
      const again = client.listen(reading.lastId);
      await again.ended;
      expect(again.messages).toEqual([resultEvent('done', String(at))]);
    }
  });
});

describe('an event id', () => {
  it('of another session, or forged, is rejected', async () => {
    const { client, url, reading, call } = await streaming(1);
    const other = await sessionClient(url);
    const [id] = reading.events.map((event) => event.id ?? '');
    const forged = ['x', 'x.1', `${id}x`, id?.slice(1) ?? '', '1'];
    for (const [from, value] of [[other, id ?? ''] as const, ...forged.map((each) => [client, each] as const)]) {
      const rejected = from.listen(value);
      expect((await rejected.head).statusCode, value).toBe(400);
      await rejected.ended;
      expect(JSON.parse(rejected.text).error.code).toBe(-32600);
    }
    call.end('done');
    expect(await reading.ended).toBe(true);
    expect(reading.messages[1]).toBe(resultEvent('done'));
  });

  it('of a terminated process returns an error: the outcome is unknown', async () => {
    const { service, restart } = await tests.persistent();
    const { upstream, url } = await live({}, service);
    const client = await sessionClient(url);
    const lastIds: string[] = [];
    for (const id of ['"c \\u00e4"', '7']) {
      const reading = client.call(id, TOKEN);
      const call = await upstream.calls.next();
      call.begin();
      call.progress(1);
      await reading.message(0);
      lastIds.push(reading.lastId);
      reading.disconnect();
    }
    const restarted = await restart();
    const moved = clientOf(atService(restarted, url), client.headers);
    for (const [at, id] of ['"c \\u00e4"', '7'].entries()) {
      const again = moved.listen(lastIds[at]);
      expect(await again.ended).toBe(true);
      expect(again.messages).toEqual([
        `{"jsonrpc":"2.0","id":${id},"error":{"code":-32603,"message":"outcome unknown after restart"}}`,
      ]);
      // Official clients reconnect after an error.
      expect((await moved.listen(again.lastId).head).statusCode).toBe(405);
    }
    const otherClient = await sessionClient(moved.url);
    expect((await otherClient.listen(lastIds[0]).head).statusCode).toBe(400);
  });
});

describe('a slow call', () => {
  it('starts a resumable stream although its upstream responds with JSON', async () => {
    const { upstream, url } = await live();
    const client = await sessionClient(url);
    const reading = client.call('"c"');
    const call = await upstream.calls.next();
    expect(await reading.event(0)).toEqual({ data: '', id: expect.any(String) });
    reading.disconnect();
    await reading.ended;
    call.json('done');
    const again = client.listen(reading.lastId);
    await again.ended;
    expect(again.messages).toEqual([resultEvent('done')]);
  });

  it('has an error of the upstream and a failure on that stream, too', async () => {
    const { upstream, url } = await live();
    const client = await sessionClient(url);
    const readings = [client.call('1'), client.call('2')];
    const calls = [await upstream.calls.next(), await upstream.calls.next()];
    for (const reading of readings) await reading.event(0);
    for (const call of calls) call.reject(500);
    for (const reading of readings) {
      expect(await reading.ended).toBe(true);
      expect(JSON.parse(reading.messages[0] ?? '')).toMatchObject({ error: { code: -32603 } });
    }
  });

  it('does not get event ids for clients that do not expect them', async () => {
    const { upstream, url } = await live();
    const newest = await sessionClient(url);
    const older = await sessionClient(url, { version: '2025-06-18' });
    const readings = [
      newest.call('1', '', { accept: 'application/json' }),
      older.call('1'),
      clientOf(url, { 'mcp-protocol-version': '2025-11-25' }).call('1'),
      // This id does not fit into event ids, so the stream is not resumable.
      newest.call(`"${'x'.repeat(200)}"`),
    ];
    const calls: LiveCall[] = [];
    for (const _ of readings) calls.push(await upstream.calls.next());
    await newest.call('2').event(0);
    // On a slow machine, streams without ids have begun by then.
    for (const { text } of readings) expect(text).toMatch(/^(:\n\n)*$/);
    expect(readings[0]?.text).toBe('');
    for (const call of calls) call.json('done');
    for (const reading of readings) {
      await reading.ended;
      expect(reading.text).toContain('"text":"done"');
      expect(reading.events.map(({ id }) => id).filter((id) => id !== undefined)).toEqual([]);
    }
  });
});

describe('an upstream that ends its stream before the response', () => {
  /** A call whose upstream sent a retry interval and ended its stream. */
  async function polling(version: string, retry: number, meta = TOKEN): Promise<Calling & { endedAt: number }> {
    const { upstream, url } = await live();
    const client = await sessionClient(url, { version });
    const reading = client.call('"c"', meta);
    const call = await upstream.calls.next();
    call.begin();
    call.send('', { id: 'e-1', retry });
    call.response.end();
    return { upstream, url, client, reading, call, endedAt: performance.now() };
  }

  it('is polled for the rest after its retry interval, and the client is disconnected for as long', async () => {
    const { upstream, client, reading, call, endedAt } = await polling('2025-11-25', 300);
    expect(await reading.ended).toBe(true);
    expect(reading.events.at(-1)).toEqual({ data: '', id: expect.any(String), retry: 300 });
    const again = client.listen(reading.lastId);
    const resumed = await upstream.resumptions.next();
    expect(performance.now() - endedAt).toBeGreaterThanOrEqual(295);
    expect([resumed.headers['last-event-id'], resumed.session, resumed.headers.accept]).toEqual([
      'e-1',
      call.session,
      'text/event-stream',
    ]);
    resumed.begin();
    resumed.send(notification('progress', `{"progressToken":${call.progressToken},"progress":1}`));
    expect(await again.message(0)).toBe(progress(1));
    resumed.send(call.answerText('done'));
    expect(await again.ended).toBe(true);
    expect(again.messages[1]).toBe(resultEvent('done'));
    expect(reading.messages).toEqual([]);
  });

  it('stores the response for a client that reconnects later', async () => {
    const { upstream, client, reading, call } = await polling('2025-11-25', 100);
    await reading.ended;
    const resumed = await upstream.resumptions.next();
    resumed.begin();
    resumed.send(call.answerText('done'));
    resumed.response.end();
    await expect.poll(() => resumed.response.writableFinished).toBe(true);
    const again = client.listen(reading.lastId);
    await again.ended;
    expect(again.messages).toEqual([resultEvent('done')]);
  });

  it.each([
    ['2025-06-18', {}],
    ['2025-11-25', { accept: 'application/json' }],
  ])('does not disconnect a client that cannot resume: %s %o', async (version, headers) => {
    const { upstream, url } = await live();
    const client = await sessionClient(url, { version });
    const reading = client.call('"c"', TOKEN, headers);
    const call = await upstream.calls.next();
    call.begin();
    call.send('', { id: 'e-1', retry: 100 });
    call.response.end();
    const resumed = await upstream.resumptions.next();
    resumed.begin();
    resumed.send(call.answerText('done'));
    await reading.ended;
    expect(reading.messages).toEqual([resultEvent('done')]);
  });

  it('may do so many times', async () => {
    const { upstream, client, reading, call } = await polling('2025-11-25', 0);
    await reading.ended;
    for (let number = 2; number <= 9; number++) {
      const resumed = await upstream.resumptions.next();
      expect(resumed.headers['last-event-id']).toBe(`e-${number - 1}`);
      resumed.begin();
      resumed.send('', { id: `e-${number}` });
      resumed.response.end();
    }
    const last = await upstream.resumptions.next();
    last.begin();
    last.send(call.answerText('done'));
    const again = client.listen(reading.lastId);
    await again.ended;
    expect(again.messages).toEqual([resultEvent('done')]);
  });

  it.each([400, 404, 405])('and does not resume it (%i) fails the call', async (status) => {
    const { upstream, client, reading } = await polling('2025-11-25', 100);
    await reading.ended;
    (await upstream.resumptions.next()).reject(status);
    const again = client.listen(reading.lastId);
    await again.ended;
    expect(JSON.parse(again.messages[0] ?? '')).toEqual({
      jsonrpc: '2.0',
      id: 'c',
      error: {
        code: -32603,
        message: expect.stringMatching(
          `^forwarded tool call failed: upstream \\S+ did not resume its event stream \\(HTTP ${status}\\)$`,
        ),
      },
    });
    expect(upstream.resumptions.all).toHaveLength(1);
  });

  it('may be busy, or disconnect again, before it resumes', async () => {
    const { upstream, reading, call } = await polling('2025-06-18', 100);
    (await upstream.resumptions.next()).reject(503);
    (await upstream.resumptions.next()).response.destroy();
    const third = await upstream.resumptions.next();
    third.begin();
    third.send(notification('progress', `{"progressToken":${call.progressToken},"progress":1}`), { id: 'e-2' });
    await reading.message(0);
    third.response.destroy();
    const last = await upstream.resumptions.next();
    expect(last.headers['last-event-id']).toBe('e-2');
    last.begin();
    last.send(call.answerText('done'));
    await reading.ended;
    expect(reading.messages).toEqual([progress(1), resultEvent('done')]);
  });

  it('may be down for a while', async () => {
    const { upstream, reading, call } = await polling('2025-06-18', 100);
    await expect.poll(() => call.response.writableFinished).toBe(true);
    await upstream.down(true);
    const attempts: Socket[] = [];
    const unreachable = createServer((socket) => attempts.push(socket.on('error', () => undefined).resetAndDestroy()));
    await once(unreachable.listen(Number(new URL(upstream.url).port), '127.0.0.1'), 'listening');
    await expect.poll(() => attempts.length).toBeGreaterThan(1);
    unreachable.close();
    await once(unreachable, 'close');
    await upstream.up();
    const resumed = await upstream.resumptions.next();
    resumed.begin();
    resumed.send(call.answerText('done'));
    await reading.ended;
    expect(reading.messages).toEqual([resultEvent('done')]);
  });

  it('without an event id fails the call', async () => {
    for (const id of [undefined, '']) {
      const { upstream, url } = await live();
      const reading = (await sessionClient(url)).call('"c"', TOKEN);
      const call = await upstream.calls.next();
      call.begin();
      if (id !== undefined) call.send('', { id: 'e-1' });
      call.send(notification('x'), id === undefined ? {} : { id });
      call.response.end();
      expect(await reading.ended).toBe(true);
      expect(reading.messages[1]).toContain('ended the event stream of tools/call before the response');
      expect(upstream.resumptions.all).toEqual([]);
    }
  });

  it('and stays silent fails after the idle timeout', async () => {
    vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval', 'performance'] });
    const hasty = await startTestService({ SERVICE_UPSTREAM_IDLE_TIMEOUT_MS: '600' });
    onEnd(() => hasty.stop(0));
    onEnd(async () => void vi.useRealTimers());
    const { upstream, url } = await live({}, hasty);
    const client = await sessionClient(url, { version: '2025-06-18' });
    const reading = client.call('"c"', TOKEN);
    const call = await upstream.calls.next();
    call.begin();
    call.send('', { id: 'e-1', retry: 100 });
    call.response.end();
    let over = false;
    const again = async () => {
      while (!over) {
        const resumed = await upstream.resumptions.next();
        resumed.begin();
        resumed.response.end(': nothing\n\n');
        vi.advanceTimersByTime(300);
      }
    };
    void again();
    await reading.ended;
    over = true;
    expect(reading.text).toContain('sent nothing for 0.6 s');
    expect(upstream.resumptions.all.length).toBeGreaterThan(1);
  });
});

it('the official client resumes its stream, and the official server is polled', async () => {
  const upstream = await startDualEra();
  onEnd(upstream.close);
  const { callText, close, sent } = await connect(await register(upstream.url), 'legacy');
  onEnd(close);
  expect(await callText('test_reconnection')).toBe('answered after the stream was closed');
  expect(sent.filter((method) => method === 'GET').length).toBeGreaterThan(1);
});
