import { execFile } from 'node:child_process';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { JsonObject } from '@sluice/protocol/json/parse';
import fc from 'fast-check';
import { describe, expect, type TestContext, test } from 'vitest';
import { parseLocated } from '../packages/cli/src/files/located-document.ts';
import { run } from '../packages/cli/src/run.ts';
import { type Script, scriptedTerminal } from '../packages/cli/src/testing/scripted-terminal.ts';
import { ordinaryWat } from '../packages/server/src/policy/sandbox/fixtures/ordinary-wat.ts';
import { componentOfCore } from '../packages/server/src/policy/sandbox/fixtures/wat-component.ts';
import { startTestService, type TestService } from '../packages/server/testing/service.ts';
import { startDualEra } from './fixtures/dual-era.ts';
import { freePort } from './fixtures/free-port.ts';
import { toolList, toolText } from './fixtures/raw-upstream/texts.ts';
import { type RawUpstream, startRawUpstream } from './fixtures/raw-upstream.ts';
import { propertyRuns } from './fixtures/seed.ts';

const MAIN = fileURLToPath(new URL('../packages/cli/src/main.ts', import.meta.url));

type Finishing = Pick<TestContext, 'onTestFinished'>;

interface CommandResult {
  readonly code: number;
  readonly out: string;
  readonly err: string;
}

interface Started {
  readonly service: TestService;
  /** Runs a command against the service; `input` is its standard input. Without `answers`, changes are confirmed. */
  readonly sluice: (args: string, input?: string, script?: Script) => Promise<CommandResult>;
}

async function start(context: Finishing, argv: readonly string[] = []): Promise<Started> {
  const service = await startTestService({}, argv);
  context.onTestFinished(() => service.stop());
  const sluice = async (args: string, input = '', script: Script = {}): Promise<CommandResult> => {
    const terminal = scriptedTerminal({ input, ...script });
    const isUnconfirmed = args.startsWith('apply ') && script.answers === undefined;
    const argv = [
      ...args.split(' '),
      ...(isUnconfirmed ? ['--yes', '--allow-widening'] : []),
      '--no-auth',
      '--host',
      service.management,
    ];
    return { code: await run(argv, terminal), out: terminal.out(), err: terminal.err() };
  };
  return { service, sluice };
}

async function upstream(context: Finishing, ...tools: string[]): Promise<RawUpstream> {
  const started = await startRawUpstream({ port: await freePort(), scripts: { 'tools/list': toolList(...tools) } });
  context.onTestFinished(started.close);
  return started;
}

async function listed(service: TestService, path: string): Promise<JsonObject[]> {
  const { data } = await service.manage('GET', path);
  return Array.isArray(data) ? data : [];
}

test('apply reaches the desired state, diff finds a manual change, and apply converges again', async (context) => {
  const { service, sluice } = await start(context);
  const server = await startDualEra();
  context.onTestFinished(server.close);
  const state = `
namespaces: [{ name: finance, labels: { team: f } }]
forwards: [{ name: crm, address: "${server.url}", prefix: crm_ }]
services: [{ name: code, address: "engine:50051", serviceType: code-execution-engine, languageName: python }]
tools:
- { forward: crm, upstreamName: echo_arguments, name: say, namespace: finance, description: Repeats it, labels: { a: b } }
- { name: made, description: "", uri: http://t/mcp, toolType: custom, input_schema: { maximum: 9223372036854775807 } }
`;
  expect(await sluice('diff -f -', state)).toMatchObject({ code: 2, err: '' });
  const applied = await sluice('apply -f -', state);
  expect(applied).toMatchObject({ code: 0, err: '' });
  expect(applied.out).toMatch(
    /^created namespace finance\ncreated service code .*\ncreated tool made .*\ncreated forward crm \(\d+ tools\)\nchanged tool crm_echo_arguments .*\n5 changes applied\n$/m,
  );
  const { data } = await service.manage('GET', '/tools/say?namespace=finance');
  expect(data).toMatchObject({ upstreamName: 'echo_arguments', description: 'Repeats it', labels: { a: 'b' } });

  expect(await sluice('diff -f -', state)).toEqual({ code: 0, out: 'no differences\n', err: '' });
  expect(await sluice('apply -f -', state)).toEqual({ code: 0, out: 'nothing to do\n', err: '' });

  await service.manage('PUT', '/namespaces/finance', { labels: {} });
  await service.manage('PUT', '/tools/say?namespace=finance', { ...Object(data), name: 'tell', title: 'Tell' });
  await service.manage('DELETE', '/tools/made');
  const difference = await sluice('diff -f -', state);
  expect(difference).toMatchObject({ code: 2, err: '' });
  expect(difference.out).toBe(`\
~ namespace finance
    labels: {} -> {"team":"f"}
+ tool made in namespace default
    description: ""
    uri: "http://t/mcp"
    toolType: "custom"
    input_schema: {"maximum":9223372036854775807}
~ tool tell in namespace finance (forward crm, upstream name echo_arguments)
    name: "tell" -> "say"
    title: "Tell" -> (none)

3 changes: 1 to create, 2 to change
`);
  expect(JSON.parse((await sluice('diff -f - --output json', state)).out)).toMatchObject({
    changes: [
      { name: 'finance' },
      { name: 'made' },
      { name: 'tell', members: [{ member: 'name' }, { member: 'title' }] },
    ],
  });
  expect((await sluice('apply -f -', state)).code).toBe(0);
  expect(await sluice('diff -f -', state)).toMatchObject({ code: 0 });
  expect((await service.manage('GET', '/tools/say?namespace=finance')).data).toEqual(data);
  const manualTool = await fetch(`${service.management}/api/v1/tools/made`).then((response) => response.text());
  expect(manualTool).toContain('9223372036854775807');
});

test('the URIs of configuration and secrets survive export and apply', { tags: ['slow'] }, async (context) => {
  const { service, sluice } = await start(context);
  const server = await upstream(context, toolText('search'));
  const state = `
forwards: [{ name: up, address: "${server.url}" }]
tools:
- { forward: up, upstreamName: search, configurationURI: config://1, secretsURI: vault://1 }
- { name: made, description: "", uri: "w:t", type: w, input_schema: {}, configuration_uri: config://2, secrets_uri: vault://2 }
`;
  expect(await sluice('apply -f -', state)).toMatchObject({ code: 0 });
  const uris = async () =>
    (await listed(service, '/tools')).map(({ configurationURI, secretsURI }) => [configurationURI, secretsURI]);
  expect(new Set(await uris())).toEqual(
    new Set([
      ['config://1', 'vault://1'],
      ['config://2', 'vault://2'],
    ]),
  );
  const { out: exported } = await sluice('export');
  expect(await sluice('diff -f -', exported)).toMatchObject({ code: 0 });

  const { service: another, sluice: sluiceOfAnother } = await start(context);
  expect(await sluiceOfAnother('apply -f -', exported)).toMatchObject({ code: 0 });
  expect(await listed(another, '/tools')).toEqual(await listed(service, '/tools'));
});

test('an override removed from the file is removed, and the tool follows its upstream again', async (context) => {
  const { service, sluice } = await start(context);
  const server = await upstream(context, toolText('search', ',"title":"Search","_meta":{"weight":1.0},"upstream":1'));
  const state = (entry: string) =>
    `forwards: [{ name: up, address: "${server.url}" }]\ntools: [{ forward: up, upstreamName: search${entry} }]`;
  await sluice('apply -f -', state(', name: find, title: Ours, description: null, _meta: null, vendor: { x: 1 }'));
  expect((await service.manage('GET', '/tools/find')).data).toMatchObject({
    title: 'Ours',
    description: '',
    vendor: { x: 1 },
  });
  expect((await service.manage('GET', '/tools/find')).data).not.toHaveProperty('_meta');
  await sluice('apply -f -', state(', vendor: { x: 1 }'));
  expect((await service.manage('GET', '/tools/search')).data).toMatchObject({
    title: 'Search',
    description: 'd',
    _meta: { weight: 1 },
  });
  await sluice('apply -f -', state(''));
  const followed = Object((await service.manage('GET', '/tools/search?include=upstream')).data);
  expect(followed).not.toHaveProperty('vendor');
  const { upstream: _own, ...upstreamMembers } = followed.upstream;
  expect(followed).toMatchObject(upstreamMembers);
  expect(await sluice('diff -f -', state(''))).toMatchObject({ code: 0 });
});

test('overrides of a forward that is not available apply as soon as it is', async (context) => {
  const { service, sluice } = await start(context);
  const server = await upstream(context, toolText('search'));
  await server.down();
  const state = `
forwards: [{ name: up, address: "${server.url}" }]
tools:
- { forward: up, upstreamName: search, title: Ours, enabled: false }
- { forward: up, upstreamName: later, title: Ours }
`;
  const applied = await sluice('apply -f -', state);
  expect(applied).toMatchObject({ code: 0, err: '' });
  expect(applied.out).toContain('created forward up (not available: ');
  expect(applied.out).not.toContain('retrying');
  expect(await sluice('diff -f -', state)).toMatchObject({ code: 0 });
  await server.up();
  await sluice('forwards refresh --name up');
  expect(await listed(service, '/tools')).toMatchObject([{ name: 'search', title: 'Ours', enabled: false }]);
  server.scripts['tools/list'] = toolList(toolText('search'), toolText('later'));
  await sluice('forwards refresh --name up');
  expect((await service.manage('GET', '/tools/later')).data).toMatchObject({ title: 'Ours' });
  expect(await sluice('diff -f -', state)).toMatchObject({ code: 0 });
});

test('a shadowed or renamed tool is reported as such', async (context) => {
  const { sluice } = await start(context);
  const server = await upstream(context, toolText('search'));
  const forwards = `forwards: [{ name: a, address: "${server.url}" }, { name: b, address: "${server.url}" }, { name: c, address: "${server.url}", prefix: c_ }]`;
  const applied = await sluice('apply -f -', forwards);
  expect(applied.out).toContain('created forward b (1 tool; shadowed by entries registered earlier: tool search)');
  const shadowed = await sluice('apply -f -', `${forwards}\ntools: [{ forward: b, upstreamName: search, title: B }]`);
  expect(shadowed).toMatchObject({ code: 1, out: '' });
  expect(shadowed.err).toContain(
    'standard input:2:9: tools: tool search of forward b is shadowed by another tool search in namespace default',
  );
  const otherwise = await sluice('apply -f -', `${forwards}\ntools: [{ forward: c, name: c_search, title: C }]`);
  expect(otherwise.err).toContain('use upstreamName search');
});

test('a name conflict with a tool of the service is reported during planning, and after a change of others', {
  tags: ['slow'],
}, async (context) => {
  const { service, sluice } = await start(context);
  const server = await upstream(context, toolText('echo'), toolText('get-sum'));
  await service.register('forwards', { name: 'up', address: server.url });
  const state = 'tools: [{ forward: up, upstreamName: echo, name: get-sum, titel: T }]';
  expect(await sluice('apply -f -', state)).toEqual({
    code: 1,
    out: '',
    err: `\
warning: standard input:1:59: tools: titel: is not a known field; did you mean "title"?
sluice: standard input:1:9: tools: name get-sum in namespace default is already used by a tool of forward up; rename that tool, or choose another name
`,
  });

  const manualTool = { name: 'say', description: '', uri: 'u', toolType: 't', input_schema: {} };
  const terminal = scriptedTerminal({ input: JSON.stringify({ tools: [manualTool] }), answers: ['y'] });
  const line = async (request: string) => {
    await service.register('tools', manualTool);
    return terminal.stdin.line(request);
  };
  const argv = ['apply', '-f', '-', '--no-auth', '--host', service.management];
  expect(await run(argv, { ...terminal, stdin: { ...terminal.stdin, line } })).toBe(0);
  // Somebody else has registered it since the plan.
  expect(terminal.err()).toContain('the service has changed since the plan; planning again\n');
  expect(terminal.out()).toMatch(/1 change: 1 to create\nnothing to do\n$/);
});

test('an export restores the state in an empty service, and changes nothing in this one', async (context) => {
  const { service, sluice } = await start(context);
  const first = await upstream(context, toolText('search', ',"title":"Search"'), toolText('other'), toolText('last'));
  const second = await upstream(context, toolText('search'));
  await service.register('namespaces', { name: 'finance', labels: { team: 'f' } });
  await service.register('forwards', { name: 'up', address: `${first.url}?key=x`, labels: { a: 'b' } });
  await service.register('forwards', { name: 'second', address: second.url, namespace: 'finance', prefix: 's_' });
  await service.manage('POST', '/services', { name: 's', host: '::1', port: 1, serviceType: 'tool-invoker', id: '7' });
  await service.register('tools', {
    name: 'made',
    description: 'a\nb',
    uri: 'u',
    toolType: 't',
    input_schema: {},
    extra: null,
    upstream: 5,
  });
  const change = async (name: string, change: object) => {
    const { data } = await service.manage('GET', `/tools/${name}`);
    return service.manage('PUT', `/tools/${name}`, { ...Object(data), ...change });
  };
  await change('search', { name: 'find', namespace: 'finance', title: undefined, id: '9' });
  await change('other', { description: '', labels: { a: 'b' }, 'x-vendor': true });

  const exported = await sluice('export');
  expect(exported).toMatchObject({ code: 0, err: '' });
  expect(parseLocated(exported.out, 'exported').content).toEqual({
    namespaces: [{ name: 'default' }, { name: 'finance', labels: { team: 'f' } }],
    forwards: [
      { name: 'up', address: `${first.url}?key=x`, labels: { a: 'b' } },
      { name: 'second', address: second.url, namespace: 'finance', prefix: 's_' },
    ],
    services: [{ name: 's', address: '[::1]:1', serviceType: 'tool-invoker', id: '7' }],
    tools: [
      { name: 'made', description: 'a\nb', uri: 'u', toolType: 't', input_schema: {}, extra: null, upstream: 5 },
      { forward: 'up', upstreamName: 'search', name: 'find', namespace: 'finance', id: '9', title: null },
      { forward: 'up', upstreamName: 'other', labels: { a: 'b' }, description: '', 'x-vendor': true },
    ],
    evaluators: [],
  });
  expect(await sluice('diff --prune -f -', exported.out)).toMatchObject({ code: 0, out: 'no differences\n' });

  const empty = await start(context);
  expect(await empty.sluice('apply --prune -f -', exported.out)).toMatchObject({ code: 0 });
  expect((await empty.sluice('export')).out).toBe(exported.out);
  const json = (await sluice('export --output json')).out;
  expect(await empty.sluice('diff --prune -f -', json)).toMatchObject({ code: 0 });
});

test('pruning deletes what is not in the file, a namespace only with the contents shown in the plan', async (context) => {
  const { service, sluice } = await start(context);
  const server = await upstream(context, toolText('search'));
  await service.register('forwards', { name: 'up', address: server.url, namespace: 'old' });
  await service.register('tools', { name: 'made', description: '', uri: 'u', toolType: 't', input_schema: {} });
  await service.register('prompts', { name: 'greet', namespace: 'old', messages: [] });
  await service.manage('POST', '/services', { name: 's', address: 'h:1', serviceType: 'tool-invoker' });
  const none = 'namespaces: []\nforwards: []\nservices: []\ntools: []';
  expect(await sluice('apply -f -', none)).toMatchObject({ code: 0, out: 'nothing to do\n' });
  const plan = (await sluice('apply --prune --dry-run -f -', none)).out;
  expect(plan).toContain('- namespace old\n    (with its contents: 1 prompt)\n');
  expect(await listed(service, '/forwards')).toHaveLength(1);
  const pruned = await sluice('apply --prune -f -', none);
  expect(pruned).toMatchObject({ code: 0, err: '' });
  expect(await listed(service, '/forwards')).toEqual([]);
  expect(await listed(service, '/tools')).toEqual([]);
  expect(await listed(service, '/services')).toEqual([]);
  expect(await listed(service, '/namespaces')).toEqual([{ name: 'default', labels: {} }]);
});

test('a tool that is shadowed by another one is changed after the removal of that one', {
  tags: ['slow'],
}, async (context) => {
  const { service, sluice } = await start(context);
  const server = await upstream(context, toolText('search'));
  await service.register('tools', { name: 'search', description: '', uri: 'u', toolType: 't', input_schema: {} });
  await service.register('forwards', { name: 'up', address: server.url });
  const state = `forwards: [{ name: up, address: "${server.url}" }]\ntools: [{ forward: up, upstreamName: search, title: Ours }]`;
  const applied = await sluice('apply --prune -f -', state);
  expect(applied).toMatchObject({ code: 0, err: '' });
  expect(applied.out).toMatch(/^changed tool search .*\ndeleted tool search .*\n/m);
  expect((await service.manage('GET', '/tools/search')).data).toMatchObject({ forward: 'up', title: 'Ours' });
});

test('a change whose effect exists already succeeds', async (context) => {
  const { sluice } = await start(context);
  const server = await upstream(context, toolText('search', ',"title":"Theirs"'));
  const state = `forwards: [{ name: up, address: "${server.url}" }]\ntools: [{ forward: up, upstreamName: search, title: Theirs }]`;
  expect(await sluice('apply -f -', state)).toMatchObject({ code: 0, err: '' });
  expect(await sluice('diff -f -', state)).toMatchObject({ code: 0 });
});

test('the remaining services of one name and type stay registered', { tags: ['slow'] }, async (context) => {
  const { service, sluice } = await start(context);
  const entry = { name: 's', address: 'h:1', serviceType: 'code-execution-engine' };
  for (const languageName of ['py', 'js', 'rb']) await service.manage('POST', '/services', { ...entry, languageName });
  const state = JSON.stringify({ services: ['py', 'rb'].map((languageName) => ({ ...entry, languageName })) });
  expect(await sluice('apply --prune -f -', state)).toMatchObject({ code: 0, err: '' });
  expect(await listed(service, '/services')).toMatchObject([{ languageName: 'py' }, { languageName: 'rb' }]);
});

describe('confirmation', () => {
  const state = 'namespaces: [{ name: a }]';

  test.for([
    ['y', 0],
    ['Yes', 0],
    ['', 1],
    ['n', 1],
    [undefined, 1],
  ] as const)('on a terminal, the reply %j decides', async ([response, code], context) => {
    const { service, sluice } = await start(context);
    const result = await sluice('apply -f -', state, { answers: response === undefined ? [] : [response] });
    expect(result.code).toBe(code);
    expect(result.out).toContain('+ namespace a');
    expect(result.err).toContain('Apply this change? [y/N]');
    expect(await listed(service, '/namespaces')).toHaveLength(code === 0 ? 2 : 1);
  });

  test('needs --yes without a terminal', async (context) => {
    const { service, sluice } = await start(context);
    for (const output of ['table', 'json']) {
      const terminal = scriptedTerminal({ input: state });
      const argv = ['apply', '-f', '-', '--host', service.management, '--output', output];
      expect(await run(argv, terminal)).toBe(1);
      expect(terminal.err()).toBe(
        'sluice: no terminal for a confirmation: use --yes to apply this change, or --dry-run to print it only\n',
      );
      expect(terminal.out()).toBe(output === 'table' ? '+ namespace a\n\n1 change: 1 to create\n' : '');
    }
    expect(await sluice('apply -f - --dry-run', state)).toMatchObject({ code: 0, err: '' });
    expect(await listed(service, '/namespaces')).toHaveLength(1);
    expect(await sluice('apply -f -', '{}')).toMatchObject({ code: 0, out: 'nothing to do\n' });
  });

  test('is not required with --yes; without a terminal the plan is separate from the report', async (context) => {
    const { sluice } = await start(context);
    expect((await sluice('apply --yes -f -', state, { answers: [] })).code).toBe(0);
    const result = await sluice('apply --output json -f -', 'namespaces: [{ name: b }]', { answers: ['y'] });
    expect(JSON.parse(result.out)).toMatchObject({ changes: [{ name: 'b', status: 'done' }] });
    expect(result.err).toContain('+ namespace b');
  });
});

test('an invalid file is reported before any request to the service', async (context) => {
  const { sluice } = await start(context);
  const host = 'http://127.0.0.1:1';
  const terminal = scriptedTerminal({ input: 'tools: [{ uri: u }]' });
  expect(await run(['apply', '-f', '-', '--no-auth', '--host', host], terminal)).toBe(1);
  expect(terminal.err()).toContain('sluice: 4 problems\n  standard input:1:9: tools: name: is required\n');
  expect(await sluice('apply -f -')).toEqual({
    code: 1,
    out: '',
    err: 'sluice: standard input is empty; use {} for an empty state\n',
  });
  expect(await sluice('diff -f none.yaml')).toEqual({ code: 1, out: '', err: 'sluice: none.yaml: no such file\n' });
  expect((await sluice('diff')).code).toBe(1);
  expect((await sluice('diff -f - -f -')).err).toBe('sluice: -f -: standard input can be read only once\n');
});

test('as a process, diff has exit code 2 and reads standard input', async (context) => {
  const { service } = await start(context);
  const result = Promise.withResolvers<{ code: unknown; out: string }>();
  const argv = [MAIN, 'diff', '-f', '-', '--no-auth', '--host', service.management];
  const child = execFile(process.execPath, argv, (error, out) => result.resolve({ code: error?.code ?? 0, out }));
  child.stdin?.end('namespaces: [{ name: a }]');
  expect(await result.promise).toEqual({ code: 2, out: '+ namespace a\n\n1 change: 1 to create\n' });
});

test('from any state of a real service apply leads to any other', {
  tags: ['slow'],
  timeout: 120_000,
}, async (context) => {
  const { sluice } = await start(context);
  const one = await upstream(context, toolText('x'), toolText('y', ',"title":"Y","_meta":{"a":1.0}'), toolText('z'));
  const two = await upstream(context, toolText('x', ',"annotations":{}'), toolText('w'));
  const name = fc.constantFrom('n1', 'n2', 'n3');
  const namespace = fc.constantFrom('default', 'a');
  const override = (forward: string, upstreamName: string) =>
    fc.record(
      {
        forward: fc.constant(forward),
        upstreamName: fc.constant(upstreamName),
        name,
        namespace,
        description: fc.constantFrom('', 'd', 'ours'),
        title: fc.constantFrom(null, 'Y', 'Ours'),
        labels: fc.constantFrom({}, { a: 'b' }),
        _meta: fc.constantFrom(null, { a: 1 }, { b: [1.5] }),
        id: fc.constant('7'),
      },
      { requiredKeys: ['forward', 'upstreamName'] },
    );
  const manualTools = fc.record({
    name,
    namespace,
    description: fc.constantFrom('', 'by hand'),
    uri: fc.constant('u'),
    toolType: fc.constant('t'),
    input_schema: fc.constant({}),
  });
  const state = fc
    .record({
      forwards: fc.tuple(fc.constantFrom(one.url, two.url), namespace).map(([address, where]) => [
        { name: 'f', address: one.url, prefix: 'f_' },
        { name: 'g', address, namespace: where, prefix: 'g_' },
      ]),
      tools: fc.tuple(override('f', 'x'), override('f', 'y'), override('g', 'x'), manualTools, manualTools),
    })
    .map(({ forwards, tools }) => {
      const taken = new Set<string>();
      const free = tools.filter((tool) => {
        const key = `${tool.namespace ?? 'forward'} ${tool.name}`;
        if (tool.name === undefined) return true;
        // Where its forward is, is the one or the other namespace.
        const keys = tool.namespace === undefined ? [`default ${tool.name}`, `a ${tool.name}`] : [key];
        if (keys.some((each) => taken.has(each))) return false;
        for (const each of keys) taken.add(each);
        return true;
      });
      return { namespaces: [], forwards, services: [], tools: free };
    });
  await fc.assert(
    fc.asyncProperty(state, async (wanted) => {
      const text = JSON.stringify(wanted);
      const applied = await sluice('apply --prune -f -', text);
      expect(applied).toMatchObject({ code: 0, err: '' });
      const unchanged = { code: 0, out: 'no differences\n', err: '' };
      expect(await sluice('diff --prune -f -', text)).toEqual(unchanged);
      const { out } = await sluice('export');
      expect(await sluice('diff --prune -f -', out)).toEqual(unchanged);
    }),
    { numRuns: propertyRuns(60) },
  );
});

describe('evaluators', () => {
  const GATE =
    '{ name: gate, trigger: { method: tools/call }, llm: { operation: classify, prompt: Safe?, connection: local }, processor: { path: gate.wasm }, on_error: block }';
  const other = (name: string) => GATE.replace('gate', name).replace(', on_error: block', '');

  /** A service with a connection and an action. */
  async function startEvaluating(context: Finishing): Promise<Started> {
    const folder = await mkdtemp(join(tmpdir(), 'sluice-desired-state-'));
    context.onTestFinished(() => rm(folder, { recursive: true }));
    const file = join(folder, 'service.json');
    const llm_connections = [{ name: 'local', model: 'm', url: 'http://127.0.0.1:9/v1' }];
    await writeFile(file, JSON.stringify({ llm_connections }));
    await writeFile(join(folder, 'gate.wasm'), await componentOfCore(ordinaryWat));
    return start(context, ['--service-config', file]);
  }

  const activeNames = async (service: TestService) => (await listed(service, '/evaluators')).map(({ name }) => name);
  const revision = async (service: TestService) =>
    Object((await service.manage('GET', '/evaluators/revisions/active')).data).id;

  test('are applied in one request, exported, compared and pruned', async (context) => {
    const { service, sluice } = await startEvaluating(context);
    const state = `evaluators:\n- ${GATE}\n- ${other('notes')}\n`;
    const applied = await sluice('apply -f -', state);
    expect(applied).toMatchObject({ code: 0, err: '' });
    expect(applied.out).toContain('created evaluator gate\ncreated evaluator notes\n2 changes applied\n');
    expect([await activeNames(service), await revision(service)]).toEqual([['gate', 'notes'], 1]);
    expect(await sluice('diff -f -', state)).toEqual({ code: 0, out: 'no differences\n', err: '' });
    const exported = await sluice('export');
    expect(exported.out).toContain('\nevaluators:\n');
    expect(await sluice('diff --prune -f -', exported.out)).toMatchObject({ code: 0 });

    // Another evaluator, another member, another order.
    const changed = `evaluators:\n- ${other('first')}\n- ${other('notes')}\n- ${GATE.replace('block', 'continue')}\n`;
    expect((await sluice('diff -f -', changed)).out).toBe(`\
+ evaluator first
    trigger.method: "tools/call"
    llm.operation: "classify"
    llm.prompt: "Safe?"
    llm.connection: "local"
    processor.path: "gate.wasm"
    on_error: "continue"
~ evaluator notes
    position: 2 -> 1
~ evaluator gate
    on_error: "block" -> "continue"
    position: 1 -> 2
    ! widens the reach of agents: may loosen an evaluator

3 changes: 1 to create, 2 to change
`);
    expect(await sluice('apply -f -', `evaluators: [${other('notes')}]`)).toMatchObject({ out: 'nothing to do\n' });
    const pruned = await sluice('apply --prune -f -', `evaluators: [${other('notes')}]`);
    expect(pruned.out).toContain(`\
- evaluator gate
    ! widens the reach of agents: removes an evaluator
    (requests that it would block are not blocked any more)
`);
    expect([await activeNames(service), await revision(service)]).toEqual([['notes'], 2]);
    // A file without the section changes nothing.
    expect(await sluice('apply --prune -f -', 'tools: []')).toMatchObject({ out: 'nothing to do\n' });
  });

  test('whose action cannot be loaded fail, unless that is allowed', { tags: ['slow'] }, async (context) => {
    const { service, sluice } = await startEvaluating(context);
    const broken = other('broken').replace('gate.wasm', 'missing.wasm');
    const state = `evaluators: [${GATE}, ${broken}]`;
    const failed = await sluice('apply -f -', state);
    expect(failed).toMatchObject({ code: 1, err: expect.stringContaining('evaluators.1.processor.path no such file') });
    expect(await activeNames(service)).toEqual([]);
    const applied = await sluice('apply --allow-broken -f -', state);
    expect(applied.code).toBe(0);
    expect(applied.out).toContain(
      '(warning: evaluator broken was skipped and is not active: missing.wasm: no such file',
    );
    expect(await activeNames(service)).toEqual(['gate']);
    // The file describes what is wanted, so the skipped one is no difference.
    expect(await sluice('diff --prune -f -', state)).toMatchObject({ code: 0 });
    expect((await sluice('export')).out).toContain('name: broken');
  });
});
