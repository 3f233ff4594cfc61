import { isUtf8 } from 'node:buffer';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { propertyRuns } from '../../../../test/fixtures/seed.ts';
import { tryParseJson } from './parse.ts';
import { stringStart } from './text.ts';

test('the beginning of a string is all of its value but a truncated character or escape', () => {
  const piece = fc.oneof(
    fc.string({ unit: 'binary', maxLength: 8 }).map((text) => JSON.stringify(text.toWellFormed()).slice(1, -1)),
    fc.constantFrom('\\\\', '\\\\\\\\', '\\"', '\\u00e4', '\\\\u0041', '\\n', 'é', '€', '😀'),
  );
  fc.assert(
    fc.property(fc.array(piece, { maxLength: 8 }), fc.nat(), (pieces, cut) => {
      const json = Buffer.from(`"${pieces.join('')}"`);
      const bytes = json.subarray(0, 1 + (cut % (json.length - 1)));
      const start = stringStart(bytes);
      expect(JSON.parse(json.toString()).startsWith(start)).toBe(true);
      // Nothing is missing but the character or escape that is cut.
      const candidates = [0, 1, 2, 3, 4, 5].map((missing) => bytes.subarray(0, bytes.length - missing));
      const longest = candidates.find((each) => isUtf8(each) && tryParseJson(`${each}"`) !== undefined);
      expect(start).toBe(tryParseJson(`${longest}"`));
    }),
    { numRuns: propertyRuns(10_000) },
  );
});
