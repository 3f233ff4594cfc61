import { Command } from 'commander';
import manifest from '../package.json' with { type: 'json' };
import { addAliases, HIDE_ALIASES } from './aliases.ts';
import { completeCommand } from './completion/completion.ts';
import type { Context } from './context.ts';
import { commandGroups } from './groups/groups.ts';
import { helpCommand } from './help-command.ts';
import { addGlobalOptions } from './options.ts';
import { addSuggestion } from './suggestion.ts';

/** The whole command line: global options and all groups. Nothing of it ends the process; it throws instead. */
export function createProgram(context: Context): Command {
  const { terminal } = context;
  const program = new Command('sluice')
    .description('Run and administer Sluice, a gateway for MCP servers')
    .version(manifest.version, '-v, --version', 'Print the version')
    .helpOption('-h, --help', 'Print help')
    .helpCommand(false)
    .exitOverride()
    .showSuggestionAfterError()
    .configureOutput({
      writeOut: terminal.stdout.write,
      writeErr: terminal.stderr.write,
      outputError: (text, write) => write(addSuggestion(text).replace(/^error: /, 'sluice: ')),
      getOutHelpWidth: () => terminal.stdout.columns ?? 100,
      getErrHelpWidth: () => terminal.stderr.columns ?? 100,
      getOutHasColors: () => false,
      getErrHasColors: () => false,
    })
    .configureHelp({ showGlobalOptions: true, ...HIDE_ALIASES });
  addGlobalOptions(program);
  for (const group of commandGroups(context)) program.addCommand(group);
  program.addCommand(helpCommand(program));
  program.addCommand(completeCommand(context, program), { hidden: true });
  addAliases(program);
  for (const command of program.commands) inherit(command, program);
  return program;
}

/** Commands that were made apart do not take on what the program has set. */
function inherit(command: Command, parent: Command): void {
  command.copyInheritedSettings(parent);
  if (command.commands.length > 0) command.helpCommand('help [command]', 'Print help for a command');
  for (const child of command.commands) inherit(child, command);
}
