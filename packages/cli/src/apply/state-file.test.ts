import { readFile } from 'node:fs/promises';
import { expect, test } from 'vitest';
import { Failure } from '../failure.ts';
import { readStateFiles } from './state-file.ts';

const read = (text: string, name = 's.yaml') => readStateFiles([{ name, text }]);

function problems(text: string): readonly string[] {
  try {
    read(text);
  } catch (error) {
    if (error instanceof Failure) return error.notes.length === 0 ? [error.message] : error.notes;
    throw error;
  }
  return [];
}

test('the smallest state is {}; a file without anything is refused', () => {
  expect(read('{} # nothing yet\n').sections).toEqual(new Set());
  for (const text of ['', ' \n', '\ufeff', '# nothing yet\n', 'null']) {
    expect(problems(text)).toEqual(['s.yaml is empty; a state without anything is {}']);
  }
  expect(() => read('', 's.json')).toThrow('s.json is empty; a state without anything is {}');
});

test('the files of the documentation are right', async () => {
  const page = await readFile(new URL('../../../../docs/desired-state.md', import.meta.url), 'utf8');
  const files = [...page.matchAll(/^```yaml\n(.*?)^```$/gms)].map(([, text = '']) => read(text));
  expect(files).toHaveLength(2);
  expect(files[1]).toMatchObject({
    namespaces: [{ name: 'finance' }],
    forwards: [{ prefix: 'crm_' }],
    services: [{ entry: { host: 'engine' } }],
    tools: [{ name: 'transfer' }],
    overrides: [{ name: 'find', members: { title: null } }],
  });
});

test('entries have the defaults of the API', () => {
  const state = read(`
namespaces: [{ name: a }]
forwards: [{ name: f, address: " http://h/mcp " }]
services: [{ name: s, address: "h:1", serviceType: tool-invoker }]
tools:
- { name: t, description: "", uri: u, type: custom, inputSchema: { a: 1.0 } }
- { forward: f, name: x }
`);
  expect(state.sections).toEqual(new Set(['namespaces', 'forwards', 'services', 'tools']));
  expect(state.namespaces).toMatchObject([{ name: 'a', labels: {} }]);
  expect(state.forwards).toMatchObject([{ address: 'http://h/mcp', namespace: 'default', labels: {}, prefix: '' }]);
  expect(state.services).toMatchObject([{ entry: { host: 'h', port: 1 } }]);
  expect(state.tools).toMatchObject([{ namespace: 'default', name: 't', members: { toolType: 'custom', labels: {} } }]);
  expect(JSON.stringify(state.tools[0]?.members.input_schema)).toBe('{"a":1.0}');
  expect(state.overrides).toMatchObject([{ forward: 'f', upstreamName: 'x', name: 'x', labels: {}, members: {} }]);
});

test('numbers keep their spelling in YAML and in JSON; what only YAML can spell becomes JSON', () => {
  const numbers = '9223372036854775807, 1.0, -0, 1e400, 1E5';
  const schemaIn = (text: string) => JSON.stringify(read(text).tools[0]?.members.input_schema);
  const yaml = (list: string) =>
    `tools:\n- name: t\n  description: ''\n  uri: u\n  toolType: t\n  input_schema: { enum: [${list}] }`;
  expect(schemaIn(yaml(numbers))).toBe(`{"enum":[${numbers.replaceAll(' ', '')}]}`);
  const json = `{"tools":[{"name":"t","description":"","uri":"u","toolType":"t","input_schema":{"enum":[${numbers}]}}]}`;
  expect(schemaIn(json)).toBe(`{"enum":[${numbers.replaceAll(' ', '')}]}`);
  expect(schemaIn(yaml('0x7fffffffffffffff, +9223372036854775807, 007, .5'))).toBe(
    '{"enum":[9223372036854775807,9223372036854775807,7,0.5]}',
  );
});

test('anchors and merge keys save repeating', () => {
  const state = read(`
forwards:
- &base { name: a, address: http://h/mcp, labels: &labels { team: a } }
- { <<: *base, name: b }
namespaces: [{ name: n, labels: *labels }]
`);
  expect(state.forwards).toMatchObject([{ name: 'a' }, { name: 'b', address: 'http://h/mcp', labels: { team: 'a' } }]);
  expect(state.namespaces).toMatchObject([{ labels: { team: 'a' } }]);
});

test.each([
  ['- a', ['s.yaml:1:1: must be a map with any of namespaces, forwards, services, tools']],
  [
    'evaluators: []',
    [
      's.yaml:1:1: unknown section "evaluators"; there are namespaces, forwards, services, tools; "sluice evaluators apply" takes these',
    ],
  ],
  ['a: 1', ['s.yaml:1:1: unknown section "a"; there are namespaces, forwards, services, tools']],
  ['tools:\n', ['s.yaml:1:1: tools must be a list; [] is an empty one']],
  ['tools: [a]', ['s.yaml:1:9: must be a map with the members of one of the tools']],
  ['tools: [\n', ['s.yaml:2:1: Flow sequence in block collection must be sufficiently indented and end with a ]']],
  ['a: 1\na: 2', ['s.yaml:2:1: the key a is given twice']],
  ['namespaces: [{ name: *a }]', ['s.yaml: Unresolved alias (the anchor must be set before the alias): a']],
  ['namespaces: [{ name: !!x a }]', ['s.yaml:1:22: Unresolved tag: tag:yaml.org,2002:x']],
  ['? [a]\n: b', ['s.yaml:1:3: a key must be a text']],
  ['namespaces: [{ name: a, labels: { x: .inf } }]', ['s.yaml:1:38: .inf is no number in JSON']],
  ['namespaces: [{ nam: a }]', ['s.yaml:1:16: namespaces: nam: unknown member; there are name, labels']],
  ['namespaces: [{}]', ['s.yaml:1:14: namespaces: name: is required']],
  [
    'namespaces: [{ name: A }]',
    ['s.yaml:1:16: namespaces: name: must consist of lowercase letters, digits and hyphens only'],
  ],
  ['namespaces: [{ name: 007 }]', ['s.yaml:1:16: namespaces: name: must be a string; quote it']],
  ['namespaces: [{ name: a, labels: { b: true } }]', ['s.yaml:1:35: namespaces: labels.b: must be a string; quote it']],
  ['namespaces: [{ name: a, labels: [] }]', ['s.yaml:1:25: namespaces: labels: must be an object']],
  ['namespaces: [{ name: a }, { name: " a" }]', ['s.yaml:1:27: namespaces: is there already at s.yaml:1:14']],
  [
    'forwards:\n- name: f\n  address: ftp://h\n  available: true\n',
    ['s.yaml:4:3: forwards: available: unknown member; there are name, address, namespace, labels, prefix'],
  ],
  ['forwards:\n- name: f\n  address: ftp://h\n', ['s.yaml:3:3: forwards: address: must be an http or https URL']],
  [
    'forwards: [{ name: f, address: http://u:secret@h }]',
    ['s.yaml:1:23: forwards: address: must not carry a user name or password'],
  ],
  [
    'services: [{ name: s, address: "h:1", port: 2, serviceType: x }]',
    [expect.stringMatching(/^s.yaml:1:48: services: serviceType: must be one of .*tool-invoker/)],
  ],
  [
    'services: [{ name: s, address: "h:1", port: 2, serviceType: tool-invoker }]',
    ['s.yaml:1:39: services: port: does not match address'],
  ],
  [
    'tools:\n- name: t\n  type: x\n',
    [
      's.yaml:2:3: tools: description: is required',
      's.yaml:2:3: tools: uri: is required',
      's.yaml:2:3: tools: input_schema: is required',
    ],
  ],
  [
    'tools:\n- name: t\n  description: x\n',
    ['s.yaml:2:3: tools: a tool of a forward needs forward; one made by hand needs uri and toolType'],
  ],
  [
    'tools: [{ upstreamName: a }]',
    ['s.yaml:1:11: tools: upstreamName: goes with forward, which says whose tool it is'],
  ],
  ['tools: [{ forward: f }]', ['s.yaml:1:9: tools: upstreamName: is required, or name']],
  ['tools: [{ forward: f, name: a, uri: u }]', ['s.yaml:1:32: tools: uri: is set by its forward; leave it out']],
  [
    'tools: [{ forward: f, name: a, upstream: {} }]',
    ['s.yaml:1:32: tools: upstream: is set by its forward; leave it out'],
  ],
  ['tools: [{ forward: f, name: a, input_schema: null }]', ['s.yaml:1:32: tools: input_schema: must be an object']],
  [
    'tools: [{ forward: f, name: a, labels: { service.x: b } }]',
    ['s.yaml:1:42: tools: labels.service.x: is set by the service; leave it out'],
  ],
  [
    'tools: [{ forward: f, name: a }, { forward: f, upstreamName: a }]',
    ['s.yaml:1:34: tools: is there already at s.yaml:1:9'],
  ],
])('%j is refused with its place', (text, expected) => {
  expect(problems(text)).toEqual(expected);
});

test('a member that is near to a known one is kept, with a warning', () => {
  const made = 'name: t, description: "", uri: u, toolType: t, input_schema: {}';
  const { tools, overrides, warnings } = read(`tools:
- { ${made}, titel: T, vendor: 1, _meta: {}, execution: {}, note: n }
- { forward: f, upstreamNam: y, upstreamName: x, descripton: y, output-schema: {}, outputSchema: {}, icon: [], ID: "7" }
`);
  expect(tools).toMatchObject([{ members: { titel: 'T', vendor: 1 } }]);
  expect(overrides).toMatchObject([{ members: { descripton: 'y' } }]);
  expect(warnings).toEqual([
    's.yaml:2:70: tools: titel: is not known, and kept; is title meant?',
    's.yaml:3:17: tools: upstreamNam: is not known, and kept; is upstreamName meant?',
    's.yaml:3:50: tools: descripton: is not known, and kept; is description meant?',
    's.yaml:3:65: tools: output-schema: is not known, and kept; is output_schema meant?',
    's.yaml:3:102: tools: icon: is not known, and kept; is icons meant?',
    's.yaml:3:112: tools: ID: is not known, and kept; is id meant?',
  ]);
});

test('uris of configuration and secrets in other letters are refused', () => {
  const made = 'name: t, description: "", uri: "w:t", type: w, input_schema: {}';
  expect(problems(`tools:\n- { ${made}, configuration_uri: c, secretUri: s }`)).toEqual([
    's.yaml:2:92: tools: secretUri: has no effect; it is spelled secretsURI',
  ]);
});

test('the place is right in JSON too', () => {
  expect(problems('{\n  "namespaces": [\n    {"name": 1}\n  ]\n}')).toEqual([
    's.yaml:3:6: namespaces: name: must be a string; quote it',
  ]);
});

test('of many problems the first ones are listed, and each place is found in a moment', () => {
  const tools = Array.from({ length: 3_000 }, (_, at) => ({ name: `t${at}`, description: 'x' }));
  const told = problems(JSON.stringify({ tools }));
  expect(told).toHaveLength(21);
  expect(told.at(-1)).toBe('and 2980 more');
}, 10_000);

test('several files are one state, in which nothing is said twice', () => {
  const one = { name: 'one.yaml', text: 'namespaces: [{ name: a }]' };
  expect(readStateFiles([one, { name: 'two.yaml', text: 'namespaces: [{ name: b }]' }]).namespaces).toMatchObject([
    { name: 'a' },
    { name: 'b' },
  ]);
  expect(() => readStateFiles([one, { ...one, name: 'two.yaml' }])).toThrow(
    'two.yaml:1:14: namespaces: is there already at one.yaml:1:14',
  );
});

test('aliases that multiply beyond measure are refused', () => {
  const levels = Array.from({ length: 9 }, (_, i) => `l${i + 1}: &l${i + 1} [${Array(9).fill(`*l${i}`).join(', ')}]`);
  expect(problems(`l0: &l0 [a]\n${levels.join('\n')}`)).toEqual([expect.stringContaining('Excessive alias count')]);
});
