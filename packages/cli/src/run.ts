import { CommanderError } from 'commander';
import { connect } from './connection/connect.ts';
import { explainError } from './connection/explain-error.ts';
import type { Context } from './context.ts';
import { Exit } from './failure.ts';
import { parseGlobalOptions } from './options.ts';
import { createOutput } from './output/output.ts';
import { createProgram } from './program.ts';
import { EXIT_INTERRUPTED, type Terminal } from './terminal/terminal.ts';
import { sanitizeLine } from './terminal/text.ts';

/**
 * Runs one command. `argv` is without executable and script. Resolves with the exit code: 0, 1 when it failed, 130 after
 * Ctrl-C, or the code of an {@link Exit} that the command threw. Never rejects; what failed is told on standard error.
 */
export async function run(argv: readonly string[], terminal: Terminal): Promise<number> {
  const context: Context = {
    terminal,
    options: () => parseGlobalOptions(program, terminal.env),
    connect: (how) => connect(context.options(), terminal, how),
    output: () => createOutput(context.options(), terminal),
  };
  const program = createProgram(context);
  try {
    await program.parseAsync([...argv], { from: 'user' });
    return terminal.interrupted.aborted ? EXIT_INTERRUPTED : 0;
  } catch (error) {
    if (terminal.interrupted.aborted) return EXIT_INTERRUPTED;
    if (error instanceof Exit) return error.code;
    // The parser has said already what it did not understand, or has printed help or version.
    if (error instanceof CommanderError) return error.exitCode;
    const { message, notes } = explainError(error, configuredHost(context));
    terminal.stderr.write(`sluice: ${sanitizeLine(message)}\n`);
    for (const note of notes) terminal.stderr.write(`  ${sanitizeLine(note)}\n`);
    return 1;
  }
}

/** Where the management API is; undefined when it is the options that were wrong. */
function configuredHost({ options }: Context): string | undefined {
  try {
    return options().host;
  } catch {
    return undefined;
  }
}
