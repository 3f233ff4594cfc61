import { once } from 'node:events';
import type { Socket } from 'node:net';
import { describe, expect, it } from 'vitest';
import type { BodySink } from './client.ts';
import { pool, Sent, startUpstream } from './pool.fixture.ts';
import { startRawUpstream } from './raw-upstream.fixture.ts';
import { ScriptedBody } from './scripted-body.fixture.ts';

const answer = (body: string) => `HTTP/1.1 200 OK\r\nContent-Length: ${body.length}\r\n\r\n${body}`;

describe('a streamed request body that is not sent whole', () => {
  it.each([
    ['ended 3 bytes before the 5 that it was to have', 5, (sink: BodySink) => sink.end()],
    ['is longer than the 5 bytes that it was to have', 5, (sink: BodySink) => sink.write(Buffer.from('cdef'))],
    ['broke off', 5, (sink: BodySink) => sink.fail()],
    ['broke off', undefined, (sink: BodySink) => sink.fail()],
  ])('ends the request and the connection: its body %s (length %s)', async (how, length, act) => {
    const upstream = await startUpstream((socket) => socket.write(answer('next')));
    const to = pool(upstream);
    const body = new ScriptedBody(length);
    const sent = new Sent(to, { body });
    const sink = await body.sink;
    sink.write(Buffer.from('ab'));
    while (upstream.sockets.length === 0) await new Promise(setImmediate);
    let received = '';
    upstream.sockets[0]?.on('data', (text) => {
      received += text;
    });
    act(sink);
    expect(sent.log).toEqual(['dispatched', 'error']);
    expect(sent.error).toMatchObject({
      kind: 'aborted',
      message: `upstream http://127.0.0.1:${upstream.port}/mcp was not sent the whole request: its body ${how}`,
    });
    expect(sink.write(Buffer.from('x'))).toBe(false);
    sink.end();
    sink.fail();
    await upstream.closed(0);
    expect(received).not.toMatch(/cdef|x$|0\r\n\r\n$/);
    expect(body.log).toEqual(how.startsWith('is longer') ? ['start', 'stop'] : ['start']);
    expect(sent.log).toEqual(['dispatched', 'error']);
    expect((await new Sent(to).done).body).toBe('next');
    expect(upstream.requests).toHaveLength(1);
  });

  it('may be longer than it was to have after its answer, which is of no effect', async () => {
    const upstream = await startUpstream((socket) => socket.write(answer('ok')));
    const body = new ScriptedBody(2, (sink) => sink.write(Buffer.from('ab')));
    const sent = await new Sent(pool(upstream), { body }).done;
    expect((await body.sink).write(Buffer.from('c'))).toBe(false);
    expect(sent.log).toEqual(['dispatched', 'head', 'data', 'end']);
  });

  it('ends the request when it goes on behind its last byte before the answer', async () => {
    const upstream = await startUpstream(() => undefined);
    const body = new ScriptedBody(2, (sink) => sink.write(Buffer.from('ab')));
    const sent = new Sent(pool(upstream), { body });
    await upstream.requested(1);
    expect((await body.sink).write(Buffer.from('c'))).toBe(false);
    expect((await sent.done).error).toMatchObject({ kind: 'aborted' });
    await upstream.closed(0);
  });

  it('is stopped by an abort, which ends the connection and calls nothing back', async () => {
    const upstream = await startUpstream(() => undefined);
    const body = new ScriptedBody(undefined);
    const sent = new Sent(pool(upstream), { body });
    (await body.sink).write(Buffer.from('a'));
    while (upstream.sockets.length === 0) await new Promise(setImmediate);
    sent.call.abort();
    sent.call.abort();
    expect(body.log).toEqual(['start', 'stop']);
    await upstream.closed(0);
    expect(sent.log).toEqual(['dispatched']);
  });

  it('is stopped when the upstream leaves, and the request is not sent again', async () => {
    const upstream = await startUpstream((socket) => socket.write(answer('ok')));
    const to = pool(upstream);
    await new Sent(to).done;
    for (const end of ['end', 'destroy', 'resetAndDestroy'] as const) {
      const body = new ScriptedBody(undefined);
      const sent = new Sent(to, { body });
      (await body.sink).write(Buffer.from('a'));
      await once(upstream.sockets.at(-1) ?? process, 'data');
      upstream.sockets.at(-1)?.[end]();
      expect((await sent.done).error).toMatchObject({ kind: 'dropped' });
      expect(body.log).toEqual(['start', 'stop']);
      await new Sent(to).done;
    }
    expect(upstream.requests).toHaveLength(4);
  });

  it('may abort the request when it is stopped, without another callback', async () => {
    const upstream = await startUpstream(() => undefined);
    const to = pool(upstream);
    for (const finish of [
      (socket: Socket | undefined) => socket?.write(answer('early')),
      (socket: Socket | undefined) => socket?.destroy(),
    ]) {
      const body = new ScriptedBody(undefined);
      const sent = new Sent(to, { body });
      (await body.sink).write(Buffer.from('a'));
      body.stop = () => sent.call.abort();
      while (upstream.sockets.length === 0) await new Promise(setImmediate);
      finish(upstream.sockets.pop());
      await sent.done;
      expect(sent.log.filter((event) => event === 'end' || event === 'error')).toHaveLength(1);
    }
  });

  it('is not asked for when there is no connection, or no request', async () => {
    const upstream = await startUpstream((socket) => socket.write(answer('ok')));
    const body = new ScriptedBody(undefined);
    const to = pool(upstream);
    const aborted = new Sent(to, { body });
    aborted.call.abort();
    expect((await new Sent(to, { body, path: 'none' }).done).error).toMatchObject({ kind: 'invalid' });
    const negative = new ScriptedBody(-1);
    expect((await new Sent(to, { body: negative }).done).error).toMatchObject({ kind: 'invalid' });
    const refused = await new Sent(pool({ port: 1 }), { body }).done;
    expect(refused.error).toMatchObject({ kind: 'refused' });
    await to.destroy();
    expect((await new Sent(to, { body }).done).error).toMatchObject({ kind: 'aborted' });
    expect([...body.log, ...negative.log, ...aborted.log]).toEqual(['dispatched']);
  });

  it('is asked for on a new connection when the idle one has closed meanwhile', async () => {
    const upstream = await startUpstream((socket) => socket.write(answer('ok')));
    const to = pool(upstream);
    await new Sent(to).done;
    upstream.sockets[0]?.resetAndDestroy();
    await upstream.closed(0);
    const body = new ScriptedBody(undefined, (sink) => {
      sink.write(Buffer.from('a'));
      sink.end();
    });
    expect(await new Sent(to, { body }).done).toMatchObject({ body: 'ok', error: undefined });
    expect(body.log).toEqual(['start']);
    expect(upstream.sockets).toHaveLength(2);
  });

  it('makes an error of an answer that only the end of a reset connection would end', async () => {
    const upstream = await startRawUpstream();
    const body = new ScriptedBody(undefined);
    const sent = new Sent(pool(upstream), { body });
    const sink = await body.sink;
    const socket = await upstream.first;
    sink.write(Buffer.from('a'));
    await new Promise(setImmediate);
    socket.write('HTTP/1.1 200 OK\r\n\r\nhalf');
    socket.resetAndDestroy();
    for (const until = performance.now() + 20; performance.now() < until; );
    sink.write(Buffer.from('b'));
    expect((await sent.done).error).toMatchObject({ kind: 'dropped' });
    expect(sent).toMatchObject({ status: 200, body: 'half', log: ['dispatched', 'head', 'data', 'error'] });
  });
});
