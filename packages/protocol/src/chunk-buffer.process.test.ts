import { expect, it } from 'vitest';
import { ChunkBuffer } from './chunk-buffer.ts';

it('concatenates chunks of any size', () => {
  for (const size of [1, 3, 4096, 5000, 8191, 100_000]) {
    const body = Buffer.from(Array.from({ length: 100_000 }, (_, index) => index % 251));
    const collector = new ChunkBuffer();
    for (let at = 0; at < body.length; at += size) collector.push(body.subarray(at, at + size));
    expect(collector.length).toBe(body.length);
    expect(collector.concat().equals(body)).toBe(true);
  }
});

it('does not copy a single chunk and does not modify chunks', () => {
  const first = Buffer.from('first');
  const whole = new ChunkBuffer();
  whole.push(first);
  expect(whole.concat().buffer).toBe(first.buffer);

  const joined = new ChunkBuffer();
  joined.push(first);
  joined.push(Buffer.from('second'));
  expect(joined.concat().toString()).toBe('firstsecond');
  expect(first.toString()).toBe('first');
});

it('uses memory in proportion to the bytes, not to the chunks', () => {
  const collector = new ChunkBuffer();
  const before = process.memoryUsage().arrayBuffers;
  for (let index = 0; index < 1_000_000; index++) collector.push(Buffer.alloc(1));
  expect(collector.concat().length).toBe(1_000_000);
  expect(process.memoryUsage().arrayBuffers - before).toBeLessThan(64 * 1024 * 1024);
});

it('returns an empty buffer without chunks', () => {
  expect(new ChunkBuffer().concat().length).toBe(0);
});
