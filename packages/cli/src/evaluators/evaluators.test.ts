import { expect, it } from 'vitest';
import { run } from '../run.ts';
import { scriptedTerminal } from '../testing/scripted-terminal.ts';

async function evaluators(...argv: string[]) {
  const terminal = scriptedTerminal({ cwd: import.meta.dirname });
  const code = await run(['evaluators', '--no-auth', ...argv], terminal);
  return { code, out: terminal.out(), err: terminal.err() };
}

it('accepts list as an alias of get, like other groups, and lists it once', async () => {
  const unreachable = ['--host', 'http://127.0.0.1:9'];
  expect(await evaluators('list', ...unreachable)).toEqual(await evaluators('get', ...unreachable));
  expect((await evaluators('list', ...unreachable)).err).not.toContain('unknown command');
  expect((await evaluators('--help')).out).toMatch(/^ {2}get {2}/m);
});

it('documents that a revision can be given as active', async () => {
  const { code, err } = await evaluators('revisions', 'show', 'foo');
  expect(code).toBe(1);
  expect(err).toContain('Expected a whole number from 1, or active.');
});
