import { describe, expect, it } from 'vitest';
import { randomDocument, seeded } from './fixtures/documents.ts';
import { isJsonObject, parseJson } from './parse.ts';
import { applyEdits, members, removeEdits } from './text.ts';

/** The text without the members whose key begins with `x`. */
const without = (text: string, start = 0) =>
  applyEdits(
    text,
    removeEdits(text, start, (key) => key.startsWith('x')),
  );

describe('removed members', () => {
  it.each([
    ['{}', '{}'],
    ['{"a":1.0}', '{"a":1.0}'],
    ['{"x":1}', '{}'],
    ['{"x":1,"x":2}', '{}'],
    ['{"x":1,"a":2}', '{"a":2}'],
    ['{"a":1,"x":2}', '{"a":1}'],
    ['{"a":1,"x":2,"b":3}', '{"a":1,"b":3}'],
    ['{"x1":1,"x2":2,"a":3,"x3":4,"x4":5,"b":6,"x5":7}', '{"a":3,"b":6}'],
    ['{ "x" : {"a":"},{"} , "a" : [1,"x"] }', '{ "a" : [1,"x"] }'],
    ['{"a":1 , "x":2 }', '{"a":1 }'],
    ['{"\\u0078":1,"a":"\\u0078"}', '{"a":"\\u0078"}'],
    ['[{"x":1}]', '[{"x":1}]'],
    ['"x"', '"x"'],
  ])('leave the rest unchanged: %s', (text, expected) => {
    expect(without(text)).toBe(expected);
  });

  it('are those of the object at that place alone', () => {
    const text = '{"x":0,"a":{"x":1,"b":{"x":2}},"c":{"x":3}}';
    expect(without(text, text.indexOf('{"x":1'))).toBe('{"x":0,"a":{"b":{"x":2}},"c":{"x":3}}');
  });

  it('leave the other values unchanged, for 2,000 generated documents', () => {
    let taken = 0;
    for (let seed = 1; seed <= 2_000; seed++) {
      const random = seeded(seed);
      const text = randomDocument(random);
      const value = parseJson(text);
      if (!isJsonObject(value)) continue;
      const drop = new Set(Object.keys(value).filter(() => random() < 0.5));
      taken += drop.size;
      const edits = removeEdits(text, 0, (key) => drop.has(key));
      const left = applyEdits(text, edits);
      const expected = Object.fromEntries(Object.entries(value).filter(([key]) => !drop.has(key)));
      expect(parseJson(left)).toEqual(expected);
      // No edit touches a remaining value.
      for (const { key, start, end } of members(text)) {
        if (drop.has(key)) continue;
        expect(edits.filter((edit) => edit.start < end && edit.end > start)).toEqual([]);
      }
    }
    expect(taken).toBeGreaterThan(100);
  });
});
