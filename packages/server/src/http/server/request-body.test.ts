import { Socket } from 'node:net';
import { expect, it } from 'vitest';
import { RequestBody } from './request-body.ts';

it('merges small pieces of a body that nobody reads, and stops reading the client at 64 KiB', () => {
  const socket = new Socket();
  const body = new RequestBody(socket);
  for (let at = 0; at < 64 * 1024; at++) {
    expect(socket.isPaused()).toBe(false);
    body.push(Buffer.of(at % 251));
  }
  expect(socket.isPaused()).toBe(true);
  body.finish();
  const taken = body.take(64 * 1024);
  expect(taken?.length).toBe(64 * 1024);
  expect(taken?.chunks.length).toBeLessThan(10);
  expect(taken?.capacity).toBeLessThan(200 * 1024);
  expect(taken?.concat().every((byte, at) => byte === at % 251)).toBe(true);
});

it('passes on the rest of an unread body after each pause, in order', async () => {
  const body = new RequestBody(new Socket());
  const pieces = Array.from({ length: 5 }, (_, at) => Buffer.alloc(10_000, at));
  for (const piece of pieces) body.push(piece);
  body.finish();
  const read: Buffer[] = [];
  await new Promise<void>((resolve) => {
    body.on('end', resolve);
    body.on('data', (chunk: Buffer) => {
      read.push(chunk);
      body.pause();
      setImmediate(() => body.resume());
    });
  });
  expect(Buffer.concat(read).equals(Buffer.concat(pieces))).toBe(true);
});

it('passes nothing on after it was aborted by its reader', async () => {
  const body = new RequestBody(new Socket());
  for (let at = 0; at < 3; at++) body.push(Buffer.alloc(10_000, at));
  let events = 0;
  body.on('data', () => {
    events++;
    body.abort();
  });
  await new Promise((resolve) => setImmediate(resolve));
  expect(events).toBe(1);
});

it('discards a body that nobody listens for', async () => {
  const body = new RequestBody(new Socket());
  for (let at = 0; at < 3; at++) body.push(Buffer.alloc(10_000, at));
  body.finish();
  body.discardUnread();
  await new Promise(setImmediate);
  expect(body.take(1)).toBeUndefined();
  expect(body.isFull).toBe(false);
});
