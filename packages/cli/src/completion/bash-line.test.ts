import { expect, it } from 'vitest';
import { behindBreak, splitLine } from './bash-line.ts';

it('takes a line apart as bash does', () => {
  expect(splitLine('sluice tools show ')).toEqual(['sluice', 'tools', 'show', '']);
  expect(splitLine(`sluice --host http://a:1 tools  show 'my to`)).toEqual([
    'sluice',
    '--host',
    'http://a:1',
    'tools',
    'show',
    'my to',
  ]);
  expect(splitLine('a b\\ c "d \\"e" \'f\\\'')).toEqual(['a', 'b c', 'd "e', 'f\\']);
});

it('leaves out of a suggestion what bash has taken for a word of its own', () => {
  expect(behindBreak('--output=json', '--output=js')).toBe('json');
  expect(behindBreak('ns:tool', 'ns:t')).toBe('tool');
  expect(behindBreak('tool', 't')).toBe('tool');
});
