import { expect, it } from 'vitest';
import { run } from './run.ts';
import { scriptedTerminal } from './testing/scripted-terminal.ts';

const failure = async (...argv: readonly string[]) => {
  const terminal = scriptedTerminal();
  // A port that the system never assigns: nothing is sent.
  expect(await run([...argv, '--no-auth', '--host', 'http://127.0.0.1:2'], terminal)).toBe(1);
  return terminal.err();
};

const BRIDGE = 'npx -y mcp-proxy --host 127.0.0.1 --port 3002 --server stream --';
const EXPLAINED = 'A server that is started with a command (stdio) needs a bridge:';

it.each([
  [['forwards', 'add', 'a', 'npx -y server'], 'npx -y server', 'sluice forwards add a'],
  [['forwards', 'add', 'a', '--url', 'uvx server'], 'uvx server', 'sluice forwards add a'],
  [['forwards', 'add', 'a', '--', 'npx', '-y', 'server', '--flag'], 'npx -y server --flag', 'sluice forwards add a'],
  [['forwards', 'add', '--name', 'a', '--', 'docker', 'run', '-i', 'x'], 'docker run -i x', 'sluice forwards add a'],
  [['mcp', 'tool', 'list', '--uri', './server'], './server', 'sluice mcp tool list --uri'],
])('%j: the commands that make the server available', async (argv, command, use) => {
  const options = ['--no-auth', '--host', 'http://127.0.0.1:2'];
  const terminal = scriptedTerminal();
  expect(await run([...options, ...argv], terminal)).toBe(1);
  const [message, ...notes] = terminal.err().trimEnd().split('\n');
  expect(message?.endsWith(EXPLAINED)).toBe(true);
  expect(notes).toEqual([`  ${BRIDGE} ${command}`, `  ${use} http://127.0.0.1:3002/mcp`]);
});

it.each([
  [['forwards', 'add', 'a', 'localhost:3000'], /expected a URL such as http:\/\/127.0.0.1:3001\/mcp\n$/],
  [['forwards', 'add', 'a', 'http://127.0.0.1:3000/mcp', 'b'], /^sluice: too many arguments: b\n$/],
  [['forwards', 'add'], /^sluice: missing name of the forward/],
])('%j has another mistake', async (argv, expected) => {
  expect(await failure(...argv)).toMatch(expected);
});
