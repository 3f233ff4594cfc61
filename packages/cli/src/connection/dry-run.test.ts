import type { Command } from 'commander';
import { expect, it } from 'vitest';
import { createProgram } from '../program.ts';
import { scriptedTerminal } from '../testing/scripted-terminal.ts';

const unused = (): never => {
  throw new Error('the command line needs no service');
};

/** Commands that change nothing at the service. */
const READS =
  /^(?:serve|open|logs|pipeline \w+|action \w+|diff|export|health|statistics|metrics|time-series|replicas|events|tool-calls|backup|restore|doctor|auth \w+|keys \w+|admin \w+|access blocks|identity status|completion|complete|help|mcp .*|forwards test|.* (?:list|show|get|connections|bindings|history|view|dry-run))$/;

it('every command either changes nothing or has --dry-run', async () => {
  const program = await createProgram({
    terminal: scriptedTerminal(),
    options: unused,
    connect: unused,
    output: unused,
  });
  const without: string[] = [];
  const unexpected: string[] = [];
  const check = (command: Command, path: string): void => {
    for (const child of command.commands) check(child, `${path} ${child.name()}`.trim());
    if (command.commands.length > 0) return;
    const hasDryRun = command.options.some(({ long }) => long === '--dry-run');
    if (hasDryRun && READS.test(path)) unexpected.push(path);
    if (!hasDryRun && !READS.test(path)) without.push(path);
  };
  check(program, '');
  expect({ without, unexpected }).toEqual({ without: [], unexpected: [] });
});
