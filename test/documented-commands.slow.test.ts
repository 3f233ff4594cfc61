import { type ExecFileOptions, execFile } from 'node:child_process';
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
import { taskClient } from '../packages/server/testing/task-client.ts';
import type { Outcome } from './fixtures/command-line.ts';
import { curlPrograms, runCurl } from './fixtures/curl.ts';
import { type Example, findCommands, readExamples } from './fixtures/documented-commands.ts';
import { EXAMPLE_UPSTREAM, entriesFor, replaceEntries } from './fixtures/example-entries.ts';
import { findOlderNode } from './fixtures/older-node.ts';
import { startRawUpstream } from './fixtures/raw-upstream.ts';
import { createShell, type Invocation, type Shell } from './fixtures/shell.ts';
import { startTasksUpstream, type TasksUpstream } from './fixtures/tasks-upstream.ts';

// Runs the examples of the documentation and of the help texts, of `sluice` and `curl`, in a shell, each against a service with
// the entries and in a folder with the files that they name. `sluice` runs in a process that an older Node.js starts, if the
// machine has one; in this process where it needs a terminal, is stopped, or would become the service.

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
const SIGNS_IN = / --(?:browser|device)\s*(?:#.*)?$|^sluice auth login --host \S+\s*(?:#.*)?$/;
/** Without repetitions. */
const EXAMPLES = FOUND.filter(
  // Those in which a person signs in are part of `npm run campaign -- login`, and of `cli-login.test`.
  ({ line }, at) => FOUND.findIndex((other) => other.line === line) === at && !SIGNS_IN.test(line),
);

/** Scripts that the documentation runs with `node`. */
const NODE_SCRIPTS = (await Promise.all(DOCUMENTS.map((name) => readFile(join(ROOT, name), 'utf8')))).flatMap((text) =>
  [...text.matchAll(/^ {4}node (\S+)/gm)].map(([, script = '']) => script),
);

/** Commands after which the entries and credentials are as before. */
const READS =
  /^(?:serve|pipeline|action|diff|export|health|statistics|metrics|doctor|logs|open|backup|migrate|tool-calls|completion|configure|mcp|evaluators|auth status|auth token --get|\S+ (?:list|show|test))\b/;
const DOCUMENTED_TASK = /(?<=\/tasks\/)[0-9a-f]{32}/;
const DOCUMENTED_GRPC = /\b10\.0\.0\.\d:\d+/;

let folder: string;
let files: Readonly<Record<string, string | Uint8Array>>;
let service: TestService;
/** Folder of a service without administrators. */
let recoverable: string;
let postgres: TestPostgres;
let tasks: TasksUpstream;
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
  recoverable = join(folder, 'recoverable');
  await cp(STOPPED, recoverable, { recursive: true });
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
  const upstream = await startRawUpstream({ scripts: EXAMPLE_UPSTREAM });
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
  tasks = await startTasksUpstream();
  upstreamUrl = upstream.url;
  grpcAddress = capabilities.address;
  addresses = [
    [/http:\/\/127\.0\.0\.1:300\d\/mcp/, upstream.url],
    ['http://old:8080', service.management],
    ['http://new:8080', other.management],
    ['https://login.example.com', identities.authServer],
    [DOCUMENTED_GRPC, capabilities.address],
    ['/data/registry', data],
    [/http:\/\/(?:localhost|127\.0\.0\.1):8080/, service.management],
    [/http:\/\/(?:localhost|127\.0\.0\.1):8081/, service.mcp],
  ];
  env = {
    HOME: home,
    SLUICE_HOST: service.management,
    SLUICE_MCP_URL: service.mcp,
    EDITOR: 'true',
    PATH: process.env.PATH ?? '',
  };
  shell = await createShell(folder, { HOME: home, api: 'http://localhost:8080/api/v1' }, { sluice, curl });
  closing.push(
    () => service.stop(),
    () => postgres[Symbol.asyncDispose](),
    () => other.stop(),
    () => upstream.close(),
    () => tasks.close(),
    () => identities.close(),
    () => capabilities.close(),
    () => shell.close(),
    () => execve.mockRestore(),
    () => rm(folder, { recursive: true }),
  );
  files = await createFiles();
  for (let revision = 0; revision < 7; revision += 1) await service.manage('PUT', '/evaluators', { evaluators: [] });
  for (const identity of [{ inference: false }, {}])
    await service.manage('PUT', '/identity?lock_out=allow', { identity });
});
afterAll(async () => {
  for (const close of closing) await close();
});

/** Files that examples read. */
async function createFiles(): Promise<Record<string, string | Uint8Array>> {
  const component = await toolchains.wat();
  await writeFile(join(folder, 'gate.wasm'), component);
  await writeFile(join(folder, 'actions/guard.wasm'), component);
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
    'identity.yaml': 'anonymous: allow',
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
  // Each block is there, or not, as the example needs it.
  await service.manage('DELETE', '/blocks/forward:crm');
  await service.manage('PUT', '/blocks/corp%2Fann', {});
  const entries = entriesFor(line);
  const state = JSON.stringify(entries);
  if (prepared === state && !line.includes(' add ')) return;
  for (const [name, content] of Object.entries(files)) await writeFile(join(folder, name), content);
  await sluice({ cwd: folder, input: '', argv: ['auth', 'token', '--set', 'abc'] });
  await replaceEntries(service, entries, upstreamUrl, grpcAddress);
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
  const active = await activeRevision(argv[0] === 'identity' ? 'identity' : 'evaluators');
  const actual = argv.map((word, at) => {
    if (argv[0] === 'admin') return word.replace('/data/registry', recoverable);
    if (argv[at - 1] === '--expected-revision') return active;
    if (argv[at - 1] === '--client-id') return 'cli';
    return withAddresses(word);
  });
  const isInProcess = answer !== undefined || isBuild || IN_THIS_PROCESS.test(line);
  if (OLDER_NODE !== undefined && !isInProcess)
    return expected(argv, await startSluice(OLDER_NODE, actual, cwd, input));
  const code = await run(actual, stopFollowing(terminal));
  if (isBuild) built = resolve(cwd, argv.at(-1) ?? '');
  isTested ||= line.startsWith('action test ');
  return expected(argv, { code, out: terminal.out(), err: terminal.err() });
}

async function activeRevision(of: 'identity' | 'evaluators'): Promise<string> {
  return String(Object(await service.manage('GET', `/${of}/revisions/active`)).data?.id);
}

function withAddresses(text: string): string {
  return addresses.reduce((so, [documented, address]) => so.replace(documented, address), text);
}

/** Creates a task. Examples of desired state delete its forward. */
async function createTask(): Promise<string> {
  await service.manage('POST', '/forwards', { name: 'tasks', namespace: 'tasks', address: tasks.url });
  return taskClient(service.url('tasks')).create('endless');
}

/** Runs `curl` likewise. */
async function curl({ cwd, input, argv }: Invocation): Promise<Outcome> {
  const active = await activeRevision(argv.some((word) => word.includes('/identity')) ? 'identity' : 'evaluators');
  const task = argv.some((word) => DOCUMENTED_TASK.test(word)) ? await createTask() : '';
  const actual = argv.map((word) =>
    withAddresses(word)
      .replace(DOCUMENTED_TASK, task)
      .replace(/(?<="expected_revision":)\d+/, active),
  );
  const outcome = await runCurl({ cwd, input, argv: actual });
  const isWrite = argv.includes('-X') || (argv.includes('-d') && !argv.includes('-G'));
  if (isWrite) prepared = undefined;
  // Other examples call tools without the model of the evaluators.
  if (isWrite && argv.some((word) => word.includes('/evaluators'))) {
    await service.manage('PUT', '/evaluators', { evaluators: [] });
  }
  return outcome;
}

/** Commands that follow something until they are stopped, become the service, sign in, or open a browser. */
const IN_THIS_PROCESS = /^(?:serve|events|open|action test|auth login|mcp .*--header)\b| (?:-f|--follow)\b/;

/** Runs `sluice` as a person does whose Node.js is older than the one that npm installed. */
function startSluice(node: string, argv: readonly string[], cwd: string, input: string): Promise<Outcome> {
  return startProgram(node, [SLUICE, ...argv], { cwd, env }, input);
}

function startProgram(file: string, argv: readonly string[], options: ExecFileOptions, input = ''): Promise<Outcome> {
  return new Promise((resolve) => {
    const child = execFile(file, argv, options, (error, out, err) => {
      resolve({ code: error === null ? 0 : Number(error.code ?? 1), out: String(out), err: String(err) });
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
const STOPPED = join(ROOT, 'test/fixtures/stopped-registry');

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
    for (const name of ['README.md', 'docs/cli.md', 'docs/desired-state.md', 'docs/management-api.md', 'help']) {
      expect(FOUND.filter(({ at }) => at.startsWith(name)).length, name).toBeGreaterThan(2);
    }
    expect(FOUND.filter(({ output }) => output !== undefined).length).toBeGreaterThan(0);
  });

  it.for(EXAMPLES)('$at $line', async ({ line, output }, { skip }) => {
    skip(/\b(?:curl|jq) /.test(line) && curlPrograms.find() === undefined, 'needs curl and jq');
    await prepare(line);
    // The script for zsh is none for bash.
    const { code, out, err } = await shell.run(line.replace(/^source <\((.* zsh)\)/, '$1 >zsh-completion'), folder);
    expect({ code, err: code === 0 ? '' : err }).toEqual({ code: 0, err: '' });
    if (output !== undefined) expect(JSON.parse(out)).toMatchObject(JSON.parse(output));
  });
});

it.skipIf(OLDER_NODE === undefined).each(NODE_SCRIPTS)('an older Node.js runs %s', async (script) => {
  const program = `await import(${JSON.stringify(join(ROOT, script))})`;
  const outcome = await startProgram(OLDER_NODE ?? '', ['--input-type=module', '--eval', program], {});
  expect(outcome).toEqual({ code: 0, out: '', err: '' });
});
