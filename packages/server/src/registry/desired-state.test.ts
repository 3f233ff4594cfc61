import { describe, expect, test } from 'vitest';
import { applyStateInSteps } from './desired-state.ts';
import { Draft } from './draft.ts';
import { DesiredService } from './fixtures/desired-state.ts';
import type { OperationError } from './operation-error.ts';

const SCHEMA = '"inputSchema":{"type":"object"}';
const UPSTREAMS = {
  'http://one/mcp': {
    x: `"description":"X",${SCHEMA},"annotations":{"weight":1.0}`,
    y: `"description":"Y",${SCHEMA}`,
  },
  'http://two/mcp': { x: `"description":"other",${SCHEMA}`, w: `"description":"W",${SCHEMA}` },
};
const UP = 'forwards: [{ name: up, address: http://one/mcp }]\n';
const MANUAL = '{ description: "", uri: http://t/mcp, toolType: custom, input_schema: {} }';
const made = (name: string, more = '') => `{ name: ${name}, <<: ${MANUAL}${more} }`;

const service = (...states: string[]) => new DesiredService(UPSTREAMS, ...states);

/** The problems of a state, with their paths. */
function problems(of: DesiredService, text: string, prune = false): string[] {
  try {
    of.plan(text, prune);
  } catch (error) {
    const { code, details } = error as OperationError;
    expect(code).toBe('UNPROCESSABLE');
    return (details as { path: string; message: string }[]).map(({ path, message }) => `${path}: ${message}`);
  }
  throw new Error('the state can be applied');
}

test('a plan has the changes in order, with their members', () => {
  const state = `
tools:
- { forward: up, upstreamName: x, name: say, namespace: ops, title: Say, labels: { team: a } }
- { name: made, description: d, uri: http://t/mcp, toolType: custom, input_schema: {} }
forwards: [{ name: up, address: http://one/mcp, namespace: crm, prefix: p_ }]
services: [{ name: py, host: "::1", port: 50051, serviceType: code-execution-engine, languageName: python }]
`;
  expect(service().plan(state)).toEqual([
    { action: 'create', kind: 'namespace', name: 'crm', members: [], notes: [] },
    { action: 'create', kind: 'namespace', name: 'ops', members: [], notes: [] },
    {
      ...{
        action: 'create',
        kind: 'service',
        name: 'py',
        serviceType: 'code-execution-engine',
        languageName: 'python',
      },
      members: [
        { member: 'name', to: 'py' },
        { member: 'address', to: '[::1]:50051' },
        { member: 'serviceType', to: 'code-execution-engine' },
        { member: 'languageName', to: 'python' },
      ],
      notes: [],
    },
    {
      ...{ action: 'create', kind: 'tool', name: 'made', namespace: 'default' },
      members: [
        { member: 'name', to: 'made' },
        { member: 'namespace', to: 'default' },
        { member: 'description', to: 'd' },
        { member: 'uri', to: 'http://t/mcp' },
        { member: 'toolType', to: 'custom' },
      ],
      notes: [],
    },
    {
      ...{ action: 'create', kind: 'forward', name: 'up' },
      members: [
        { member: 'name', to: 'up' },
        { member: 'address', to: 'http://one/mcp' },
        { member: 'namespace', to: 'crm' },
        { member: 'prefix', to: 'p_' },
      ],
      notes: [],
    },
    {
      ...{ action: 'update', kind: 'tool', name: 'p_x', namespace: 'crm', forward: 'up', upstreamName: 'x' },
      members: [
        { member: 'name', from: 'p_x', to: 'say' },
        { member: 'namespace', from: 'crm', to: 'ops' },
        { member: 'labels', from: {}, to: { team: 'a' } },
        { member: 'title', to: 'Say' },
      ],
      notes: [],
    },
  ]);
});

test('overrides of tools that are not discovered yet apply as soon as they are', () => {
  const state = `${UP}tools: [{ forward: up, upstreamName: x, name: say, namespace: ops, enabled: false }, { forward: up, upstreamName: later, title: T }]`;
  const of = service(state);
  expect(of.tools).toEqual(['up ops/say', 'up default/y']);
  expect(of.current.namespace('ops')?.indexes.tool.served('say')).toBeUndefined();
  expect(of.plan(state)).toEqual([]);
});

test('an override that is equal to what the upstream sends applies also at another address', () => {
  const state = (address: string) =>
    `forwards: [{ name: up, address: ${address} }]\ntools: [{ forward: up, upstreamName: x, description: X }]`;
  const of = service(state('http://one/mcp'));
  of.apply(state('http://two/mcp'));
  expect(of.plan(state('http://two/mcp'))).toEqual([]);
});

test('a forward is changed in place, and its tools follow', () => {
  const of = service(
    `${UP}tools: [{ forward: up, upstreamName: x, name: say }, { forward: up, upstreamName: y, name: tell }]`,
  );
  const after =
    'forwards: [{ name: up, address: http://one/mcp, prefix: p_ }]\ntools: [{ forward: up, upstreamName: x, name: say }]';
  expect(of.plan(after)).toEqual([
    {
      ...{ action: 'update', kind: 'forward', name: 'up', members: [{ member: 'prefix', to: 'p_' }] },
      notes: ['its entries follow, except those that were moved or renamed'],
    },
  ]);
  of.apply(after);
  expect(of.tools).toEqual(['up default/say', 'up default/tell']);
});

const RULES = 'expose: { tools: { allow: [a, b], deny: [c], new: disabled } }';
const withRules = (rules: string) => `forwards: [{ name: up, address: http://one/mcp, ${rules} }]\n`;
const tool = (members: string) => `${UP}tools: [{ forward: up, upstreamName: x, ${members} }]`;

test.each([
  ['enabling a tool', tool('enabled: false'), tool('enabled: true'), ['enables it']],
  ['clearing a mark', tool('enabled: false'), tool('enabled: null'), ['enables it']],
  ['disabling a tool', UP, tool('enabled: false'), []],
  [
    'enabling a manual tool',
    `tools: [${made('t', ', enabled: false')}]`,
    `tools: [${made('t', ', enabled: true')}]`,
    ['enables it'],
  ],
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
] as const)('%s is marked when it widens the reach of agents', (_, before, after, widens) => {
  const planned = service(before).plan(after, true);
  expect(planned.flatMap((step) => step.widens ?? [])).toEqual(widens);
});

describe('a name that is freed for a shadowed tool widens the reach of agents', () => {
  const revealed = ['makes the shadowed tool x of forward up available'];
  const widens = (before: readonly string[], after: string) =>
    service(...before)
      .plan(after, true)
      .flatMap((change) => change.widens ?? []);

  test('by the deletion of a manual tool', () => {
    expect(widens([`tools: [${made('x', ', enabled: false')}]`, UP], 'tools: []')).toEqual(revealed);
  });

  test('by the deletion or another prefix of its forward', () => {
    const first = 'forwards: [{ name: a, address: http://two/mcp }]';
    expect(widens([first, UP], UP)).toEqual(revealed);
    expect(widens([first, UP], `forwards: [{ name: a, address: http://two/mcp, prefix: p_ }, ${UP.slice(11)}`)).toEqual(
      revealed,
    );
  });

  test('by the deletion of a namespace whose forward has it', () => {
    const before =
      'forwards: [{ name: a, address: http://two/mcp, namespace: old }]\ntools: [{ forward: a, upstreamName: x, namespace: default }]';
    expect(widens([before, UP], 'namespaces: []')).toEqual(revealed);
  });

  test('not if another tool takes it', () => {
    expect(
      widens(
        [`tools: [${made('x')}]`, UP],
        'tools: [{ forward: up, upstreamName: y, name: x }, { forward: up, upstreamName: x, name: y }]',
      ),
    ).toEqual([]);
  });
});

test('forwards exchange their prefixes', () => {
  const forward = (name: string, prefix: string) => `{ name: ${name}, address: http://one/mcp, prefix: ${prefix} }`;
  const state = (f: string, g: string) => `forwards: [${forward('f', f)}, ${forward('g', g)}]`;
  const of = service(state('a.', 'b.'), state('b.', 'a.'));
  expect(of.tools).toEqual(['f default/b.x', 'f default/b.y', 'g default/a.x', 'g default/a.y']);
});

test('tools exchange their names in a circle, one of them with a manual tool', () => {
  const state = (x: string, y: string, third: string) =>
    `${UP}tools: [{ forward: up, upstreamName: x, name: ${x} }, { forward: up, upstreamName: y, name: ${y} }, ${made(third)}]`;
  const of = service(state('a', 'b', 'c'));
  of.apply(state('b', 'c', 'a'), true);
  expect(of.tools.sort()).toEqual(['manual default/a', 'up default/b', 'up default/c']);
});

test('forwards that exchange their places free the names of renamed tools', () => {
  const places = (f: string, g: string) =>
    `forwards: [{ name: f, address: http://one/mcp, ${f} }, { name: g, address: http://one/mcp, ${g} }]\n`;
  const [here, there] = ['prefix: g.', 'prefix: f., namespace: b'];
  const of = service(`${places(here, there)}tools: [{ forward: f, upstreamName: x, name: mine }]`);
  of.apply(`${places(there, here)}tools: [${made('mine')}]`, true);
  expect(of.tools).toContain('manual default/mine');
});

test('a forward cannot take the name of a tool that stays', () => {
  expect(problems(service(`${UP}tools: [${made('p_x')}]`), withRules('prefix: p_'))).toEqual([
    'forwards.0: tool p_x in namespace default is already used by a manually registered tool; delete it, or choose another prefix or namespace',
  ]);
});

describe('pruning', () => {
  const all = `${UP}namespaces: [{ name: old, labels: { a: b } }]
services: [{ name: s, address: "h:1", serviceType: tool-invoker }]
tools: [{ forward: up, upstreamName: x, name: say }, ${made('made')}]
`;
  const names = (text: string, prune = true) =>
    service(all)
      .plan(text, prune)
      .map(({ action, kind, name }) => [action, kind, name]);

  test('is for sections that the files have', () => {
    expect(names('namespaces: []')).toEqual([['delete', 'namespace', 'old']]);
    expect(names('services: []')).toEqual([['delete', 'service', 's']]);
    expect(names('{}')).toEqual([]);
    expect(names('services: []\nnamespaces: []\ntools: []\nforwards: []', false)).toEqual([]);
  });

  test('removes overrides of discovered tools, and deletes in reverse order', () => {
    expect(names('tools: []')).toEqual([
      ['update', 'tool', 'say'],
      ['delete', 'tool', 'made'],
    ]);
    expect(names('namespaces: []\nforwards: []\nservices: []\ntools: []')).toEqual([
      ['delete', 'tool', 'made'],
      ['delete', 'forward', 'up'],
      ['delete', 'service', 's'],
      ['delete', 'namespace', 'old'],
    ]);
  });

  test('enables nothing', () => {
    const of = service(`${UP}tools: [{ forward: up, upstreamName: x, name: say, enabled: false }]`);
    expect(of.plan('tools: []', true)).toMatchObject([{ members: [{ member: 'name' }] }]);
    of.apply('tools: []', true);
    expect(of.plan('tools: []', true)).toEqual([]);
    expect(of.current.namespace('default')?.indexes.tool.owner('x')?.disabledBy).toBe('operator');
  });

  test('a namespace is deleted with its current contents, which the plan lists', () => {
    const before = `forwards: [{ name: up, address: http://one/mcp, namespace: old }]
tools: [${made('made', ', namespace: old')}, ${made('other', ', namespace: old')}]`;
    const removal = (text: string) => service(before).plan(text, true).at(-1);
    expect(removal('namespaces: []')).toMatchObject({
      contents: { tools: 4, resources: 0, prompts: 0, forwards: 1 },
    });
    expect(removal('namespaces: []\nforwards: []')).toMatchObject({ contents: { tools: 2, forwards: 0 } });
    expect(removal('namespaces: []\nforwards: []\ntools: []')).toMatchObject({ contents: { tools: 0, forwards: 0 } });
  });

  test('a namespace that the files refer to is kept', () => {
    const of = service('forwards: [{ name: up, address: http://one/mcp, namespace: old }]');
    for (const state of [
      'forwards: [{ name: up, address: http://one/mcp, namespace: old }]',
      'tools: [{ forward: up, upstreamName: x, title: T }]',
    ]) {
      expect(of.plan(`namespaces: []\n${state}`, true).filter(({ action }) => action === 'delete')).toEqual([]);
    }
  });

  test('the other services of one name and type stay', () => {
    const entry = (language: string) =>
      `{ name: s, address: "h:1", serviceType: code-execution-engine, languageName: ${language} }`;
    const of = service(`services: [${entry('py')}, ${entry('js')}]`);
    of.apply(`services: [${entry('js')}]`, true);
    expect(of.current.services.all.map(({ languageName }) => languageName)).toEqual(['js']);
  });
});

describe('numbers', () => {
  test('of a discovered tool are those of the upstream if the values are equal', () => {
    const of = service(UP);
    expect(of.plan('tools: [{ forward: up, name: x, annotations: { weight: 1 } }]')).toEqual([]);
    expect(of.plan('tools: [{ forward: up, name: x, annotations: { weight: 2 } }]')).toHaveLength(1);
  });

  test('of a manual tool keep the text of the file', () => {
    const state = (maximum: string) =>
      `{"tools":[{"name":"t","description":"","uri":"u","toolType":"t","input_schema":{"maximum":${maximum}}}]}`;
    const of = service(state('9223372036854775807'));
    expect(of.plan(state('9223372036854775807'))).toEqual([]);
    expect(of.plan(state('9223372036854776000'))).toHaveLength(1);
    expect(service(state('1')).plan(state('1.0'))).toHaveLength(1);
  });
});

test.each([
  ['tools: [{ forward: none, name: x }]', 'tools.0: forward none does not exist, or would be deleted'],
  ['forwards: []\ntools: [{ forward: up, name: x }]', 'tools.0: forward up does not exist, or would be deleted'],
  [
    'tools: [{ forward: up, name: x }, { forward: up, upstreamName: y, name: x }]',
    'tools.1: name x in namespace default is already used by a tool of forward up; rename that tool, or choose another name',
  ],
  [
    `tools: [{ forward: up, name: x }, ${made('x')}]`,
    'tools.1: name x in namespace default is already used by a tool of forward up; rename that tool, or choose another name',
  ],
  [
    'tools: [{ forward: up, upstreamName: n, name: a }, { forward: up, upstreamName: m, name: a }]',
    'tools.1: name a in namespace default is already used by a tool of forward up; rename that tool, or choose another name',
  ],
  ['namespaces: [{ name: a }, { name: a }]', 'namespaces.1: duplicate entry; first at namespaces.0'],
])('an impossible state is rejected with its position: %s', (text, message) => {
  expect(problems(service(UP), text, true)).toContain(message);
});

test('headers of a forward do not move to another origin by themselves', () => {
  const forward = (address: string, more = '') => `forwards: [{ name: up, address: ${address}${more} }]`;
  const headers = `, headers: { Authorization: "Bearer \${env:SERVICE_SECRET_A}" }`;
  expect(problems(service(forward('http://one/mcp', headers)), forward('http://two/mcp'))).toEqual([
    'forwards.0: the new address of forward up has another origin: send headers with it, to confirm or change Authorization',
  ]);
});

describe('name conflicts with the service', () => {
  const before = service(
    `forwards: [{ name: up, address: http://one/mcp }, { name: hidden, address: http://one/mcp }]
tools: [${made('made')}, { forward: up, name: y, title: Y }]`,
  );
  const ofForward = 'is already used by a tool of forward up; rename that tool, or choose another name';

  test.each([
    ['tools: [{ forward: up, upstreamName: x, name: y }]', `tools.0: name y in namespace default ${ofForward}`],
    [
      'tools: [{ forward: up, upstreamName: x, name: made }]',
      'tools.0: name made in namespace default is already used by a manually registered tool; delete that tool, or choose another name',
    ],
    [`tools: [${made('x')}]`, `tools.0: name x in namespace default ${ofForward}`],
    [
      'forwards: [{ name: new, address: http://one/mcp, prefix: n_ }]\ntools: [{ forward: new, upstreamName: x, name: y }]',
      `tools.0: name y in namespace default ${ofForward}`,
    ],
    [
      'tools: [{ forward: hidden, upstreamName: x, title: X }]',
      'tools.0: tool x of forward hidden is shadowed by another tool x in namespace default; rename that tool, or set a prefix for the forward',
    ],
  ])('are a problem: %s', (text, message) => {
    expect(problems(before, text)).toEqual([message]);
  });

  test('do not occur when the plan moves, renames or deletes the conflicting tool', () => {
    const free = 'forwards: [{ name: up, address: http://one/mcp }]\n';
    for (const [text, prune] of [
      ['tools: [{ forward: up, upstreamName: x, name: y }, { forward: up, upstreamName: y, name: z }]', false],
      ['tools: [{ forward: up, upstreamName: x, name: y }, { forward: up, upstreamName: y, namespace: n }]', false],
      ['tools: [{ forward: up, upstreamName: x, name: made }]', true],
      [`forwards: []\ntools: [${made('x')}]`, true],
    ] as const) {
      const one = service(`${free}tools: [${made('made')}]`);
      expect(one.apply(text, prune).length).toBeGreaterThan(1);
      expect(one.plan(text, prune)).toEqual([]);
    }
  });

  test('do not occur for a shadowed tool whose name becomes free', () => {
    const of = service(`tools: [${made('x')}]`, UP);
    of.apply('tools: [{ forward: up, upstreamName: x, title: Ours }]', true);
    expect(of.tools).toEqual(['up default/x', 'up default/y']);
  });

  test('are a problem when an override is removed and the original name is used by another tool', () => {
    const taken = service(`${UP}tools: [{ forward: up, upstreamName: x, name: say }]`);
    expect(problems(taken, `tools: [${made('x')}]`, true)).toEqual([
      ': cannot revert the changes to tool say of forward up: name x in namespace default is already used by a manually registered tool; delete that tool, or choose another name',
    ]);
    expect(taken.plan(`tools: [${made('x')}]`)).toHaveLength(1);
  });
});

test('a tool named by its current name is detected when planning', () => {
  const renamed = service(`${UP}tools: [{ forward: up, upstreamName: x, name: say }]`);
  expect(problems(renamed, 'tools: [{ forward: up, name: say, title: T }]')).toEqual([
    'tools.0: forward up has no tool with the upstream name say; use upstreamName x',
  ]);
});

test('an entry without members is no difference, whether the tool exists or not', () => {
  const of = service(UP);
  expect(of.plan('tools: [{ forward: up, name: x }, { forward: up, upstreamName: later }]')).toEqual([]);
  expect(of.plan('tools: [{ forward: up, upstreamName: later, title: T }]')).toMatchObject([
    { upstreamName: 'later', notes: ['the forward has no such tool at the moment'] },
  ]);
});

test('null removes a member of the upstream, also of a tool that is not discovered yet; a missing one follows it', () => {
  const state = (members: string) => `${UP}tools: [{ forward: up, upstreamName: x${members} }]`;
  const of = service(state(', description: null, annotations: null'));
  const texts = () => of.current.entries('tool')[0]?.rendered[0]?.json;
  expect(texts()).toBe('{"name":"x","inputSchema":{"type":"object"}}');
  expect(of.plan(state(', description: null, annotations: null'))).toEqual([]);
  of.apply(state(''));
  expect(texts()).toBe(`{"name":"x",${UPSTREAMS['http://one/mcp'].x}}`);
});

test('thousands of namespaces are removed in steps', () => {
  const namespaces = Array.from({ length: 2_000 }, (_, index) => ({ name: `n${index}` }));
  const of = service(JSON.stringify({ namespaces }));
  const checks = { requireUsable: () => undefined, requireSameOrigin: () => undefined };
  const steps = applyStateInSteps(new Draft(of.current), { namespaces: [] }, { prune: true, checks });
  let count = 0;
  while (!steps.next().done) count++;
  expect(count).toBeGreaterThanOrEqual(namespaces.length);
});
