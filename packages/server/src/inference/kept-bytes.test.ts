import fc from 'fast-check';
import { expect, test } from 'vitest';
import { BoundedBuffer } from './body-capture.ts';
import { cuts, givePieces } from './pieces.fixture.ts';

test('the first bytes are kept, in whatever pieces they come, in a buffer of that size alone', () => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 300 }), cuts, fc.integer({ min: 1, max: 200 }), (all, places, limit) => {
      const bytes = Buffer.from(all);
      const kept = new BoundedBuffer(limit);
      let taken = 0;
      givePieces(bytes, places, (piece) => {
        taken += kept.push(piece);
      });
      expect(kept.cut).toBe(bytes.length > limit);
      expect([taken, kept.length]).toEqual([Math.min(bytes.length, limit), Math.min(bytes.length, limit)]);
      const held = kept.take();
      expect(held).toEqual(bytes.length === 0 ? undefined : bytes.subarray(0, limit));
      expect(held?.buffer.byteLength ?? 0).toBe(taken);
    }),
  );
});
