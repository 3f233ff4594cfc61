import { CommanderError } from 'commander';
import { resolveAliases } from './command-words.ts';
import { connect } from './connection/connect.ts';
import { withoutChanges } from './connection/dry-run.ts';
import { explainError } from './connection/explain-error.ts';
import type { Context } from './context.ts';
import { Exit } from './failure.ts';
import type { Send } from './http/fetch.ts';
import { type GlobalOptions, parseGlobalOptions } from './options.ts';
import { requireNames } from './output/format.ts';
import { createOutput, type YamlFormatter } from './output/output.ts';
import { createProgram } from './program.ts';
import { EXIT_INTERRUPTED, type Terminal } from './terminal/terminal.ts';
import { sanitizeLine } from './terminal/text.ts';

/**
 * Runs one command; `argv` excludes executable and script. Resolves with the exit code: 0, 1 on failure, 130 after
 * Ctrl-C, or the code of an {@link Exit}. Never rejects; failures are printed to stderr.
 */
export async function run(argv: readonly string[], terminal: Terminal): Promise<number> {
  let toYaml: YamlFormatter | undefined;
  let wrap: ((send: Send) => Send) | undefined;
  const context: Context = {
    terminal,
    options: () => parseGlobalOptions(program, terminal.env),
    connect: (how) => connect(context.options(), terminal, how, wrap),
    output: () => createOutput(context.options(), terminal, toYaml),
  };
  const program = await createProgram(context, argv);
  program.hook('preAction', async (_program, command) => {
    const { output } = program.opts<Pick<GlobalOptions, 'output'>>();
    requireNames(output, command);
    if (command.opts<{ readonly dryRun?: true }>().dryRun) wrap = (send) => withoutChanges(send, context.output);
    if (output === 'yaml') ({ toYaml } = await import('./files/yaml-text.ts'));
  });
  try {
    await program.parseAsync(resolveAliases(program, argv), { from: 'user' });
    return terminal.interrupted.aborted ? EXIT_INTERRUPTED : 0;
  } catch (error) {
    if (terminal.interrupted.aborted) return EXIT_INTERRUPTED;
    if (error instanceof Exit) return error.code;
    // The parser has already printed its error, the help or the version.
    if (error instanceof CommanderError) return error.exitCode;
    const { message, notes } = explainError(error, configuredHost(context));
    terminal.stderr.write(`sluice: ${sanitizeLine(message)}\n`);
    for (const note of notes) terminal.stderr.write(`  ${sanitizeLine(note)}\n`);
    return 1;
  }
}

/** Returns the management API URL; undefined when the options are invalid. */
function configuredHost({ options }: Context): string | undefined {
  try {
    return options().host;
  } catch {
    return undefined;
  }
}
