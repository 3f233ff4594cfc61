import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { propertyRuns } from '../../../test/fixtures/seed.ts';
import { compileGlob } from './glob.ts';

/** A matcher by definition: exponential, but obviously right. */
function matchesByDefinition(glob: readonly string[], text: readonly string[]): boolean {
  const [first, ...rest] = glob;
  if (first === undefined) return text.length === 0;
  if (first === '*')
    return text.some((_, at) => matchesByDefinition(rest, text.slice(at))) || matchesByDefinition(rest, []);
  return text.length > 0 && (first === '?' || first === text[0]) && matchesByDefinition(rest, text.slice(1));
}

describe('a glob', () => {
  it.each([
    ['read_*', 'read_file', true],
    ['read_*', 'read_', true],
    ['read_*', 'Read_file', false],
    ['read_*', 'unread_file', false],
    ['*', '', true],
    ['', '', true],
    ['*secret*', 'file:///a/secret/b', true],
    ['?ello', 'hello', true],
    ['?ello', 'ello', false],
    ['?', '😀', true],
    ['*?', '', false],
    ['a*?c', 'abcc', true],
    ['a*a', 'a', false],
    ['a.c[x]', 'a.c[x]', true],
    ['a.c', 'abc', false],
  ])('%s matches %s: %s', (glob, text, expected) => {
    expect(compileGlob(glob).matches(text)).toBe(expected);
  });

  it('matches as defined, for any glob and text', () => {
    const characters = (more: string[]) => fc.array(fc.constantFrom('a', 'b', '😀', ...more), { maxLength: 9 });
    fc.assert(
      fc.property(characters(['*', '*', '?']), characters([]), (glob, text) => {
        expect(compileGlob(glob.join('')).matches(text.join(''))).toBe(matchesByDefinition(glob, text));
      }),
      { numRuns: propertyRuns(5_000) },
    );
  });

  it('finds long parts with ? at any offset', () => {
    const part = `a${'?'.repeat(70)}b`;
    const glob = compileGlob(`*${part}*`);
    expect(glob.matches(`xx${'a'.repeat(72)}b`)).toBe(true);
    expect(glob.matches(`${'a'.repeat(200)}${'b'.repeat(70)}`)).toBe(true);
    expect(glob.matches(`${'a'.repeat(71)}c`)).toBe(false);
  });

  // With backtracking, each of these would take longer than the age of the universe.
  it.each([
    ['*a'.repeat(500), 'a'.repeat(8_191)],
    [`${'*a'.repeat(500)}b`, 'a'.repeat(8_191)],
    [`${'*?a'.repeat(300)}b`, 'a'.repeat(8_191)],
    [`*a${'?'.repeat(900)}b*c`, 'ab'.repeat(4_095)],
    [`${'*'.repeat(1_000)}b`, 'a'.repeat(8_191)],
  ])('takes linear time', (glob, text) => {
    expect(compileGlob(glob).matches(text)).toBe(glob === '*a'.repeat(500));
  });
});
