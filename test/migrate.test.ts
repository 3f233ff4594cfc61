import { cp, mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { run } from '../packages/cli/src/run.ts';
import { scriptedTerminal } from '../packages/cli/src/testing/scripted-terminal.ts';
import { rpc } from '../packages/server/testing/listener.ts';
import { startPostgres, type TestPostgres } from '../packages/server/testing/postgres.ts';
import { recordsFile, recordsIn } from '../packages/server/testing/records.ts';
import { startTestService, type TestService } from '../packages/server/testing/service.ts';
import { legacyClient, post } from './fixtures/raw-client.ts';

/** The folder of a service that was killed, with a journal. */
const SAMPLE = join(import.meta.dirname, 'fixtures/stopped-registry');
const PASSWORD = 'correct-horse';

const UNUSABLE = `{
      "name": "later",
      "namespace": "NOT A NAME",
      "limit": 1.0e2
    }`;
const UNUSABLE_WARNING = 'warning: an entry of tools in registry.json cannot be used: invalid namespace "NOT A NAME"\n';
/** Another entry is served under its key. */
const SHADOWED = `{
      "name": "greet",
      "namespace": "team",
      "description": "Of the team",
      "input_schema": {},
      "uri": "custom://greet",
      "toolType": "custom",
      "labels": {},
      "enabled": true,
      "source": 9,
      "shadowed": true
    }`;
const COUNTS = {
  namespaces: 2,
  forwards: 1,
  tools: 6,
  resources: 2,
  prompts: 1,
  services: 1,
  unusable: 1,
  evaluator_revisions: 2,
};

let postgres: TestPostgres;
let base: string;
/** The folder of a service that was stopped. */
let folder: string;
let database: string;
/** Sessions of the service on {@link folder}: one that continues, and one that has ended. */
let sessions: Awaited<ReturnType<typeof legacyClient>>[];

beforeAll(async () => {
  postgres = await startPostgres();
  base = await mkdtemp(join(tmpdir(), 'sluice-migrate-'));
  folder = await sample('stopped');
  const service = await startOn(folder);
  sessions = [await legacyClient(service.url(), '{}'), await legacyClient(service.url(), '{}')];
  await fetch(service.url(), { method: 'DELETE', headers: sessions[1]?.headers ?? {} });
  await service.manage('PUT', '/blocks/ann');
  await service.stop();
  database = await postgres.createDatabase();
});
afterAll(async () => {
  await rm(base, { recursive: true });
  await postgres[Symbol.asyncDispose]();
});

/** A copy of {@link SAMPLE}, also with what this version cannot use or does not serve. */
async function sample(name: string): Promise<string> {
  const copy = join(base, name);
  await cp(SAMPLE, copy, { recursive: true });
  const edit = async (file: string, from: string, to: string) => {
    const text = await readFile(join(copy, file), 'utf8');
    expect(text).toContain(from);
    await writeFile(join(copy, file), text.replace(from, to));
  };
  await edit('registry.json', '"tools": [\n', `"tools": [\n    ${UNUSABLE},\n    ${SHADOWED},\n`);
  await edit('registry.json', '"journal"', '"later": { "a": 1.0e2 },\n  "journal"');
  const records = join(copy, 'records.snapshot');
  const forgotten = JSON.stringify({ namespace: 'team', name: '192.0.2.1', expires: 4102444800000 });
  const stored = recordsIn(await readFile(records, 'utf8'));
  await writeFile(records, recordsFile([...stored, ['forgotten_sessions', '["team","192.0.2.1"]', forgotten]]));
  return copy;
}

function startOn(data: string): Promise<TestService> {
  return startTestService({ SERVICE_PERSIST_BACKEND: 'file', SERVICE_PERSIST_PATH: data });
}

async function migrate(argv: readonly string[], env: Readonly<Record<string, string>> = {}) {
  const terminal = scriptedTerminal({ cwd: base, env });
  const code = await run(['migrate', ...argv], terminal);
  return { code, out: terminal.out(), err: terminal.err() };
}

const contents = async (data: string) =>
  Object.fromEntries(
    await Promise.all(
      (await readdir(data)).sort().map(async (name) => [name, await readFile(join(data, name), 'utf8')] as const),
    ),
  );

/** What the management API and MCP say about the content of a registry. */
async function shown(service: TestService): Promise<object> {
  const paths = ['namespaces', 'tools', 'resources', 'prompts', 'services', 'evaluators/revisions', 'evaluators'];
  const found = await Promise.all(paths.map(async (path) => [path, await service.manage('GET', `/${path}`)] as const));
  const { data } = await service.manage('GET', '/forwards/crm');
  expect(data).toMatchObject({ labels: { tier: 'gold' }, tools_discovered: 3 });
  const listed = await post(service.url('team'), rpc('tools/list'));
  return { ...Object.fromEntries(found), listed: listed.text };
}

test('a dry run counts, and changes neither the folder nor the database', async () => {
  const killed = await sample('killed');
  const before = await contents(killed);
  const empty = await postgres.createDatabase();
  const dry = await migrate(['--from', 'killed', '--database', empty, '--dry-run', '--output', 'json']);
  expect(dry).toMatchObject({ code: 0, err: UNUSABLE_WARNING });
  expect(JSON.parse(dry.out)).toEqual({
    folder: killed,
    direction: 'from',
    dryRun: true,
    counts: { ...COUNTS, sessions: 2 },
  });
  expect(await contents(killed)).toEqual(before);
  expect((await migrate(['--to', 'new', '--database', empty])).err).toBe(
    'sluice: the database has no records: expected the database of a service\n',
  );
  expect(await readdir(base)).not.toContain('new');
});

test('a folder goes into a database, which a service shows in the same way, and back', async () => {
  const before = await contents(folder);
  const done = await migrate(['--from', 'stopped'], { SERVICE_POSTGRES_URL: database });
  expect(done.code).toBe(0);
  expect(done.out).toBe(
    'migrated to the database: namespaces 2, forwards 1, tools 6, resources 2, prompts 1, services 1, unusable 1, evaluator revisions 2, blocks 1, sessions 3\n',
  );
  expect(done.err).toContain(
    `SERVICE_SESSION_KEY of the replicas is the key of the service: the content of ${folder}/`,
  );
  const key = before['session.key']?.trim() ?? '';
  expect(`${done.out}${done.err}`).not.toContain(key);
  expect(await contents(folder)).toEqual(before);

  const back = await migrate(['--to', 'back', '--database', database]);
  expect(back).toMatchObject({ code: 0, out: expect.stringContaining('tools 6') });
  const after = await contents(join(base, 'back'));
  const comparable = ({ 'session.key': _key, ...files }: Record<string, string>) =>
    Object.entries(files).map(([name, text]) => [
      name,
      name === 'records.snapshot' ? recordsIn(text).sort() : text.replace(/"journal": \d+/, '"journal": 1'),
    ]);
  expect(comparable(after)).toEqual(comparable(before));

  const original = await startOn(join(base, 'back'));
  const expected = await shown(original);
  await original.stop();
  const service = await startTestService({
    SERVICE_PERSIST_BACKEND: 'postgres',
    SERVICE_POSTGRES_URL: database,
    SERVICE_SESSION_KEY: key,
  });
  expect(await shown(service)).toEqual(expected);
  expect(await service.manage('GET', '/blocks')).toMatchObject({ data: [{ id: 'ann' }] });
  expect(JSON.stringify(expected)).toContain('Greets a customer');
  const statuses = sessions.map(async ({ headers }) => (await post(service.url(), rpc('ping'), headers)).status);
  expect(await Promise.all(statuses)).toEqual([200, 404]);
  const copied = await migrate(['--to', 'live', '--database', database, '--dry-run']);
  expect(copied.err).toBe(
    `warning: replicas are using the database: the folder will not contain their later changes\n${UNUSABLE_WARNING}`,
  );
  expect(await readdir(base)).not.toContain('live');
  await service.stop(0);
});

test('only an empty database is written', async () => {
  for (const option of [[], ['--dry-run']]) {
    expect(await migrate(['--from', 'stopped', '--database', database, ...option])).toEqual({
      code: 1,
      out: '',
      err: 'sluice: the database has records: choose an empty one, or stop all replicas and delete the records with `DROP SCHEMA sluice CASCADE`\n',
    });
  }
});

test('a folder that cannot be read leaves the database empty', async () => {
  const empty = await postgres.createDatabase();
  const refused = async (data: string) => (await migrate(['--from', data, '--database', empty])).err;
  await mkdir(join(base, 'other'));
  expect(await refused('other')).toBe(
    `sluice: ${base}/other has no registry.json: expected the data folder of a service\n`,
  );
  for (const file of ['registry.json', 'records.snapshot', 'registry.journal.2']) {
    const damaged = await sample(`damaged-${file}`);
    const text = await readFile(join(damaged, file), 'utf8');
    // A journal may end with an incomplete line.
    await writeFile(join(damaged, file), file.includes('journal') ? `x${text}${text}` : text.slice(0, -20));
    expect(await refused(`damaged-${file}`)).toMatch(`sluice: ${damaged}/${file} is `);
    expect(await readdir(damaged)).not.toContain('registry.lock');
  }
  const running = await sample('running');
  const service = await startOn(running);
  for (const option of ['--database', '--dry-run']) {
    const { err } = await migrate(['--from', 'running', option, ...(option === '--database' ? [empty] : [])], {
      SERVICE_POSTGRES_URL: empty,
    });
    expect(err).toMatch(
      /^sluice: Sluice already runs at http:\S+ \(process \d+\) with the registry folder .*: stop it, .*\n$/,
    );
  }
  await service.stop();
  expect((await migrate(['--from', 'running', '--database', empty])).code).toBe(0);
});

test('a database is written into an empty folder only', async () => {
  expect((await migrate(['--to', 'stopped', '--database', database])).err).toMatch(
    /contains .*: a database is migrated into an empty folder\n$/,
  );
});

test('passwords are not printed', async () => {
  const url = `postgres://postgres:${PASSWORD}@127.0.0.1:${postgres.port}/missing`;
  const attempts = [
    await migrate(['--from', 'stopped', '--database', url]),
    await migrate(['--from', 'stopped', '--database', url.replace('postgres:', 'http:')]),
    await migrate(['--from', 'stopped'], { SERVICE_POSTGRES_URL: url.replace('postgres:', '') }),
    await migrate(['--from', 'stopped', '--database', database], {
      SERVICE_POSTGRES_PASSWORD_FILE: join(base, 'none'),
    }),
    await migrate(['--from', 'stopped']),
    await migrate(['--from', 'stopped', '--to', 'new']),
  ];
  expect(attempts.map(({ err }) => err)).toEqual([
    'sluice: PostgreSQL: database "missing" does not exist (3D000)\n',
    'sluice: --database: the value is not a postgres:// URL; expected a URL like postgres://user@host:5432/database\n',
    'sluice: SERVICE_POSTGRES_URL: the value is not a postgres:// URL; expected a URL like postgres://user@host:5432/database\n',
    `sluice: ${base}/none: no such file\n`,
    'sluice: SERVICE_POSTGRES_URL: required, or --database\n',
    'sluice: either --from or --to is required\n',
  ]);
});
