import fc from 'fast-check';
import { expect, test } from 'vitest';
import { deliverChunks, splitPositions } from './chunks.fixture.ts';
import { RequestFields } from './request-fields.ts';

function scan(bytes: Buffer | string, positions: readonly number[] = []): RequestFields {
  const json = new RequestFields('input');
  deliverChunks(Buffer.from(bytes), positions, (chunk) => json.write(chunk));
  return json;
}

test('the model is that of the top-level object, as JSON.parse finds them', () => {
  const keys = fc.constantFrom('model', 'messages', 'other', '"', 'é');
  const values = fc.oneof(fc.string(), fc.jsonValue({ maxDepth: 2 }), fc.array(fc.jsonValue({ maxDepth: 1 })));
  fc.assert(
    fc.property(fc.dictionary(keys, values), splitPositions, (object, positions) => {
      const named = (value: unknown) => (typeof value === 'string' && value !== '' ? value : undefined);
      const json = scan(JSON.stringify(object), positions);
      expect(json.model).toBe(named(object.model));
      expect(json.hasMessages).toBe(Array.isArray(object.messages));
    }),
    { numRuns: 500 },
  );
});

test.for([
  ['{"\\u006dodel":"a\\u0062\\n"}', { model: 'ab\n' }],
  ['{"model":"first","model":"second"}', { model: 'second' }],
  ['{"x":{"model":"inner","messages":[]}}', { model: undefined, hasMessages: false }],
  ['[{"model":"inner","messages":[]}]', { model: undefined, hasMessages: false }],
  ['{"messages":{}}', { hasMessages: false }],
  ['{"m\\u0065ssages": []}', { hasMessages: true }],
  ['{"messages":[],"messages":null}', { hasMessages: true }],
  ['{"input":"x"}', { hasMessages: false, hasConversation: true }],
  ['{"input":[]}', { hasConversation: true }],
  ['{"input":7,"prompt":"x"}', { hasConversation: false }],
  [`{"model":"${'x'.repeat(256)}"}`, { model: 'x'.repeat(256) }],
  [`{"model":"${'x'.repeat(257)}"}`, { model: undefined }],
  [`{"model":"${'x'.repeat(5_000)}"}`, { model: undefined }],
  [`{"model":"${'\\u0061'.repeat(256)}"}`, { model: 'a'.repeat(256) }],
  [`{"model":"${'\\u0061'.repeat(256)}b"}`, { model: undefined }],
  [`{"${'k'.repeat(5_000)}":"v","model":"m"}`, { model: 'm' }],
  ['{"model":"cut', { model: undefined, isComplete: false }],
  ['{"model":"m","messages":[{"content":"cut', { model: 'm', hasMessages: true, isComplete: false }],
  ['\ufeff{"model":"m"}', { model: 'm', isComplete: true, bomBytes: 3 }],
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
