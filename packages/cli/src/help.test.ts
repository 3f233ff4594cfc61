import type { Command } from 'commander';
import { expect, it } from 'vitest';
import { createProgram } from './program.ts';
import { scriptedTerminal } from './testing/scripted-terminal.ts';

const unused = (): never => {
  throw new Error('help needs no service');
};

it('help texts of all commands (review them together; vitest --update rewrites the file)', async () => {
  const terminal = scriptedTerminal();
  const program = await createProgram({ terminal, options: unused, connect: unused, output: unused });
  printHelp(program);
  await expect(terminal.out()).toMatchFileSnapshot('./help.snapshot.txt');

  /** Global options are printed for the program only, not again for each command. */
  function printHelp(command: Command): void {
    command.configureHelp({ ...command.configureHelp(), showGlobalOptions: false });
    terminal.stdout.write(`${'='.repeat(100)}\n`);
    command.outputHelp();
    for (const child of command.createHelp().visibleCommands(command)) if (child.name() !== 'help') printHelp(child);
  }
});
