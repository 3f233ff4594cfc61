import { Command, Help, Option } from 'commander';
import manifest from '../package.json' with { type: 'json' };
import { actionCommand } from './action/action.ts';
import { applyCommand, diffCommand, exportCommand } from './apply/commands.ts';
import { authCommand } from './auth/auth.ts';
import { backupCommand, restoreCommand } from './backup/commands.ts';
import { migrateCommand } from './backup/migrate.ts';
import { closestMatch } from './closest-match.ts';
import { findCommand } from './command-words.ts';
import { completeCommand, completionCommand } from './completion/completion.ts';
import { configureCommand } from './configure/configure.ts';
import { addDryRunOptions } from './connection/dry-run.ts';
import type { Context } from './context.ts';
import { evaluatorsCommand } from './evaluators/evaluators.ts';
import { eventsCommand } from './events/events.ts';
import { Failure } from './failure.ts';
import { doctorCommand } from './groups/doctor.ts';
import { forwardsCommand } from './groups/forwards.ts';
import { interactionsCommand } from './groups/interactions.ts';
import { namespacesCommand } from './groups/namespaces.ts';
import { pipelineCommand } from './groups/pipeline.ts';
import { promptsCommand } from './groups/prompts.ts';
import { resourcesCommand } from './groups/resources.ts';
import { serveCommand } from './groups/serve.ts';
import { servicesCommand } from './groups/services.ts';
import {
  healthCommand,
  metricsCommand,
  replicasCommand,
  statisticsCommand,
  timeSeriesCommand,
} from './groups/status.ts';
import { tasksCommand } from './groups/tasks.ts';
import { toolsCommand } from './groups/tools.ts';
import { mcpCommand } from './mcp/mcp.ts';
import { addGlobalOptions } from './options.ts';
import { sanitizeText } from './terminal/text.ts';
import { toolCallsCommand } from './tool-calls/tool-calls.ts';

/** Returns all command groups in the order of the help. Libraries that load slowly are imported inside the actions. */
function commandGroups(context: Context): Command[] {
  return [
    serveCommand(context),
    pipelineCommand(context),
    forwardsCommand(context),
    namespacesCommand(context),
    toolsCommand(context),
    resourcesCommand(context),
    promptsCommand(context),
    servicesCommand(context),
    evaluatorsCommand(context),
    actionCommand(context),
    applyCommand(context),
    diffCommand(context),
    exportCommand(context),
    mcpCommand(context),
    configureCommand(context),
    healthCommand(context),
    statisticsCommand(context),
    metricsCommand(context),
    timeSeriesCommand(context),
    replicasCommand(context),
    interactionsCommand(context),
    toolCallsCommand(context),
    tasksCommand(context),
    eventsCommand(context),
    doctorCommand(context),
    backupCommand(context),
    restoreCommand(context),
    migrateCommand(context),
    authCommand(context),
    completionCommand(context),
  ];
}

/** `sluice help [command...]`: help for a command at any depth. */
function helpCommand(program: Command): Command {
  return new Command('help')
    .description('Print help for a command')
    .argument('[command...]')
    .action((words: readonly string[]) => {
      let command = program;
      for (const word of words) {
        const child = findCommand(command, word);
        if (child === undefined) throw new Failure(`unknown command: sluice ${words.join(' ')}`);
        command = child;
      }
      command.help();
    });
}

/** Adds the closest choice to the parser's message about an invalid choice. */
function addSuggestion(text: string): string {
  const [, value, choices] =
    /(?:value|argument) '([^']*)' is invalid\b.*\. Allowed choices are (.*)\.\n$/s.exec(text) ?? [];
  if (value === undefined || choices === undefined) return text;
  const match = closestMatch(value, choices.split(', '));
  return match === undefined ? text : `${text}(Did you mean ${match}?)\n`;
}

/** Builds the whole command line. The program throws instead of ending the process. */
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
      writeErr: (text) => terminal.stderr.write(sanitizeText(text)),
      outputError: (text, write) => write(addSuggestion(text).replace(/^error: /, 'sluice: ')),
      getOutHelpWidth: () => terminal.stdout.columns ?? 100,
      getErrHelpWidth: () => terminal.stderr.columns ?? 100,
      getOutHasColors: () => false,
      getErrHasColors: () => false,
    })
    .configureHelp({ showGlobalOptions: true, visibleGlobalOptions });
  addGlobalOptions(program);
  for (const group of commandGroups(context)) program.addCommand(group);
  program.addCommand(helpCommand(program));
  program.addCommand(completeCommand(context, program), { hidden: true });
  addDryRunOptions(program);
  for (const command of program.commands) inherit(command, program);
  printHelpWithoutCommand(program);
  // It rejects them.
  program.commands
    .find((command) => command.name() === 'serve')
    ?.configureHelp({ ...program.configureHelp(), showGlobalOptions: false });
  return program;
}

/** Commands that are created separately do not inherit the settings of the program. */
function inherit(command: Command, parent: Command): void {
  command.copyInheritedSettings(parent);
  if (command.commands.length > 0) {
    command.helpCommand('help [command]', 'Print help for a command');
    printHelpWithoutCommand(command);
  }
  for (const child of command.commands) inherit(child, command);
}

/** A group without a command prints its help like `--help`; the parser would treat it as an error. */
function printHelpWithoutCommand(group: Command): void {
  const help = group.help.bind(group);
  group.help = () => help();
}

/** Options of the commands above one, without the short options that it uses for its own. */
function visibleGlobalOptions(command: Command): Option[] {
  const help = new Help();
  help.showGlobalOptions = command.configureHelp().showGlobalOptions ?? false;
  return help.visibleGlobalOptions(command).map((option) => {
    const isShadowed = command.options.some(({ short }) => short !== undefined && short === option.short);
    const flags = option.flags.replace(/^-\w, /, '');
    return isShadowed ? Object.assign(new Option(flags), option, { flags }) : option;
  });
}
