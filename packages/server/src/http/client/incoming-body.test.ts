import { connect, type Socket } from 'node:net';
import { describe, expect, it, onTestFinished } from 'vitest';
import { startHttp1Server } from '../server/http1-server.fixture.ts';
import type { ServerRequest } from '../server/request.ts';
import type { BodySink } from './client.ts';
import { type BodyObserver, incomingBody } from './request-writer.ts';

/** Records what is written; returns false when the test requests backpressure. */
class Sink implements BodySink {
  readonly log: string[] = [];
  readonly over: Promise<void>;
  /** Called for each chunk before `write` returns its result. */
  onWrite: (piece: Buffer) => boolean = () => true;
  readonly #over = Promise.withResolvers<void>();

  constructor() {
    this.over = this.#over.promise;
  }

  write(piece: Buffer): boolean {
    this.log.push(String(piece));
    return this.onWrite(piece);
  }

  end(): void {
    this.log.push('end');
    this.#over.resolve();
  }

  fail(): void {
    this.log.push('fail');
    this.#over.resolve();
  }
}

/** A request whose client has sent these bytes, and the client. */
async function begun(bytes: string): Promise<{ request: ServerRequest; client: Socket }> {
  const { promise: received, resolve } = Promise.withResolvers<ServerRequest>();
  const client = connect(await startHttp1Server(resolve), '127.0.0.1');
  onTestFinished(() => void client.destroy());
  client.on('error', () => undefined).write(bytes);
  return { request: await received, client };
}

async function body(bytes: string, observe?: BodyObserver) {
  const { request, client } = await begun(bytes);
  const made = incomingBody(request, observe);
  if (made === undefined) throw new Error('the request has no body');
  return { request, client, body: made };
}

const PUT = 'PUT / HTTP/1.1\r\nHost: a\r\n';

describe('incomingBody', () => {
  it.each(['GET', 'PUT'])('is undefined for a request without one (%s)', async (method) => {
    expect(incomingBody((await begun(`${method} / HTTP/1.1\r\nHost: a\r\n\r\n`)).request)).toBeUndefined();
  });

  it.each([
    ['a length', `${PUT}Content-Length: 3\r\n\r\nabc`, 3, 'abc'],
    ['the length 0', `${PUT}Content-Length: 0\r\n\r\n`, 0, ''],
    ['chunks', `${PUT}Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n`, undefined, 'abc'],
  ])('forwards a body with %s and passes it to the observer', async (_what, bytes, length, text) => {
    let seen = '';
    const { body: made } = await body(bytes, (piece) => {
      seen += piece;
    });
    expect(made.length).toBe(length);
    const sink = new Sink();
    made.start(sink);
    await sink.over;
    expect(sink.log.pop()).toBe('end');
    expect(sink.log.join('')).toBe(text);
    expect(seen).toBe(text);
  });

  it('writes nothing while paused', async () => {
    const begin = `${PUT}Content-Length: 6\r\n\r\nabc`;
    const { body: made, client, request } = await body(begin);
    const sink = new Sink();
    sink.onWrite = (piece) => String(piece) !== 'abc';
    made.start(sink);
    while (sink.log.length === 0) await new Promise(setImmediate);
    client.write('def');
    while (request.socket.bytesRead < begin.length + 3) await new Promise(setImmediate);
    expect(sink.log).toEqual(['abc']);
    made.resume();
    await sink.over;
    expect(sink.log).toEqual(['abc', 'def', 'end']);
  });

  it.each([
    ['before it is read', false],
    ['while it is passed on', true],
  ])('fails when the client disconnects %s', async (_what, started) => {
    const { body: made, client, request } = await body(`${PUT}Content-Length: 6\r\n\r\nabc`);
    const sink = new Sink();
    if (started) made.start(sink);
    client.destroy();
    await new Promise<void>((resolve) => request.body.on('close', resolve));
    if (!started) made.start(sink);
    await sink.over;
    expect(sink.log.at(-1)).toBe('fail');
  });

  it.each(['by itself', 'from inside a write'])('drains the rest when stopped %s', async (how) => {
    let seen = '';
    const {
      body: made,
      client,
      request,
    } = await body(`${PUT}Content-Length: 9\r\n\r\nabc`, (piece) => {
      seen += piece;
    });
    const sink = new Sink();
    sink.onWrite = () => {
      if (how === 'from inside a write') made.stop();
      return false;
    };
    made.start(sink);
    while (sink.log.length === 0) await new Promise(setImmediate);
    if (how === 'by itself') made.stop();
    const ended = new Promise<void>((resolve) => request.body.on('end', resolve));
    client.write('defghi');
    await ended;
    client.destroy();
    expect(sink.log).toEqual(['abc']);
    // An observer sees the whole body.
    expect(seen).toBe('abcdefghi');
  });
});
