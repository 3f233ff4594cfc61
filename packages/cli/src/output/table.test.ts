import { describe, expect, it } from 'vitest';
import { displayWidth } from '../terminal/text.ts';
import { type Column, createRunningTable, formatTable } from './table.ts';

interface Row {
  readonly name: string;
  readonly text: string;
}

const columns: Column<Row>[] = [
  { title: 'NAME', value: ({ name }) => name },
  { title: 'TEXT', value: ({ text }) => text },
];
const plain = (_format: unknown, text: string) => text;
const table = (rows: readonly Row[], width?: number) => formatTable(rows, columns, width, plain);

describe('a table', () => {
  it('aligns its columns by display width, not by the length of strings', () => {
    const lines = table([
      { name: '東京', text: 'x' },
      { name: 'e\u0301clair', text: 'y' },
      { name: '👩‍👩‍👧', text: 'z' },
    ]).split('\n');
    const before = lines.filter(Boolean).map((line) => displayWidth(line.slice(0, -1).replace(/TEX$/, '')));
    expect(new Set(before)).toEqual(new Set([8]));
  });

  it('truncates the widest columns until it fits the terminal', () => {
    const rows = [{ name: 'short', text: `${'long '.repeat(20)}end` }];
    const lines = table(rows, 40).split('\n').filter(Boolean);
    expect(Math.max(...lines.map(displayWidth))).toBeLessThanOrEqual(40);
    expect(lines[1]).toMatch(/^short {2}long long .*…$/);
  });

  it('truncates at character boundaries', () => {
    const [, line = ''] = table([{ name: 'n', text: '東'.repeat(50) }], 30).split('\n');
    expect(displayWidth(line)).toBeLessThanOrEqual(30);
    expect(line).toMatch(/^n {5}東+…$/);
  });

  it('truncates prose first, then other columns, never names', () => {
    const three = [
      { title: 'NAME', value: () => 'n'.repeat(30), cut: 'never' },
      { title: 'TYPE', value: () => 't'.repeat(20) },
      { title: 'DESCRIPTION', value: () => 'd'.repeat(200), cut: 'first' },
    ] as const;
    const row = (width?: number) => formatTable([{}], three, width, plain).split('\n')[1]?.split('  ');
    const [name, type, prose] = ['n'.repeat(30), 't'.repeat(20), `${'d'.repeat(79)}…`];
    expect(row(80)).toEqual([name, type, `${'d'.repeat(25)}…`]);
    expect(row(55)).toEqual([name, `${'t'.repeat(12)}…`, `${'d'.repeat(7)}…`]);
    expect(row(20)).toEqual([name, `${'t'.repeat(7)}…`, `${'d'.repeat(7)}…`]);
    expect(row()).toEqual([name, type, prose]);
  });

  it('truncates only prose without a terminal', () => {
    const text = 'x'.repeat(5000);
    expect(table([{ name: 'n', text }])).toContain(text);
  });

  it('keeps a cell on one line, whatever its contents', () => {
    const lines = table([{ name: 'a\nb', text: '\u001b[31mred' }])
      .split('\n')
      .filter(Boolean);
    expect(lines).toHaveLength(2);
    expect(lines[1]).toBe('a b   \\u001b[31mred');
  });
});

describe('rows that arrive one by one', () => {
  const running = () =>
    createRunningTable<Row>([...columns, { title: 'PROSE', value: () => 'x'.repeat(100), cut: 'first' }], plain);

  it('follow a header that is printed once', () => {
    const line = running();
    expect(line({ name: 'a', text: 'b' }, 30)).toBe(`NAME  TEXT  PROSE\na     b     ${'x'.repeat(17)}…\n`);
    expect(line({ name: 'a', text: 'b' }, 30)).toBe(`a     b     ${'x'.repeat(17)}…\n`);
    const short = createRunningTable<Row>([{ title: 'PROSE', value: ({ name }) => name, cut: 'first' }], plain);
    expect(short({ name: 'a', text: '' }, undefined)).toBe('PROSE\na\n');
  });

  it('have columns as wide as the widest cell so far, up to a limit', () => {
    const line = running();
    const before = (row: Row) => line(row, undefined).indexOf('xxx');
    line({ name: '', text: '' }, undefined);
    expect(before({ name: 'abcdef', text: 'd' })).toBe(14);
    expect(before({ name: 'a', text: 'defgh' })).toBe(15);
    expect(before({ name: 'n'.repeat(60), text: 'd' })).toBe(69);
    expect(before({ name: 'a', text: 'd' })).toBe(49);
  });

  it('truncate prose to 80 columns, and to the width of the terminal', () => {
    const line = running();
    line({ name: '', text: '' }, undefined);
    expect(line({ name: 'a', text: 'b' }, undefined)).toBe(`a     b     ${'x'.repeat(79)}…\n`);
    expect(line({ name: 'a', text: 'b' }, 30)).toBe(`a     b     ${'x'.repeat(17)}…\n`);
  });

  it('are one sanitized line each', () => {
    const line = running();
    line({ name: '', text: '' }, undefined);
    expect(line({ name: 'a\nb', text: '\u001b[31m' }, undefined)).toMatch(/^a b {3}\\u001b\[31m {2}x+…\n$/);
  });
});
