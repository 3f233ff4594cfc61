import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { encodeFrame } from './host/parent-pipe.ts';
import { FrameReader } from './ipc.ts';

const MAX_BYTES = 300;

/** Splits bytes into chunks that end at these positions. */
function split(bytes: Buffer, ends: readonly number[]): Buffer[] {
  const positions = [0, ...ends.map((end) => end % (bytes.length + 1)).sort((one, other) => one - other), bytes.length];
  return positions.slice(1).map((end, index) => bytes.subarray(positions[index], end));
}

const contents = fc.array(fc.uint8Array({ maxLength: MAX_BYTES, size: 'max' }), { maxLength: 8 });
const ends = fc.array(fc.nat(), { maxLength: 40, size: 'max' });

describe('frames', () => {
  it('are decoded unchanged, however they are split into chunks', () => {
    fc.assert(
      fc.property(contents, ends, (frames, at) => {
        const reader = new FrameReader(MAX_BYTES);
        const decoded = split(Buffer.concat(frames.map(encodeFrame)), at).map((chunk) => reader.push(chunk));
        expect(decoded).not.toContain(undefined);
        expect(decoded.flatMap((read = []) => read)).toEqual(frames.map((bytes) => Buffer.from(bytes)));
      }),
    );
  });

  it('are decoded byte by byte, each as soon as it is complete', () => {
    const reader = new FrameReader(MAX_BYTES);
    const bytes = Buffer.concat([
      encodeFrame(Buffer.from('one')),
      encodeFrame(Buffer.alloc(0)),
      encodeFrame(Buffer.from('two')),
    ]);
    const whole: [at: number, text: string][] = [];
    for (const [at, byte] of bytes.entries()) {
      for (const read of reader.push(Buffer.of(byte)) ?? []) whole.push([at, read.toString()]);
    }
    expect(whole).toEqual([
      [6, 'one'],
      [10, ''],
      [17, 'two'],
    ]);
  });

  it('may be empty, and many in one chunk', () => {
    const empty = Array.from({ length: 1_000 }, () => encodeFrame(Buffer.alloc(0)));
    expect(new FrameReader(0).push(Buffer.concat(empty))).toHaveLength(1_000);
  });

  it('are rejected by their header when they are too long', () => {
    fc.assert(
      fc.property(fc.integer({ min: MAX_BYTES + 1, max: 0xffff_ffff }), ends, (length, at) => {
        const head = Buffer.alloc(4);
        head.writeUInt32LE(length);
        const reader = new FrameReader(MAX_BYTES);
        expect(
          split(head, at)
            .map((chunk) => reader.push(chunk))
            .at(-1),
        ).toBeUndefined();
      }),
    );
  });

  it('are accepted up to the maximum length', () => {
    const longest = Buffer.alloc(MAX_BYTES, 'x');
    expect(new FrameReader(MAX_BYTES).push(encodeFrame(longest))).toEqual([longest]);
    expect(new FrameReader(MAX_BYTES).push(encodeFrame(Buffer.alloc(MAX_BYTES + 1)))).toBeUndefined();
  });
});
