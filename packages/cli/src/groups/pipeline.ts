import { resolve } from 'node:path';
import { Command } from 'commander';
import type { Context } from '../context.ts';
import { Exit, Failure } from '../failure.ts';
import { sanitizeLine } from '../terminal/text.ts';

/** Loads the pipeline module of the service on demand. Invalid files reject with {@link Failure}. */
async function withPipelineModule<T>(use: (files: typeof import('@sluice/server/pipeline')) => Promise<T>): Promise<T> {
  const files = await import('@sluice/server/pipeline');
  try {
    return await use(files);
  } catch (error) {
    throw error instanceof files.ConfigError ? new Failure(error.message, { cause: error }) : error;
  }
}

/** `sluice pipeline check`: lists all problems that would prevent the service from starting, with positions. */
function checkCommand({ terminal, output }: Context): Command {
  return new Command('check')
    .description('Validate a pipeline file')
    .argument('<file>', 'Pipeline file')
    .addHelpText(
      'after',
      '\nThe certificates that the file names are checked too. The exit code is 1 if anything is invalid.',
    )
    .action(async (file: string) => {
      const { problems, lines, warnings, listeners } = await withPipelineModule(async (files) => {
        const report = await files.validatePipelineFile(resolve(terminal.cwd, file), file);
        return { ...report, lines: report.problems.map(files.formatProblem) };
      });
      const ok = problems.length === 0;
      const out = output();
      if (out.isStructured) {
        out.payload({ ok, problems: problems.map(({ at, text }) => ({ ...at, message: text })), warnings });
      } else {
        for (const line of lines) terminal.stdout.write(`${sanitizeLine(line)}\n`);
        for (const warning of warnings) terminal.stderr.write(`warning: ${sanitizeLine(warning)}\n`);
        if (ok)
          out.done({}, `ok: ${file} (${listeners.length === 1 ? 'listener' : 'listeners'} ${listeners.join(', ')})`);
      }
      if (!ok) throw new Exit(1);
    });
}

/** `sluice pipeline show`: prints the effective pipeline. */
function showCommand({ terminal, output }: Context): Command {
  return new Command('show')
    .description('Print a pipeline file with defaults and environment variables applied')
    .argument('[file]', 'Pipeline file (default: the built-in pipeline)')
    .addHelpText('after', '\nExample: sluice pipeline show > pipeline.yaml')
    .action(async (file: string | undefined) => {
      const { toYaml } = await import('../files/yaml-text.ts');
      const named = file === undefined ? undefined : { path: resolve(terminal.cwd, file), name: file };
      const { content, text, warnings } = await withPipelineModule(({ effectivePipeline }) =>
        effectivePipeline(named, terminal.env),
      );
      const out = output();
      if (out.isStructured) out.payload(content);
      else terminal.stdout.write(text ?? toYaml(content));
      for (const warning of warnings) terminal.stderr.write(`warning: ${sanitizeLine(warning)}\n`);
    });
}

/** `sluice pipeline`: works with pipeline files without a service. */
export function pipelineCommand(context: Context): Command {
  return new Command('pipeline')
    .description('Validate and show pipeline files')
    .addCommand(checkCommand(context))
    .addCommand(showCommand(context));
}
