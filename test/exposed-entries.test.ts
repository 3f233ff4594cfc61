import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { run } from '../packages/cli/src/run.ts';
import { scriptedTerminal } from '../packages/cli/src/testing/scripted-terminal.ts';
import { startTestService, type TestService } from '../packages/server/testing/service.ts';
import { toolList, toolText } from './fixtures/raw-upstream/texts.ts';
import { type RawUpstream, startRawUpstream } from './fixtures/raw-upstream.ts';

let service: TestService;
let upstream: RawUpstream;

beforeAll(async () => {
  service = await startTestService();
  const tools = toolList(toolText('read_file'), toolText('write_file'));
  upstream = await startRawUpstream({ eras: ['modern'], scripts: { 'tools/list': tools } });
});

afterAll(async () => {
  await service.stop();
  await upstream.close();
});

async function sluice(argv: readonly string[], input?: string) {
  const terminal = scriptedTerminal(input === undefined ? {} : { input });
  const code = await run([...argv, '--host', service.management], terminal);
  return { code, out: terminal.out(), err: terminal.err() };
}

async function stateOf(name: string, at = service) {
  const { expose, tools_discovered: tools, statusMessage } = Object((await at.manage('GET', `/forwards/${name}`)).data);
  return { expose, tools, statusMessage };
}

test('forwards add and edit select what a forward exposes', async () => {
  const rules = [
    '--allow',
    'tools:read_*',
    '--deny',
    'resources:file:///a:b',
    '--deny',
    'resources:*c',
    '--new',
    'disabled',
  ];
  const added = await sluice(['forwards', 'add', 'cli', upstream.url, '-N', 'cli', ...rules]);
  expect(added).toMatchObject({ code: 0, out: expect.stringContaining(': 1 tool, ') });
  expect((await stateOf('cli')).expose).toEqual({
    tools: { allow: ['read_*'], new: 'disabled' },
    resources: { deny: ['file:///a:b', '*c'], new: 'disabled' },
    prompts: { new: 'disabled' },
  });
  const edit = (...options: string[]) => sluice(['forwards', 'edit', 'cli', ...options]);
  const options = ['--allow', 'tools:', '--deny', 'tools:x', '--deny', 'resources:', '--new', 'prompts:enabled'];
  expect(await edit(...options)).toMatchObject({ code: 0 });
  expect(await stateOf('cli')).toMatchObject({
    expose: { tools: { deny: ['x'], new: 'disabled' }, resources: { new: 'disabled' }, prompts: { new: 'enabled' } },
    tools: 2,
  });
  for (const [option, value] of [
    ['--allow', 'read_*'],
    ['--deny', 'tool:read_*'],
    ['--new', 'hidden'],
    ['--new', 'tools:'],
  ] as const) {
    const message = `invalid value "${value}" of ${option}`;
    expect(await edit(option, value)).toMatchObject({ code: 1, err: expect.stringContaining(message) });
  }
  expect(await edit('--allow', 'tools:', '--allow', 'tools:a')).toMatchObject({ code: 1 });
});

test('apply changes it in place: what is missing stays, null removes, and export and diff have it', async () => {
  const forward = (more: string) => `forwards: [{ name: file, namespace: file, address: "${upstream.url}"${more} }]`;
  const apply = (more: string) => sluice(['apply', '-f', '-', '--yes', '--allow-widening'], forward(more));
  const diff = (more: string) => sluice(['diff', '-f', '-'], forward(more));
  expect(await apply(', expose: { tools: { allow: [read_*], deny: [x] } }')).toMatchObject({ code: 0 });
  expect(await stateOf('file')).toMatchObject({ tools: 1, statusMessage: 'not exposed: 1 tool' });
  await service.manage('POST', '/tools/enabled', { enabled: false, forward: 'file', names: ['read_file'] });
  expect((await diff('')).code).toBe(0);
  expect(await diff(', expose: { tools: { deny: [] } }')).toMatchObject({
    code: 2,
    out: expect.stringContaining('expose: {"tools":{"allow":["read_*"],"deny":["x"]}} -> '),
  });
  expect((await sluice(['export'])).out).toContain('        allow:\n          - read_*\n');
  const more = ', expose: { tools: { allow: null } }';
  expect(await sluice(['apply', '-f', '-', '--yes'], forward(more))).toMatchObject({
    code: 1,
    err: expect.stringContaining('use --allow-widening to apply them\n  forward file: may expose more entries\n'),
  });
  expect(await apply(more)).toMatchObject({ code: 0 });
  expect(await stateOf('file')).toMatchObject({ expose: { tools: { deny: ['x'] } }, tools: 2 });
  expect(await apply(', expose: null')).toMatchObject({ code: 0 });
  expect((await stateOf('file')).expose).toBeUndefined();
  const { data } = await service.manage('GET', '/tools?namespace=file');
  expect(data).toMatchObject([{ name: 'read_file', enabled: false }, { name: 'write_file' }]);
});

test('the bootstrap file has it, and it lasts over restarts', async (context) => {
  const folder = await mkdtemp(join(tmpdir(), 'sluice-expose-'));
  context.onTestFinished(() => rm(folder, { recursive: true }));
  const file = join(folder, 'service.yaml');
  const start = async (more: string) => {
    await writeFile(file, `forwards: [{ name: up, address: "${upstream.url}"${more} }]`);
    const env = { SERVICE_PERSIST_BACKEND: 'file', SERVICE_PERSIST_PATH: join(folder, 'server') };
    const started = await startTestService(env, ['--service-config', file]);
    context.onTestFinished(() => started.stop());
    return started;
  };
  const names = async (at: TestService) =>
    Object.values(Object((await at.manage('GET', '/tools')).data)).map((tool) => Object(tool).name);
  const first = await start('');
  await expect.poll(() => names(first)).toEqual(['read_file', 'write_file']);
  await first.stop();
  await upstream.down();
  context.onTestFinished(() => upstream.up());
  // From the first moment, although the upstream is down.
  const second = await start(', expose: { tools: { deny: [write_*], new: disabled } }');
  expect(await names(second)).toEqual(['read_file']);
  await second.stop();
  const third = await start(', expose: { tools: { new: null }, prompts: { deny: ["*"] } }');
  expect((await stateOf('up', third)).expose).toEqual({ tools: { deny: ['write_*'] }, prompts: { deny: ['*'] } });
  expect(await names(third)).toEqual(['read_file']);
  await third.stop();
  const skipped = await start(', expose: { tools: { dney: [a] } }');
  expect((await stateOf('up', skipped)).expose).toMatchObject({ tools: { deny: ['write_*'] } });
  await skipped.stop();
  const last = await start(', expose: null');
  expect((await stateOf('up', last)).expose).toBeUndefined();
});
