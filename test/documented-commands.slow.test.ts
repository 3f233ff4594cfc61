import { execFile } from 'node:child_process';
import { access, copyFile, cp, mkdir, mkdtemp, readdir, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { Exit } from '../packages/cli/src/failure.ts';
import { run } from '../packages/cli/src/run.ts';
import { PASSWORD, startIdentityProvider } from '../packages/cli/src/testing/identity-provider.ts';
import { type ScriptedTerminal, scriptedTerminal } from '../packages/cli/src/testing/scripted-terminal.ts';
import { toolchains } from '../packages/server/src/policy/sandbox/fixtures/ordinary-actions.ts';
import { startCapabilityService, unaryHandler } from '../packages/server/testing/capability-service.ts';
import { startPostgres, type TestPostgres } from '../packages/server/testing/postgres.ts';
import { startTestService, type TestService } from '../packages/server/testing/service.ts';
import type { Outcome } from './fixtures/command-line.ts';
import { type Example, findCommands, readExamples } from './fixtures/documented-commands.ts';
import { findOlderNode } from './fixtures/older-node.ts';
import { startRawUpstream } from './fixtures/raw-upstream.ts';
import { createShell, type Invocation, type Shell } from './fixtures/shell.ts';

// Runs the examples of the documentation and of the help texts in a shell, each against a service with the entries and
// in a folder with the files that they name. `sluice` runs in a process that an older Node.js starts, if the machine has one; in
// this process where it needs a terminal, is stopped, or would become the service.

const ROOT = fileURLToPath(new URL('..', import.meta.url));
const SLUICE = join(ROOT, 'packages/cli/bin/sluice.mjs');
const OLDER_NODE = findOlderNode();
const DOCUMENTS = ['README.md', 'examples/capability-service/README.md', ...(await documents())];
const HELP = 'packages/cli/src/help.snapshot.txt';

/** All but the generated list of messages. */
async function documents(): Promise<string[]> {
  const names = await readdir(join(ROOT, 'docs'));
  return names.filter((name) => name.endsWith('.md')).map((name) => `docs/${name}`);
}

const FOUND: readonly Example[] = [
  ...(await Promise.all(DOCUMENTS.map((name) => readExamples(join(ROOT, name), name)))).flat(),
  ...findCommands((await readFile(join(ROOT, HELP), 'utf8')).split('\n'), 'help'),
];
/** Without repetitions. */
const EXAMPLES = FOUND.filter(
  // Those in which a person signs in are part of `npm run campaign -- login`.
  ({ line }, at) => FOUND.findIndex((other) => other.line === line) === at && !/ --(?:browser|device)$/.test(line),
);

const TOOL_NAMES = ['echo', 'delete_database', 'search', 'http-get', 'run-javascript'];
const TOOLS = TOOL_NAMES.map((name) => ({ name, description: name, inputSchema: { type: 'object' } }));
const END = { ttlMs: 0, cacheScope: 'private', resultType: 'complete' };
const NOTES = { uri: 'file:///notes.txt', name: 'notes' };
const SCRIPTS = {
  'tools/list': JSON.stringify({ tools: TOOLS, ...END }),
  'tools/call': JSON.stringify({ content: [], resultType: 'complete' }),
  'resources/list': JSON.stringify({ resources: [NOTES], ...END }),
  'resources/read': JSON.stringify({ contents: [{ uri: NOTES.uri, text: 'notes' }], ...END }),
};

/** Entries that examples use, by collection. */
const ENTRIES: readonly (readonly [string, { readonly name: string; readonly [member: string]: unknown }])[] = [
  ['namespaces', { name: 'finance' }],
  ['forwards', { name: 'crm', namespace: 'default' }],
  ['forwards', { name: 'sample', namespace: 'sample' }],
  ['tools', { name: 'transfer', namespace: 'finance', description: '', uri: 'x:y', toolType: 't', input_schema: {} }],
  ['tools', { name: 'forecast', description: '', uri: 'weather://a', toolType: 'weather', input_schema: {} }],
  ['resources', { name: 'handbook', location: 'docs://handbook', type: 'documents' }],
  ['prompts', { name: 'greet', messages: [{ role: 'user', content: 'Hello {who}.' }], arguments: [{ name: 'who' }] }],
];
/** Entries that examples add. */
const ADDED: readonly (readonly [string, string])[] = [
  ['forwards', 'everything'],
  ['forwards', 'ledger'],
  ['tools', 'weather'],
  ['tools', 'run-python'],
  ['resources', 'map'],
  ['namespaces', 'state'],
];
/** Commands after which the entries and credentials are as before. */
const READS =
  /^(?:serve|pipeline|action|diff|export|health|statistics|metrics|doctor|logs|open|backup|migrate|tool-calls|completion|configure|mcp|evaluators|auth status|auth token --get|\S+ (?:list|show|test))\b/;
const SERVICES = ['weather', 'sample-tools', 'sample-code'];
const DOCUMENTED_GRPC = /\b10\.0\.0\.5:\d+/;

let folder: string;
let files: Readonly<Record<string, string | Uint8Array>>;
let service: TestService;
let postgres: TestPostgres;
let shell: Shell;
/** What {@link prepare} created and no command has changed since. */
let prepared: string | undefined;
let upstreamUrl: string;
let grpcAddress: string;
/** Addresses of the documentation and those of the test. */
let addresses: readonly (readonly [string | RegExp, string])[];
let env: Readonly<Record<string, string>>;
const closing: (() => unknown)[] = [];

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'sluice-examples-'));
  const home = join(folder, 'home');
  await mkdir(join(home, '.config/fish/completions'), { recursive: true });
  await mkdir(join(folder, 'actions'));
  const data = join(folder, 'registry');
  await mkdir(data);
  await writeFile(join(data, 'session.key'), 'a1'.repeat(32));
  await symlink(join(ROOT, 'packages'), join(folder, 'packages'));
  const configuration = join(folder, 'connections.yaml');
  await writeFile(configuration, 'llm_connections: [{ name: local, model: m, url: "http://127.0.0.1:9/v1" }]');
  const secrets = { SERVICE_SECRET_CRM: 'secret of the examples' };
  service = await startTestService(secrets, ['--service-config', configuration]);
  postgres = await startPostgres();
  const other = await startTestService();
  const upstream = await startRawUpstream({ scripts: SCRIPTS });
  const identities = await startIdentityProvider(600);
  const capabilities = await startCapabilityService((server, { provisioner }) =>
    server.addService(provisioner, {
      Provision: unaryHandler(() => ({ configurationUri: 'config://1', secretUri: 'vault://1', properties: {} })),
    }),
  );
  // It would replace the process of the test.
  const execve = vi.spyOn(process, 'execve').mockImplementation(() => {
    throw new Exit(0);
  });
  upstreamUrl = upstream.url;
  grpcAddress = capabilities.address;
  addresses = [
    ['http://127.0.0.1:3001/mcp', upstream.url],
    ['http://old:8080', service.management],
    ['http://new:8080', other.management],
    ['https://login.example.com', identities.authServer],
    [DOCUMENTED_GRPC, capabilities.address],
    ['/data/registry', data],
    ['http://localhost:8080', service.management],
    ['http://localhost:8081', service.mcp],
  ];
  env = {
    HOME: home,
    SLUICE_HOST: service.management,
    SLUICE_MCP_URL: service.mcp,
    EDITOR: 'true',
    PATH: process.env.PATH ?? '',
  };
  shell = await createShell(folder, { HOME: home }, sluice);
  closing.push(
    () => service.stop(),
    () => postgres[Symbol.asyncDispose](),
    () => other.stop(),
    () => upstream.close(),
    () => identities.close(),
    () => capabilities.close(),
    () => shell.close(),
    () => execve.mockRestore(),
    () => rm(folder, { recursive: true }),
  );
  files = await createFiles();
  for (let revision = 0; revision < 7; revision += 1) await service.manage('PUT', '/evaluators', { evaluators: [] });
});
afterAll(async () => {
  for (const close of closing) await close();
});

/** Files that examples read. */
async function createFiles(): Promise<Record<string, string | Uint8Array>> {
  const component = await toolchains.wat();
  await writeFile(join(folder, 'gate.wasm'), component);
  const shared = {
    llm: { operation: 'classify', prompt: 'Safe?', connection: 'local' },
    processor: { path: join(folder, 'gate.wasm') },
    on_error: 'block',
  };
  const evaluators = JSON.stringify([
    { name: 'gate', trigger: { method: 'resources/read', namespace: 'finance' }, ...shared },
    // In a namespace without calls, which would need the model.
    { name: 'guard', trigger: { method: 'tools/call', namespace: 'payments' }, ...shared },
  ]);
  const source = await readFile(join(ROOT, 'packages/actions/examples/safety-gate.ts'));
  const pipeline = scriptedTerminal();
  await run(['pipeline', 'show'], pipeline);
  return {
    'sluice-2026-11-01.tar.gz': await (await fetch(`${service.management}/api/v1/backup`)).bytes(),
    'my-action.ts': source,
    'my-gate.ts': source,
    'ctx.json': JSON.stringify({ method: 'tools/call', namespace: 'finance' }),
    'evaluators.yaml': evaluators,
    'evaluators.json': evaluators,
    'evaluator.yaml': evaluators,
    'state.yaml': 'namespaces: [{ name: state }]',
    'tools.json': '[]',
    'crm.json': '{}',
    'crm.key': 'key',
    'token.txt': 'abc\n',
    'query.txt': 'text',
    'pipeline.yaml': pipeline.out(),
  };
}

/** Creates the files and entries that a line uses, except the entries that it adds. */
async function prepare(line: string): Promise<void> {
  if (line.includes('evaluators dry-run')) {
    await service.manage('PUT', '/evaluators', { evaluators: JSON.parse(String(files['evaluators.json'])) });
  }
  const isAdded = (name: string) => new RegExp(`\\b(?:add|expose) .*\\b${name}\\b`).test(line);
  const wanted = ENTRIES.filter(([, { name }]) => !isAdded(name));
  // In other examples it would be a conflict for a tool that is moved to its namespace.
  const isLedgerUsed = /\bmcp .*finance/.test(line);
  const state = JSON.stringify([wanted.map(([, { name }]) => name), isLedgerUsed]);
  if (prepared === state && !line.includes(' add ')) return;
  for (const [name, content] of Object.entries(files)) await writeFile(join(folder, name), content);
  await sluice({ cwd: folder, input: '', argv: ['auth', 'token', '--set', 'abc'] });
  const remove = (kind: string, name: string) =>
    service.manage('DELETE', `/${kind}/${name}${kind === 'namespaces' ? '?cascade=true' : ''}`);
  const create = async (kind: string, body: object) => {
    const input = kind === 'forwards' ? { ...body, address: upstreamUrl } : body;
    const { status, data } = await service.manage('POST', `/${kind}`, input);
    if (status >= 300) throw new Error(`${kind}: ${status} ${JSON.stringify([body, data])}`);
  };
  const entries = ENTRIES.map(([kind, { name }]) => [kind, name] as const);
  await Promise.all([...ADDED, ...entries].map(([kind, name]) => remove(kind, name)));
  await Promise.all(SERVICES.map((name) => remove('services', name)));
  await Promise.all(wanted.map(([kind, entry]) => create(kind, entry)));
  if (isLedgerUsed) await create('forwards', { name: 'ledger', namespace: 'finance' });
  const [host = '', port] = grpcAddress.split(':');
  const services = SERVICES.map((name) => ({ name, host, port: Number(port), serviceType: 'tool-invoker' }));
  await Promise.all(services.map((entry) => create('services', entry)));
  prepared = state;
}

/** Commands that ask, and the answers. Others have no terminal. */
const ANSWERS: readonly (readonly [RegExp, string])[] = [
  [/^configure |^apply (?!.*--yes)/, 'y'],
  [/^auth login .*--username/, PASSWORD],
  [/^tools edit echo$/, ''],
];

/** Runs `sluice` with the addresses of the test in place of those of the documentation. */
async function sluice({ cwd, input, argv }: Invocation): Promise<Outcome> {
  const line = argv.join(' ');
  if (!READS.test(line)) prepared = undefined;
  const isBuild = line.startsWith('action build ');
  if (isBuild && built !== undefined) return skipBuild(cwd, argv);
  if (line.startsWith('action test ') && isTested) return skipTest(cwd, argv);
  if (argv[0] === 'migrate') return migrate(argv);
  const [, answer] = ANSWERS.find(([command]) => input === '' && command.test(line)) ?? [];
  const terminal = scriptedTerminal({ cwd, input, env, ...(answer !== undefined && { answers: [answer] }) });
  const active = Object(await service.manage('GET', '/evaluators/revisions/active')).data?.id;
  const actual = argv.map((word, at) => {
    if (argv[at - 1] === '--expected-revision') return String(active);
    if (argv[at - 1] === '--client-id') return 'cli';
    return addresses.reduce((so, [documented, address]) => so.replace(documented, address), word);
  });
  const isInProcess = answer !== undefined || isBuild || IN_THIS_PROCESS.test(line);
  if (OLDER_NODE !== undefined && !isInProcess)
    return expected(argv, await startSluice(OLDER_NODE, actual, cwd, input));
  const code = await run(actual, stopFollowing(terminal));
  if (isBuild) built = resolve(cwd, argv.at(-1) ?? '');
  isTested ||= line.startsWith('action test ');
  return expected(argv, { code, out: terminal.out(), err: terminal.err() });
}

/** Commands that follow something until they are stopped, become the service, sign in, or open a browser. */
const IN_THIS_PROCESS = /^(?:serve|events|open|action test|auth login|mcp .*--header)\b| (?:-f|--follow)\b/;

/** Runs `sluice` as a person does whose Node.js is older than the one that npm installed. */
function startSluice(node: string, argv: readonly string[], cwd: string, input: string): Promise<Outcome> {
  return new Promise((resolve) => {
    const child = execFile(node, [SLUICE, ...argv], { cwd, env }, (error, out, err) => {
      resolve({ code: error === null ? 0 : Number(error.code ?? 1), out, err });
    });
    child.stdin?.end(input);
  });
}

/** The outcome, with exit code 0 if the code is the expected one. */
function expected([command = '']: readonly string[], { code, out, err }: Outcome): Outcome {
  // `diff` found differences; `doctor` found the model that does not run; a user stopped `events`, `logs --follow` or `tool-calls --follow`.
  const isExpected =
    (code === 1 && command === 'doctor') ||
    (code === 2 && command === 'diff') ||
    (code === 130 && ['events', 'logs', 'tool-calls'].includes(command));
  return { code: isExpected ? 0 : code, out, err };
}

/** A stopped service with entries, evaluators and sessions. */
const STOPPED = join(ROOT, 'test/fixtures/data-formats/0.1.0/registry');

/** Migrates from a folder into an empty database, or from a database that was written so to an empty folder. */
async function migrate(argv: readonly string[]): Promise<Outcome> {
  const parent = await mkdtemp(join(folder, 'migrate-'));
  const stopped = join(parent, 'stopped');
  await cp(STOPPED, stopped, { recursive: true });
  const database = await postgres.createDatabase();
  const start = async (words: readonly string[]) => {
    const terminal = scriptedTerminal({ cwd: folder, env: { ...env, SERVICE_POSTGRES_URL: database } });
    return { code: await run(words, terminal), out: terminal.out(), err: terminal.err() };
  };
  const toFolder = argv.includes('--to');
  if (toFolder) expect(await start(['migrate', '--from', stopped])).toMatchObject({ code: 0 });
  const data = toFolder ? join(parent, 'empty') : stopped;
  return start(argv.map((word) => word.replace('/data/registry', data).replace(/^postgres:.*/, database)));
}

/** The result of the first build. One is enough for a test of the command line, as it takes a second. */
let built: string | undefined;

async function skipBuild(cwd: string, [, , entry = '', , output = 'my-action.wasm']: readonly string[]) {
  await access(resolve(cwd, entry));
  await copyFile(built ?? '', resolve(cwd, output));
  return { code: 0, out: '', err: '' };
}

/** Likewise for runs of an action. */
let isTested = false;

async function skipTest(cwd: string, [, , component = '', , context = '']: readonly string[]) {
  for (const file of [component, context]) await access(resolve(cwd, file));
  return { code: 0, out: '', err: '' };
}

/** Presses Ctrl-C as soon as the command follows. */
function stopFollowing(terminal: ScriptedTerminal): ScriptedTerminal {
  const write = (text: string) => {
    terminal.stderr.write(text);
    if (text.includes('press Ctrl-C')) terminal.interrupt();
  };
  return { ...terminal, stderr: { ...terminal.stderr, write } };
}

describe('the examples', () => {
  it('are found', () => {
    for (const name of ['README.md', 'docs/cli.md', 'docs/desired-state.md', 'help']) {
      expect(FOUND.filter(({ at }) => at.startsWith(name)).length, name).toBeGreaterThan(2);
    }
  });

  it.each(EXAMPLES)('$at $line', async ({ line }) => {
    await prepare(line);
    // The script for zsh is none for bash.
    const { code, err } = await shell.run(line.replace(/^source <\((.* zsh)\)/, '$1 >zsh-completion'), folder);
    expect({ code, err: code === 0 ? '' : err }).toEqual({ code: 0, err: '' });
  });
});
