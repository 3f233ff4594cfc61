import type { Socket } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { getCACertificates, setDefaultCACertificates, TLSSocket } from 'node:tls';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { localhostCertificate } from './certificate.fixture.ts';
import { pool, Sent, startUpstream, stopTime } from './pool.fixture.ts';

const OK = 'HTTP/1.1 200 OK\r\n';
const okResponse = (body: string, headers = '') => `${OK}${headers}Content-Length: ${body.length}\r\n\r\n${body}`;
const chunk = (text: string) => `${text.length.toString(16)}\r\n${text}\r\n`;
const always = (text: string) => (socket: Socket) => socket.write(text, 'latin1');

describe('ConnectionPool', () => {
  it('parses a response that arrives byte by byte', async () => {
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

  it('passes on bodies larger than the read buffer', async () => {
    const body = Array.from({ length: 100_000 }, (_, n) => String.fromCharCode(n % 251)).join('');
    const upstream = await startUpstream((socket, index) => {
      const half = body.length / 2;
      const chunked = `${OK}Transfer-Encoding: chunked\r\n\r\n${chunk(body.slice(0, half))}${chunk(body.slice(half))}0\r\n\r\n`;
      socket.write(index === 0 ? okResponse(body) : chunked, 'latin1');
    });
    const to = pool(upstream);
    expect((await new Sent(to).done).body === body).toBe(true);
    expect((await new Sent(to, { body }).done).body === body).toBe(true);
    expect(upstream.requests[1]?.endsWith(Buffer.from(body).toString('latin1'))).toBe(true);
    expect((await new Sent(to, { body: Buffer.from(body, 'latin1') }).done).body === body).toBe(true);
    expect(upstream.requests[2]?.endsWith(body)).toBe(true);
  });

  it('passes on chunks that are not modified later', async () => {
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

  it('passes on a whole body in place, if the handler takes it; others as chunks', async () => {
    const head = `${OK}Content-Length: 4\r\n\r\n`;
    const responses = [
      [`${head}whol`],
      [head, 'late'],
      [`${head}in`, ' 2'],
      [`${OK}Transfer-Encoding: chunked\r\n\r\n${chunk('chnk')}0\r\n\r\n`],
      [`${OK}Content-Length: 0\r\n\r\n`],
    ];
    const upstream = await startUpstream(async (socket, index) => {
      for (const text of responses[index] ?? []) {
        socket.write(text);
        await delay(5);
      }
    });
    const to = pool(upstream);
    const seen: string[] = [];
    for (const _ of responses) {
      const ended = Promise.withResolvers<void>();
      to.dispatch(
        { method: 'GET', headers: [] },
        {
          onHead() {},
          onData: (piece) => seen.push(`data ${piece}`) > 0,
          onWholeBody: (buffer, start, end) => seen.push(`whole ${buffer.toString('utf8', start, end)}`) > 0,
          onEnd: ended.resolve,
          onError: ended.reject,
        },
      );
      await ended.promise;
    }
    expect(seen).toEqual(['whole whol', 'whole late', 'data in', 'data  2', 'whole chnk']);
    expect(upstream.sockets).toHaveLength(1);
  });

  it('does not end a response before its handler has resumed after its whole body', async () => {
    const upstream = await startUpstream(always(okResponse('whole')));
    const ended = Promise.withResolvers<void>();
    let isEnded = false;
    const paused = Promise.withResolvers<void>();
    const call = pool(upstream).dispatch(
      { method: 'GET', headers: [] },
      {
        onHead() {},
        onData: () => true,
        onWholeBody: () => {
          paused.resolve();
          return false;
        },
        onEnd: () => {
          isEnded = true;
          ended.resolve();
        },
        onError: ended.reject,
      },
    );
    await paused.promise;
    await new Promise(setImmediate);
    expect(isEnded).toBe(false);
    call.resume();
    await ended.promise;
  });

  it('sends one request at a time per connection, most recently used connection first', async () => {
    const pending: Socket[] = [];
    const upstream = await startUpstream((socket, index) =>
      index < 3 ? pending.push(socket) : socket.write(okResponse('')),
    );
    const to = pool(upstream);
    const calls = [new Sent(to), new Sent(to), new Sent(to)];
    await upstream.requested(3);
    expect(upstream.sockets).toHaveLength(3);
    for (const [index, socket] of pending.entries()) {
      socket.write(okResponse(String(index)));
      // Calls are assigned to connections in any order: wait for the call that gets this response.
      await Promise.race(calls.filter(({ log }) => !log.includes('end')).map(({ done }) => done));
    }
    expect(calls.map(({ body }) => body).sort()).toEqual(['0', '1', '2']);
    const used: Socket[] = [];
    for (const socket of pending) socket.on('data', () => used.push(socket));
    for (let n = 0; n < 3; n++) await new Sent(to).done;
    expect(used).toEqual([pending[2], pending[2], pending[2]]);
    expect(upstream.sockets).toHaveLength(3);
  });

  it('calls no callback before dispatch has returned', async () => {
    const upstream = await startUpstream(always(okResponse('a')));
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
    ['contains Connection: close', okResponse('a', 'Connection: close\r\n')],
    ['is of version 1.0', okResponse('a').replace('1.1', '1.0')],
    ['announces less than the margin', okResponse('a', 'Keep-Alive: timeout=1\r\n')],
    ['has an incomplete length', `HTTP/1.1 304 Not Modified\r\nContent-Length: 1\r\n\r\n`],
    ['has a body where none may be', `HTTP/1.1 204 No Content\r\nContent-Length: 1\r\n\r\na`],
    ['is followed by a byte', `${okResponse('a')}x`],
    ['is followed by another response', `${okResponse('a')}${okResponse('b')}`],
    ['is followed by CR LF', `${okResponse('a')}\r\n`],
  ])('closes a connection on which a response %s', async (_what, text) => {
    const upstream = await startUpstream((socket, index) => socket.write(index === 0 ? text : okResponse('next')));
    const to = pool(upstream);
    const first = await new Sent(to).done;
    expect(first.log.at(-1)).toBe('end');
    expect(first.body.length).toBeLessThan(2);
    await upstream.closed(0);
    expect((await new Sent(to).done).body).toBe('next');
    expect(upstream.sockets).toHaveLength(2);
  });

  it('closes a connection whose request was answered before it was completely sent', async () => {
    const upstream = await startUpstream(() => undefined);
    const to = pool(upstream);
    const call = new Sent(to, { body: 'x'.repeat(64 * 1024 * 1024) });
    while (upstream.sockets.length === 0) await new Promise(setImmediate);
    upstream.sockets[0]?.pause().write(okResponse('too much'));
    expect((await call.done).body).toBe('too much');
    upstream.sockets[0]?.resume();
    await upstream.closed(0);
    expect(upstream.requests).toHaveLength(0);
  });

  it('ignores an unsolicited response, even if it arrives with the next request', async () => {
    const upstream = await startUpstream(always(okResponse('right')));
    const to = pool(upstream);
    await new Sent(to).done;
    await delay(1);
    // Both in one turn of the event loop, with time for the bytes to arrive: the client has had no chance to read them.
    upstream.sockets[0]?.write(okResponse('wrong'));
    for (const until = performance.now() + 20; performance.now() < until; );
    expect((await new Sent(to).done).body).toBe('right');
    expect(upstream.sockets).toHaveLength(2);
    await upstream.closed(0);
  });

  it.each([
    ['an empty line', '\r\n', undefined],
    ['two empty lines', '\r\n\r\n', 'invalid'],
    ['an empty line that is LF', '\n', 'invalid'],
    ['an empty line that is CR', '\r', 'invalid'],
  ])(
    'skips nothing but one empty line between two responses, after which the connection is closed: %s',
    async (_what, line, kind) => {
      for (const isCut of [false, true]) {
        const upstream = await startUpstream(async (socket, index) => {
          // Before the second response, as if it had been sent after the first and delayed.
          const before = index === 1 ? line : '';
          socket.setNoDelay(true);
          for (const piece of isCut ? before : [before]) {
            socket.write(piece, 'latin1');
            await new Promise(setImmediate);
          }
          socket.write(okResponse(`body ${index}`));
        });
        const to = pool(upstream);
        const sent = [await new Sent(to).done, await new Sent(to).done, await new Sent(to).done];
        expect(sent.map(({ error }) => error?.kind)).toEqual([undefined, kind, undefined]);
        expect(sent.map(({ body }) => body)).toEqual(['body 0', kind ? '' : 'body 1', 'body 2']);
        expect(upstream.sockets).toHaveLength(2);
      }
    },
  );

  it('rejects an empty line before the first response of a connection, and after an interim one', async () => {
    for (const text of [`\r\n${okResponse('')}`, `HTTP/1.1 100\r\n\r\n\r\n${okResponse('')}`]) {
      const upstream = await startUpstream(always(text));
      expect((await new Sent(pool(upstream)).done).error).toMatchObject({ kind: 'invalid' });
    }
  });

  it('opens a new connection if the idle one was closed', async () => {
    const upstream = await startUpstream(always(okResponse('a')));
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

  it.each(['end', 'resetAndDestroy'] as const)('never retries a request (%s)', async (end) => {
    const upstream = await startUpstream((socket, index) =>
      index === 0 ? socket.write(okResponse('a')) : socket[end](),
    );
    const to = pool(upstream);
    await new Sent(to).done;
    expect((await new Sent(to).done).error).toMatchObject({ kind: 'dropped' });
    expect(upstream.requests).toHaveLength(2);
    expect(upstream.sockets).toHaveLength(1);
  });

  it.each([
    ['the configured time', { keepAliveMs: 60 }, '', 60],
    ['the time that the upstream announces', { keepAliveMs: 10 }, 'Keep-Alive: timeout=2\r\n', 1_000],
  ])('closes a connection after an idle time of %s', async (_what, options, headers, idleMs) => {
    stopTime();
    const upstream = await startUpstream(always(okResponse('a', headers)));
    const [used, left] = [pool(upstream, options), pool(upstream, options)];
    await new Sent(used).done;
    vi.advanceTimersByTime(idleMs - 1);
    await new Sent(used).done;
    expect(upstream.sockets).toHaveLength(1);
    await new Sent(left).done;
    vi.advanceTimersByTime(idleMs);
    await upstream.closed(1);
  });

  it('does not reuse an expired connection that is not closed yet', async () => {
    const upstream = await startUpstream(always(okResponse('a')));
    const to = pool(upstream, { keepAliveMs: 30 });
    await new Sent(to).done;
    for (const until = performance.now() + 40; performance.now() < until; );
    await new Sent(to).done;
    expect(upstream.sockets).toHaveLength(2);
  });

  it('ends the connect timeout when the connection is established', async () => {
    stopTime();
    const upstream = await startUpstream(() => undefined);
    const sent = new Sent(pool(upstream, { connectTimeoutMs: 40 }));
    await upstream.requested(1);
    vi.advanceTimersByTime(80);
    upstream.sockets[0]?.write(okResponse('late'));
    expect((await sent.done).body).toBe('late');
  });

  it('passes nothing to a paused handler: neither buffered data nor the end', async () => {
    // Smaller chunks would be joined.
    const [a, b, c] = ['a', 'b', 'c'].map((letter) => letter.repeat(5_000));
    const text = `${OK}Transfer-Encoding: chunked\r\n\r\n${chunk(`${a}`)}${chunk(`${b}`)}${chunk(`${c}`)}0\r\n\r\n`;
    const upstream = await startUpstream(always(text));
    const to = pool(upstream);
    const call = new Sent(to, {}, (event) => (event === 'data' ? false : undefined));
    for (const body of [`${a}`, `${a}${b}`, `${a}${b}${c}`]) {
      while (call.body !== body) await new Promise(setImmediate);
      await delay(5);
      expect(call.body).toBe(body);
      expect(call.log).not.toContain('end');
      call.call.resume();
    }
    await call.done;
    expect((await new Sent(to).done).body).toBe(`${a}${b}${c}`);
    expect(upstream.sockets).toHaveLength(1);
  });

  it('passes on the end when a handler that paused after the last chunk resumes', async () => {
    const upstream = await startUpstream(always(okResponse('a')));
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

  it('detects input after a response whose handler was paused', async () => {
    const upstream = await startUpstream(always(`${okResponse('a')}${okResponse('b')}`));
    const to = pool(upstream);
    const call = new Sent(to, {}, (event) => (event === 'data' ? false : undefined));
    while (call.body === '') await new Promise(setImmediate);
    call.call.resume();
    expect((await call.done).log).toEqual(['dispatched', 'head', 'data', 'end']);
    await upstream.closed(0);
  });

  it('fails a paused call when its connection breaks', async () => {
    const upstream = await startUpstream(always(`${OK}Content-Length: 2\r\n\r\na`));
    const call = new Sent(pool(upstream), {}, (event) => (event === 'data' ? false : undefined));
    while (call.body === '') await new Promise(setImmediate);
    upstream.sockets[0]?.resetAndDestroy();
    call.call.resume();
    expect((await call.done).error).toMatchObject({ kind: 'dropped' });
  });

  it.each(['head', 'data'])(
    'makes no callbacks after an abort inside %s, and does not reuse the connection',
    async (when) => {
      const upstream = await startUpstream((socket, index) => {
        const first = `${OK}Transfer-Encoding: chunked\r\n\r\n${chunk('a')}${chunk('b')}0\r\n\r\n`;
        socket.write(index === 0 ? first : okResponse('next'));
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

  it('ignores an abort after the end', async () => {
    const upstream = await startUpstream(always(okResponse('a')));
    const to = pool(upstream);
    const { call } = await new Sent(to).done;
    call.abort();
    call.resume();
    await new Sent(to).done;
    call.abort();
    await new Sent(to).done;
    expect(upstream.sockets).toHaveLength(1);
  });

  it('accepts a request from inside a callback', async () => {
    const upstream = await startUpstream(always(okResponse('a')));
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
    ['a response with two lengths', `${OK}Content-Length: 1\r\nContent-Length: 2\r\n\r\na`, 'invalid'],
    ['a change of protocol', 'HTTP/1.1 101 Switching\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n', 'invalid'],
    ['a broken chunk after a good one', `${OK}Transfer-Encoding: chunked\r\n\r\n${chunk('a')}x\r\n`, 'invalid'],
    ['too large a head', `${OK}X: ${'x'.repeat(17_000)}`, 'too-large'],
    ['a redirect', 'HTTP/1.1 302 Found\r\nLocation: /elsewhere\r\nContent-Length: 0\r\n\r\n', 'redirect'],
  ])('closes the connection after %s without affecting later calls', async (_what, text, kind) => {
    const upstream = await startUpstream((socket, index) => socket.write(index === 0 ? text : okResponse('next')));
    const to = pool(upstream);
    const { error, log } = await new Sent(to).done;
    expect(error).toMatchObject({ kind, address: `http://127.0.0.1:${upstream.port}/mcp` });
    expect(log.filter((event) => event === 'error')).toHaveLength(1);
    await upstream.closed(0);
    expect((await new Sent(to).done).body).toBe('next');
  });

  it('close sends dispatched requests, waits for them and closes idle connections', async () => {
    const upstream = await startUpstream((socket, index) => index === 0 && socket.write(okResponse('a')));
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
    for (const socket of upstream.sockets.slice(1)) socket.write(okResponse('b'));
    for (const { done } of calls) expect((await done).body).toBe('b');
    await closing;
    await Promise.all([upstream.closed(1), upstream.closed(2)]);
    await to.destroy();

    const fresh = pool(upstream);
    const first = new Sent(fresh);
    const firstClosing = fresh.close();
    await upstream.requested(4);
    upstream.sockets[3]?.write(okResponse('c'));
    await firstClosing;
    expect(first.body).toBe('c');
  });

  it('destroy fails requests in any state', async () => {
    const upstream = await startUpstream((socket, index) => {
      socket.write(index === 0 ? okResponse('a') : `${OK}Content-Length: 9\r\n\r\na`);
    });
    const to = pool(upstream);
    await new Sent(to).done;
    const responded = new Sent(to);
    while (responded.body === '') await new Promise(setImmediate);
    const connecting = new Sent(to);
    await new Promise(setImmediate);
    const waiting = new Sent(to);
    await Promise.all([to.destroy(), to.destroy(), to.close()]);
    for (const { done } of [responded, connecting, waiting, new Sent(to)]) {
      expect((await done).error).toMatchObject({ kind: 'aborted' });
    }
    expect(upstream.requests).toHaveLength(2);
  });

  it('close resolves if nothing was sent', async () => {
    const upstream = await startUpstream(() => undefined);
    await pool(upstream).close();
    await pool(upstream).destroy();
  });
});

describe('ConnectionPool over TLS', () => {
  const certificates = getCACertificates('default');
  beforeAll(() => setDefaultCACertificates([...certificates, localhostCertificate.cert]));
  afterAll(() => setDefaultCACertificates(certificates));

  it('sends the server name, negotiates HTTP/1.1, reuses connections and resumes sessions', async () => {
    const resumed: boolean[] = [];
    const upstream = await startUpstream((socket, index) => {
      if (!(socket instanceof TLSSocket)) expect.unreachable();
      resumed.push(socket.isSessionReused());
      socket.write(okResponse('x'.repeat(50_000), index === 1 ? 'Connection: close\r\n' : ''));
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
  ])('pauses with the handler, also after the upstream has disconnected (%s)', async (_what, head, part, tail) => {
    const lines = Array.from({ length: 400 }, (_, n) => `${n}${'.'.repeat(500)}`);
    const text = OK + head + lines.map(part).join('') + tail;
    const upstream = await startUpstream((socket) => socket.end(text), true);
    const to = pool(upstream, {}, `https://localhost:${upstream.port}/`);
    for (let n = 0; n < 2; n++) {
      const call = new Sent(to, {}, (event) => (event === 'data' ? false : undefined));
      let pieces = 0;
      while (!call.log.includes('end')) {
        await new Promise(setImmediate);
        const received = call.log.filter((event) => event === 'data').length;
        expect(received - pieces).toBeLessThanOrEqual(1);
        expect(call.error).toBeUndefined();
        pieces = received;
        call.call.resume();
      }
      expect((await call.done).body === lines.join('')).toBe(true);
    }
  });

  it('rejects a certificate for another name before sending', async () => {
    const upstream = await startUpstream(always(okResponse('a')), true);
    const to = pool(upstream, {}, `https://127.0.0.1:${upstream.port}/`);
    const { error } = await new Sent(to).done;
    expect(error).toMatchObject({ kind: 'refused' });
    expect(error?.message).toContain(
      'is unreachable: its certificate is for other hosts (ERR_TLS_CERT_ALTNAME_INVALID)',
    );
    expect(upstream.requests).toEqual([]);
  });

  it('rejects an untrusted certificate before sending', async () => {
    setDefaultCACertificates(certificates);
    const upstream = await startUpstream(always(okResponse('a')), true);
    const { error } = await new Sent(pool(upstream, {}, `https://localhost:${upstream.port}/`)).done;
    expect(error).toMatchObject({ kind: 'refused' });
    expect(error?.message).toContain(
      'is unreachable: its certificate is self-signed, and this machine does not trust it (DEPTH_ZERO_SELF_SIGNED_CERT)',
    );
    expect(upstream.requests).toEqual([]);
  });
});
