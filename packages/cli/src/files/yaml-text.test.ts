import { type JsonValue, parseLossless } from '@sluice/protocol/json/parse';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { anyCharacter } from '../../../../test/fixtures/any-character.ts';
import { propertyRuns } from '../../../../test/fixtures/seed.ts';
import { sanitizeText } from '../terminal/text.ts';
import { parseLocated } from './located-document.ts';
import { toYaml } from './yaml-text.ts';

const number = fc.oneof(
  fc
    .double({ noNaN: true, noDefaultInfinity: true })
    .map(String)
    .filter((text) => !text.includes('+')),
  fc.bigInt({ min: -(10n ** 30n), max: 10n ** 30n }).map(String),
  fc.constantFrom('1.0', '-0', '-0.0', '1E5', '1e400', '9223372036854775807', '0.10', '1.50e-3'),
);
const string = fc.oneof(
  fc.string({ unit: anyCharacter }),
  fc.string({
    unit: fc.constantFrom(
      ' ',
      '\n',
      '\t',
      '\r',
      '#',
      ':',
      '-',
      '"',
      "'",
      '\\',
      'a',
      '\u2028',
      '\ufeff',
      '\u0085',
      '\ud800',
      '%',
      '\u009b',
      '\u202e',
      '\u200b',
      '\u200d',
      '\u{e0041}',
      '\u{1f468}',
    ),
  }),
  fc.constantFrom(
    'true',
    'null',
    '~',
    '1.0',
    '0x10',
    '<<',
    '.inf',
    '---',
    '2026-01-01',
    'a: b',
    '- a',
    '*a',
    '&a',
    '!!str a',
    '@a',
    '`a',
    '',
  ),
);
/** JSON text. */
const json = fc.letrec<{ value: string }>((tie) => ({
  value: fc.oneof(
    { depthSize: 'small' },
    number,
    string.map((text) => JSON.stringify(text)),
    fc.constantFrom('true', 'false', 'null'),
    fc.array(tie('value')).map((items) => `[${items.join(',')}]`),
    fc
      .array(fc.tuple(string, tie('value')), { maxLength: 5 })
      .map((members) => new Map(members))
      .map((members) => `{${[...members].map(([key, value]) => `${JSON.stringify(key)}:${value}`).join(',')}}`),
  ),
})).value;

test('contains no invisible, cursor or bidirectional control characters', () => {
  fc.assert(
    fc.property(string, (text) => {
      const yaml = toYaml({ a: text, [text]: 1 });
      expect(yaml).toBe(sanitizeText(yaml));
    }),
    { numRuns: propertyRuns(1000), examples: [['a\u009b31mRED\u202eevil'], ['\u001b[2J'], ['\u200b'], ['\u{e0041}']] },
  );
});

test('spaces are preserved at any position', () => {
  const blank = fc.string({ unit: fc.constantFrom(' ', '\n', 'a', '-', '#') });
  fc.assert(
    fc.property(blank, fc.constantFrom('top', 'member', 'item'), (text, where) => {
      const value = where === 'top' ? text : where === 'item' ? [[text]] : { a: { b: text } };
      expect(parseLocated(toYaml(value), 'x').content).toEqual(value);
    }),
    { numRuns: propertyRuns(1000), examples: [[' \n', 'top']] },
  );
});

test('YAML round-trips with exact numbers', () => {
  fc.assert(
    fc.property(json, (text) => {
      const value: JsonValue = parseLossless(text);
      expect(JSON.stringify(parseLocated(toYaml(value), 'x').content)).toBe(JSON.stringify(value));
    }),
    { numRuns: propertyRuns(1000) },
  );
});
