import { once } from 'node:events';
import { describe, expect, it, onTestFinished } from 'vitest';
import { pool, Sent, startUpstream } from './pool.fixture.ts';
import { startRawUpstream } from './raw-upstream.fixture.ts';
import { ScriptedBody } from './scripted-body.fixture.ts';
import { settled } from './settled.fixture.ts';

const okResponse = (body: string) => `HTTP/1.1 200 OK\r\nContent-Length: ${body.length}\r\n\r\n${body}`;
const bodyOf = (request: string | undefined) => request?.slice(request.indexOf('\r\n\r\n') + 4);
const MEGABYTE = 1024 * 1024;

describe('a streamed request body', () => {
  it('is sent unmodified if its length is known', async () => {
    const upstream = await startUpstream((socket) => socket.write(okResponse('ok')));
    const body = new ScriptedBody(5, (sink) => {
      expect(sink.write(Buffer.from('ab'))).toBe(true);
      expect(sink.write(Buffer.alloc(0))).toBe(true);
      expect(sink.write(Buffer.from('c\xff', 'latin1'))).toBe(true);
      expect(sink.write(Buffer.from('e'))).toBe(true);
      sink.end();
    });
    const sent = await new Sent(pool(upstream), { method: 'PUT', body }).done;
    expect(sent.log).toEqual(['dispatched', 'head', 'data', 'end']);
    expect(upstream.requests[0]).toMatch(/^PUT \/mcp HTTP\/1.1\r\n/);
    expect(upstream.requests[0]).toMatch(/\r\ncontent-length: 5\r\n\r\nabc\xffe$/);
    expect(body.log).toEqual(['start']);
  });

  it('is sent chunked if its length is unknown; an empty chunk does not end it', async () => {
    const upstream = await startUpstream((socket) => socket.write(okResponse('ok')));
    const body = new ScriptedBody(undefined, (sink) => {
      for (const piece of ['a', '', 'b'.repeat(26)]) sink.write(Buffer.from(piece));
      sink.end();
    });
    expect(await new Sent(pool(upstream), { body }).done).toMatchObject({ body: 'ok', error: undefined });
    expect(upstream.requests[0]).toContain('\r\ntransfer-encoding: chunked\r\n');
    expect(upstream.requests[0]).not.toContain('content-length');
    expect(bodyOf(upstream.requests[0])).toBe(`1\r\na\r\n1a\r\n${'b'.repeat(26)}\r\n0\r\n\r\n`);
  });

  it.each([
    [0, 'content-length: 0', ''],
    [undefined, 'transfer-encoding: chunked', '0\r\n\r\n'],
  ])('may be empty (length %s)', async (length, header, bytes) => {
    const upstream = await startUpstream((socket) => socket.write(okResponse('ok')));
    const body = new ScriptedBody(length, (sink) => sink.end());
    expect((await new Sent(pool(upstream), { method: 'GET', body }).done).body).toBe('ok');
    expect(upstream.requests[0]).toContain(`\r\n${header}\r\n`);
    expect(bodyOf(upstream.requests[0])).toBe(bytes);
    expect(body.log).toEqual(['start']);
  });

  it('is sent as it is produced, on a connection that is reused', async () => {
    const upstream = await startUpstream((socket) => socket.write(okResponse('ok')));
    const to = pool(upstream);
    await new Sent(to).done;
    for (const length of [6, undefined]) {
      const body = new ScriptedBody(length);
      const sent = new Sent(to, { body });
      const sink = await body.sink;
      for (const piece of ['abc', 'def']) {
        const arrived = once(upstream.sockets[0] ?? process, 'data');
        sink.write(Buffer.from(piece));
        // The head may be a separate chunk; the rest of the body is still missing in any case.
        let text = String(await arrived);
        while (!text.includes(piece)) text += String(await once(upstream.sockets[0] ?? process, 'data'));
        expect(text).not.toContain(piece === 'abc' ? 'def' : 'abc');
        expect(sent.log).toEqual(['dispatched']);
      }
      sink.end();
      expect((await sent.done).body).toBe('ok');
      expect(body.log).toEqual(['start']);
    }
    await new Sent(to).done;
    expect(upstream.sockets).toHaveLength(1);
  });

  it('leaves no listeners on its connection', async () => {
    const upstream = await startUpstream((socket) => socket.write(okResponse('ok')));
    const to = pool(upstream);
    await new Sent(to).done;
    const warnings: Error[] = [];
    const warn = (warning: Error) => warnings.push(warning);
    process.on('warning', warn);
    onTestFinished(() => void process.off('warning', warn));
    for (let n = 0; n < 20; n++) {
      const body = new ScriptedBody(undefined, (sink) => sink.end());
      expect((await new Sent(to, { body }).done).body).toBe('ok');
    }
    expect(upstream.sockets).toHaveLength(1);
    // Such as the warning about too many listeners.
    expect(warnings).toEqual([]);
  });

  it('is complete with its last byte, before it calls end', async () => {
    const upstream = await startUpstream((socket) => socket.write(okResponse('ok')));
    const to = pool(upstream);
    const body = new ScriptedBody(2);
    const sent = new Sent(to, { body });
    const sink = await body.sink;
    sink.write(Buffer.from('ab'));
    await sent.done;
    const next = new Sent(to, { body: 'next' });
    // Has no effect on the connection, which belongs to another call by now.
    sink.end();
    sink.fail();
    expect(sink.write(Buffer.from('c'))).toBe(false);
    expect((await next.done).body).toBe('ok');
    expect(upstream.requests.map(bodyOf)).toEqual(['ab', 'next']);
    expect(upstream.sockets).toHaveLength(1);
    expect(body.log).toEqual(['start']);
  });

  it('pauses while the upstream does not read', async () => {
    let received = 0;
    const upstream = await startRawUpstream();
    const body = new ScriptedBody(64 * MEGABYTE);
    const sent = new Sent(pool(upstream), { body });
    const pumping = body.pump(64 * MEGABYTE).then(() => body.sink);
    expect(await settled(() => body.pumped)).toBeLessThan(32 * MEGABYTE);
    expect(sent.log).toEqual(['dispatched']);
    const socket = await upstream.first;
    socket.on('data', (bytes) => {
      received += bytes.length;
      if (received > 64 * MEGABYTE) socket.write(okResponse('all'));
    });
    socket.resume();
    (await pumping).end();
    expect((await sent.done).body).toBe('all');
    expect(body.log).toContain('resume');
    expect(body.log).not.toContain('stop');
  });

  it('does not pause after its last byte', async () => {
    const upstream = await startRawUpstream();
    const body = new ScriptedBody(32 * MEGABYTE);
    const sent = new Sent(pool(upstream), { body });
    const sink = await body.sink;
    expect(sink.write(Buffer.alloc(32 * MEGABYTE - 1))).toBe(false);
    expect(sink.write(Buffer.from('x'))).toBe(true);
    sent.call.abort();
    expect(body.log).toEqual(['start']);
  });

  it('continues while the response is being read', async () => {
    const upstream = await startRawUpstream((socket) => {
      socket.write('HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n');
      // The chunks of the request, after its head.
      let head = '';
      socket.setEncoding('latin1').on('data', (text: string) => {
        if (head.includes('\r\n\r\n')) return socket.write(text);
        head += text;
        return socket.write(head.slice(head.indexOf('\r\n\r\n') + 4));
      });
      socket.resume();
    });
    const body = new ScriptedBody(undefined);
    const sent = new Sent(pool(upstream), { body });
    const sink = await body.sink;
    let echoed = '';
    for (const piece of ['one', 'two', 'three']) {
      sink.write(Buffer.from(piece));
      echoed += piece;
      while (sent.body !== echoed) await new Promise(setImmediate);
    }
    sink.end();
    expect((await sent.done).log.at(-1)).toBe('end');
    expect(body.log).toEqual(['start']);
  });
});
