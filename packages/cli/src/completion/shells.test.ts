import { expect, it } from 'vitest';
import { afterWordBreak, splitWords } from './shells.ts';

it('takes a line apart as bash does', () => {
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

it('leaves out of a suggestion what bash has taken for a word of its own', () => {
  expect(afterWordBreak('--output=json', '--output=js')).toBe('json');
  expect(afterWordBreak('ns:tool', 'ns:t')).toBe('tool');
  expect(afterWordBreak('tool', 't')).toBe('tool');
});
