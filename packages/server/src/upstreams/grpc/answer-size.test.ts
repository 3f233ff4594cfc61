import { describe, expect, it } from 'vitest';
import { ServiceError } from './call.ts';
import { AnswerSize, boundedContent, jsonBytes } from './tools.ts';

describe('what a text takes in JSON', () => {
  it('is what it is written as', () => {
    for (let code = 0; code < 0x1000; code++) {
      const text = `x${String.fromCharCode(code)}`;
      expect([code, jsonBytes(text)]).toEqual([code, Buffer.byteLength(JSON.stringify(text)) - 2]);
    }
    for (const text of ['', '\ud7ff\ue000\uffff', '😀', '"\\\u2028']) {
      expect(jsonBytes(text)).toBe(Buffer.byteLength(JSON.stringify(text)) - 2);
    }
  });
});

describe('the size of an answer', () => {
  it('is that of all its texts, and of what stands around each', () => {
    const size = new AnswerSize(100, 10);
    expect([size.add('\u0001'.repeat(10)), size.add('x'.repeat(20)), size.add('')]).toEqual([true, true, false]);
    expect(size.excess).toBe('more than 100 bytes of JSON, where each text counts for 10 more');
  });

  it.each([
    ['texts without a character', Array.from({ length: 1_100_000 }, () => ''), undefined],
    ['a long uri beside each', Array.from({ length: 2_000 }, () => 'x'), 64 * 1024],
  ])('is bounded: %s', (_what, content, blockBytes) => {
    expect(() => boundedContent('service weather', content, blockBytes)).toThrow(ServiceError);
    expect(() => boundedContent('service weather', content, blockBytes)).toThrow(
      /^service weather sent a reply that makes more than 67108864 bytes of JSON, where each text counts for \d+ more$/,
    );
    expect(boundedContent('service weather', content.slice(0, 1_000), blockBytes)).toHaveLength(1_000);
  });
});
