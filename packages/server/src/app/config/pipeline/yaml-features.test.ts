import { describe, expect, it } from 'vitest';
import { formatProblem } from '../yaml-document.ts';
import { checkPipeline } from './parse.ts';

function check(text: string): string[] {
  const checked = checkPipeline(text, 'p');
  return 'problems' in checked ? checked.problems.map(formatProblem) : ['ok', ...checked.pipeline.warnings];
}

const FILE = `listeners:
  - name: one
    address: "127.0.0.1:1"
    filter_chains: [main]
filter_chains:
  - name: main
    filters:
      - filter: mcp
`;

describe('YAML of a pipeline file', () => {
  it.each([
    ['CRLF', FILE.replaceAll('\n', '\r\n')],
    ['a byte order mark', `\ufeff${FILE}`],
    ['document markers', `---\n${FILE}...\n`],
    ['comments', `# a\n${FILE}# b`],
    ['anchors and aliases', FILE.replace('main]', '&chain main]').replace('name: main', 'name: *chain')],
    [
      'JSON',
      JSON.stringify(
        JSON.parse(
          '{"listeners":[{"name":"a","address":"h:1","filter_chains":["c"]}],"filter_chains":[{"name":"c","filters":[{"filter":"mcp"}]}]}',
        ),
      ),
    ],
    ['unnecessary quotes', FILE.replace('name: one', '"name": \'one\'')],
    [
      'merge keys of YAML 1.1',
      `%YAML 1.1\n---\n${FILE.replace('- filter: mcp', '- &f {filter: mcp}\n      - {<<: *f, on_invalid: reject}')}`,
    ],
  ])('can have %s', (_what, text) => {
    expect(check(text)).toEqual(['ok']);
  });

  it('can have an unknown tag, with a warning', () => {
    expect(check(FILE.replace('one', '!mine one'))).toEqual(['ok', 'p:2:11: Unresolved tag']);
  });

  const bomb = (levels: number) =>
    Array.from(
      { length: levels },
      (_, n) => `  a${n + 1}: &a${n + 1} [${Array(10).fill(n === 0 ? 'x' : `*a${n}`)}]\n`,
    ).join('');

  it.each<[string, string, string[]]>([
    ['a tab as indentation', FILE.replace('    address', '\taddress'), ['p:3:1: Tabs are not allowed as indentation']],
    [
      'NUL',
      FILE.replace('one', 'o\0ne'),
      ['p:2:12: invalid character U+0000; remove it or escape it in a double-quoted string'],
    ],
    [
      'a single carriage return',
      FILE.replace('one\n', 'one\r'),
      ['p:2:14: invalid character U+000D; remove it or escape it in a double-quoted string'],
    ],
    [
      'a second byte order mark',
      FILE.replace('one', '\ufeffone'),
      ['p:2:11: invalid character U+FEFF; remove it or escape it in a double-quoted string'],
    ],
    [
      'an unpaired surrogate',
      FILE.replace('one', '\ud800'),
      ['p:2:11: invalid character U+D800; remove it or escape it in a double-quoted string'],
    ],
    ['several documents', `${FILE}---\n${FILE}`, ['p:9:1: multiple YAML documents are not supported; remove the ---']],
    ['a duplicate key', FILE.replace('    address', '    name: two\n    address'), ['p:3:5: duplicate key "name"']],
    [
      'a duplicate key of another type',
      FILE.replace('- filter: mcp', '- filter: mcp\n        conditions: [{when: {headers: {1: a, "1": b}}}]'),
      ['p:9:46: duplicate key "1"'],
    ],
    ['a list as a key', `${FILE}? [a]\n: b`, ['p:9:3: keys must be strings']],
    [
      'an unresolved alias',
      FILE.replace('one', '*one'),
      ['p:2:11: unresolved alias: no anchor with this name is defined before it'],
    ],
    [
      'an alias to itself',
      FILE.replace('- name: one', '- &one\n    name: *one'),
      ['p:3:11: circular alias: its value contains it'],
    ],
    [
      'aliases that multiply',
      `${FILE}admin:\n${bomb(9)}`,
      ['p:15:11: too many values, counting those that aliases repeat: the limit is 1000000'],
    ],
    [
      'an unclosed list',
      FILE.replace('[main]', '[main'),
      ['p:5:1: Flow sequence in block collection must be sufficiently indented and end with a ]'],
    ],
    [
      'a boolean of YAML 1.1',
      `%YAML 1.1\n---\n${FILE.replace('one', 'yes')}`,
      ['p:4:5: listeners[0].name must be a string; quote it'],
    ],
    [
      'a mistake behind an alias',
      FILE.replace('- filter: mcp', '- &f {filter: mcp, on_invalid: x}\n      - *f'),
      [
        'p:8:26: filter_chains[0].filters[0].on_invalid must be continue or reject',
        'p:8:26: filter_chains[0].filters[1].on_invalid must be continue or reject',
      ],
    ],
    [
      'a merge key',
      FILE.replace('- filter: mcp', '- &f {filter: mcp}\n      - {<<: *f}'),
      ['p:9:9: filter_chains[0].filters[1].filter is missing; known filters: cors'],
    ],
    [
      'a set',
      `%YAML 1.1\n---\n${FILE.replace('filter_chains: [main]', 'filter_chains: !!set {main}')}`,
      ['p:6:5: listeners[0].filter_chains must be a list'],
    ],
    [
      'a multi-line string',
      FILE.replace('one', '"a\\nb"').replace('main]', '"x\\ny"]'),
      ['p:4:21: unknown chain "x\\ny"; known chains: "main"'],
    ],
  ])('is rejected with one-line errors: %s', (_what, text, lines) => {
    const actual = check(text);
    expect(actual).toHaveLength(lines.length);
    lines.forEach((line, index) => {
      expect(actual[index]?.slice(0, line.length)).toBe(line);
    });
    for (const line of actual) expect(line).not.toContain('\n');
  });

  it.each(['[', '{a: ', '- '])('is rejected with a one-line error if nested too deeply: %s', (level) => {
    // The limit depends on the stack.
    expect(check(`a:${level === '- ' ? '\n  ' : ' '}${level.repeat(20_000)}`)).toEqual([
      expect.stringMatching(/^p:\d+:\d+: nesting is too deep$/),
    ]);
  });
});
