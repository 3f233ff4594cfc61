import type { Socket } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { getCACertificates, setDefaultCACertificates, TLSSocket } from 'node:tls';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { localhostCertificate } from './certificate.fixture.ts';
import { pool, Sent, startUpstream, stopTime } from './pool.fixture.ts';

const OK = 'HTTP/1.1 200 OK\r\n';
const answer = (body: string, headers = '') => `${OK}${headers}Content-Length: ${body.length}\r\n\r\n${body}`;
const chunk = (text: string) => `${text.length.toString(16)}\r\n${text}\r\n`;
const always = (text: string) => (socket: Socket) => socket.write(text, 'latin1');

describe('Http1Pool', () => {
  it('puts an answer together that comes byte by byte', async () => {
    const text = `${OK}Transfer-Encoding: chunked\r\nX: \xe9\r\n\r\n${chunk('abc')}${chunk('de\r\n')}0\r\nT: 1\r\n\r\n`;
    const upstream = await startUpstream(async (socket) => {
      socket.setNoDelay(true);
      for (const byte of text) {
        socket.write(byte, 'latin1');
        await new Promise(setImmediate);
      }
    });
    const to = pool(upstream);
    for (let n = 0; n < 2; n++) {
      const { status, headers, body, error } = await new Sent(to).done;
      expect({ status, x: headers.x, body, error }).toEqual({
        status: 200,
        x: '\xe9',
        body: 'abcde\r\n',
        error: undefined,
      });
    }
    expect(upstream.sockets).toHaveLength(1);
  });

  it('hands on bodies that are larger than what is read at once', async () => {
    const body = Array.from({ length: 100_000 }, (_, n) => String.fromCharCode(n % 251)).join('');
    const upstream = await startUpstream((socket, index) => {
      const half = body.length / 2;
      const chunked = `${OK}Transfer-Encoding: chunked\r\n\r\n${chunk(body.slice(0, half))}${chunk(body.slice(half))}0\r\n\r\n`;
      socket.write(index === 0 ? answer(body) : chunked, 'latin1');
    });
    const to = pool(upstream);
    expect((await new Sent(to).done).body === body).toBe(true);
    expect((await new Sent(to, { body }).done).body === body).toBe(true);
    expect(upstream.requests[1]?.endsWith(Buffer.from(body).toString('latin1'))).toBe(true);
    expect((await new Sent(to, { body: Buffer.from(body, 'latin1') }).done).body === body).toBe(true);
    expect(upstream.requests[2]?.endsWith(body)).toBe(true);
  });

  it('hands out pieces that stay as they are', async () => {
    const upstream = await startUpstream(async (socket) => {
      for (const text of [`${OK}Content-Length: 4\r\n\r\n`, 'aa', 'bb']) {
        socket.write(text);
        await delay(5);
      }
    });
    const pieces: Buffer[] = [];
    const ended = Promise.withResolvers<void>();
    pool(upstream).dispatch(
      { method: 'GET', headers: [] },
      { onHead() {}, onData: (piece) => pieces.push(piece) > 0, onEnd: ended.resolve, onError: ended.reject },
    );
    await ended.promise;
    expect(Buffer.concat(pieces).toString()).toBe('aabb');
  });

  it('sends one request at a time on a connection and uses the one first that was used last', async () => {
    const held: Socket[] = [];
    const upstream = await startUpstream((socket, index) => (index < 3 ? held.push(socket) : socket.write(answer(''))));
    const to = pool(upstream);
    const calls = [new Sent(to), new Sent(to), new Sent(to)];
    await upstream.requested(3);
    expect(upstream.sockets).toHaveLength(3);
    for (const [index, socket] of held.entries()) {
      socket.write(answer(String(index)));
      // Which call is on which connection is not decided: wait for the one that this answers.
      await Promise.race(calls.filter(({ log }) => !log.includes('end')).map(({ done }) => done));
    }
    expect(calls.map(({ body }) => body).sort()).toEqual(['0', '1', '2']);
    const used: Socket[] = [];
    for (const socket of held) socket.on('data', () => used.push(socket));
    for (let n = 0; n < 3; n++) await new Sent(to).done;
    expect(used).toEqual([held[2], held[2], held[2]]);
    expect(upstream.sockets).toHaveLength(3);
  });

  it('calls nothing back before dispatch has returned', async () => {
    const upstream = await startUpstream(always(answer('a')));
    const to = pool(upstream);
    await new Sent(to).done;
    const calls = [new Sent(to), new Sent(to, { headers: ['x', '\n'] }), new Sent(to, { path: 'x' })];
    await to.close();
    calls.push(new Sent(to));
    for (const { done } of calls) expect((await done).log[0]).toBe('dispatched');
    expect(calls.map(({ error }) => error?.kind)).toEqual([undefined, 'invalid', 'invalid', 'aborted']);
    expect(upstream.requests).toHaveLength(2);
  });

  it.each([
    ['says goodbye', answer('a', 'Connection: close\r\n')],
    ['is of version 1.0', answer('a').replace('1.1', '1.0')],
    ['announces less than the margin', answer('a', 'Keep-Alive: timeout=1\r\n')],
    ['is of a length that is not to come', `HTTP/1.1 304 Not Modified\r\nContent-Length: 1\r\n\r\n`],
    ['has a body where none may be', `HTTP/1.1 204 No Content\r\nContent-Length: 1\r\n\r\na`],
    ['is followed by a byte', `${answer('a')}x`],
    ['is followed by another answer', `${answer('a')}${answer('b')}`],
    ['is followed by CR LF', `${answer('a')}\r\n`],
  ])('gives up a connection on which an answer %s', async (_what, text) => {
    const upstream = await startUpstream((socket, index) => socket.write(index === 0 ? text : answer('next')));
    const to = pool(upstream);
    const first = await new Sent(to).done;
    expect(first.log.at(-1)).toBe('end');
    expect(first.body.length).toBeLessThan(2);
    await upstream.closed(0);
    expect((await new Sent(to).done).body).toBe('next');
    expect(upstream.sockets).toHaveLength(2);
  });

  it('gives up a connection whose request was answered before it was sent', async () => {
    const upstream = await startUpstream(() => undefined);
    const to = pool(upstream);
    const call = new Sent(to, { body: 'x'.repeat(64 * 1024 * 1024) });
    while (upstream.sockets.length === 0) await new Promise(setImmediate);
    upstream.sockets[0]?.pause().write(answer('too much'));
    expect((await call.done).body).toBe('too much');
    upstream.sockets[0]?.resume();
    await upstream.closed(0);
    expect(upstream.requests).toHaveLength(0);
  });

  it('takes no answer that nobody has asked for, even if it comes when the next request is made', async () => {
    const upstream = await startUpstream(always(answer('right')));
    const to = pool(upstream);
    await new Sent(to).done;
    await delay(1);
    // Both in one turn of the event loop, and time for the bytes to arrive: the client has had no chance to read them.
    upstream.sockets[0]?.write(answer('wrong'));
    for (const until = performance.now() + 20; performance.now() < until; );
    expect((await new Sent(to).done).body).toBe('right');
    expect(upstream.sockets).toHaveLength(2);
    await upstream.closed(0);
  });

  it('makes a new connection when the idle one was closed', async () => {
    const upstream = await startUpstream(always(answer('a')));
    const to = pool(upstream);
    for (const end of ['end', 'destroy', 'resetAndDestroy'] as const) {
      await new Sent(to).done;
      const last = upstream.sockets.length - 1;
      upstream.sockets[last]?.[end]();
      await upstream.closed(last);
    }
    const { body, error } = await new Sent(to).done;
    expect({ body, error }).toEqual({ body: 'a', error: undefined });
    expect(upstream.sockets).toHaveLength(4);
  });

  it.each(['end', 'resetAndDestroy'] as const)('never sends a request again (%s)', async (end) => {
    const upstream = await startUpstream((socket, index) => (index === 0 ? socket.write(answer('a')) : socket[end]()));
    const to = pool(upstream);
    await new Sent(to).done;
    expect((await new Sent(to).done).error).toMatchObject({ kind: 'dropped' });
    expect(upstream.requests).toHaveLength(2);
    expect(upstream.sockets).toHaveLength(1);
  });

  it.each([
    ['its own time', { keepAliveMs: 60 }, '', 60],
    ['what the upstream announces', { keepAliveMs: 10 }, 'Keep-Alive: timeout=2\r\n', 1_000],
  ])('closes a connection that was idle for %s', async (_what, options, headers, idleMs) => {
    stopTime();
    const upstream = await startUpstream(always(answer('a', headers)));
    const [used, left] = [pool(upstream, options), pool(upstream, options)];
    await new Sent(used).done;
    vi.advanceTimersByTime(idleMs - 1);
    await new Sent(used).done;
    expect(upstream.sockets).toHaveLength(1);
    await new Sent(left).done;
    vi.advanceTimersByTime(idleMs);
    await upstream.closed(1);
  });

  it('does not use a connection whose time is over although it was not closed yet', async () => {
    const upstream = await startUpstream(always(answer('a')));
    const to = pool(upstream, { keepAliveMs: 30 });
    await new Sent(to).done;
    for (const until = performance.now() + 40; performance.now() < until; );
    await new Sent(to).done;
    expect(upstream.sockets).toHaveLength(2);
  });

  it('counts the connect time only until the connection stands', async () => {
    stopTime();
    const upstream = await startUpstream(() => undefined);
    const sent = new Sent(pool(upstream, { connectTimeoutMs: 40 }));
    await upstream.requested(1);
    vi.advanceTimersByTime(80);
    upstream.sockets[0]?.write(answer('late'));
    expect((await sent.done).body).toBe('late');
  });

  it('sends no more to a handler that wants no more, not even of what was read, and no end', async () => {
    const text = `${OK}Transfer-Encoding: chunked\r\n\r\n${chunk('a')}${chunk('b')}${chunk('c')}0\r\n\r\n`;
    const upstream = await startUpstream(always(text));
    const to = pool(upstream);
    const call = new Sent(to, {}, (event) => (event === 'data' ? false : undefined));
    for (const body of ['a', 'ab', 'abc']) {
      while (call.body !== body) await new Promise(setImmediate);
      await delay(5);
      expect(call.body).toBe(body);
      expect(call.log).not.toContain('end');
      call.call.resume();
    }
    await call.done;
    expect((await new Sent(to).done).body).toBe('abc');
    expect(upstream.sockets).toHaveLength(1);
  });

  it('tells the end late to a handler that wanted no more after the last piece', async () => {
    const upstream = await startUpstream(always(answer('a')));
    const to = pool(upstream);
    for (let n = 0; n < 2; n++) {
      const call = new Sent(to, {}, (event) => (event === 'data' ? false : undefined));
      while (call.body === '') await new Promise(setImmediate);
      expect(call.log.at(-1)).toBe('data');
      call.call.resume();
      expect((await call.done).log.at(-1)).toBe('end');
    }
    upstream.sockets[0]?.end();
    await upstream.closed(0);
    await new Sent(to).done.then(({ error }) => expect(error).toBeUndefined());
    expect(upstream.sockets).toHaveLength(2);
  });

  it('finds what follows an answer after it has let the handler wait', async () => {
    const upstream = await startUpstream(always(`${answer('a')}${answer('b')}`));
    const to = pool(upstream);
    const call = new Sent(to, {}, (event) => (event === 'data' ? false : undefined));
    while (call.body === '') await new Promise(setImmediate);
    call.call.resume();
    expect((await call.done).log).toEqual(['dispatched', 'head', 'data', 'end']);
    await upstream.closed(0);
  });

  it('fails a call that waits when its connection breaks', async () => {
    const upstream = await startUpstream(always(`${OK}Content-Length: 2\r\n\r\na`));
    const call = new Sent(pool(upstream), {}, (event) => (event === 'data' ? false : undefined));
    while (call.body === '') await new Promise(setImmediate);
    upstream.sockets[0]?.resetAndDestroy();
    call.call.resume();
    expect((await call.done).error).toMatchObject({ kind: 'dropped' });
  });

  it.each(['head', 'data'])(
    'calls nothing back after an abort inside %s, and uses the connection no more',
    async (when) => {
      const upstream = await startUpstream((socket, index) => {
        const first = `${OK}Transfer-Encoding: chunked\r\n\r\n${chunk('a')}${chunk('b')}0\r\n\r\n`;
        socket.write(index === 0 ? first : answer('next'));
      });
      const to = pool(upstream);
      const call = new Sent(to, {}, (event, sent) => {
        if (event === when) sent.call.abort();
        return true;
      });
      await upstream.closed(0);
      expect((await new Sent(to).done).body).toBe('next');
      expect(call.log.at(-1)).toBe(when);
      call.call.resume();
      call.call.abort();
      expect(upstream.sockets).toHaveLength(2);
    },
  );

  it('does nothing for an abort after the end', async () => {
    const upstream = await startUpstream(always(answer('a')));
    const to = pool(upstream);
    const { call } = await new Sent(to).done;
    call.abort();
    call.resume();
    await new Sent(to).done;
    call.abort();
    await new Sent(to).done;
    expect(upstream.sockets).toHaveLength(1);
  });

  it('takes a request from inside a callback', async () => {
    const upstream = await startUpstream(always(answer('a')));
    const to = pool(upstream);
    const inner: Sent[] = [];
    const outer = new Sent(to, {}, (event) => {
      inner.push(new Sent(to, { path: `/${event}` }));
      return true;
    });
    await outer.done;
    for (const { done } of inner) expect((await done).body).toBe('a');
    expect(inner).toHaveLength(3);
  });

  it.each([
    ['an answer with two lengths', `${OK}Content-Length: 1\r\nContent-Length: 2\r\n\r\na`, 'invalid'],
    ['a change of protocol', 'HTTP/1.1 101 Switching\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n', 'invalid'],
    ['a broken chunk after a good one', `${OK}Transfer-Encoding: chunked\r\n\r\n${chunk('a')}x\r\n`, 'invalid'],
    ['too large a head', `${OK}X: ${'x'.repeat(17_000)}`, 'too-large'],
    ['a redirect', 'HTTP/1.1 302 Found\r\nLocation: /elsewhere\r\nContent-Length: 0\r\n\r\n', 'redirect'],
  ])('closes the connection after %s, and later calls are none the worse', async (_what, text, kind) => {
    const upstream = await startUpstream((socket, index) => socket.write(index === 0 ? text : answer('next')));
    const to = pool(upstream);
    const { error, log } = await new Sent(to).done;
    expect(error).toMatchObject({ kind, address: `http://127.0.0.1:${upstream.port}/mcp` });
    expect(log.filter((event) => event === 'error')).toHaveLength(1);
    await upstream.closed(0);
    expect((await new Sent(to).done).body).toBe('next');
  });

  it('close sends what was dispatched, lets it end, and closes idle connections', async () => {
    const upstream = await startUpstream((socket, index) => index === 0 && socket.write(answer('a')));
    const to = pool(upstream);
    await new Sent(to).done;
    const calls = [new Sent(to), new Sent(to)];
    let closed = false;
    const closing = Promise.all([to.close(), to.close()]).then(() => {
      closed = true;
    });
    await upstream.closed(0);
    await upstream.requested(3);
    expect(closed).toBe(false);
    for (const socket of upstream.sockets.slice(1)) socket.write(answer('b'));
    for (const { done } of calls) expect((await done).body).toBe('b');
    await closing;
    await Promise.all([upstream.closed(1), upstream.closed(2)]);
    await to.destroy();

    const fresh = pool(upstream);
    const first = new Sent(fresh);
    const firstClosing = fresh.close();
    await upstream.requested(4);
    upstream.sockets[3]?.write(answer('c'));
    await firstClosing;
    expect(first.body).toBe('c');
  });

  it('destroy fails what is under way, wherever it is', async () => {
    const upstream = await startUpstream((socket, index) => {
      socket.write(index === 0 ? answer('a') : `${OK}Content-Length: 9\r\n\r\na`);
    });
    const to = pool(upstream);
    await new Sent(to).done;
    const answered = new Sent(to);
    while (answered.body === '') await new Promise(setImmediate);
    const connecting = new Sent(to);
    await new Promise(setImmediate);
    const waiting = new Sent(to);
    await Promise.all([to.destroy(), to.destroy(), to.close()]);
    for (const { done } of [answered, connecting, waiting, new Sent(to)]) {
      expect((await done).error).toMatchObject({ kind: 'aborted' });
    }
    expect(upstream.requests).toHaveLength(2);
  });

  it('close resolves when nothing was ever sent', async () => {
    const upstream = await startUpstream(() => undefined);
    await pool(upstream).close();
    await pool(upstream).destroy();
  });
});

describe('Http1Pool over TLS', () => {
  const certificates = getCACertificates('default');
  beforeAll(() => setDefaultCACertificates([...certificates, localhostCertificate.cert]));
  afterAll(() => setDefaultCACertificates(certificates));

  it('sends the host name, speaks HTTP/1.1 only, keeps connections and takes sessions up again', async () => {
    const resumed: boolean[] = [];
    const upstream = await startUpstream((socket, index) => {
      if (!(socket instanceof TLSSocket)) expect.unreachable();
      resumed.push(socket.isSessionReused());
      socket.write(answer('x'.repeat(50_000), index === 1 ? 'Connection: close\r\n' : ''));
    }, true);
    const to = pool(upstream, {}, `https://localhost:${upstream.port}/`);
    for (let n = 0; n < 3; n++) expect((await new Sent(to).done).body).toHaveLength(50_000);
    expect(upstream.sockets).toHaveLength(2);
    expect(resumed).toEqual([false, false, true]);
    expect(upstream.sockets[0]).toMatchObject({ servername: 'localhost', alpnProtocol: 'http/1.1' });
  });

  it.each([
    ['in chunks', `Transfer-Encoding: chunked\r\n\r\n`, chunk, '0\r\n\r\n'],
    ['until the end', '\r\n', (text: string) => text, ''],
  ])(
    'waits while the handler wants no more, also after the upstream has left (%s)',
    async (_what, head, part, tail) => {
      const lines = Array.from({ length: 400 }, (_, n) => `${n}${'.'.repeat(500)}`);
      const text = OK + head + lines.map(part).join('') + tail;
      const upstream = await startUpstream((socket) => socket.end(text), true);
      const to = pool(upstream, {}, `https://localhost:${upstream.port}/`);
      for (let n = 0; n < 2; n++) {
        const call = new Sent(to, {}, (event) => (event === 'data' ? false : undefined));
        let pieces = 0;
        while (!call.log.includes('end')) {
          await new Promise(setImmediate);
          const heard = call.log.filter((event) => event === 'data').length;
          expect(heard - pieces).toBeLessThanOrEqual(1);
          expect(call.error).toBeUndefined();
          pieces = heard;
          call.call.resume();
        }
        expect((await call.done).body === lines.join('')).toBe(true);
      }
    },
  );

  it('sends nothing to an upstream whose certificate is for another name', async () => {
    const upstream = await startUpstream(always(answer('a')), true);
    const to = pool(upstream, {}, `https://127.0.0.1:${upstream.port}/`);
    const { error } = await new Sent(to).done;
    expect(error).toMatchObject({ kind: 'refused' });
    expect(error?.message).toContain('could not be connected to (ERR_TLS_CERT_ALTNAME_INVALID');
    expect(upstream.requests).toEqual([]);
  });

  it('sends nothing to an upstream whose certificate is not trusted', async () => {
    setDefaultCACertificates(certificates);
    const upstream = await startUpstream(always(answer('a')), true);
    const { error } = await new Sent(pool(upstream, {}, `https://localhost:${upstream.port}/`)).done;
    expect(error).toMatchObject({ kind: 'refused' });
    expect(error?.message).toContain('could not be connected to (DEPTH_ZERO_SELF_SIGNED_CERT');
    expect(upstream.requests).toEqual([]);
  });
});
