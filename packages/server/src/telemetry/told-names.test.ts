import { expect, it } from 'vitest';
import { redactedSubject, toldMethod } from './correlation.ts';

it.each([
  ['a short name', 'quote', 'quote'],
  ['the longest that is whole', 'x'.repeat(256), 'x'.repeat(256)],
  ['a longer one', `${'x'.repeat(256)}y`, 'x'.repeat(256)],
  ['one whose last character would be cut in two', `${'x'.repeat(255)}\u{1f600}`, 'x'.repeat(255)],
  ['one whose last character is whole', `${'x'.repeat(254)}\u{1f600}y`, `${'x'.repeat(254)}\u{1f600}`],
])('%s is told as far as it fits', (_case, name, told) => {
  expect(redactedSubject({ kind: 'tool', name })).toEqual({ kind: 'tool', name: told });
});

it('what is short is not copied', () => {
  const subject = { kind: 'prompt', name: 'greeting' } as const;
  expect(redactedSubject(subject)).toBe(subject);
});

it('a method is told as far as it fits', () => {
  expect(toldMethod('tools/call')).toBe('tools/call');
  expect(toldMethod('x'.repeat(2_000))).toHaveLength(1_024);
});
