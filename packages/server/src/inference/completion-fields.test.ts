import fc from 'fast-check';
import { expect, test } from 'vitest';
import { deliverChunks, splitPositions } from './chunks.fixture.ts';
import { CompletionFields } from './completion-fields.ts';

function scan(bytes: Buffer | string, positions: readonly number[] = []): CompletionFields {
  const json = new CompletionFields();
  deliverChunks(Buffer.from(bytes), positions, (chunk) => json.write(chunk));
  return json;
}

test('id and model are those of the top-level object, as JSON.parse finds them', () => {
  const keys = fc.constantFrom('id', 'model', 'messages', 'other', '"', 'é');
  const values = fc.oneof(fc.string(), fc.jsonValue({ maxDepth: 2 }), fc.array(fc.jsonValue({ maxDepth: 1 })));
  fc.assert(
    fc.property(fc.dictionary(keys, values), splitPositions, (object, positions) => {
      const named = (value: unknown) => (typeof value === 'string' && value !== '' ? value : undefined);
      const json = scan(JSON.stringify(object), positions);
      expect([json.id, json.model]).toEqual([named(object.id), named(object.model)]);
      expect(json.hasMessages).toBe(Array.isArray(object.messages));
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
  ['{"id":"cut', { id: undefined, isComplete: false }],
  ['{"id":"whole","messages":[{"content":"cut', { id: 'whole', hasMessages: true, isComplete: false }],
  ['\ufeff{"id":"i"}', { id: 'i', isComplete: true, bomBytes: 3 }],
  ['', { isComplete: false, isInvalid: false }],
  ['12', { isComplete: true }],
  ['-', { isComplete: false, isInvalid: false }],
  ['{} x', { isInvalid: true }],
  ['{"a":1,}', { isInvalid: true }],
  ['[1,]', { isInvalid: true }],
  ['[1}', { isInvalid: true }],
] as const)('scans %s', ([text, expected]) => {
  expect(scan(text)).toMatchObject(expected);
  expect(scan(text, Array.from(Buffer.from(text), (_, at) => at).slice(0, 6_000))).toMatchObject(expected);
});

test('invalid UTF-8 is accepted in strings only', () => {
  expect(scan(Buffer.from('{"messages":["\xff\xc3"]}', 'latin1'))).toMatchObject({
    isComplete: true,
    hasMessages: true,
  });
  expect(scan(Buffer.from('{"messages":[\xff]}', 'latin1')).isInvalid).toBe(true);
  expect(scan(Buffer.from('\xef{}', 'latin1')).isInvalid).toBe(true);
});

test('any depth is counted', () => {
  expect(scan('['.repeat(100_000) + ']'.repeat(100_000))).toMatchObject({ isComplete: true, maxDepth: 100_000 });
  expect(scan('[{"a":[1]},2]').maxDepth).toBe(3);
});
