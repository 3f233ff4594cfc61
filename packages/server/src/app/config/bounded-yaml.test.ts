import { describe, expect, it } from 'vitest';
import { parseDocument } from 'yaml';
import { parseBoundedYaml } from './bounded-yaml.ts';

const COUNT = 8_000;

const lines = (line: (at: number) => string, count = COUNT): string =>
  Array.from({ length: count }, (_, at) => line(at)).join('\n');

/** CPU time of this thread in milliseconds. */
function cpuTime(run: () => void): number {
  const before = process.threadCpuUsage();
  run();
  const { user, system } = process.threadCpuUsage(before);
  return (user + system) / 1_000;
}

describe('takes little more time than the parser without comparisons, for many', { tags: ['slow'] }, () => {
  it.each<[string, string, (at: number) => unknown]>([
    ['anchors and aliases', lines((at) => `x${at}: &a${at} v${at}\nk${at}: *a${at}`), (at) => `v${at}`],
    ['aliases of one map', `x: &a {b: c}\n${lines((at) => `k${at}: *a`)}`, () => ({ b: 'c' })],
    ['anchors with one name', lines((at) => `x${at}: &a v${at}\nk${at}: *a`), (at) => `v${at}`],
    [
      'aliases of aliases',
      lines((at) =>
        `x${at}: &a${at} [${at > 0 ? '*b' : ''}]\nb: &b v\nk${at}: *a${at}`.replace('b: &b v', `b${at}: &b v`),
      ),
      (at) => (at > 0 ? ['v'] : []),
    ],
    ['merge keys', `x: &a {b: c}\n${lines((at) => `k${at}: {<<: *a}`)}`, () => ({ b: 'c' })],
    ['keys', lines((at) => `k${at}: v`), () => 'v'],
  ])('%s', (_name, text, value) => {
    const alone = cpuTime(() => void parseDocument(text, { uniqueKeys: false }));
    const all = cpuTime(() => {
      const yaml = parseBoundedYaml(text, { merge: true });
      expect([yaml.document.errors, yaml.problems]).toEqual([[], []]);
      const plain: unknown = yaml.toPlain();
      for (let at = 0; at < COUNT; at++) {
        if (at % 1_000 === 0) expect(Reflect.get(Object(plain), `k${at}`)).toEqual(value(at));
        yaml.offsetOf([`k${at}`]);
      }
    });
    // Comparing each with all others takes more than twenty times as long.
    expect(all / alone).toBeLessThan(10);
  });
});

it('an alias stands for the last value with its anchor before it, and can be merged', () => {
  const yaml = parseBoundedYaml(
    'a: &x 1\nb: *x\nc: &x {d: &y [2]}\ne: *x\nf: [*y, &y 3, *y]\ng: {<<: [&z {h: 4}, *x], i: *z}\n"&q": *z\n&k k: *k',
    { merge: true },
  );
  expect(yaml.problems).toEqual([]);
  expect(yaml.toPlain()).toEqual({
    a: 1,
    b: 1,
    c: { d: [2] },
    e: { d: [2] },
    f: [[2], 3, 3],
    g: { h: 4, d: [2], i: { h: 4 } },
    '&q': { h: 4 },
    k: 'k',
  });
  expect(yaml.offsetOf(['e', 'd', 0])).toBe(28);
});

const VALUES = 'too many values, counting those that aliases repeat: the limit is 1000000';

it.each([
  [
    'an alias without an anchor',
    'a: [*b, &b 1, *c]',
    [
      [4, 'unresolved alias: no anchor with this name is defined before it'],
      [14, 'unresolved alias: no anchor with this name is defined before it'],
    ],
  ],
  ['an alias within its value', 'a: &b {c: [*b]}', [[11, 'circular alias: its value contains it']]],
  [
    'aliases that multiply',
    `a0: &a0 [x]\n${lines((at) => `a${at + 1}: &a${at + 1} [${`*a${at}, `.repeat(9)}]`, 9)}`,
    [[300, VALUES]],
  ],
  [
    'a large value that is repeated',
    `a: &a [${'1,'.repeat(20_000)}]\n${lines((at) => `k${at}: *a`, 100)}`,
    [[0, VALUES]],
  ],
  ['a long text', `a: ${'x'.repeat(16 * 1024 * 1024)}`, [[0, 'too long: the limit is 16777216 characters']]],
])('reports %s', (_name, text, problems) => {
  const found = parseBoundedYaml(text).problems.map(({ offset, text: problem }) => [offset, problem]);
  expect(found).toEqual(problems);
});
