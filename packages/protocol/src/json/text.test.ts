import fc from 'fast-check';
import { expect, test } from 'vitest';
import { skipString } from './text.ts';

test('a string ends at the first quote that is not escaped, however many are escaped before', () => {
  const piece = fc.constantFrom('"', '\\', '\n', '/', 'a'.repeat(300), '"'.repeat(300), '\\"');
  fc.assert(
    fc.property(fc.array(piece, { maxLength: 20 }), fc.constantFrom('', ':"x"', '\\'), (pieces, after) => {
      const string = JSON.stringify(pieces.join(''));
      expect(skipString(`[${string}${after}`, 1)).toBe(string.length + 1);
      expect(skipString(string.slice(0, -1), 0)).toBe(string.length - 1);
    }),
  );
});
