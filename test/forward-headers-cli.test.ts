import { afterAll, beforeAll, beforeEach, expect, it } from 'vitest';
import { run } from '../packages/cli/src/run.ts';
import { scriptedTerminal } from '../packages/cli/src/testing/scripted-terminal.ts';
import { startTestService, type TestService } from '../packages/server/testing/service.ts';
import { toolList, toolText } from './fixtures/raw-upstream/texts.ts';
import { type RawUpstream, startRawUpstream } from './fixtures/raw-upstream.ts';

const KEY = `$\{env:SERVICE_SECRET_KEY}`;
const TOKEN = `Bearer $\{env:SERVICE_SECRET_TOKEN}`;

let service: TestService;
const upstreams: RawUpstream[] = [];
beforeAll(async () => {
  service = await startTestService({
    SERVICE_SECRET_KEY: 'value-of-the-key',
    SERVICE_SECRET_TOKEN: 'value-of-the-token',
  });
});
afterAll(async () => {
  await service.stop(0);
  await Promise.all(upstreams.map((upstream) => upstream.close()));
});

let name: string;
let number = 0;
beforeEach(() => {
  name = `forward-${++number}`;
});

async function startUpstream(): Promise<RawUpstream> {
  const upstream = await startRawUpstream({ scripts: { 'tools/list': toolList(toolText('echo')) } });
  upstreams.push(upstream);
  return upstream;
}

async function headersOf(forward: string): Promise<unknown> {
  const { data } = await service.manage('GET', `/forwards/${forward}`);
  return Object(data).headers;
}

async function sluice(argv: readonly string[], input = '') {
  const terminal = scriptedTerminal({ input });
  const code = await run([...argv, '--no-auth', '--host', service.management], terminal);
  return { code, out: terminal.out(), err: terminal.err() };
}

it('sluice forwards adds, changes and removes headers', async () => {
  const upstream = await startUpstream();
  const header = `Authorization: ${TOKEN}`;
  const added = await sluice(['forwards', 'add', name, upstream.url, '--header', header, '--header', 'user-agent:a']);
  expect(added.out).toMatch(/^added forward .*: 1 tool, /);
  expect((await sluice(['forwards', 'show', name])).out).toContain(`  Authorization: ${TOKEN}\n`);
  await sluice(['forwards', 'edit', name, '--header', 'User-Agent: b: c', '--remove-header', 'authorization']);
  expect(await headersOf(name)).toEqual({ 'User-Agent': 'b: c' });
  const literal = await sluice(['forwards', 'edit', name, '--header', 'authorization: Bearer a-literal-token']);
  expect(literal).toMatchObject({ code: 1, err: expect.stringContaining('must contain a reference') });
  const malformed = await sluice(['forwards', 'edit', name, '--header', 'a-literal-token']);
  expect(malformed).toMatchObject({ code: 1, err: 'sluice: invalid value of --header: expected "name: value"\n' });
  expect(literal.err).not.toContain('a-literal-token');
  const file = await sluice(['forwards', 'edit', name, '--header', `x-key: $\{file:key}`]);
  expect(file).toMatchObject({ code: 1, err: expect.stringContaining('SERVICE_SECRETS_PATH is not set') });
});

it('sluice export, diff and apply include headers; those that a file does not name stay', async () => {
  const upstream = await startUpstream();
  const other = await startUpstream();
  const headers = { Authorization: TOKEN, 'user-agent': 'a' };
  await service.register('forwards', { name, address: upstream.url, namespace: name, headers });
  expect((await sluice(['export'])).out).toContain(
    `    headers:\n      Authorization: ${TOKEN}\n      user-agent: a\n`,
  );
  const state = (more = '', address = upstream.url, prefix = '') =>
    `forwards: [{name: ${name}, address: "${address}", namespace: ${name}${prefix}${more}}]`;
  const diff = async (text: string) => (await sluice(['diff', '-f', '-'], text)).out;
  const apply = (text: string) => sluice(['apply', '--yes', '-f', '-'], text);
  expect(await diff(state())).toBe('no differences\n');
  const changed = state(`, headers: {user-agent: null, x-key: "${KEY}"}`);
  expect(await diff(changed)).toContain('headers: {"Authorization":');
  expect(await apply(changed)).toMatchObject({ code: 0 });
  expect(await headersOf(name)).toEqual({ Authorization: TOKEN, 'x-key': KEY });
  expect(await diff(changed)).toBe('no differences\n');
  const moved = await apply(state('', other.url));
  expect(moved).toMatchObject({
    code: 1,
    err: expect.stringContaining('send headers with it, to confirm or change Authorization, x-key'),
  });
  expect(other.seen).toEqual([]);
  expect(await apply(state(', headers: {}', other.url))).toMatchObject({ code: 0 });
  // With another prefix it has the same headers.
  expect(await apply(state('', other.url, ', prefix: p.'))).toMatchObject({ code: 0 });
  expect(await headersOf(name)).toEqual({ Authorization: TOKEN, 'x-key': KEY });
  expect(await apply(state(', headers: null', other.url, ', prefix: p.'))).toMatchObject({ code: 0 });
  expect(await headersOf(name)).toBeUndefined();
});
