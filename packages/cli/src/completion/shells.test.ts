import { expect, it } from 'vitest';
import { afterWordBreak, splitWords } from './shells.ts';

it('splits a line like bash', () => {
  expect(splitWords('sluice tools show ')).toEqual(['sluice', 'tools', 'show', '']);
  expect(splitWords(`sluice --host http://a:1 tools  show 'my to`)).toEqual([
    'sluice',
    '--host',
    'http://a:1',
    'tools',
    'show',
    'my to',
  ]);
  expect(splitWords('a b\\ c "d \\"e" \'f\\\'')).toEqual(['a', 'b c', 'd "e', 'f\\']);
});

it('omits the part of a suggestion before a word break', () => {
  expect(afterWordBreak('--output=json', '--output=js')).toBe('json');
  expect(afterWordBreak('ns:tool', 'ns:t')).toBe('tool');
  expect(afterWordBreak('tool', 't')).toBe('tool');
});
