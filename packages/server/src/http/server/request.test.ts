import { Socket } from 'node:net';
import { expect, it } from 'vitest';
import { ServerRequest } from './request.ts';
import { type RequestHead, RequestParser } from './request-parser.ts';

/** A request whose body has not been read, with its socket. */
function received(): { request: ServerRequest; socket: Socket } {
  let head: RequestHead | undefined;
  const parser = new RequestParser({
    onHead: (parsed) => {
      head = parsed;
    },
    onBody: () => undefined,
  });
  const bytes = Buffer.from('POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n');
  parser.execute(bytes, 0, bytes.length);
  if (!head) throw new Error('no head');
  const socket = new Socket();
  return { request: new ServerRequest(head, socket), socket };
}

it('merges small pieces of a body that nobody reads, and stops reading the client at 64 KiB', () => {
  const { request, socket } = received();
  for (let at = 0; at < 64 * 1024; at++) {
    expect(socket.isPaused()).toBe(false);
    request.push(Buffer.of(at % 251));
  }
  expect(socket.isPaused()).toBe(true);
  request.finish();
  const body = request.takeBody(64 * 1024);
  expect(body?.length).toBe(64 * 1024);
  expect(body?.chunks.length).toBeLessThan(10);
  expect(body?.capacity).toBeLessThan(200 * 1024);
  expect(body?.concat().every((byte, at) => byte === at % 251)).toBe(true);
});

it('passes on the rest of an unread body after each pause, in order', async () => {
  const { request } = received();
  const pieces = Array.from({ length: 5 }, (_, at) => Buffer.alloc(10_000, at));
  for (const piece of pieces) request.push(piece);
  request.finish();
  const read: Buffer[] = [];
  await new Promise<void>((resolve) => {
    request.on('end', resolve);
    request.on('data', (chunk: Buffer) => {
      read.push(chunk);
      request.pause();
      setImmediate(() => request.resume());
    });
  });
  expect(Buffer.concat(read).equals(Buffer.concat(pieces))).toBe(true);
});

it('passes nothing on after it was aborted by its reader', async () => {
  const { request } = received();
  for (let at = 0; at < 3; at++) request.push(Buffer.alloc(10_000, at));
  let events = 0;
  request.on('data', () => {
    events++;
    request.abort();
  });
  await new Promise((resolve) => setImmediate(resolve));
  expect(events).toBe(1);
});

it('discards a body that nobody listens for', async () => {
  const { request } = received();
  for (let at = 0; at < 3; at++) request.push(Buffer.alloc(10_000, at));
  request.finish();
  request.discardUnread();
  await new Promise(setImmediate);
  expect(request.takeBody(1)).toBeUndefined();
  expect(request.isFull).toBe(false);
});
