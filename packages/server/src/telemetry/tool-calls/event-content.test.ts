import type { JsonValue } from '@sluice/protocol/json/parse';
import { describe, expect, test } from 'vitest';
import { contentOfResult, contentOfTexts, isErrorResult } from './report.ts';

const LIMIT = 16 * 1024;

describe('the texts of an event', () => {
  test.each([
    ['none', [], [], false],
    ['few', ['a', 'ä'], ['a', 'ä'], false],
    ['as many as may be', ['x'.repeat(LIMIT)], ['x'.repeat(LIMIT)], false],
    ['one byte too many', ['x'.repeat(LIMIT + 1)], ['x'.repeat(LIMIT)], true],
    ['too many together', ['x'.repeat(LIMIT - 1), 'abc', 'd'], ['x'.repeat(LIMIT - 1), 'a'], true],
    ['no room for another', ['x'.repeat(LIMIT), 'a'], ['x'.repeat(LIMIT)], true],
    ['two bytes each, odd room', ['a', 'ä'.repeat(LIMIT)], ['a', 'ä'.repeat(LIMIT / 2 - 1)], true],
    ['four bytes each', ['😀'.repeat(LIMIT)], ['😀'.repeat(LIMIT / 4)], true],
    ['four bytes each, odd room', ['abc', '😀'.repeat(LIMIT)], ['abc', '😀'.repeat(LIMIT / 4 - 1)], true],
    ['half a pair where it is cut', [`${'x'.repeat(LIMIT - 1)}😀`], ['x'.repeat(LIMIT - 1)], true],
  ])('are cut at 16 KiB in all: %s', (_what, texts, kept, truncated) => {
    expect(contentOfTexts(texts)).toEqual({ texts: kept, truncated });
  });

  test('are not endlessly many', () => {
    const many = Array.from({ length: 512 }, () => '');
    expect(contentOfTexts(many)).toEqual({ texts: many, truncated: false });
    expect(contentOfTexts([...many, 'x'])).toEqual({ texts: many, truncated: true });
  });
});

describe('of an MCP result', () => {
  test('the text blocks count', () => {
    const content: JsonValue = [
      { type: 'text', text: 'a' },
      { type: 'image', data: 'S3CRET', mimeType: 'image/png' },
      { type: 'resource', resource: { uri: 'u:1', text: 'S3CRET' } },
      { type: 'text', text: 'b' },
    ];
    expect(contentOfResult({ content, structuredContent: { a: 'S3CRET' } }).texts).toEqual(['a', 'b']);
  });

  const UNUSABLE: (JsonValue | undefined)[] = [
    undefined,
    null,
    5,
    [],
    {},
    { content: {} },
    { content: [null, 5, {}, { type: 'text', text: 5 }] },
  ];
  test.for(UNUSABLE)('%j has none', (result) => {
    expect(contentOfResult(result)).toEqual({ texts: [], truncated: false });
    expect(isErrorResult(result)).toBe(false);
  });

  test('isError counts when it is true', () => {
    expect([isErrorResult({ isError: true }), isErrorResult({ isError: 'true' }), isErrorResult({})]).toEqual([
      true,
      false,
      false,
    ]);
  });
});
