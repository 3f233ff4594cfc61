import { afterEach, beforeEach, describe, expect, it, onTestFinished, vi } from 'vitest';
import type { ScriptedResponse } from '../../../../../../test/fixtures/raw-upstream/message.ts';
import { type RawUpstream, startRawUpstream } from '../../../../../../test/fixtures/raw-upstream.ts';
import type { UpstreamTransport } from '../../../http/client/client.ts';
import { createTransport } from '../../../http/client/pool.ts';
import { openLegacy } from '../rpc-client.ts';
import { MESSAGE_HEADERS } from '../rpc-request.ts';
import { NotificationStream, type NotificationStreamOptions } from './notification-stream.ts';

const WAIT = { timeout: 10_000, interval: 5 };
const NOTICE = '{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}';

let upstream: RawUpstream;
let transport: UpstreamTransport;
let stream: NotificationStream | undefined;
let heard: string[];
beforeEach(async () => {
  upstream = await startRawUpstream({ eras: ['legacy'] });
  transport = createTransport(upstream.url);
  heard = [];
});
afterEach(async () => {
  stream?.close();
  await transport.destroy();
  await upstream.close();
});

/** Opens a session and its stream; `heard` records the callbacks. `take` is the result of `onMessage`. */
async function open(options: NotificationStreamOptions = {}, take: (text: string) => boolean = () => true) {
  const session = await openLegacy({ transport, capabilities: {}, clientInfo: {} });
  stream = new NotificationStream(
    transport,
    session,
    [...MESSAGE_HEADERS, 'x-tenant', 'a'],
    {
      onMessage: (text) => {
        heard.push(text);
        return take(text);
      },
      onOpen: (gap) => heard.push(gap ? 'open with a gap' : 'open'),
      onSessionLost: () => heard.push('lost'),
      onUnavailable: () => heard.push('unavailable'),
    },
    { firstMs: 10, ...options },
  );
  return { stream, sessionId: session.sessionId };
}

async function hears(...expected: string[]): Promise<void> {
  await expect.poll(() => heard, WAIT).toEqual(expected);
}

const gets = () => upstream.seen.filter(({ http }) => http === 'GET');

it('messages are delivered with their exact text, arrays split', async () => {
  const { sessionId } = await open();
  await hears('open');
  const [get] = gets();
  expect(get?.headers).toMatchObject({ accept: 'text/event-stream', 'mcp-session-id': sessionId, 'x-tenant': 'a' });
  expect(get?.headers['content-type']).toBeUndefined();
  upstream.push('{"method":"a",  "params":{"big":9223372036854775807}}');
  upstream.push('[{"method":"b"}, 7,{"id":1.0}]');
  upstream.push('not JSON');
  upstream.push('{"method":"c"}');
  await hears('open', '{"method":"a",  "params":{"big":9223372036854775807}}', '{"method":"b"}', '{"method":"c"}');
});

it('a stream that ends is reopened after the upstream’s retry time from the last event id', async () => {
  await open({ firstMs: 600_000, random: () => 0 });
  await hears('open');
  upstream.push(NOTICE, { id: 'e-7', retry: 120 });
  await hears('open', NOTICE);
  const endedAt = performance.now();
  upstream.endStreams();
  await hears('open', NOTICE, 'open');
  expect(performance.now() - endedAt).toBeGreaterThanOrEqual(119);
  expect(gets()[1]?.headers['last-event-id']).toBe('e-7');
});

it('a stream without event ids is reopened with a gap', async () => {
  await open();
  await hears('open');
  upstream.endStreams();
  await hears('open', 'open with a gap');
  upstream.push(NOTICE, { id: 'e-1' });
  upstream.push(NOTICE, { id: '' });
  await hears('open', 'open with a gap', NOTICE, NOTICE);
  upstream.endStreams();
  await hears('open', 'open with a gap', NOTICE, NOTICE, 'open with a gap');
  expect(gets()[2]?.headers['last-event-id']).toBeUndefined();
});

it('an event id that the upstream rejects, or that is not a valid header value, is dropped', async () => {
  upstream.scripts.GET = ({ headers }) =>
    headers['last-event-id'] === undefined
      ? { kind: 'broken stream', bytes: 'id: e-1\ndata: {"method":"a"}\n\n' }
      : { kind: 'error', status: 400, text: '{"code":-32000,"message":"Invalid event ID format"}' };
  await open();
  await expect
    .poll(() => heard.slice(0, 4), WAIT)
    .toEqual(['open', '{"method":"a"}', 'open with a gap', '{"method":"a"}']);
  stream?.close();
  upstream.scripts.GET = { kind: 'broken stream', bytes: 'id: naïve ☃\ndata: {"method":"a"}\n\n' };
  heard = [];
  await open();
  await expect.poll(() => heard.slice(0, 3), WAIT).toEqual(['open', '{"method":"a"}', 'open with a gap']);
});

it.each([405, 501, 200])('an upstream that responds %i has no stream and is not retried', async (status) => {
  upstream.scripts.GET = { kind: 'http', status, type: 'text/plain', body: 'no' };
  await open({ firstMs: 1 });
  await hears('unavailable');
  await transport.close();
  expect(gets()).toHaveLength(1);
});

it.each([503, 429, 409, 408, 401, 403])(
  'an upstream that answers %i is retried, and a later stream has a gap',
  async (status) => {
    upstream.scripts.GET = { kind: 'http', status, type: 'text/plain', body: 'later' };
    await open();
    await expect.poll(() => gets().length, WAIT).toBeGreaterThan(2);
    delete upstream.scripts.GET;
    await hears('open with a gap');
  },
);

it('a temporary error is retried from the same event id', async () => {
  const rejections = [403, 429, 503];
  upstream.scripts.GET = ({ headers }) => {
    if (headers['last-event-id'] === undefined)
      return { kind: 'broken stream', bytes: 'id: e-1\ndata: {"method":"a"}\n\n' };
    const status = rejections.shift();
    if (status === undefined) return { kind: 'http', status: 405, type: 'text/plain', body: 'no' };
    return { kind: 'http', status, type: 'text/plain', body: 'later' };
  };
  await open();
  await expect.poll(() => gets().length, WAIT).toBeGreaterThan(4);
  const ids = gets().map(({ headers }) => headers['last-event-id']);
  expect(ids.slice(0, 5)).toEqual([undefined, 'e-1', 'e-1', 'e-1', 'e-1']);
});

it('an event without data sets event id and retry time', async () => {
  upstream.scripts.GET = ({ headers }) =>
    headers['last-event-id'] === undefined
      ? { kind: 'broken stream', bytes: 'id: e-9\nretry: 60\n\n' }
      : { kind: 'http', status: 405, type: 'text/plain', body: 'no' };
  await open({ firstMs: 600_000 });
  await expect.poll(() => gets().length, WAIT).toBeGreaterThan(1);
  expect(gets()[1]?.headers['last-event-id']).toBe('e-9');
});

it('a restarted upstream is reached again and has lost the session', async () => {
  await open();
  await hears('open');
  await upstream.down();
  await expect(openLegacy({ transport, capabilities: {}, clientInfo: {} })).rejects.toMatchObject({ kind: 'refused' });
  await upstream.up();
  await hears('open', 'lost');
});

it('the reference server’s 400 is recognized as a lost session', async () => {
  const text = '{"code":-32000,"message":"Bad Request: No valid session ID provided"}';
  upstream.scripts.GET = { kind: 'error', status: 400, text };
  upstream.scripts.ping = upstream.scripts.GET;
  await open();
  await hears('lost');
});

describe('an upstream that answers 404', () => {
  const NOT_FOUND: ScriptedResponse = { kind: 'http', status: 404, type: 'text/plain', body: '' };

  it('in a session that it knows has no stream and is not retried', async () => {
    upstream.scripts.GET = NOT_FOUND;
    await open({ firstMs: 1 });
    await hears('unavailable');
    await transport.close();
    expect([gets().length, upstream.count('ping')]).toEqual([1, 1]);
  });

  it('is retried if it cannot be determined whether it knows the session', async () => {
    upstream.scripts.GET = NOT_FOUND;
    upstream.scripts.ping = { kind: 'http', status: 503, type: 'text/plain', body: '' };
    await open();
    await expect.poll(() => upstream.count('ping'), WAIT).toBeGreaterThan(1);
    delete upstream.scripts.GET;
    await hears('open with a gap');
  });

  it('is not retried after the stream was closed', async () => {
    const answer = Promise.withResolvers<ScriptedResponse>();
    upstream.scripts.GET = NOT_FOUND;
    upstream.scripts.ping = () => answer.promise;
    const { stream } = await open();
    await expect.poll(() => upstream.count('ping'), WAIT).toBe(1);
    stream.close();
    answer.resolve(NOT_FOUND);
    await transport.close();
    expect([heard, gets().length]).toEqual([[], 1]);
  });
});

it('server requests are answered by default on demand', async () => {
  const { stream, sessionId } = await open();
  stream.respondByDefault('{"jsonrpc":"2.0","id":1.0,"method":"ping"}', 'ping');
  stream.respondByDefault('{"jsonrpc":"2.0","id":"é","method":"roots/list"}', 'roots/list');
  const answers = () => upstream.seen.filter(({ http, method }) => http === 'POST' && method === undefined);
  await expect.poll(() => answers().length, WAIT).toBe(2);
  expect(answers().every(({ headers }) => headers['mcp-session-id'] === sessionId && headers['x-tenant'] === 'a')).toBe(
    true,
  );
});

it('a slow reader gets no more messages until it resumes, and loses none', async () => {
  const { stream } = await open({}, () => false);
  await hears('open');
  const large = `{"method":"${'x'.repeat(256 * 1024)}"}`;
  const count = 64;
  for (let pushed = 0; pushed < count; pushed++) upstream.push(large);
  await expect.poll(() => heard.length, WAIT).toBe(2);
  // The socket buffers hold only a small part of it.
  expect(upstream.unread()).toBeGreaterThan(large.length);
  const resuming = setInterval(() => stream.resume(), 1);
  onTestFinished(() => clearInterval(resuming));
  await expect.poll(() => heard.length, WAIT).toBe(1 + count);
  expect(upstream.unread()).toBe(0);
});

it('a stream that ends while the reader is paused is reopened only on resume', async () => {
  const body = `id: 1\ndata: ${NOTICE}\n\ndata: ${'x'.repeat(2_000)}\n\n`;
  upstream.scripts.GET = { kind: 'http', status: 200, type: 'text/event-stream', body };
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
  try {
    // Called when the delay is chosen.
    const random = vi.fn(() => 0);
    const { stream } = await open({ maxEventBytes: 1_000, firstMs: 60_000, random }, () => false);
    await vi.waitFor(() => expect(random).toHaveBeenCalled(), WAIT);
    delete upstream.scripts.GET;
    vi.advanceTimersByTime(60_000);
    await openLegacy({ transport, capabilities: {}, clientInfo: {} });
    expect(gets()).toHaveLength(1);
    stream.resume();
    await vi.waitFor(() => expect(heard).toEqual(['open', NOTICE, 'open with a gap']), WAIT);
  } finally {
    vi.useRealTimers();
  }
});

it('a reader may resume during the callback', async () => {
  await open({}, () => {
    stream?.resume();
    return false;
  });
  await hears('open');
  upstream.push(NOTICE);
  await hears('open', NOTICE);
  upstream.push(NOTICE);
  await hears('open', NOTICE, NOTICE);
});

it('an event over the limit closes the connection and is not requested again', async () => {
  await open({ maxEventBytes: 1_000 });
  await hears('open');
  upstream.push(NOTICE, { id: 'e-1' });
  upstream.push(`{"method":"${'x'.repeat(2_000)}"}`, { id: 'e-2' });
  await hears('open', NOTICE, 'open with a gap');
});

it('a large message is delivered if it can be parsed quickly; else it closes the connection', async () => {
  await open();
  await hears('open');
  const large = `{"jsonrpc":"2.0","method":"notifications/message","params":{"data":"${'x'.repeat(200_000)}"}}`;
  upstream.push(large);
  await hears('open', large);
  upstream.push(`{"jsonrpc":"2.0","method":"notifications/message","params":{"data":[${'[],'.repeat(60_000)}[]]}}`);
  await hears('open', large, 'open with a gap');
});

it('close aborts the request without callbacks', async () => {
  const { stream } = await open();
  await hears('open');
  stream.close();
  await expect.poll(() => upstream.streams(), WAIT).toBe(0);
  expect(gets()[0]?.isDisconnected).toBe(true);
  expect(heard).toEqual(['open']);
});

it('close while waiting to reconnect leaves no timer', async () => {
  upstream.scripts.GET = { kind: 'cut' };
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
  try {
    // Called when the delay is chosen.
    const random = vi.fn(() => 0);
    const { stream } = await open({ random, firstMs: 60_000 });
    await vi.waitFor(() => expect(random).toHaveBeenCalled(), WAIT);
    const before = vi.getTimerCount();
    stream.close();
    expect(vi.getTimerCount()).toBe(before - 1);
  } finally {
    vi.useRealTimers();
  }
  expect(heard).toEqual([]);
});

it('a stream that ends immediately without a message is reopened with increasing delay', async () => {
  const requests: number[] = [];
  upstream.scripts.GET = () => {
    requests.push(performance.now());
    return { kind: 'http', status: 200, type: 'text/event-stream', body: ': bye\n\n' };
  };
  await open({ random: () => 0, firstMs: 2 });
  await expect.poll(() => requests.length, WAIT).toBeGreaterThan(8);
  // 2 ms doubled seven times, less half of it for jitter.
  expect((requests[8] ?? 0) - (requests[7] ?? 0)).toBeGreaterThan(100);
});

it('a stream with a message is reopened at once', async () => {
  const requests: number[] = [];
  upstream.scripts.GET = () => {
    requests.push(performance.now());
    return { kind: 'http', status: 200, type: 'text/event-stream', body: `data: ${NOTICE}\n\n` };
  };
  await open({ random: () => 0 });
  await expect.poll(() => requests.length, WAIT).toBeGreaterThan(20);
});
