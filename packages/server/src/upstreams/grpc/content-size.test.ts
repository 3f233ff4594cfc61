import { describe, expect, it } from 'vitest';
import { CallError } from '../operation.ts';
import { ContentSize, checkContentSize, jsonBytes } from './tool-operation.ts';

describe('the JSON size of a text', () => {
  it('is that of its JSON string', () => {
    for (let code = 0; code < 0x1000; code++) {
      const text = `x${String.fromCharCode(code)}`;
      expect([code, jsonBytes(text)]).toEqual([code, Buffer.byteLength(JSON.stringify(text)) - 2]);
    }
    for (const text of ['', '\ud7ff\ue000\uffff', '😀', '"\\\u2028']) {
      expect(jsonBytes(text)).toBe(Buffer.byteLength(JSON.stringify(text)) - 2);
    }
  });
});

describe('the size of content', () => {
  it('is that of all texts with their overhead', () => {
    const size = new ContentSize(100, 10);
    expect([size.add('\u0001'.repeat(10)), size.add('x'.repeat(20)), size.add('')]).toEqual([true, true, false]);
    expect(size.excess).toBe('more than 100 bytes of JSON, with 10 bytes counted per text');
  });

  it.each([
    ['texts without a character', Array.from({ length: 1_100_000 }, () => ''), undefined],
    ['a long uri beside each', Array.from({ length: 2_000 }, () => 'x'), 64 * 1024],
  ])('is limited: %s', (_what, content, blockBytes) => {
    expect(() => checkContentSize('service weather', content, blockBytes)).toThrow(CallError);
    expect(() => checkContentSize('service weather', content, blockBytes)).toThrow(
      /^service weather sent a reply of more than 67108864 bytes of JSON, with \d+ bytes counted per text$/,
    );
    expect(checkContentSize('service weather', content.slice(0, 1_000), blockBytes)).toHaveLength(1_000);
  });
});
