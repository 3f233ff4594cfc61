import fc from 'fast-check';
import { expect, test } from 'vitest';
import { propertyRuns } from '../../../../test/fixtures/seed.ts';
import { JsonScanner } from './json-scanner.ts';
import { cuts, givePieces } from './pieces.fixture.ts';

function outlineOf(bytes: Buffer | string, places: readonly number[] = []): JsonScanner {
  const outline = new JsonScanner();
  givePieces(Buffer.from(bytes), places, (piece) => outline.write(piece));
  return outline;
}

function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

/** JSON as some sender may write it: with blanks, or every character beyond ASCII escaped. */
const texts = fc
  .tuple(fc.jsonValue({ maxDepth: 4 }), fc.constantFrom(0, 1, '\t'), fc.boolean())
  .map(([value, indent, escaped]) => {
    const text = JSON.stringify(value, null, indent);
    return escaped
      ? text.replaceAll(/[\u0080-\uffff]/g, (each) => `\\u${each.charCodeAt(0).toString(16).padStart(4, '0')}`)
      : text;
  });

test('what is JSON is complete at its end and not before, in whatever pieces it comes', () => {
  fc.assert(
    fc.property(texts, cuts, fc.nat(), (text, places, at) => {
      expect(outlineOf(text, places)).toMatchObject({ complete: true, broken: false });
      const part = Buffer.from(text).subarray(0, at % (Buffer.byteLength(text) + 1));
      expect(outlineOf(part, places).complete).toBe(isJson(part.toString()));
      expect(outlineOf(part).broken).toBe(false);
    }),
    { numRuns: 500 },
  );
});

test('what is changed somewhere is JSON when JSON.parse takes it', () => {
  const change = fc.constantFrom(...'{}[]",:\\ 0-+.eEtfnu/\u0000\n\u001fa1', '\\u12', 'tru', '""', '01', '1.', '\\x');
  fc.assert(
    fc.property(texts, fc.nat(), fc.nat({ max: 3 }), change, cuts, (text, at, removed, inserted, places) => {
      const where = at % (text.length + 1);
      const changed = (text.slice(0, where) + inserted + text.slice(where + removed)).toWellFormed();
      expect(outlineOf(changed, places).complete, changed).toBe(isJson(changed));
    }),
    { numRuns: propertyRuns(5_000) },
  );
});

test('id and model are the texts that JSON.parse finds in the object that is the whole', () => {
  const keys = fc.constantFrom('id', 'model', 'messages', 'other', '"', 'é');
  const values = fc.oneof(fc.string(), fc.jsonValue({ maxDepth: 2 }), fc.array(fc.jsonValue({ maxDepth: 1 })));
  fc.assert(
    fc.property(fc.dictionary(keys, values), cuts, (object, places) => {
      const named = (value: unknown) => (typeof value === 'string' && value !== '' ? value : undefined);
      const outline = outlineOf(JSON.stringify(object), places);
      expect([outline.id, outline.model]).toEqual([named(object.id), named(object.model)]);
      expect(outline.hasMessages).toBe(Array.isArray(object.messages));
    }),
    { numRuns: 500 },
  );
});

test.for([
  ['{"\\u0069d":"a\\u0062\\n"}', { id: 'ab\n' }],
  ['{"id":"first","id":"second"}', { id: 'second' }],
  ['{"x":{"id":"inner","messages":[]},"model":"m"}', { id: undefined, model: 'm', hasMessages: false }],
  ['[{"id":"inner","messages":[]}]', { id: undefined, hasMessages: false }],
  ['{"messages":{}}', { hasMessages: false }],
  ['{"m\\u0065ssages": []}', { hasMessages: true }],
  ['{"messages":[],"messages":null}', { hasMessages: true }],
  [`{"id":"${'x'.repeat(256)}"}`, { id: 'x'.repeat(256) }],
  [`{"id":"${'x'.repeat(257)}","model":"m"}`, { id: undefined, model: 'm' }],
  [`{"id":"${'x'.repeat(5_000)}","model":"m"}`, { id: undefined, model: 'm' }],
  [`{"id":"${'\\u0061'.repeat(256)}"}`, { id: 'a'.repeat(256) }],
  [`{"id":"${'\\u0061'.repeat(256)}b"}`, { id: undefined }],
  [`{"${'k'.repeat(5_000)}":"v","id":"i"}`, { id: 'i' }],
  ['{"id":"cut', { id: undefined, complete: false }],
  ['{"id":"whole","messages":[{"content":"cut', { id: 'whole', hasMessages: true, complete: false }],
  ['\ufeff{"id":"i"}', { id: 'i', complete: true, markBytes: 3 }],
  ['', { complete: false, broken: false }],
  ['12', { complete: true }],
  ['-', { complete: false, broken: false }],
  ['{} x', { broken: true }],
  ['{"a":1,}', { broken: true }],
  ['[1,]', { broken: true }],
  ['[1}', { broken: true }],
] as const)('of %s it knows what it says', ([text, told]) => {
  expect(outlineOf(text)).toMatchObject(told);
  expect(outlineOf(text, Array.from(Buffer.from(text), (_, at) => at).slice(0, 6_000))).toMatchObject(told);
});

test('bytes that are no UTF-8 count as characters of a string, and as nothing elsewhere', () => {
  expect(outlineOf(Buffer.from('{"messages":["\xff\xc3"]}', 'latin1'))).toMatchObject({
    complete: true,
    hasMessages: true,
  });
  expect(outlineOf(Buffer.from('{"messages":[\xff]}', 'latin1')).broken).toBe(true);
  expect(outlineOf(Buffer.from('\xef{}', 'latin1')).broken).toBe(true);
});

test('nesting is counted, however deep', () => {
  expect(outlineOf('['.repeat(100_000) + ']'.repeat(100_000))).toMatchObject({ complete: true, deepest: 100_000 });
  expect(outlineOf('[{"a":[1]},2]').deepest).toBe(3);
});
