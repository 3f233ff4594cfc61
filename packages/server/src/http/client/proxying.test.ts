import { describe, expect, it, vi } from 'vitest';
import { pool, Sent, startUpstream, stopTime } from './pool.fixture.ts';
import { startRawUpstream } from './raw-upstream.fixture.ts';
import { ScriptedBody } from './scripted-body.fixture.ts';

const answer = (body: string) => `HTTP/1.1 200 OK\r\nContent-Length: ${body.length}\r\n\r\n${body}`;

describe('an answer to HEAD', () => {
  it('has no body, and what is taken for one is not the next answer', async () => {
    const head = 'HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n';
    const upstream = await startUpstream((socket, index) => socket.write(index % 2 === 0 ? head : answer('next')));
    const to = pool(upstream);
    for (const _round of [1, 2]) {
      const { log, headers, body } = await new Sent(to, { method: 'HEAD', body: undefined }).done;
      expect(log).toEqual(['dispatched', 'head', 'end']);
      expect({ length: headers['content-length'], body }).toEqual({ length: '5', body: '' });
      expect((await new Sent(to, { method: 'GET', body: undefined }).done).body).toBe('next');
    }
    expect(upstream.requests.map((request) => request.split(' ')[0])).toEqual(['HEAD', 'GET', 'HEAD', 'GET']);
  });

  it('leaves its connection to the next request when it announces nothing', async () => {
    const upstream = await startUpstream((socket, index) =>
      socket.write(index === 0 ? 'HTTP/1.1 200 OK\r\n\r\n' : answer('next')),
    );
    const to = pool(upstream);
    expect((await new Sent(to, { method: 'HEAD', body: undefined }).done).log.at(-1)).toBe('end');
    expect((await new Sent(to).done).body).toBe('next');
    expect(upstream.sockets).toHaveLength(1);
  });
});

describe('a redirect', () => {
  it.each([300, 301, 302, 303, 307, 308])('is handed on when the caller passes redirects (%i)', async (status) => {
    const text = `HTTP/1.1 ${status} Moved\r\nLocation: /elsewhere\r\nContent-Length: 5\r\n\r\nmoved`;
    const upstream = await startUpstream((socket) => socket.write(text));
    const to = pool(upstream, { redirects: 'pass' });
    const sent = await new Sent(to).done;
    expect(sent).toMatchObject({ status, reason: 'Moved', headers: { location: '/elsewhere' }, body: 'moved' });
    await new Sent(to).done;
    expect(upstream.sockets).toHaveLength(1);
    expect((await new Sent(pool(upstream, { redirects: 'refuse' })).done).error).toMatchObject({ kind: 'redirect' });
    expect((await new Sent(pool(upstream)).done).error).toMatchObject({ kind: 'redirect', status });
  });
});

describe('the time to the first byte of the answer', () => {
  const passed = (port: number) => ({
    kind: 'timeout',
    message: `upstream http://127.0.0.1:${port}/mcp began no answer within 0.08 s`,
  });

  it('ends a request that is not answered, and its connection', async () => {
    stopTime();
    const upstream = await startUpstream((socket, index) => index > 0 && socket.write(answer('next')));
    const to = pool(upstream, { firstByteTimeoutMs: 80 });
    const sent = new Sent(to);
    await upstream.requested(1);
    vi.advanceTimersByTime(79);
    expect(sent.log).toEqual(['dispatched']);
    vi.advanceTimersByTime(1);
    const { error, log } = await sent.done;
    expect(error).toMatchObject(passed(upstream.port));
    expect(log).toEqual(['dispatched', 'error']);
    await upstream.closed(0);
    expect((await new Sent(to).done).body).toBe('next');
  });

  it('is not over because of an interim answer', async () => {
    const upstream = await startUpstream((socket) => socket.write('HTTP/1.1 103 Hints\r\n\r\n'));
    const { error } = await new Sent(pool(upstream, { firstByteTimeoutMs: 80 })).done;
    expect(error).toMatchObject(passed(upstream.port));
  });

  it('says nothing about the rest of the answer, or about the next request', async () => {
    stopTime();
    let more = () => {};
    const upstream = await startUpstream((socket, index) => {
      if (index > 0) return void socket.write(answer('next'));
      socket.write('H');
      more = () => void socket.write(answer('late').slice(1));
    });
    const to = pool(upstream, { firstByteTimeoutMs: 80 });
    const slow = new Sent(to);
    await upstream.requested(1);
    // Until the first byte is there.
    while (vi.getTimerCount() > 0) await new Promise(setImmediate);
    vi.advanceTimersByTime(160);
    more();
    expect((await slow.done).body).toBe('late');
    expect((await new Sent(to).done).body).toBe('next');
    vi.advanceTimersByTime(160);
    expect((await new Sent(to).done).body).toBe('next');
    expect(upstream.sockets).toHaveLength(1);
  });

  it('is forgotten when the request is over', async () => {
    stopTime();
    const upstream = await startUpstream((socket, index) => index > 0 && socket.write(answer('ok')));
    // A connection that is kept would have a timer of its own.
    const to = pool(upstream, { firstByteTimeoutMs: 60_000, keepAliveMs: 0 });
    const aborted = new Sent(to);
    await upstream.requested(1);
    expect(vi.getTimerCount()).toBe(1);
    aborted.call.abort();
    expect(vi.getTimerCount()).toBe(0);
    await new Sent(to).done;
    expect(vi.getTimerCount()).toBe(0);
  });

  it('begins when the body is sent, whenever its pieces come', async () => {
    stopTime();
    const upstream = await startUpstream(() => undefined);
    const body = new ScriptedBody(undefined);
    const sent = new Sent(pool(upstream, { firstByteTimeoutMs: 80 }), { body });
    const sink = await body.sink;
    for (let n = 0; n < 2; n++) {
      sink.write(Buffer.from('a'));
      vi.advanceTimersByTime(100);
    }
    sink.end();
    vi.advanceTimersByTime(79);
    expect(sent.log).toEqual(['dispatched']);
    vi.advanceTimersByTime(1);
    expect((await sent.done).error).toMatchObject(passed(upstream.port));
    expect(body.log).toEqual(['start']);
  });

  it('is also the longest that an upstream may take no more of the body', async () => {
    const upstream = await startRawUpstream();
    const body = new ScriptedBody(undefined);
    const sent = new Sent(pool(upstream, { firstByteTimeoutMs: 80 }), { body });
    await body.pump(1024 * 1024 * 1024);
    expect((await sent.done).error).toMatchObject(passed(upstream.port));
    expect(body.log.at(-1)).toBe('stop');
  });

  it('is not counted any longer when it has taken more', async () => {
    stopTime();
    const upstream = await startRawUpstream();
    const body = new ScriptedBody(undefined);
    const sent = new Sent(pool(upstream, { firstByteTimeoutMs: 200 }), { body });
    const sink = await body.sink;
    const socket = await upstream.first;
    while (sink.write(Buffer.alloc(64 * 1024)));
    socket.on('data', () => undefined).resume();
    while (!body.log.includes('resume')) await new Promise(setImmediate);
    vi.advanceTimersByTime(300);
    expect(sent.log).toEqual(['dispatched']);
    sent.call.abort();
  });

  it('is not counted from the end of the body when the answer has begun before', async () => {
    stopTime();
    const upstream = await startUpstream(() => undefined);
    const body = new ScriptedBody(undefined);
    const sent = new Sent(pool(upstream, { firstByteTimeoutMs: 80 }), { body });
    const sink = await body.sink;
    sink.write(Buffer.from('a'));
    while (upstream.sockets.length === 0) await new Promise(setImmediate);
    upstream.sockets[0]?.write('HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\na');
    while (sent.body === '') await new Promise(setImmediate);
    sink.end();
    vi.advanceTimersByTime(160);
    upstream.sockets[0]?.write('b');
    expect(await sent.done).toMatchObject({ body: 'ab', error: undefined });
  });
});
