import { expect, it } from 'vitest';
import { brief } from './brief.ts';

it('leaves a short text as it is', () => {
  expect(brief('Which one?\n\nThis one.')).toBe('Which one?\n\nThis one.');
});

it('lets no blanks push away what people are to read', () => {
  expect(brief(`Name?${' '.repeat(500)}\u00a0\tpassword`)).toBe('Name? password');
  expect(brief(`Name?${' \n'.repeat(500)}password`)).toBe('Name?\n\npassword');
});

it('cuts what nobody reads', () => {
  expect(brief('x'.repeat(1_000_000))).toBe(`${'x'.repeat(1000)} …`);
});
