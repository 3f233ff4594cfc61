import { getCACertificates, setDefaultCACertificates } from 'node:tls';
import { afterAll, describe, expect, it } from 'vitest';
import { localhostCertificate } from './certificate.fixture.ts';
import { pool, Sent, startUpstream } from './pool.fixture.ts';
import { startRawUpstream } from './raw-upstream.fixture.ts';
import { ScriptedBody } from './scripted-body.fixture.ts';

const okResponse = (body: string) => `HTTP/1.1 200 OK\r\nContent-Length: ${body.length}\r\n\r\n${body}`;
const TOO_LARGE = 'HTTP/1.1 413 Too Large\r\nConnection: close\r\nContent-Length: 2\r\n\r\nno';
const MEGABYTE = 1024 * 1024;

describe('a response before the end of the request', () => {
  const certificates = getCACertificates('default');
  afterAll(() => setDefaultCACertificates(certificates));

  it.each([
    ['of known length', 8, 'abc'],
    ['in chunks', undefined, 'abc'],
    ['that has not begun', 8, ''],
  ])('is passed on and stops the body (%s); its connection is not reused', async (_what, length, written) => {
    const upstream = await startUpstream((socket) => socket.write(okResponse('next')));
    const to = pool(upstream);
    const body = new ScriptedBody(length);
    const early = new Sent(to, { body });
    const sink = await body.sink;
    sink.write(Buffer.from(written));
    while (upstream.sockets.length === 0) await new Promise(setImmediate);
    upstream.sockets[0]?.write(okResponse('enough'));
    expect((await early.done).log).toEqual(['dispatched', 'head', 'data', 'end']);
    expect(early.body).toBe('enough');
    expect(body.log).toEqual(['start', 'stop']);
    expect(sink.write(Buffer.from('more'))).toBe(false);
    sink.end();
    sink.fail();
    await upstream.closed(0);
    expect((await new Sent(to).done).body).toBe('next');
    expect(upstream.sockets).toHaveLength(2);
    expect(body.log).toEqual(['start', 'stop']);
  });

  it('is read although the upstream resets the connection after it', async () => {
    const upstream = await startRawUpstream((socket) => {
      socket.once('data', () => {
        // Not all is read: closing is a reset.
        socket.pause();
        socket.end(TOO_LARGE, () => socket.destroy());
      });
      socket.resume();
    });
    const to = pool(upstream);
    for (let round = 0; round < 100; round++) {
      const body = new ScriptedBody(round % 2 === 0 ? undefined : 64 * MEGABYTE);
      const sent = new Sent(to, { body });
      await body.pump(64 * MEGABYTE);
      await sent.done;
      expect({ round, status: sent.status, body: sent.body, error: sent.error }).toEqual({
        round,
        status: 413,
        body: 'no',
        error: undefined,
      });
      expect(body.log.at(-1)).toBe('stop');
    }
    expect(upstream.sockets).toHaveLength(100);
  });

  it('is read after a write has detected the closed connection', async () => {
    const upstream = await startRawUpstream();
    const body = new ScriptedBody(undefined);
    const sent = new Sent(pool(upstream), { body });
    const sink = await body.sink;
    const socket = await upstream.first;
    sink.write(Buffer.from('a'));
    await new Promise(setImmediate);
    // All in one turn of the event loop: the client has had no chance to read before its write fails.
    socket.write(TOO_LARGE);
    socket.resetAndDestroy();
    for (const until = performance.now() + 20; performance.now() < until; );
    for (let n = 0; n < 3; n++) sink.write(Buffer.from('b'));
    expect(body.log).toEqual(['start', 'stop']);
    expect(sent.log).toEqual(['dispatched']);
    expect(await sent.done).toMatchObject({ status: 413, body: 'no', error: undefined });
    expect(body.log).toEqual(['start', 'stop']);
  });

  it('respects backpressure of the handler although the body continues and the upstream has disconnected', async () => {
    setDefaultCACertificates([...certificates, localhostCertificate.cert]);
    const upstream = await startUpstream(() => undefined, true);
    const to = pool(upstream, {}, `https://localhost:${upstream.port}/`);
    const text = 'x'.repeat(100_000);
    const body = new ScriptedBody(undefined);
    const sent = new Sent(to, { body }, (event) => (event === 'data' ? false : undefined));
    const sink = await body.sink;
    sink.write(Buffer.from('a'));
    while (upstream.sockets.length === 0) await new Promise(setImmediate);
    upstream.sockets[0]?.end(`HTTP/1.1 200 OK\r\n\r\n${text}`);
    while (!sent.log.includes('end') && !sent.log.includes('error')) {
      await new Promise(setImmediate);
      sink.write(Buffer.from('b'));
      sent.call.resume();
    }
    expect(sent.error).toBeUndefined();
    expect(sent.body === text).toBe(true);
    expect(body.log.at(-1)).toBe('stop');
  });
});
