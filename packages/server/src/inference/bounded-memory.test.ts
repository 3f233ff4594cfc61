import fc from 'fast-check';
import { expect, test } from 'vitest';
import { BoundedBuffer } from './bounded-memory.ts';
import { deliverChunks, splitPositions } from './chunks.fixture.ts';

test('stores the first bytes of any chunks in a buffer of exactly their size', () => {
  fc.assert(
    fc.property(
      fc.uint8Array({ maxLength: 300 }),
      splitPositions,
      fc.integer({ min: 1, max: 200 }),
      (all, positions, limit) => {
        const bytes = Buffer.from(all);
        const buffer = new BoundedBuffer(limit);
        let stored = 0;
        deliverChunks(bytes, positions, (chunk) => {
          stored += buffer.push(chunk);
        });
        expect(buffer.isTruncated).toBe(bytes.length > limit);
        expect([stored, buffer.length]).toEqual([Math.min(bytes.length, limit), Math.min(bytes.length, limit)]);
        const taken = buffer.take();
        expect(taken).toEqual(bytes.length === 0 ? undefined : bytes.subarray(0, limit));
        expect(taken?.buffer.byteLength ?? 0).toBe(stored);
      },
    ),
  );
});
