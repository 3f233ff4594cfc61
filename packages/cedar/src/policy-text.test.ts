import { expect, it } from 'vitest';
import { excerpt, positionOf, splitPolicies } from './policy-text.ts';

it.each<[string, string, readonly string[]]>([
  ['nothing', ' \n// permit(principal, action, resource);\n', []],
  ['one', 'permit(principal, action, resource);', ['permit(principal, action, resource);']],
  ['two, with comments between them', 'a; // b;\n// c;\n  d ;', ['a;', 'd ;']],
  ['semicolons in texts', '@id("a;") a when { x == "\\";//" }; b;', ['@id("a;") a when { x == "\\";//" };', 'b;']],
  ['comments within a policy', 'a // x;\n b;', ['a // x;\n b;']],
  ['a policy that does not end', 'a; b', ['a;', 'b']],
  ['a text that does not end', 'a; b "c; d;', ['a;', 'b "c; d;']],
  ['a backslash at the end', 'a "\\', ['a "\\']],
  ['a slash', 'a / b;', ['a / b;']],
  ['an empty policy', ';a;', [';', 'a;']],
])('%s', (_what, file, texts) => {
  const policies = splitPolicies(file);
  expect(policies.map(({ text }) => text)).toEqual(texts);
  for (const { text, offset } of policies) expect(file.slice(offset, offset + text.length)).toBe(text);
});

it.each([
  ['a long text', 'x'.repeat(10_000_000)],
  ['many escapes', '\\n'.repeat(5_000_000)],
  ['both', 'x\\n'.repeat(3_000_000)],
])('%s is one token', (_what, text) => {
  expect(splitPolicies(`"${text}"; "${text}`)).toHaveLength(2);
});

it('takes linear time', () => {
  const file = `${'"'.repeat(500_001)}${'/'.repeat(500_000)}${'\\'.repeat(500_000)}`;
  const startedAt = process.cpuUsage();
  splitPolicies(file);
  splitPolicies('a '.repeat(500_000));
  const { user } = process.cpuUsage(startedAt);
  expect(user / 1_000).toBeLessThan(5_000);
});

it('places are lines and columns of characters', () => {
  const file = 'a;\n\u{1f600}\u00e9 b;';
  expect([positionOf(file, 0), positionOf(file, file.indexOf('b'))]).toEqual([
    { line: 1, column: 1 },
    { line: 2, column: 4 },
  ]);
  expect(excerpt(file, { line: 2, column: 4 })).toBe('\u{1f600}\u00e9 b;\n   ^');
  const long = excerpt(`${'x'.repeat(1_000)}y`, { line: 1, column: 1_001 });
  expect(long).toBe(`${'x'.repeat(49)}y\n${' '.repeat(49)}^`);
});
