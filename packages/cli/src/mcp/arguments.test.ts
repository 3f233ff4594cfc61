import { expect, it } from 'vitest';
import { acceptsStrings } from './arguments.ts';

it.each([
  [{ type: 'string' }, true],
  [{ type: 'integer' }, false],
  [{ type: ['null', 'string'] }, true],
  [{ type: ['null', 'number'] }, false],
  [{ enum: ['a', 1] }, true],
  [{ enum: [1, 2] }, false],
  [{ const: true }, false],
  [{ anyOf: [{ type: 'number' }, { type: 'string' }] }, true],
  [{ oneOf: [{ type: 'number' }, { type: 'array' }] }, false],
  [{ allOf: [{}, { type: 'object' }] }, false],
  [{ $ref: '#/$defs/count' }, false],
  [{ $ref: '#/$defs/a~1b' }, true],
  [{ $ref: '#/$defs/circle' }, true],
  [{ $ref: '#/$defs/nowhere' }, true],
  [{ $ref: 'https://example.com/elsewhere' }, true],
  [{ description: 'anything' }, true],
  [true, true],
])('a property of %j may be text: %s', (property, expected) => {
  const $defs = { count: { type: 'integer' }, 'a/b': { type: 'string' }, circle: { $ref: '#/$defs/circle' } };
  expect(acceptsStrings({ type: 'object', properties: { p: property }, $defs }, 'p')).toBe(expected);
});

it('a property that is not in the schema may be text, also with the name of an inherited one', () => {
  expect(acceptsStrings({ type: 'object', properties: {} }, 'other')).toBe(true);
  expect(acceptsStrings({ type: 'object', properties: {} }, 'constructor')).toBe(true);
  expect(acceptsStrings(undefined, 'p')).toBe(true);
});
