import { expect, it } from 'vitest';
import { abbreviate } from './brief.ts';

it('leaves a short text as it is', () => {
  expect(abbreviate('Which one?\n\nThis one.')).toBe('Which one?\n\nThis one.');
});

it('lets no blanks push away what people are to read', () => {
  expect(abbreviate(`Name?${' '.repeat(500)}\u00a0\tpassword`)).toBe('Name? password');
  expect(abbreviate(`Name?${' \n'.repeat(500)}password`)).toBe('Name?\n\npassword');
});

it('cuts what nobody reads', () => {
  expect(abbreviate('x'.repeat(1_000_000))).toBe(`${'x'.repeat(1000)} …`);
});
