import { describe, expect, it, vi } from 'vitest';
import { pool, Sent, startUpstream, stopTime } from './pool.fixture.ts';
import { startRawUpstream } from './raw-upstream.fixture.ts';
import { ScriptedBody } from './scripted-body.fixture.ts';

const okResponse = (body: string) => `HTTP/1.1 200 OK\r\nContent-Length: ${body.length}\r\n\r\n${body}`;

describe('a response to HEAD', () => {
  it('has no body, and bytes after it are not parsed as the next response', async () => {
    const head = 'HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n';
    const upstream = await startUpstream((socket, index) => socket.write(index % 2 === 0 ? head : okResponse('next')));
    const to = pool(upstream);
    for (const _round of [1, 2]) {
      const { log, headers, body } = await new Sent(to, { method: 'HEAD', body: undefined }).done;
      expect(log).toEqual(['dispatched', 'head', 'end']);
      expect({ length: headers['content-length'], body }).toEqual({ length: '5', body: '' });
      expect((await new Sent(to, { method: 'GET', body: undefined }).done).body).toBe('next');
    }
    expect(upstream.requests.map((request) => request.split(' ')[0])).toEqual(['HEAD', 'GET', 'HEAD', 'GET']);
  });

  it('allows reuse of its connection if it declares no body', async () => {
    const upstream = await startUpstream((socket, index) =>
      socket.write(index === 0 ? 'HTTP/1.1 200 OK\r\n\r\n' : okResponse('next')),
    );
    const to = pool(upstream);
    expect((await new Sent(to, { method: 'HEAD', body: undefined }).done).log.at(-1)).toBe('end');
    expect((await new Sent(to).done).body).toBe('next');
    expect(upstream.sockets).toHaveLength(1);
  });
});

describe('a redirect', () => {
  it.each([300, 301, 302, 303, 307, 308])('is passed on if the transport passes redirects (%i)', async (status) => {
    const text = `HTTP/1.1 ${status} Moved\r\nLocation: /elsewhere\r\nContent-Length: 5\r\n\r\nmoved`;
    const upstream = await startUpstream((socket) => socket.write(text));
    const to = pool(upstream, { redirects: 'pass' });
    const sent = await new Sent(to).done;
    expect(sent).toMatchObject({ status, reason: 'Moved', headers: { location: '/elsewhere' }, body: 'moved' });
    await new Sent(to).done;
    expect(upstream.sockets).toHaveLength(1);
    expect((await new Sent(pool(upstream)).done).error).toMatchObject({ kind: 'redirect', status });
  });
});

describe('the first-byte timeout', () => {
  const passed = (port: number) => ({
    kind: 'timeout',
    message: `upstream http://127.0.0.1:${port}/mcp did not respond within 0.08 s`,
  });

  it('fails a request without a response and closes its connection', async () => {
    stopTime();
    const upstream = await startUpstream((socket, index) => index > 0 && socket.write(okResponse('next')));
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

  it('is not ended by an interim response', async () => {
    const upstream = await startUpstream((socket) => socket.write('HTTP/1.1 103 Hints\r\n\r\n'));
    const { error } = await new Sent(pool(upstream, { firstByteTimeoutMs: 80 })).done;
    expect(error).toMatchObject(passed(upstream.port));
  });

  it('does not limit the rest of the response or the next request', async () => {
    stopTime();
    let more = () => {};
    const upstream = await startUpstream((socket, index) => {
      if (index > 0) return void socket.write(okResponse('next'));
      socket.write('H');
      more = () => void socket.write(okResponse('late').slice(1));
    });
    const to = pool(upstream, { firstByteTimeoutMs: 80 });
    const slow = new Sent(to);
    await upstream.requested(1);
    // Until the first byte has arrived.
    while (vi.getTimerCount() > 0) await new Promise(setImmediate);
    vi.advanceTimersByTime(160);
    more();
    expect((await slow.done).body).toBe('late');
    expect((await new Sent(to).done).body).toBe('next');
    vi.advanceTimersByTime(160);
    expect((await new Sent(to).done).body).toBe('next');
    expect(upstream.sockets).toHaveLength(1);
  });

  it('is cleared at the end of the request', async () => {
    stopTime();
    const upstream = await startUpstream((socket, index) => index > 0 && socket.write(okResponse('ok')));
    // A pooled connection would have its own timer.
    const to = pool(upstream, { firstByteTimeoutMs: 60_000, keepAliveMs: 0 });
    const aborted = new Sent(to);
    await upstream.requested(1);
    expect(vi.getTimerCount()).toBe(1);
    aborted.call.abort();
    expect(vi.getTimerCount()).toBe(0);
    await new Sent(to).done;
    expect(vi.getTimerCount()).toBe(0);
  });

  it('starts when the body is sent', async () => {
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

  it('also limits the time in which an upstream does not read the body', async () => {
    const upstream = await startRawUpstream();
    const body = new ScriptedBody(undefined);
    const sent = new Sent(pool(upstream, { firstByteTimeoutMs: 80 }), { body });
    await body.pump(1024 * 1024 * 1024);
    expect((await sent.done).error).toMatchObject(passed(upstream.port));
    expect(body.log.at(-1)).toBe('stop');
  });

  it('is paused when the upstream continues to read', async () => {
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

  it('does not start at the end of the body if the response has begun', async () => {
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
