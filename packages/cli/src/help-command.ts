import { Command } from 'commander';
import { Failure } from './failure.ts';

/** `sluice help [command...]`: the help of a command, however deep in the program it is. */
export function helpCommand(program: Command): Command {
  return new Command('help')
    .description('Print help for a command')
    .argument('[command...]')
    .action((words: readonly string[]) => {
      let command = program;
      for (const word of words) {
        const child = command.commands.find((candidate) => [candidate.name(), ...candidate.aliases()].includes(word));
        if (child === undefined) throw new Failure(`unknown command: sluice ${words.join(' ')}`);
        command = child;
      }
      command.help();
    });
}
