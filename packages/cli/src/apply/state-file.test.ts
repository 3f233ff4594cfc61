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

test('the smallest state is {}; an empty file is rejected', () => {
  expect(read('{} # nothing yet\n').body).toEqual({});
  for (const text of ['', ' \n', '\ufeff', '# nothing yet\n', 'null']) {
    expect(problems(text)).toEqual(['s.yaml is empty; use {} for an empty state']);
  }
  expect(() => read('', 's.json')).toThrow('s.json is empty; use {} for an empty state');
});

test('the examples in the documentation are valid', async () => {
  const page = await readFile(new URL('../../../../docs/desired-state.md', import.meta.url), 'utf8');
  const files = [...page.matchAll(/^```yaml\n(.*?)^```$/gms)].map(([, text = '']) => read(text).body);
  expect(files).toHaveLength(2);
  expect(files[1]).toMatchObject({
    namespaces: [{ name: 'finance' }],
    forwards: [{ prefix: 'crm_' }],
    services: [{ host: 'engine' }],
    tools: [{ forward: 'crm', name: 'find', title: null }, { name: 'transfer' }],
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
  expect(state.body).toMatchObject({
    namespaces: [{ name: 'a' }],
    forwards: [{ address: 'http://h/mcp' }],
    services: [{ host: 'h', port: 1 }],
    tools: [
      { name: 't', toolType: 'custom', uri: 'u' },
      { forward: 'f', name: 'x' },
    ],
  });
  expect(state.body).not.toHaveProperty('evaluators');
  expect(JSON.stringify(state.body.tools?.[0]?.input_schema)).toBe('{"a":1.0}');
  expect([state.positionOf('tools.1'), state.positionOf('tools.2')]).toEqual(['s.yaml:7:3', undefined]);
});

test('numbers keep their exact text in YAML and in JSON; numbers of YAML only become JSON', () => {
  const numbers = '9223372036854775807, 1.0, -0, 1e400, 1E5';
  const schemaIn = (text: string) => JSON.stringify(read(text).body.tools?.[0]?.input_schema);
  const yaml = (list: string) =>
    `tools:\n- name: t\n  description: ''\n  uri: u\n  toolType: t\n  input_schema: { enum: [${list}] }`;
  expect(schemaIn(yaml(numbers))).toBe(`{"enum":[${numbers.replaceAll(' ', '')}]}`);
  const json = `{"tools":[{"name":"t","description":"","uri":"u","toolType":"t","input_schema":{"enum":[${numbers}]}}]}`;
  expect(schemaIn(json)).toBe(`{"enum":[${numbers.replaceAll(' ', '')}]}`);
  expect(schemaIn(yaml('0x7fffffffffffffff, +9223372036854775807, 007, .5'))).toBe(
    '{"enum":[9223372036854775807,9223372036854775807,7,0.5]}',
  );
});

test('anchors and merge keys are resolved', () => {
  const { body } = read(`
forwards:
- &base { name: a, address: http://h/mcp, labels: &labels { team: a } }
- { <<: *base, name: b }
namespaces: [{ name: n, labels: *labels }]
`);
  expect(body.forwards).toMatchObject([{ name: 'a' }, { name: 'b', address: 'http://h/mcp', labels: { team: 'a' } }]);
  expect(body.namespaces).toMatchObject([{ labels: { team: 'a' } }]);
});

test.each([
  ['- a', ['s.yaml:1:1: expected a map with the sections namespaces, forwards, services, tools, evaluators, identity']],
  [
    'evaluator: []',
    [
      's.yaml:1:1: evaluator is not a known field; known fields: namespaces, forwards, services, tools, evaluators, identity',
    ],
  ],
  [
    'a: 1',
    ['s.yaml:1:1: a is not a known field; known fields: namespaces, forwards, services, tools, evaluators, identity'],
  ],
  [
    'evaluators:\n- { name: a, trigger: { methd: x }, on_eror: block }\n',
    [
      's.yaml:2:37: evaluators: on_eror: is not a known field; known fields: name, trigger, llm, processor, on_error',
      's.yaml:2:25: evaluators: trigger.methd: is not a known field; known fields: method, namespace',
      's.yaml:2:14: evaluators: trigger.method: is required',
      's.yaml:2:3: evaluators: llm: is required',
      's.yaml:2:3: evaluators: processor: is required',
    ],
  ],
  ['tools:\n', ['s.yaml:1:1: tools must be a list; use [] for an empty one']],
  ['tools: [a]', ['s.yaml:1:9: an entry of tools must be a map']],
  ['tools: [\n', ['s.yaml:2:1: Flow sequence in block collection must be sufficiently indented and end with a ]']],
  ['a: 1\na: 2', ['s.yaml:2:1: duplicate key a']],
  ['namespaces: [{ name: *a }]', ['s.yaml:1:22: unresolved alias: no anchor with this name is defined before it']],
  ['namespaces: [{ name: !!x a }]', ['s.yaml:1:22: Unresolved tag: tag:yaml.org,2002:x']],
  ['? [a]\n: b', ['s.yaml:1:3: keys must be strings']],
  ['namespaces: [{ name: a, labels: { x: .inf } }]', ['s.yaml:1:38: .inf is not a JSON number']],
  ['namespaces: [{ nam: a }]', ['s.yaml:1:16: namespaces: nam: is not a known field; known fields: name, labels']],
  ['namespaces: [{}]', ['s.yaml:1:14: namespaces: name: is required']],
  [
    'namespaces: [{ name: A }]',
    ['s.yaml:1:16: namespaces: name: must consist of lowercase letters, digits and hyphens only'],
  ],
  ['namespaces: [{ name: 007 }]', ['s.yaml:1:16: namespaces: name: must be a string; quote it']],
  ['namespaces: [{ name: a, labels: { b: true } }]', ['s.yaml:1:35: namespaces: labels.b: must be a string; quote it']],
  ['namespaces: [{ name: a, labels: [] }]', ['s.yaml:1:25: namespaces: labels: must be an object']],
  ['namespaces: [{ name: a }, { name: " a" }]', ['s.yaml:1:27: namespaces: duplicate entry; first at s.yaml:1:14']],
  [
    'forwards:\n- name: f\n  address: ftp://h\n  available: true\n',
    [
      's.yaml:4:3: forwards: available: is not a known field; known fields: name, address, namespace, labels, prefix, headers, expose, proxy, compression',
    ],
  ],
  [
    'forwards:\n- name: f\n  address: h\n',
    ['s.yaml:3:3: forwards: address: must be a URL such as http://127.0.0.1:3001/mcp'],
  ],
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
    ['s.yaml:2:3: tools: a discovered tool needs forward; any other tool needs uri and toolType'],
  ],
  ['tools: [{ upstreamName: a }]', ['s.yaml:1:11: tools: upstreamName: is allowed only with forward']],
  ['tools: [{ forward: f }]', ['s.yaml:1:9: tools: upstreamName: is required unless name is set']],
  ['tools: [{ forward: f, name: a, uri: u }]', ['s.yaml:1:32: tools: uri: is set by its forward; remove it']],
  [
    'tools: [{ forward: f, name: a, upstream: {} }]',
    ['s.yaml:1:32: tools: upstream: is set by its forward; remove it'],
  ],
  ['tools: [{ forward: f, name: a, input_schema: null }]', ['s.yaml:1:32: tools: input_schema: must be an object']],
  [
    'tools: [{ forward: f, name: a, labels: { service.x: b } }]',
    ['s.yaml:1:42: tools: labels.service.x: is set by the service; remove it'],
  ],
  [
    'tools: [{ forward: f, name: a }, { forward: f, upstreamName: a }]',
    ['s.yaml:1:34: tools: duplicate entry; first at s.yaml:1:9'],
  ],
])('%j is rejected with its position', (text, expected) => {
  expect(problems(text)).toEqual(expected);
});

test('a misspelled member is stored with a warning', () => {
  const made = 'name: t, description: "", uri: u, toolType: t, input_schema: {}';
  const { body, warnings } = read(`tools:
- { ${made}, titel: T, vendor: 1, _meta: {}, execution: {}, note: n }
- { forward: f, upstreamNam: y, upstreamName: x, descripton: y, output-schema: {}, outputSchema: {}, icon: [], ID: "7" }
`);
  expect(body.tools).toMatchObject([{ titel: 'T', vendor: 1 }, { descripton: 'y' }]);
  expect(warnings).toEqual([
    's.yaml:2:70: tools: titel: is not a known field; did you mean "title"?',
    's.yaml:3:17: tools: upstreamNam: is not a known field; did you mean "upstreamName"?',
    's.yaml:3:50: tools: descripton: is not a known field; did you mean "description"?',
    's.yaml:3:65: tools: output-schema: is not a known field; did you mean "output_schema"?',
    's.yaml:3:102: tools: icon: is not a known field; did you mean "icons"?',
    's.yaml:3:112: tools: ID: is not a known field; did you mean "id"?',
  ]);
});

test('misspelled configuration and secret URIs are rejected', () => {
  const made = 'name: t, description: "", uri: "w:t", type: w, input_schema: {}';
  expect(problems(`tools:\n- { ${made}, configuration_uri: c, secretUri: s }`)).toEqual([
    's.yaml:2:92: tools: secretUri: is not a known field; did you mean "secretsURI"?',
  ]);
});

test('positions are correct in JSON too', () => {
  expect(problems('{\n  "namespaces": [\n    {"name": 1}\n  ]\n}')).toEqual([
    's.yaml:3:6: namespaces: name: must be a string; quote it',
  ]);
});

test('of many problems the first ones are listed, and positions are found quickly', () => {
  const tools = Array.from({ length: 3_000 }, (_, at) => ({ name: `t${at}`, description: 'x' }));
  const received = problems(JSON.stringify({ tools }));
  expect(received).toHaveLength(21);
  expect(received.at(-1)).toBe('and 2980 more');
}, 10_000);

test('several files form one state, without duplicates', () => {
  const one = { name: 'one.yaml', text: 'namespaces: [{ name: a }]' };
  expect(readStateFiles([one, { name: 'two.yaml', text: 'namespaces: [{ name: b }]' }]).body.namespaces).toMatchObject([
    { name: 'a' },
    { name: 'b' },
  ]);
  expect(() => readStateFiles([one, { ...one, name: 'two.yaml' }])).toThrow(
    'two.yaml:1:14: namespaces: duplicate entry; first at one.yaml:1:14',
  );
});

test('excessive aliases are rejected', () => {
  const levels = Array.from({ length: 9 }, (_, i) => `l${i + 1}: &l${i + 1} [${Array(9).fill(`*l${i}`).join(', ')}]`);
  expect(problems(`l0: &l0 [a]\n${levels.join('\n')}`)).toEqual([
    expect.stringMatching(
      /^s\.yaml:\d+:\d+: too many values, counting those that aliases repeat: the limit is 1000000$/,
    ),
  ]);
});
