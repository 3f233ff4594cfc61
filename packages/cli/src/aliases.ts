import { type Command, Help, type HelpConfiguration } from 'commander';

/** What a command is called elsewhere in the program, or by those who know another one. */
const ALIASES: Readonly<Record<string, readonly string[]>> = {
  add: ['create'],
  create: ['add'],
  expose: ['add', 'create'],
  remove: ['delete'],
  delete: ['remove'],
};

/** Lets the commands below this one be called by other words, which help does not name. */
export function addAliases(command: Command): void {
  for (const child of command.commands) {
    child.aliases([...(ALIASES[child.name()] ?? [])]);
    addAliases(child);
  }
}

/** Help that names each command once. */
export const HIDE_ALIASES: HelpConfiguration = {
  subcommandTerm: (command) => unaliased(Help.prototype.subcommandTerm.call(new Help(), command), command),
  commandUsage: (command) => unaliased(Help.prototype.commandUsage.call(new Help(), command), command),
};

function unaliased(text: string, command: Command): string {
  return text.replace(`${command.name()}|${command.alias()}`, command.name());
}
