import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { run } from '../run.ts';
import { scriptedTerminal } from '../testing/scripted-terminal.ts';
import { COMMAND_ACTION, lineWith } from './command-action.fixture.ts';

let folder: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'sluice-test-action-'));
  await writeFile(join(folder, 'command-action.js'), COMMAND_ACTION);
  expect(await sluice('build', 'command-action.js')).toMatchObject({ code: 0 });
});
afterAll(() => rm(folder, { recursive: true }));

async function sluice(...argv: string[]) {
  const terminal = scriptedTerminal({ cwd: folder });
  const code = await run(['action', ...argv], terminal);
  return { code, out: terminal.out(), err: terminal.err() };
}

async function file(name: string, content: unknown): Promise<string> {
  await writeFile(join(folder, name), JSON.stringify(content));
  return name;
}

const context = (name: string, members: object) =>
  file(name, { method: 'tools/call', namespace: 'default', ...members });

it('sluice action builds with StarlingMonkey, which has the globals of browsers', async () => {
  expect(await sluice('build', 'command-action.js', '-o', 'o.wasm', '--engine', 'starlingmonkey')).toMatchObject({
    code: 0,
  });
  // Behavior that both engines have in common.
  const llmResult = 'context verify mistyped console time tools';
  const given = await context('ctx.json', { llmResult, namespace: 'n' });
  const schema = await file('schema.json', { properties: { a: { type: 'number' } } });
  const logOf = async (component: string) => {
    const options = ['--context', given, '--schema', schema, '--output', 'json'];
    return JSON.parse((await sluice('test', component, ...options)).out).log;
  };
  // Not at the same time: each has 10 s to be compiled and 1 s to run.
  const one = await logOf('command-action.wasm');
  const other = await logOf('o.wasm');
  expect(one).toHaveLength(9);
  expect(other).toEqual(one);
  const url = await context('ctx.json', { llmResult: 'missing' });
  expect(await sluice('test', 'o.wasm', '--context', url)).toMatchObject({ code: 0 });
  const long = await context('ctx.json', { llmResult: 'pass', arguments: { text: 'ü'.repeat(2 * 1024 * 1024) } });
  expect(await sluice('test', 'o.wasm', '--context', long)).toMatchObject({ code: 0 });
  const thrown = await sluice('test', 'o.wasm', '--context', await context('ctx.json', { llmResult: 'throw' }));
  expect(thrown).toMatchObject({
    code: 1,
    err: `sluice: the action failed (trap): RangeError: out of range, at command-action.js:${lineWith('throw:')}\n`,
  });
});
