import { Command, Help, Option } from 'commander';
import manifest from '../package.json' with { type: 'json' };
import { closestMatch } from './closest-match.ts';
import { findCommand, firstWord, isAlias } from './command-words.ts';
import { addDryRunOptions } from './connection/dry-run.ts';
import type { Context } from './context.ts';
import { Failure } from './failure.ts';
import { addGlobalOptions } from './options.ts';
import { sanitizeText } from './terminal/text.ts';

type CreateCommand = (context: Context) => Command;

/** Modules of the commands by heading and name, in the order of the help. A line loads only that of its command. */
const COMMANDS: Readonly<Record<string, Readonly<Record<string, () => Promise<CreateCommand>>>>> = {
  'Service:': {
    serve: async () => (await import('./groups/serve.ts')).serveCommand,
    pipeline: async () => (await import('./groups/pipeline.ts')).pipelineCommand,
    open: async () => (await import('./groups/open.ts')).openCommand,
    health: async () => (await import('./groups/status.ts')).healthCommand,
    doctor: async () => (await import('./groups/doctor.ts')).doctorCommand,
    admin: async () => (await import('./admin/admin.ts')).adminCommand,
    backup: async () => (await import('./backup/commands.ts')).backupCommand,
    restore: async () => (await import('./backup/commands.ts')).restoreCommand,
    migrate: async () => (await import('./backup/migrate.ts')).migrateCommand,
    replicas: async () => (await import('./groups/status.ts')).replicasCommand,
  },
  'Registry:': {
    forwards: async () => (await import('./groups/forwards.ts')).forwardsCommand,
    namespaces: async () => (await import('./groups/namespaces.ts')).namespacesCommand,
    tools: async () => (await import('./groups/tools.ts')).toolsCommand,
    resources: async () => (await import('./groups/resources.ts')).resourcesCommand,
    prompts: async () => (await import('./groups/prompts.ts')).promptsCommand,
    services: async () => (await import('./groups/services.ts')).servicesCommand,
    apply: async () => (await import('./apply/commands.ts')).applyCommand,
    diff: async () => (await import('./apply/commands.ts')).diffCommand,
    export: async () => (await import('./apply/commands.ts')).exportCommand,
  },
  'Policy:': {
    evaluators: async () => (await import('./evaluators/evaluators.ts')).evaluatorsCommand,
    action: async () => (await import('./action/action.ts')).actionCommand,
    access: async () => (await import('./groups/access.ts')).accessCommand,
    identity: async () => (await import('./identity/identity.ts')).identityCommand,
    keys: async () => (await import('./groups/keys.ts')).keysCommand,
  },
  'Clients:': {
    mcp: async () => (await import('./mcp/mcp.ts')).mcpCommand,
    configure: async () => (await import('./configure/configure.ts')).configureCommand,
  },
  'Monitoring:': {
    logs: async () => (await import('./groups/logs.ts')).logsCommand,
    'tool-calls': async () => (await import('./tool-calls/tool-calls.ts')).toolCallsCommand,
    tasks: async () => (await import('./groups/tasks.ts')).tasksCommand,
    interactions: async () => (await import('./groups/interactions.ts')).interactionsCommand,
    events: async () => (await import('./events/events.ts')).eventsCommand,
    statistics: async () => (await import('./groups/status.ts')).statisticsCommand,
    metrics: async () => (await import('./groups/status.ts')).metricsCommand,
    'time-series': async () => (await import('./groups/status.ts')).timeSeriesCommand,
  },
  'Other:': {
    auth: async () => (await import('./auth/auth.ts')).authCommand,
    completion: async () => (await import('./completion/completion.ts')).completionCommand,
  },
};

/** Adds the command that the line begins with, or all if it begins with none of them, such as `help`. */
async function addCommands(program: Command, context: Context, argv: readonly string[]): Promise<void> {
  const names = Object.values(COMMANDS).flatMap((group) => Object.keys(group));
  const word = firstWord(program, argv);
  const wanted = names.find((name) => name === word) ?? names.find((name) => word !== undefined && isAlias(word, name));
  for (const [heading, group] of Object.entries(COMMANDS)) {
    for (const [name, load] of Object.entries(group)) {
      if (wanted !== undefined && name !== wanted) continue;
      const create = await load();
      program.addCommand(create(context).helpGroup(heading));
    }
  }
  if (wanted !== undefined) return;
  const { completeCommand } = await import('./completion/completion.ts');
  program.addCommand(helpCommand(program).helpGroup('Other:'));
  program.addCommand(completeCommand(context, program), { hidden: true });
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

/** Builds the command line, as far as `argv` needs it. The program throws instead of ending the process. */
export async function createProgram(context: Context, argv: readonly string[] = []): Promise<Command> {
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
  await addCommands(program, context, argv);
  addDryRunOptions(program);
  for (const command of program.commands) inherit(command, program);
  printHelpWithoutCommand(program);
  // It explains what to do with the command of a server.
  const forwards = findCommand(program, 'forwards');
  if (forwards !== undefined) findCommand(forwards, 'add')?.allowExcessArguments();
  // It rejects them.
  findCommand(program, 'serve')?.configureHelp({ ...program.configureHelp(), showGlobalOptions: false });
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
