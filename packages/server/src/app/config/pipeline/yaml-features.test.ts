import { describe, expect, it } from 'vitest';
import { formatProblem } from '../yaml-document.ts';
import { checkPipeline } from './parse.ts';

function said(text: string): string[] {
  const checked = checkPipeline(text, 'p');
  return 'problems' in checked ? checked.problems.map(formatProblem) : ['fine', ...checked.pipeline.warnings];
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
    ['a marker of its beginning and end', `---\n${FILE}...\n`],
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
    ['quotes that are not needed', FILE.replace('name: one', '"name": \'one\'')],
    [
      'merge keys of YAML 1.1',
      `%YAML 1.1\n---\n${FILE.replace('- filter: mcp', '- &f {filter: mcp}\n      - {<<: *f, on_invalid: reject}')}`,
    ],
  ])('may have %s', (_what, text) => {
    expect(said(text)).toEqual(['fine']);
  });

  it('may have a tag that nobody knows, of which it warns', () => {
    expect(said(FILE.replace('one', '!mine one'))).toEqual(['fine', 'p:2:11: Unresolved tag']);
  });

  const bomb = (levels: number) =>
    Array.from(
      { length: levels },
      (_, n) => `  a${n + 1}: &a${n + 1} [${Array(10).fill(n === 0 ? 'x' : `*a${n}`)}]\n`,
    ).join('');

  it.each<[string, string, string[]]>([
    ['a tab that indents', FILE.replace('    address', '\taddress'), ['p:3:1: Tabs are not allowed as indentation']],
    [
      'NUL',
      FILE.replace('one', 'o\0ne'),
      ['p:2:12: has the character U+0000; leave it out, or write it as an escape in double quotes'],
    ],
    [
      'a carriage return alone',
      FILE.replace('one\n', 'one\r'),
      ['p:2:14: has the character U+000D; leave it out, or write it as an escape in double quotes'],
    ],
    [
      'a second byte order mark',
      FILE.replace('one', '\ufeffone'),
      ['p:2:11: has the character U+FEFF; leave it out, or write it as an escape in double quotes'],
    ],
    [
      'half a character',
      FILE.replace('one', '\ud800'),
      ['p:2:11: has the character U+D800; leave it out, or write it as an escape in double quotes'],
    ],
    [
      'several documents',
      `${FILE}---\n${FILE}`,
      ['p:9:1: has a second document; a file has one, so leave the --- out'],
    ],
    ['a key twice', FILE.replace('    address', '    name: two\n    address'), ['p:3:5: Map keys must be unique']],
    [
      'a key twice in two types',
      FILE.replace('- filter: mcp', '- filter: mcp\n        conditions: [{when: {headers: {1: a, "1": b}}}]'),
      ['p:9:46: has the key "1" twice'],
    ],
    ['a list as a key', `${FILE}? [a]\n: b`, ['p:9:3: has a key that is not a plain text']],
    [
      'an alias to nothing',
      FILE.replace('one', '*one'),
      ['p:2:11: has an alias to nothing: no anchor of its name stands before it'],
    ],
    [
      'an alias to itself',
      FILE.replace('- name: one', '- &one\n    name: *one'),
      ['p:3:5: listeners[0].name is not a string'],
    ],
    ['aliases that multiply', `${FILE}admin:\n${bomb(9)}`, ['p:18:48: has aliases that multiply beyond measure']],
    [
      'a list without its end',
      FILE.replace('[main]', '[main'),
      ['p:5:1: Flow sequence in block collection must be sufficiently indented and end with a ]'],
    ],
    [
      'a truth value of YAML 1.1',
      `%YAML 1.1\n---\n${FILE.replace('one', 'yes')}`,
      ['p:4:5: listeners[0].name is not a string; quote it'],
    ],
    [
      'a mistake behind an alias',
      FILE.replace('- filter: mcp', '- &f {filter: mcp, on_invalid: x}\n      - *f'),
      [
        'p:8:26: filter_chains[0].filters[0].on_invalid is not continue or reject',
        'p:8:26: filter_chains[0].filters[1].on_invalid is not continue or reject',
      ],
    ],
    [
      'a merge key',
      FILE.replace('- filter: mcp', '- &f {filter: mcp}\n      - {<<: *f}'),
      ['p:9:9: filter_chains[0].filters[1].filter is missing; filters: cors'],
    ],
    [
      'a set',
      `%YAML 1.1\n---\n${FILE.replace('filter_chains: [main]', 'filter_chains: !!set {main}')}`,
      ['p:6:5: listeners[0].filter_chains is not a list'],
    ],
    [
      'a text of many lines',
      FILE.replace('one', '"a\\nb"').replace('main]', '"x\\ny"]'),
      ['p:4:21: there is no chain "x\\ny"; chains: "main"'],
    ],
  ])('is refused in one line with %s', (_what, text, lines) => {
    const given = said(text);
    expect(given).toHaveLength(lines.length);
    lines.forEach((line, index) => {
      expect(given[index]?.slice(0, line.length)).toBe(line);
    });
    for (const line of given) expect(line).not.toContain('\n');
  });

  it.each(['[', '{a: ', '- '])('is refused in one line when it is nested too deeply: %s', (level) => {
    // Where the library gives up is its own affair.
    expect(said(`a:${level === '- ' ? '\n  ' : ' '}${level.repeat(20_000)}`)).toEqual([
      expect.stringMatching(/^p:\d+:\d+: is nested too deeply$/),
    ]);
  });
});
