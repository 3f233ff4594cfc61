import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { FrameReader, frame } from './ipc.ts';

const MAX_BYTES = 300;

/** All bytes in pieces that end at these places. */
function cut(bytes: Buffer, ends: readonly number[]): Buffer[] {
  const places = [0, ...ends.map((end) => end % (bytes.length + 1)).sort((one, other) => one - other), bytes.length];
  return places.slice(1).map((end, index) => bytes.subarray(places[index], end));
}

const contents = fc.array(fc.uint8Array({ maxLength: MAX_BYTES, size: 'max' }), { maxLength: 8 });
const ends = fc.array(fc.nat(), { maxLength: 40, size: 'max' });

describe('frames', () => {
  it('come out as they went in, whatever pieces they come in', () => {
    fc.assert(
      fc.property(contents, ends, (frames, places) => {
        const reader = new FrameReader(MAX_BYTES);
        const taken = cut(Buffer.concat(frames.map(frame)), places).map((piece) => reader.take(piece));
        expect(taken).not.toContain(undefined);
        expect(taken.flatMap((read = []) => read)).toEqual(frames.map((bytes) => Buffer.from(bytes)));
      }),
    );
  });

  it('come out byte by byte, and each as soon as it is whole', () => {
    const reader = new FrameReader(MAX_BYTES);
    const bytes = Buffer.concat([frame(Buffer.from('one')), frame(Buffer.alloc(0)), frame(Buffer.from('two'))]);
    const whole: [at: number, text: string][] = [];
    for (const [at, byte] of bytes.entries()) {
      for (const read of reader.take(Buffer.of(byte)) ?? []) whole.push([at, read.toString()]);
    }
    expect(whole).toEqual([
      [6, 'one'],
      [10, ''],
      [17, 'two'],
    ]);
  });

  it('may be empty, and many at once', () => {
    const empty = Array.from({ length: 1_000 }, () => frame(Buffer.alloc(0)));
    expect(new FrameReader(0).take(Buffer.concat(empty))).toHaveLength(1_000);
  });

  it('are refused when they are too long, before they have come', () => {
    fc.assert(
      fc.property(fc.integer({ min: MAX_BYTES + 1, max: 0xffff_ffff }), ends, (length, places) => {
        const head = Buffer.alloc(4);
        head.writeUInt32LE(length);
        const reader = new FrameReader(MAX_BYTES);
        expect(
          cut(head, places)
            .map((piece) => reader.take(piece))
            .at(-1),
        ).toBeUndefined();
      }),
    );
  });

  it('are taken up to the longest', () => {
    const longest = Buffer.alloc(MAX_BYTES, 'x');
    expect(new FrameReader(MAX_BYTES).take(frame(longest))).toEqual([longest]);
    expect(new FrameReader(MAX_BYTES).take(frame(Buffer.alloc(MAX_BYTES + 1)))).toBeUndefined();
  });
});
