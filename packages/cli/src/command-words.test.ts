import { expect, it } from 'vitest';
import { resolveAliases } from './command-words.ts';
import { createProgram } from './program.ts';
import { scriptedTerminal } from './testing/scripted-terminal.ts';

const unused = (): never => {
  throw new Error('the command line needs no service');
};
const program = await createProgram({
  terminal: scriptedTerminal(),
  options: unused,
  connect: unused,
  output: unused,
});
const resolve = (line: string) => resolveAliases(program, line.split(' ')).join(' ');

it.each([
  ['tool ls', 'tools list'],
  ['ns rm finance', 'namespaces delete finance'],
  ['namespace add finance', 'namespaces create finance'],
  ['resource create', 'resources add'],
  ['evaluator ls', 'evaluators get'],
  ['evaluators get', 'evaluators get'],
  ['evaluators revision get 3', 'evaluators revisions show 3'],
  ['interaction get', 'interactions list'],
  ['mcp tools ls -N finance', 'mcp tool list -N finance'],
  ['--host tool tool ls', '--host tool tools list'],
  ['help tool rm', 'help tools remove'],
  ['tool help rm', 'tools help remove'],
])('%s is %s', (line, resolved) => expect(resolve(line)).toBe(resolved));

it.each([
  ['tools get', 'tools list'],
  ['tools get -N finance -o json', 'tools list -N finance -o json'],
  ['tools get --shadowed', 'tools list --shadowed'],
  ['tools get echo', 'tools show echo'],
  ['tools get -N finance echo', 'tools show -N finance echo'],
  ['forward get --name=crm', 'forwards show --name=crm'],
  ['forward get -n crm', 'forwards show -n crm'],
])('get is list without a name and show with one: %s', (line, resolved) => expect(resolve(line)).toBe(resolved));

it.each([
  'tools show ls',
  'tools label add rm a=b',
  'tools list -N get',
  'mcp -N tools tool echo',
  'complete zsh -- tool rm',
  'tools remove -- -o',
])('arguments and values of options are not aliases: %s', (line) => expect(resolve(line)).toBe(line));

it.each([
  ['action build a.ts -o a.wasm', 'action build a.ts --out a.wasm'],
  ['action build a.ts -oa.wasm', 'action build a.ts --out=a.wasm'],
  ['-o json actions build a.ts -o a.wasm', '-o json action build a.ts --out a.wasm'],
  ['action init a -o json', 'action init a -o json'],
])('-o of a command is not that of the program: %s', (line, resolved) => expect(resolve(line)).toBe(resolved));

it('help shows the options of the program without the short ones of the command', () => {
  const build = program.commands.find((command) => command.name() === 'action')?.commands[1];
  const help = build?.helpInformation();
  expect(help).toMatch(/^ {2}-o, --out <file> /m);
  expect(help).toMatch(/^ {2}--output <format> +Output format \(choices: "table"/m);
});
