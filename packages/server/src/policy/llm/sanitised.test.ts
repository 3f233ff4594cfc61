import { array, constantFrom, integer, property, assert as prove, string } from 'fast-check';
import { describe, expect, test } from 'vitest';
import { sanitised } from './prompt.ts';

const LRE = '\u202a';

describe('what becomes of', () => {
  test.each([
    ['plain text', 'Pay 5 € to "Bob" #1', 'Pay 5 € to "Bob" #1'],
    ['nothing', '', ''],
    ['a line break', 'a\nb', 'a b'],
    ['a carriage return', 'a\rb', 'a b'],
    ['both', 'a\r\nb', 'a b'],
    ['a tab', 'a\tb', 'a b'],
    ['several of them', 'a\r\n\t\n\n b', 'a  b'],
    ['a break at both ends', '\na\n', ' a '],
    ['Unicode line breaks', 'a\u0085b\u2028c\u2029d\u000be\u000cf', 'a b c d e f'],
    ['a break with a control in it', 'a\r\u0000\nb', 'a b'],
    ['C0 controls', 'a\u0000\u0007\u001b[31mb\u007f', 'a[31mb'],
    ['C1 controls', 'a\u0080\u009b\u009fb', 'ab'],
    ['marks of direction', `a${LRE}\u202e\u2066\u2069\u061c\u200e\u200fb`, 'ab'],
    ['a heading', '# Request', ' Request'],
    ['a deep heading', '### x #', ' x #'],
    ['a heading behind controls', `\u0000${LRE}#x`, 'x'],
    ['a heading behind blanks and breaks', ' \n # # x', '     x'],
    ['a heading behind blanks of other kinds', '\u00a0#\u3000#x', '\u00a0\u3000x'],
    ['a # further on', 'x # y', 'x # y'],
    ['halves of surrogates', 'a\ud800b\udc00', 'a\ufffdb\ufffd'],
    ['characters outside the first plane', 'a😀b', 'a😀b'],
  ])('%s', (_what, text, expected) => {
    expect(sanitised(text, 1000)).toBe(expected);
  });
});

describe('a cut', () => {
  test.each([
    ['aaaa', 3, 'aaa'],
    ['aaa', 3, 'aaa'],
    ['aaé', 3, 'aa'],
    ['aé', 3, 'aé'],
    ['€€', 5, '€'],
    ['a😀', 4, 'a'],
    ['a😀b', 5, 'a😀'],
    ['😀a', 3, ''],
    ['##abc', 2, 'ab'],
    ['##\u0000 #abc', 2, ' a'],
    ['\r\u0000\nab', 2, ' a'],
    ['\u0000\u0000abc', 2, 'ab'],
  ])('of %j to %i bytes', (text, most, expected) => {
    expect(sanitised(text, most)).toBe(expected);
  });
});

const hostile = array(
  constantFrom('a', ' ', '#', '\n', '\r', '\t', '\u0000', '\u0085', '\u2028', LRE, 'é', '€', '😀', '\ud83d'),
  {
    maxLength: 40,
  },
).map((pieces) => pieces.join(''));

describe.each([
  ['any text', string({ unit: 'binary', maxLength: 60 })],
  ['what is hard', hostile],
])('of %s', (_what, texts) => {
  test('there is one line, nothing unseen, no heading, and as many bytes as may be', () => {
    prove(
      property(texts, integer({ min: 0, max: 80 }), (text, most) => {
        const made = sanitised(text, most);
        expect(Buffer.byteLength(made)).toBeLessThanOrEqual(most);
        expect(made).not.toMatch(/[\p{Cc}\p{Bidi_Control}\u2028\u2029]|^\s*#/u);
        expect(made.isWellFormed()).toBe(true);
      }),
    );
  });

  test('a shorter cut is the beginning of a longer one', () => {
    prove(
      property(texts, integer({ min: 0, max: 40 }), (text, most) => {
        const whole = sanitised(text, 1000);
        const cut = sanitised(text, most);
        expect(whole.startsWith(cut)).toBe(true);
        const next = whole.slice(cut.length).codePointAt(0);
        if (next !== undefined) expect(Buffer.byteLength(cut + String.fromCodePoint(next))).toBeGreaterThan(most);
      }),
    );
  });

  test('what was made of it stays as it is', () => {
    prove(
      property(texts, (text) => {
        const once = sanitised(text, 50);
        expect(sanitised(once, 50)).toBe(once);
      }),
    );
  });
});
