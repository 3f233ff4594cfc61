import { parseLossless } from '@sluice/protocol/json/parse';
import { describe, expect, test } from 'vitest';
import type { CurrentState } from './current-state.ts';
import { plan } from './plan.ts';
import { formatPlan, planToJson } from './report.ts';
import { ServiceModel } from './service-model.fixture.ts';
import { readStateFiles } from './state-file.ts';

const UPSTREAMS = {
  'http://one/mcp': {
    x: { description: 'X', input_schema: { type: 'object' }, annotations: Object(parseLossless('{"weight":1.0}')) },
    y: { description: 'Y', input_schema: { type: 'object' } },
  },
};
const UP = 'forwards: [{ name: up, address: http://one/mcp }]\n';
const MANUAL = '{ description: "", uri: http://t/mcp, toolType: custom, input_schema: {} }';

const read = (text: string) => readStateFiles([{ name: 'state.yaml', text }]);
const actual = (...states: string[]): CurrentState => {
  const model = new ServiceModel(UPSTREAMS);
  for (const state of states) model.run(plan(read(state), model.actual(), { prune: false }));
  return model.actual();
};
const steps = (text: string, from: CurrentState, prune = false) => plan(read(text), from, { prune });
const shown = (text: string, from: CurrentState, prune = false) =>
  formatPlan(steps(text, from, prune), (_format, plain) => plain);

test('a plan lists the steps in execution order', () => {
  const state = `
tools:
- { forward: up, upstreamName: x, name: say, namespace: ops, title: Say, labels: { team: a } }
- name: made
  description: ${'long '.repeat(30)}
  uri: http://me:word@t/mcp?key=secret#token=x
  toolType: custom
  input_schema: {}
forwards: [{ name: up, address: "http://one/mcp?key=secret&b", namespace: crm, prefix: p_ }]
services: [{ name: py, host: "::1", port: 50051, serviceType: code-execution-engine, languageName: python }]
`;
  expect(shown(state, actual())).toBe(`\
+ namespace crm
+ namespace ops
+ service py (code-execution-engine, python)
    address: "[::1]:50051"
    serviceType: "code-execution-engine"
    languageName: "python"
+ tool made in namespace default
    description: "long long long long long long long long long long long long…
    uri: "http://***@t/mcp?key=***#***"
    toolType: "custom"
+ forward up
    address: "http://one/mcp?key=***&***"
    namespace: "crm"
    prefix: "p_"
~ tool p_x in namespace crm (forward up, upstream name x)
    name: "p_x" -> "say"
    namespace: "crm" -> "ops"
    labels: {} -> {"team":"a"}
    title: "Say"

6 changes: 5 to create, 1 to change
`);
});

test('a plan shows old and new values; JSON has complete values without secrets', () => {
  const before = actual(`${UP}tools: [{ forward: up, upstreamName: x, description: Ours, annotations: null }]`);
  const after = `tools: [{ forward: up, upstreamName: x, title: ${'T'.repeat(80)} }]`;
  expect(shown(after, before)).toBe(`\
~ tool x in namespace default (forward up)
    description: "Ours" -> "X"
    annotations: {"weight":1.0}
    title: "${'T'.repeat(59)}…

1 change: 1 to change
`);
  expect(JSON.stringify(planToJson(steps(after, before)))).toBe(
    `{"changes":[{"action":"update","kind":"tool","name":"x","namespace":"default","forward":"up","upstreamName":"x",` +
      `"members":[{"member":"description","from":"Ours","to":"X"},{"member":"annotations","to":{"weight":1.0}},` +
      `{"member":"title","to":"${'T'.repeat(80)}"}],"notes":[]}]}`,
  );
  const moved = 'forwards: [{ name: up, address: "http://two/mcp?key=new" }]';
  expect(JSON.stringify(planToJson(steps(moved, before)))).not.toContain('new"');
});

test('a forward is changed in place, and its tools follow', () => {
  const before = actual(
    `${UP}tools: [{ forward: up, upstreamName: x, name: say }, { forward: up, upstreamName: y, name: tell }]`,
  );
  const after =
    'forwards: [{ name: up, address: http://one/mcp, prefix: p_ }]\ntools: [{ forward: up, upstreamName: x, name: say }]';
  expect(shown(after, before)).toBe(`\
~ forward up
    prefix: "p_"
    (its entries follow, except those that were moved or renamed)

1 change: 1 to change
`);
});

const RULES = 'expose: { tools: { allow: [a, b], deny: [c], new: disabled } }';
const withRules = (rules: string) => `forwards: [{ name: up, address: http://one/mcp, ${rules} }]\n`;
const tool = (members: string) => `${UP}tools: [{ forward: up, upstreamName: x, ${members} }]`;
const evaluator = (more: string) =>
  `evaluators: [{ name: e, trigger: { method: tools/call }, llm: { operation: classify, prompt: p, connection: c }, processor: { path: a.wasm }${more} }]`;

test.each([
  ['enabling a tool', tool('enabled: false'), tool('enabled: true'), ['enables it']],
  ['clearing a mark', tool('enabled: false'), tool('enabled: null'), ['enables it']],
  ['disabling a tool', UP, tool('enabled: false'), []],
  [
    'a mark of a tool that is not discovered',
    UP,
    `${UP}tools: [{ forward: up, upstreamName: z, enabled: true, title: t }]`,
    ['enables it'],
  ],
  ['moving a tool', UP, tool('namespace: ops'), ['moves it to namespace ops']],
  ['renaming a tool', UP, tool('name: say'), []],
  ['moving a forward', UP, withRules('namespace: ops'), ['moves its entries to namespace ops']],
  ['another prefix', UP, withRules('prefix: p_'), []],
  ['rules', UP, withRules(RULES), []],
  ['the same rules in another order', withRules(RULES), withRules('expose: { tools: { allow: [b, a] } }'), []],
  [
    'tighter rules',
    withRules(RULES),
    withRules('expose: { tools: { allow: [a], deny: [c, d] }, prompts: { deny: [x] } }'),
    [],
  ],
  [
    'another allowed glob',
    withRules(RULES),
    withRules('expose: { tools: { allow: [a, d] } }'),
    ['may expose more entries'],
  ],
  ['a removed glob', withRules(RULES), withRules('expose: { tools: { deny: [] } }'), ['may expose more entries']],
  [
    'everything allowed',
    withRules(RULES),
    withRules('expose: { tools: { allow: null } }'),
    ['may expose more entries'],
  ],
  ['new entries', withRules(RULES), withRules('expose: { tools: { new: null } }'), ['may expose more entries']],
  ['no rules', withRules(RULES), withRules('expose: null'), ['may expose more entries']],
  ['a new forward', '{}', `${UP}tools: [{ forward: up, upstreamName: x, namespace: ops, enabled: true }]`, []],
  ['a new evaluator', '{}', evaluator(''), []],
  ['another prompt', evaluator(''), evaluator('').replace('prompt: p', 'prompt: q'), ['may loosen an evaluator']],
  [
    'a narrower trigger',
    evaluator(''),
    evaluator('').replace('call', 'call, namespace: a'),
    ['may loosen an evaluator'],
  ],
  ['a wider trigger', evaluator('').replace('call', 'call, namespace: a'), evaluator(''), []],
  ['a stricter evaluator', evaluator(''), evaluator(', on_error: block'), []],
  ['a laxer evaluator', evaluator(', on_error: block'), evaluator(''), ['may loosen an evaluator']],
  ['no evaluator', evaluator(''), 'evaluators: []', ['removes an evaluator']],
] as const)('%s is marked when it widens the reach of agents', (_, before, after, widens) => {
  const planned = steps(after, actual(before), true);
  expect(planned.flatMap((step) => step.widens ?? [])).toEqual(widens);
});

test('a name that is freed for a shadowed tool widens the reach of agents', () => {
  const before = actual(`tools: [{ name: x, <<: ${MANUAL}, enabled: false }]`, UP);
  expect(shown('tools: []', before, true)).toContain(
    '    ! widens the reach of agents: makes the shadowed tool x of forward up available\n',
  );
});

test('forwards exchange their prefixes', () => {
  const forward = (name: string, prefix: string) => `{ name: ${name}, address: http://one/mcp, prefix: ${prefix} }`;
  const state = (f: string, g: string) => `forwards: [${forward('f', f)}, ${forward('g', g)}]`;
  const model = new ServiceModel(UPSTREAMS);
  model.run(plan(read(state('a.', 'b.')), model.actual(), { prune: false }));
  model.run(plan(read(state('b.', 'a.')), model.actual(), { prune: false }));
  expect(
    model
      .actual()
      .discovered.map(({ forward, name }) => `${forward} ${name}`)
      .sort(),
  ).toEqual(['f b.x', 'f b.y', 'g a.x', 'g a.y']);
});

test('a forward cannot take the name of a tool that stays', () => {
  const before = actual(`${UP}tools: [{ name: p_x, <<: ${MANUAL} }]`);
  expect(() => steps(withRules('prefix: p_'), before)).toThrow(
    'state.yaml:1:12: forwards: a name of its tools is already used by a manually registered tool; delete that tool, or choose another prefix',
  );
});

describe('pruning', () => {
  const all = `${UP}namespaces: [{ name: old, labels: { a: b } }]
services: [{ name: s, address: "h:1", serviceType: tool-invoker }]
tools: [{ forward: up, upstreamName: x, name: say }, { name: made, <<: ${MANUAL} }]
`;

  test('is for sections that the files have', () => {
    expect(steps('namespaces: []', actual(all), true).map(({ name }) => name)).toEqual(['old']);
    expect(steps('services: []', actual(all), true).map(({ name }) => name)).toEqual(['s']);
    expect(steps('{}', actual(all), true)).toEqual([]);
    expect(steps('services: []\nnamespaces: []\ntools: []\nforwards: []', actual(all), false)).toEqual([]);
  });

  test('removes overrides of discovered tools, and deletes in reverse order', () => {
    const none = 'namespaces: []\nforwards: []\nservices: []\ntools: []';
    expect(shown('tools: []', actual(all), true)).toBe(`\
~ tool say in namespace default (forward up, upstream name x)
    name: "say" -> "x"
- tool made in namespace default

2 changes: 1 to change, 1 to delete
`);
    expect(shown(none, actual(all), true)).toBe(`\
- tool made in namespace default
- forward up
    (with its discovered entries)
- service s (tool-invoker)
- namespace old

4 changes: 4 to delete
`);
  });

  test('a namespace is deleted with its current contents, which the plan lists', () => {
    const before = actual(`forwards: [{ name: up, address: http://one/mcp, namespace: old }]
tools: [{ name: made, namespace: old, <<: ${MANUAL} }, { name: other, namespace: old, <<: ${MANUAL} }]`);
    const others = [
      { kind: 'resource', namespace: 'old', forward: undefined },
      { kind: 'prompt', namespace: 'old', forward: 'up' },
    ] as const;
    const removal = (text: string) => steps(text, { ...before, others }, true).at(-1);
    expect(removal('namespaces: []')).toMatchObject({
      contents: { tools: 4, resources: 1, prompts: 1, forwards: 1 },
      notes: ['with its contents: 4 tools, 1 resource, 1 prompt, 1 forward'],
    });
    expect(removal('namespaces: []\nforwards: []')).toMatchObject({
      contents: { tools: 2, resources: 1, prompts: 0, forwards: 0 },
    });
    expect(removal('namespaces: []\nforwards: []\ntools: []')).toMatchObject({
      contents: { tools: 0, resources: 1, prompts: 0, forwards: 0 },
    });
  });

  test('a namespace that the files refer to is kept', () => {
    const before = actual('forwards: [{ name: up, address: http://one/mcp, namespace: old }]');
    for (const state of [
      'forwards: [{ name: up, address: http://one/mcp, namespace: old }]',
      'tools: [{ forward: up, upstreamName: x, title: T }]',
    ]) {
      expect(steps(`namespaces: []\n${state}`, before, true).filter(({ action }) => action === 'delete')).toEqual([]);
    }
  });

  test('services of one name and type are deleted together, and the remaining ones registered again', () => {
    const entry = (language: string) =>
      `{ name: s, address: "h:1", serviceType: code-execution-engine, languageName: ${language} }`;
    const before = actual(`services: [${entry('py')}, ${entry('js')}]`);
    expect(steps(`services: [${entry('js')}]`, before, true)).toMatchObject([
      { action: 'delete', entry: { languageName: 'py' }, reregister: [{ languageName: 'js' }] },
    ]);
  });
});

describe('names that must become available', () => {
  test('a manual tool gets the name of a tool that a later step renames', () => {
    const state = `${UP}tools: [{ name: x, <<: ${MANUAL} }, { forward: up, upstreamName: x, name: say }]`;
    expect(steps(state, actual()).map(({ kind }) => kind)).toEqual(['forward', 'override', 'tool']);
    actual(state);
  });

  test('tools discovered under one name are changed in turn, once each is served', () => {
    const state = `forwards: [{ name: a, address: http://one/mcp }, { name: b, address: http://one/mcp }]
tools: [{ forward: b, upstreamName: x, name: b_x }, { forward: a, upstreamName: x, name: a_x }]`;
    expect(actual(state).discovered.filter(({ shadowed }) => !shadowed)).toMatchObject([
      { forward: 'a', name: 'y' },
      { forward: 'a', name: 'a_x' },
      { forward: 'b', name: 'b_x' },
    ]);
  });

  test('a cycle of names that includes a shadowed tool is resolved', () => {
    const forwards = 'forwards: [{ name: a, address: http://one/mcp }, { name: b, address: http://one/mcp }]';
    const after = `tools:
- { forward: b, upstreamName: x, name: b_x }
- { forward: b, upstreamName: y, name: b_y }
- { forward: a, upstreamName: x, name: y }
- { forward: a, upstreamName: y, name: x }`;
    const names = ({ discovered }: CurrentState) =>
      discovered.map(({ forward, upstreamName, name }) => [forward, upstreamName, name]);
    expect(names(actual(forwards, after)).sort()).toEqual([
      ['a', 'x', 'y'],
      ['a', 'y', 'x'],
      ['b', 'x', 'b_x'],
      ['b', 'y', 'b_y'],
    ]);
    expect(names(actual(`${forwards}\n${after}`)).sort()).toEqual(names(actual(forwards, after)).sort());
  });

  test('a tool that is deleted frees its name first', () => {
    const before = actual(`${UP}tools: [{ name: say, <<: ${MANUAL} }]`);
    const after = 'tools: [{ forward: up, upstreamName: x, name: say }]';
    expect(steps(after, before, true).map(({ kind, action }) => [kind, action])).toEqual([
      ['tool', 'delete'],
      ['override', 'update'],
    ]);
  });
});

describe('numbers', () => {
  test('of a discovered tool are those of the upstream if the values are equal', () => {
    expect(steps('tools: [{ forward: up, name: x, annotations: { weight: 1 } }]', actual(UP))).toEqual([]);
    expect(steps('tools: [{ forward: up, name: x, annotations: { weight: 2 } }]', actual(UP))).toHaveLength(1);
  });

  test('of a manual tool keep the text of the file', () => {
    const made = (maximum: string) =>
      `tools: [{ name: t, description: "", uri: u, toolType: t, input_schema: { maximum: ${maximum} } }]`;
    expect(steps(made('9223372036854775807'), actual(made('9223372036854775807')))).toEqual([]);
    expect(steps(made('9223372036854775807'), actual(made('9223372036854776000')))).toHaveLength(1);
    expect(steps(made('1.0'), actual(made('1')))).toHaveLength(1);
  });
});

test.each([
  ['tools: [{ forward: none, name: x }]', 'state.yaml:1:9: tools: forward none does not exist'],
  [
    'forwards: []\ntools: [{ forward: up, name: x }]',
    'state.yaml:2:9: tools: forward up is not in the files and would be deleted',
  ],
  [
    'tools: [{ forward: up, name: x }, { forward: up, upstreamName: y, name: x }]',
    'state.yaml:1:35: tools: name is already used at state.yaml:1:9',
  ],
  [
    `tools: [{ forward: up, name: x }, { name: x, <<: ${MANUAL} }]`,
    'state.yaml:1:9: tools: name is already used at state.yaml:1:35',
  ],
])('an impossible state is rejected with its position: %s', (text, message) => {
  expect(() => steps(text, actual(UP), true)).toThrow(expect.objectContaining({ message }));
});

describe('name conflicts with the service', () => {
  const before = actual(
    `forwards: [{ name: up, address: http://one/mcp }, { name: hidden, address: http://one/mcp }]
tools: [{ name: made, <<: ${MANUAL} }, { forward: up, name: y, title: Y }]`,
  );
  const ofForward = 'is already used by a tool of forward up; rename that tool, or choose another name';

  test.each([
    [
      'tools: [{ forward: up, upstreamName: x, name: y }]',
      `state.yaml:1:9: tools: name y in namespace default ${ofForward}`,
    ],
    [
      'tools: [{ forward: up, upstreamName: x, name: made }]',
      'state.yaml:1:9: tools: name made in namespace default is already used by a manually registered tool; delete that tool, or choose another name',
    ],
    [`tools: [{ name: x, <<: ${MANUAL} }]`, `state.yaml:1:9: tools: name x in namespace default ${ofForward}`],
    [
      'forwards: [{ name: new, address: http://one/mcp, prefix: n_ }]\ntools: [{ forward: new, upstreamName: x, name: y }]',
      `state.yaml:2:9: tools: name y in namespace default ${ofForward}`,
    ],
    [
      'tools: [{ forward: hidden, upstreamName: x, title: X }]',
      'state.yaml:1:9: tools: tool x of forward hidden is shadowed by another tool x in namespace default; rename that tool, or set a prefix for the forward',
    ],
  ])('are a problem before any step: %s', (text, message) => {
    expect(() => steps(text, before)).toThrow(expect.objectContaining({ message }));
  });

  test('do not occur when the plan moves, renames or deletes the conflicting tool', () => {
    const free = 'forwards: [{ name: up, address: http://one/mcp }]\n';
    const one = actual(`${free}tools: [{ name: made, <<: ${MANUAL} }]`);
    for (const [text, prune] of [
      ['tools: [{ forward: up, upstreamName: x, name: y }, { forward: up, upstreamName: y, name: z }]', false],
      ['tools: [{ forward: up, upstreamName: x, name: y }, { forward: up, upstreamName: y, namespace: n }]', false],
      ['tools: [{ forward: up, upstreamName: x, name: made }]', true],
      [`forwards: []\ntools: [{ name: x, <<: ${MANUAL} }]`, true],
    ] as const) {
      expect(steps(text, one, prune).length).toBeGreaterThan(1);
    }
  });

  test('are a problem when an override is removed and the original name is used by another tool', () => {
    const renamed = actual(`${UP}tools: [{ forward: up, upstreamName: x, name: say }]`);
    const made = `tools: [{ name: x, <<: ${MANUAL} }]`;
    expect(() => steps(made, renamed, true)).toThrow(
      'state.yaml:1:9: tools: tool x of forward up would get this name back; set its name in the file',
    );
    expect(steps(made, renamed)).toHaveLength(1);
    const taken = actual(`${UP}tools: [{ forward: up, upstreamName: x, name: say }]`, made);
    expect(() => steps(made, taken, true)).toThrow(
      'state.yaml:1:9: tools: tool x of forward up would get this name back',
    );
    const third = `${UP}tools: [{ forward: up, upstreamName: x, name: say }, { forward: up, upstreamName: y, name: x }]`;
    const late = {
      ...actual(third),
      forwards: [
        { name: 'up', address: 'http://one/mcp', namespace: 'default', labels: {}, prefix: '', expose: undefined },
        { name: 'late', address: 'http://two/mcp', namespace: 'default', labels: {}, prefix: '', expose: undefined },
      ],
    };
    const ofLate = late.discovered.map((tool) =>
      tool.name === 'x' ? { ...tool, forward: 'late', upstreamName: 'x' } : tool,
    );
    expect(() => steps('tools: []', { ...late, discovered: ofLate }, true)).toThrow(
      'cannot revert the changes to tool say of forward up: name x in namespace default is already used by a tool of forward late; rename that tool, or choose another name',
    );
  });
});

test('a tool named by its current name is detected when planning', () => {
  const renamed = actual(`${UP}tools: [{ forward: up, upstreamName: x, name: say }]`);
  expect(() => steps('tools: [{ forward: up, name: say, title: T }]', renamed)).toThrow(
    'state.yaml:1:9: tools: forward up has no tool with the upstream name say; use upstreamName x',
  );
});

test('an entry without members is no difference, whether the tool exists or not', () => {
  expect(steps('tools: [{ forward: up, name: x }, { forward: up, upstreamName: later }]', actual(UP))).toEqual([]);
  expect(steps('tools: [{ forward: up, upstreamName: later, title: T }]', actual(UP))).toMatchObject([
    { upstreamName: 'later', notes: ['the forward has no such tool at the moment'] },
  ]);
});

test('forwards that exchange their places free the names of renamed tools last', () => {
  const places = (f: string, g: string) =>
    `forwards: [{ name: f, address: http://one/mcp, ${f} }, { name: g, address: http://one/mcp, ${g} }]\n`;
  const model = new ServiceModel(UPSTREAMS);
  const [here, there] = ['prefix: g.', 'prefix: f., namespace: b'];
  for (const state of [
    `${places(here, there)}tools: [{ forward: f, upstreamName: x, name: mine }]`,
    `${places(there, here)}tools: [${MANUAL.replace('{', '{ name: mine,')}]`,
  ]) {
    model.run(plan(read(state), model.actual(), { prune: true }));
  }
  expect(model.actual().manual.map(({ name }) => name)).toEqual(['mine']);
});
