import { describe, expect, test } from 'vitest';
import { randomDocument, seeded } from './fixtures/documents.ts';
import { parseJson } from './parse.ts';
import { elements, members, memberText } from './text.ts';

function cut(text: string, start?: number): [string, string][] {
  return [...members(text, start)].map((member) => [member.key, text.slice(member.start, member.end)]);
}

describe('members', () => {
  test.each([
    ['{}', []],
    [' \n{ \t}\r\n', []],
    ['{"a":1}', [['a', '1']]],
    [
      '{"a" : 1.0 , "b":[1, 2]\n,"c": {"d":{}} }',
      [
        ['a', '1.0'],
        ['b', '[1, 2]'],
        ['c', '{"d":{}}'],
      ],
    ],
    [
      '{"a":1,"a":2}',
      [
        ['a', '1'],
        ['a', '2'],
      ],
    ],
    [
      '{"\\u0061\\n":true,"é𝄞":null}',
      [
        ['a\n', 'true'],
        ['é𝄞', 'null'],
      ],
    ],
    [
      '{"":"","x":"}\\"]"}',
      [
        ['', '""'],
        ['x', '"}\\"]"'],
      ],
    ],
    [
      '{"a":"\\\\","b":"\\\\\\""}',
      [
        ['a', '"\\\\"'],
        ['b', '"\\\\\\""'],
      ],
    ],
    [
      '{"__proto__":1,"constructor":2}',
      [
        ['__proto__', '1'],
        ['constructor', '2'],
      ],
    ],
    [
      '{"n":-0,"big":9223372036854775807}',
      [
        ['n', '-0'],
        ['big', '9223372036854775807'],
      ],
    ],
  ])('of %s', (text, expected) => {
    expect(cut(text)).toEqual(expected);
  });

  test.each(['[]', '[{"a":1}]', '"{"', '1', 'null', ''])('there are none in %s', (text) => {
    expect(cut(text)).toEqual([]);
  });

  test('of an object at a later position', () => {
    const text = '[{"a":1}, {"b":2}]';
    expect(cut(text, 9)).toEqual([['b', '2']]);
  });
});

describe('elements', () => {
  test.each([
    ['[]', []],
    ['[ ]', []],
    ['[1,2]', ['1', '2']],
    [' [ {"a":[1]} ,\n"],"\t, [[]] ] ', ['{"a":[1]}', '"],"', '[[]]']],
    ['{"a":1}', []],
    ['"["', []],
  ])('of %s', (text, expected) => {
    expect([...elements(text)].map(({ start, end }) => text.slice(start, end))).toEqual(expected);
  });
});

describe('memberText', () => {
  test('is the exact text, the last one of duplicates', () => {
    expect(memberText('{"a":1.0,"b":2,"a":1e400}', 'a')).toBe('1e400');
    expect(memberText('{"a":{"b":1}}', 'b')).toBeUndefined();
    expect(memberText('{"\\u0062":1}', 'b')).toBe('1');
  });
});

/** The scanner's result in the form of JSON.parse. */
function rebuilt(text: string, start = 0): unknown {
  const first = text.slice(start).trimStart()[0];
  if (first === '[') return Array.from(elements(text, start), (range) => rebuilt(text.slice(range.start, range.end)));
  if (first !== '{') return JSON.parse(text.slice(start));
  return Object.fromEntries(
    Array.from(members(text, start), (member) => [member.key, rebuilt(text.slice(member.start, member.end))]),
  );
}

test('splitting 3,000 generated documents and joining the parts gives the same values', () => {
  for (let seed = 1; seed <= 3_000; seed++) {
    const text = randomDocument(seeded(seed));
    // As text, because matchers do not look at a member called __proto__.
    expect(JSON.stringify(rebuilt(text)), `seed ${seed}: ${text}`).toBe(JSON.stringify(parseJson(text)));
  }
});

test('a value 200,000 levels deep is skipped without exhausting the stack', () => {
  const deep = `${'[{"a":'.repeat(100_000)}1${'}]'.repeat(100_000)}`;
  expect(memberText(`{"x":${deep},"y":2}`, 'y')).toBe('2');
});

test('the time to scan grows with the text, also where it is all quotes and backslashes', () => {
  const long = JSON.stringify('\\"'.repeat(1_000_000));
  const began = performance.now();
  expect(cut(`{"x":${long},"y":[${long}]}`).map(([key]) => key)).toEqual(['x', 'y']);
  // Some 16 million characters: a scanner that backtracks would take minutes.
  expect(performance.now() - began).toBeLessThan(20_000);
});
