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
const MADE = '{ description: "", uri: http://t/mcp, toolType: custom, input_schema: {} }';

const read = (text: string) => readStateFiles([{ name: 'state.yaml', text }]);
const actual = (...states: string[]): CurrentState => {
  const model = new ServiceModel(UPSTREAMS);
  for (const state of states) model.run(plan(read(state), model.actual(), { prune: false }));
  return model.actual();
};
const steps = (text: string, from: CurrentState, prune = false) => plan(read(text), from, { prune });
const shown = (text: string, from: CurrentState, prune = false) =>
  formatPlan(steps(text, from, prune), (_format, plain) => plain);

test('a plan shows what is made, in the order in which it is made', () => {
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
~ tool p_x in namespace crm (forward up, there x)
    name: "p_x" -> "say"
    namespace: "crm" -> "ops"
    labels: {} -> {"team":"a"}
    title: "Say"

6 changes: 5 to create, 1 to change
`);
});

test('a plan shows what was and what will be, and programs get whole values without secrets', () => {
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

test('a forward that differs is replaced, and what is lost with it is said', () => {
  const before = actual(
    `${UP}tools: [{ forward: up, upstreamName: x, name: say }, { forward: up, upstreamName: y, name: tell }]`,
  );
  const after =
    'forwards: [{ name: up, address: http://one/mcp, prefix: p_ }]\ntools: [{ forward: up, upstreamName: x, name: say }]';
  expect(shown(after, before)).toBe(`\
± forward up
    prefix: "p_"
    (a forward cannot be changed: it is deleted and registered anew, and what was changed on its resources and prompts goes)
    (what was changed on these tools goes, the file does not name them: tell)
~ tool p_x in namespace default (forward up, there x)
    name: "p_x" -> "say"

2 changes: 1 to change, 1 to replace
`);
});

describe('pruning', () => {
  const all = `${UP}namespaces: [{ name: old, labels: { a: b } }]
services: [{ name: s, address: "h:1", serviceType: tool-invoker }]
tools: [{ forward: up, upstreamName: x, name: say }, { name: made, <<: ${MADE} }]
`;

  test('is for sections that the files have', () => {
    expect(steps('namespaces: []', actual(all), true).map(({ name }) => name)).toEqual(['old']);
    expect(steps('services: []', actual(all), true).map(({ name }) => name)).toEqual(['s']);
    expect(steps('{}', actual(all), true)).toEqual([]);
    expect(steps('services: []\nnamespaces: []\ntools: []\nforwards: []', actual(all), false)).toEqual([]);
  });

  test('takes back what was changed on discovered tools, and deletes in reverse order', () => {
    const none = 'namespaces: []\nforwards: []\nservices: []\ntools: []';
    expect(shown('tools: []', actual(all), true)).toBe(`\
~ tool say in namespace default (forward up, there x)
    name: "say" -> "x"
- tool made in namespace default

2 changes: 1 to change, 1 to delete
`);
    expect(shown(none, actual(all), true)).toBe(`\
- tool made in namespace default
- forward up
    (with all that it brought)
- service s (tool-invoker)
- namespace old

4 changes: 4 to delete
`);
  });

  test('a namespace goes with what is in it then, and the plan says what that is', () => {
    const before = actual(`forwards: [{ name: up, address: http://one/mcp, namespace: old }]
tools: [{ name: made, namespace: old, <<: ${MADE} }, { name: other, namespace: old, <<: ${MADE} }]`);
    const others = [
      { kind: 'resource', namespace: 'old', forward: undefined },
      { kind: 'prompt', namespace: 'old', forward: 'up' },
    ] as const;
    const removal = (text: string) => steps(text, { ...before, others }, true).at(-1);
    expect(removal('namespaces: []')).toMatchObject({
      contents: { tools: 4, resources: 1, prompts: 1, forwards: 1 },
      notes: ['with all that is in it: 4 tools, 1 resource, 1 prompt, 1 forward'],
    });
    expect(removal('namespaces: []\nforwards: []')).toMatchObject({
      contents: { tools: 2, resources: 1, prompts: 0, forwards: 0 },
    });
    expect(removal('namespaces: []\nforwards: []\ntools: []')).toMatchObject({
      contents: { tools: 0, resources: 1, prompts: 0, forwards: 0 },
    });
  });

  test('a namespace stays that something of the files is in', () => {
    const before = actual('forwards: [{ name: up, address: http://one/mcp, namespace: old }]');
    for (const state of [
      'forwards: [{ name: up, address: http://one/mcp, namespace: old }]',
      'tools: [{ forward: up, upstreamName: x, title: T }]',
    ]) {
      expect(steps(`namespaces: []\n${state}`, before, true).filter(({ action }) => action === 'delete')).toEqual([]);
    }
  });

  test('services of one name and type are deleted together, so that those which stay are registered again', () => {
    const entry = (language: string) =>
      `{ name: s, address: "h:1", serviceType: code-execution-engine, languageName: ${language} }`;
    const before = actual(`services: [${entry('py')}, ${entry('js')}]`);
    expect(steps(`services: [${entry('js')}]`, before, true)).toMatchObject([
      { action: 'delete', entry: { languageName: 'py' }, reregister: [{ languageName: 'js' }] },
    ]);
  });
});

describe('names that are to be free', () => {
  test('a hand-made tool takes the name that a tool gives up which is yet to come', () => {
    const state = `${UP}tools: [{ name: x, <<: ${MADE} }, { forward: up, upstreamName: x, name: say }]`;
    expect(steps(state, actual()).map(({ kind }) => kind)).toEqual(['forward', 'override', 'tool']);
    actual(state);
  });

  test('of tools that arrive under one name, each is changed when it is its turn', () => {
    const state = `forwards: [{ name: a, address: http://one/mcp }, { name: b, address: http://one/mcp }]
tools: [{ forward: b, upstreamName: x, name: b_x }, { forward: a, upstreamName: x, name: a_x }]`;
    expect(actual(state).discovered.filter(({ shadowed }) => !shadowed)).toMatchObject([
      { forward: 'a', name: 'y' },
      { forward: 'a', name: 'a_x' },
      { forward: 'b', name: 'b_x' },
    ]);
  });

  test('names go round in a circle that a shadowed tool waits for', () => {
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

  test('what holds a name and goes, goes before', () => {
    const before = actual(`${UP}tools: [{ name: say, <<: ${MADE} }]`);
    const after = 'tools: [{ forward: up, upstreamName: x, name: say }]';
    expect(steps(after, before, true).map(({ kind, action }) => [kind, action])).toEqual([
      ['tool', 'delete'],
      ['override', 'update'],
    ]);
  });
});

describe('numbers', () => {
  test('of a discovered tool follow the upstream where they mean the same', () => {
    expect(steps('tools: [{ forward: up, name: x, annotations: { weight: 1 } }]', actual(UP))).toEqual([]);
    expect(steps('tools: [{ forward: up, name: x, annotations: { weight: 2 } }]', actual(UP))).toHaveLength(1);
  });

  test('of a hand-made tool are as the file spells them', () => {
    const made = (maximum: string) =>
      `tools: [{ name: t, description: "", uri: u, toolType: t, input_schema: { maximum: ${maximum} } }]`;
    expect(steps(made('9223372036854775807'), actual(made('9223372036854775807')))).toEqual([]);
    expect(steps(made('9223372036854775807'), actual(made('9223372036854776000')))).toHaveLength(1);
    expect(steps(made('1.0'), actual(made('1')))).toHaveLength(1);
  });
});

test.each([
  ['tools: [{ forward: none, name: x }]', 'state.yaml:1:9: tools: forward none is not known'],
  [
    'forwards: []\ntools: [{ forward: up, name: x }]',
    'state.yaml:2:9: tools: forward up is not in the files, so that it goes',
  ],
  [
    'tools: [{ forward: up, name: x }, { forward: up, upstreamName: y, name: x }]',
    'state.yaml:1:35: tools: its name is given to another tool at state.yaml:1:9',
  ],
  [
    `tools: [{ forward: up, name: x }, { name: x, <<: ${MADE} }]`,
    'state.yaml:1:9: tools: its name is given to another tool at state.yaml:1:35',
  ],
])('what cannot be is refused with its place: %s', (text, message) => {
  expect(() => steps(text, actual(UP), true)).toThrow(expect.objectContaining({ message }));
});

describe('names that the service has given away', () => {
  const before = actual(
    `forwards: [{ name: up, address: http://one/mcp }, { name: hidden, address: http://one/mcp }]
tools: [{ name: made, <<: ${MADE} }, { forward: up, name: y, title: Y }]`,
  );
  const ofForward = 'is taken by a tool of forward up, which keeps it; rename that one too, or choose another name';

  test.each([
    [
      'tools: [{ forward: up, upstreamName: x, name: y }]',
      `state.yaml:1:9: tools: the name y in namespace default ${ofForward}`,
    ],
    [
      'tools: [{ forward: up, upstreamName: x, name: made }]',
      'state.yaml:1:9: tools: the name made in namespace default is taken by a tool made by hand, which stays; delete that one, or choose another name',
    ],
    [`tools: [{ name: x, <<: ${MADE} }]`, `state.yaml:1:9: tools: the name x in namespace default ${ofForward}`],
    [
      'forwards: [{ name: new, address: http://one/mcp, prefix: n_ }]\ntools: [{ forward: new, upstreamName: x, name: y }]',
      `state.yaml:2:9: tools: the name y in namespace default ${ofForward}`,
    ],
    [
      'tools: [{ forward: hidden, upstreamName: x, title: X }]',
      'state.yaml:1:9: tools: tool x of forward hidden cannot be changed: another tool is called x in namespace default; rename that one, or give the forward a prefix',
    ],
  ])('are a problem before anything is done: %s', (text, message) => {
    expect(() => steps(text, before)).toThrow(expect.objectContaining({ message }));
  });

  test('are free when the plan moves, renames or removes who has them', () => {
    const free = 'forwards: [{ name: up, address: http://one/mcp }]\n';
    const one = actual(`${free}tools: [{ name: made, <<: ${MADE} }]`);
    for (const [text, prune] of [
      ['tools: [{ forward: up, upstreamName: x, name: y }, { forward: up, upstreamName: y, name: z }]', false],
      ['tools: [{ forward: up, upstreamName: x, name: y }, { forward: up, upstreamName: y, namespace: n }]', false],
      ['tools: [{ forward: up, upstreamName: x, name: made }]', true],
      [`forwards: []\ntools: [{ name: x, <<: ${MADE} }]`, true],
    ] as const) {
      expect(steps(text, one, prune).length).toBeGreaterThan(1);
    }
  });

  test('are a problem when a tool gets its own one back that is another one by now', () => {
    const renamed = actual(`${UP}tools: [{ forward: up, upstreamName: x, name: say }]`);
    const made = `tools: [{ name: x, <<: ${MADE} }]`;
    expect(() => steps(made, renamed, true)).toThrow(
      'state.yaml:1:9: tools: tool x of forward up gets its name back, which is this one; say what that is called',
    );
    expect(steps(made, renamed)).toHaveLength(1);
    const taken = actual(`${UP}tools: [{ forward: up, upstreamName: x, name: say }]`, made);
    expect(() => steps(made, taken, true)).toThrow('state.yaml:1:9: tools: tool x of forward up gets its name back');
    const third = `${UP}tools: [{ forward: up, upstreamName: x, name: say }, { forward: up, upstreamName: y, name: x }]`;
    const late = {
      ...actual(third),
      forwards: [
        { name: 'up', address: 'http://one/mcp', namespace: 'default', labels: {}, prefix: '' },
        { name: 'late', address: 'http://two/mcp', namespace: 'default', labels: {}, prefix: '' },
      ],
    };
    const ofLate = late.discovered.map((tool) =>
      tool.name === 'x' ? { ...tool, forward: 'late', upstreamName: 'x' } : tool,
    );
    expect(() => steps('tools: []', { ...late, discovered: ofLate }, true)).toThrow(
      'what was changed on tool say of forward up cannot be taken back: the name x in namespace default is taken by a tool of forward late, which keeps it; rename that one too, or choose another name',
    );
  });
});

test('a tool that is named as it is called here is found when planning', () => {
  const renamed = actual(`${UP}tools: [{ forward: up, upstreamName: x, name: say }]`);
  expect(() => steps('tools: [{ forward: up, name: say, title: T }]', renamed)).toThrow(
    'state.yaml:1:9: tools: forward up has no tool say; its upstream calls that one x: give it as upstreamName',
  );
});

test('an entry that says nothing of a tool is no difference, be the tool there or not', () => {
  expect(steps('tools: [{ forward: up, name: x }, { forward: up, upstreamName: later }]', actual(UP))).toEqual([]);
  expect(steps('tools: [{ forward: up, upstreamName: later, title: T }]', actual(UP))).toMatchObject([
    { upstreamName: 'later', notes: ['the forward has no such tool at present'] },
  ]);
});
