import { parse } from 'jsonc-parser';
import { describe, expect, it } from 'vitest';
import { addMember, findMember, parseJsonc, removeMember, replaceValue } from './jsonc.ts';

const VALUE = { url: 'u', args: ['a'] };

function add(text: string): string {
  return addMember(text, parseJsonc(text), 'new', VALUE);
}

function remove(text: string): string {
  const object = parseJsonc(text);
  const member = findMember(text, object, 'old');
  return member === undefined ? text : removeMember(text, object, member);
}

function lines(...texts: readonly string[]): string {
  return texts.map((text) => `${text}\n`).join('');
}

describe('adding a member', () => {
  it.each([
    ['to an empty object', '{}', '{\n  "new": {\n    "url": "u",\n    "args": [\n      "a"\n    ]\n  }\n}'],
    ['to a line', '{"a":1}', '{"a":1,"new":{"url":"u","args":["a"]}}'],
    ['to a line with a trailing comma', '{ "a": 1, }', '{ "a": 1,"new":{"url":"u","args":["a"]}, }'],
    [
      'after a comment that belongs to the one before',
      lines('{', '\t"a": {} // the a', '}'),
      lines(
        '{',
        '\t"a": {}, // the a',
        '\t"new": {',
        '\t\t"url": "u",',
        '\t\t"args": [',
        '\t\t\t"a"',
        '\t\t]',
        '\t}',
        '}',
      ),
    ],
    [
      'where a comma trails',
      lines('{', '    "a": {}, /* x */ // y', '    // z', '}'),
      lines(
        '{',
        '    "a": {}, /* x */ // y',
        '    "new": {',
        '        "url": "u",',
        '        "args": [',
        '            "a"',
        '        ]',
        '    },',
        '    // z',
        '}',
      ),
    ],
    [
      'below the comments of an object without members',
      lines('{', '  // none yet', '}'),
      lines('{', '  // none yet', '  "new": {', '    "url": "u",', '    "args": [', '      "a"', '    ]', '  }', '}'),
    ],
  ])('%s', (_where, before, after) => {
    expect(add(before)).toBe(after);
  });

  it('keeps CRLF line breaks', () => {
    const text = '{\r\n  "a": 1\r\n}\r\n';
    expect(add(text)).toBe(
      '{\r\n  "a": 1,\r\n  "new": {\r\n    "url": "u",\r\n    "args": [\r\n      "a"\r\n    ]\r\n  }\r\n}\r\n',
    );
  });
});

describe('removing a member', () => {
  it.each([
    ['the only one', lines('{', '  "old": {}', '}'), '{}\n'],
    ['the only one, with a trailing comma', lines('{', '  "old": {},', '}'), '{}\n'],
    ['the first', lines('{', '  "old": {', '    "x": 1', '  },', '  "b": 1', '}'), lines('{', '  "b": 1', '}')],
    ['the last', lines('{', '  "a": 1, // a', '  "old": {}', '}'), lines('{', '  "a": 1 // a', '}')],
    ['the last, with a trailing comma', lines('{', '  "a": 1,', '  "old": {},', '}'), lines('{', '  "a": 1,', '}')],
    ['the last on a line', '{ "a": 1, "old": 2 }', '{ "a": 1 }'],
    ['one in the middle of a line', '{ "a": 1, "old": 2, "b": 3 }', '{ "a": 1, "b": 3 }'],
    [
      'one that others comment on',
      lines('{', '  "a": 1, // a', '  // above', '  "old": 2, // behind', '  "b": 3', '}'),
      lines('{', '  "a": 1, // a', '  // above', '   // behind', '  "b": 3', '}'),
    ],
  ])('%s', (_which, before, after) => {
    expect(remove(before)).toBe(after);
  });

  it('reverts an addition', () => {
    for (const text of [lines('{', '  "a": {} // the a', '}'), '{"a":1}', lines('{', '\t"a": 1,', '}')]) {
      const added = add(text);
      const object = parseJsonc(added);
      const member = findMember(added, object, 'new');
      expect(member && removeMember(added, object, member)).toBe(text);
    }
  });
});

describe('replacing a value', () => {
  it('leaves everything around it unchanged', () => {
    const text = lines('{', '  "a" :  1 , // a', '  "old": "x", // behind', '}');
    const member = findMember(text, parseJsonc(text), 'old');
    expect(member && replaceValue(text, member, ['y'])).toBe(
      lines('{', '  "a" :  1 , // a', '  "old": [', '    "y"', '  ], // behind', '}'),
    );
  });
});

it('the result has the intended value', () => {
  for (const text of ['{}', '{"a":{"b":[1,2,{"c":"}"}]}}', '{ /* , */ "a": "//" /* } */ }', lines('{', '"a":1', '}')]) {
    expect(parse(add(text))).toEqual({ ...parse(text), new: VALUE });
  }
});
