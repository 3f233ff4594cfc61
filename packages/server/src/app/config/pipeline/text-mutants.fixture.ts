import fc from 'fast-check';
import { anyCharacter } from '../../../../../../test/fixtures/any-character.ts';
import { KEYS, LEAVES } from './mutant-values.fixture.ts';

type TextKind = 'characters' | 'delete line' | 'duplicate line' | 'swap lines' | 'indent' | 'copy line' | 'word';

/** One edit; indexes are taken modulo the number of places. */
interface TextEdit {
  readonly kind: TextKind;
  readonly at: number;
  readonly to: number;
  /** Number of removed characters. */
  readonly drop: number;
  readonly shift: number;
  readonly characters: string;
  readonly word: string;
}

const textEdit: fc.Arbitrary<TextEdit> = fc.record({
  kind: fc.constantFrom<TextKind[]>(
    ...(['characters', 'delete line', 'duplicate line', 'swap lines', 'indent', 'copy line', 'word', 'word'] as const),
  ),
  at: fc.nat(),
  to: fc.nat(),
  drop: fc.nat(3),
  shift: fc.integer({ min: -4, max: 4 }),
  characters: fc.oneof(
    fc.constantFrom(
      ...'\t\n\r\0 :-[]{},&*!|>\'"%@`#?~',
      ' #',
      ': ',
      '- ',
      '---\n',
      '\n...\n',
      '&a ',
      '*a',
      '!!str ',
      '\u00a0',
      '\ufeff',
    ),
    fc.string({ unit: anyCharacter, maxLength: 3 }),
  ),
  word: fc.constantFrom(
    ...LEAVES.map((leaf) => (typeof leaf === 'string' ? leaf : JSON.stringify(leaf))),
    ...KEYS,
    '0x10',
    '1_000',
    '0o7',
    'yes',
    '~',
    '.inf',
    '2026-01-01',
    "'1'",
  ),
});

/** Generates texts with one to three edits of characters, words or lines. */
export function textMutants(original: string): fc.Arbitrary<string> {
  const edits = fc.oneof(fc.tuple(textEdit), fc.array(textEdit, { minLength: 2, maxLength: 3 }));
  return edits.map((all) => all.reduce(edited, original));
}

function edited(text: string, { kind, at, to, drop, shift, characters, word }: TextEdit): string {
  const lines = text.split('\n');
  const line = at % lines.length;
  const other = to % lines.length;
  const content = lines[line] ?? '';
  switch (kind) {
    case 'characters':
      return text.slice(0, at % text.length) + characters + text.slice((at % text.length) + drop);
    case 'delete line':
      return lines.toSpliced(line, 1).join('\n');
    case 'duplicate line':
      return lines.toSpliced(line, 0, content).join('\n');
    case 'swap lines':
      return lines
        .with(line, lines[other] ?? '')
        .with(other, content)
        .join('\n');
    case 'copy line':
      return lines.toSpliced(other, 0, content).join('\n');
    case 'indent':
      return lines.with(line, ' '.repeat(Math.max(0, content.search(/\S|$/) + shift)) + content.trimStart()).join('\n');
    case 'word': {
      const words = [...text.matchAll(/[^\s,:[\]{}]+/g)];
      const { index = 0, 0: old = '' } = words[at % words.length] ?? {};
      return text.slice(0, index) + word + text.slice(index + old.length);
    }
  }
}
