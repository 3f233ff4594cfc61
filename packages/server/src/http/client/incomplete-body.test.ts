import { once } from 'node:events';
import type { Socket } from 'node:net';
import { describe, expect, it } from 'vitest';
import type { BodySink } from './client.ts';
import { pool, Sent, startUpstream } from './pool.fixture.ts';
import { startRawUpstream } from './raw-upstream.fixture.ts';
import { ScriptedBody } from './scripted-body.fixture.ts';

const okResponse = (body: string) => `HTTP/1.1 200 OK\r\nContent-Length: ${body.length}\r\n\r\n${body}`;

describe('a streamed request body that is not completely sent', () => {
  it.each([
    ['ended 3 bytes before its length of 5 bytes', 5, (sink: BodySink) => sink.end()],
    ['exceeds its length of 5 bytes', 5, (sink: BodySink) => sink.write(Buffer.from('cdef'))],
    ['was aborted', 5, (sink: BodySink) => sink.fail()],
    ['was aborted', undefined, (sink: BodySink) => sink.fail()],
  ])('fails the request and closes the connection: its body %s (length %s)', async (how, length, act) => {
    const upstream = await startUpstream((socket) => socket.write(okResponse('next')));
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
      message: `upstream http://127.0.0.1:${upstream.port}/mcp did not receive the whole request: its body ${how}`,
    });
    expect(sink.write(Buffer.from('x'))).toBe(false);
    sink.end();
    sink.fail();
    await upstream.closed(0);
    expect(received).not.toMatch(/cdef|x$|0\r\n\r\n$/);
    expect(body.log).toEqual(how.startsWith('exceeds') ? ['start', 'stop'] : ['start']);
    expect(sent.log).toEqual(['dispatched', 'error']);
    expect((await new Sent(to).done).body).toBe('next');
    expect(upstream.requests).toHaveLength(1);
  });

  it('may exceed its length after the response without effect', async () => {
    const upstream = await startUpstream((socket) => socket.write(okResponse('ok')));
    const body = new ScriptedBody(2, (sink) => sink.write(Buffer.from('ab')));
    const sent = await new Sent(pool(upstream), { body }).done;
    expect((await body.sink).write(Buffer.from('c'))).toBe(false);
    expect(sent.log).toEqual(['dispatched', 'head', 'data', 'end']);
  });

  it('fails the request if it exceeds its length before the response', async () => {
    const upstream = await startUpstream(() => undefined);
    const body = new ScriptedBody(2, (sink) => sink.write(Buffer.from('ab')));
    const sent = new Sent(pool(upstream), { body });
    await upstream.requested(1);
    expect((await body.sink).write(Buffer.from('c'))).toBe(false);
    expect((await sent.done).error).toMatchObject({ kind: 'aborted' });
    await upstream.closed(0);
  });

  it('is stopped by an abort, which closes the connection without a callback', async () => {
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

  it('is stopped when the upstream disconnects; the request is not retried', async () => {
    const upstream = await startUpstream((socket) => socket.write(okResponse('ok')));
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
      (socket: Socket | undefined) => socket?.write(okResponse('early')),
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

  it('is not started without a connection or a request', async () => {
    const upstream = await startUpstream((socket) => socket.write(okResponse('ok')));
    const body = new ScriptedBody(undefined);
    const to = pool(upstream);
    const aborted = new Sent(to, { body });
    aborted.call.abort();
    expect((await new Sent(to, { body, path: 'none' }).done).error).toMatchObject({ kind: 'invalid' });
    const negative = new ScriptedBody(-1);
    expect((await new Sent(to, { body: negative }).done).error).toMatchObject({ kind: 'invalid' });
    const rejected = await new Sent(pool({ port: 1 }), { body }).done;
    expect(rejected.error).toMatchObject({ kind: 'refused' });
    await to.destroy();
    expect((await new Sent(to, { body }).done).error).toMatchObject({ kind: 'aborted' });
    expect([...body.log, ...negative.log, ...aborted.log]).toEqual(['dispatched']);
  });

  it('is started on a new connection if the idle one was closed', async () => {
    const upstream = await startUpstream((socket) => socket.write(okResponse('ok')));
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

  it('fails a response that only the end of a reset connection would complete', async () => {
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
