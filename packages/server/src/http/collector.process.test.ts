import { expect, it } from 'vitest';
import { ChunkBuffer } from './request-body.ts';

it('gives back what came, in whatever pieces', () => {
  for (const size of [1, 3, 4096, 100_000]) {
    const body = Buffer.from(Array.from({ length: 100_000 }, (_, index) => index % 251));
    const collector = new ChunkBuffer();
    for (let at = 0; at < body.length; at += size) collector.push(body.subarray(at, at + size));
    expect(collector.length).toBe(body.length);
    expect(collector.take().equals(body)).toBe(true);
  }
});

it('does not copy a body of one piece, and does not write into pieces of others', () => {
  const first = Buffer.from('first');
  const whole = new ChunkBuffer();
  whole.push(first);
  expect(whole.take().buffer).toBe(first.buffer);

  const joined = new ChunkBuffer();
  joined.push(first);
  joined.push(Buffer.from('second'));
  expect(joined.take().toString()).toBe('firstsecond');
  expect(first.toString()).toBe('first');
});

it('costs what the bytes cost, not what the pieces would', () => {
  const collector = new ChunkBuffer();
  const before = process.memoryUsage().arrayBuffers;
  for (let index = 0; index < 1_000_000; index++) collector.push(Buffer.alloc(1));
  expect(collector.take().length).toBe(1_000_000);
  expect(process.memoryUsage().arrayBuffers - before).toBeLessThan(64 * 1024 * 1024);
});

it('of nothing makes nothing', () => {
  expect(new ChunkBuffer().take().length).toBe(0);
});
