import { resolve } from 'node:path';
import { Command } from 'commander';
import type { Context } from '../context.ts';
import { Exit } from '../failure.ts';
import { sanitizeLine } from '../terminal/harmless.ts';
import { withPipelineModule } from './pipeline-files.ts';

/** `sluice pipeline check`: all that keeps the service from starting with a file, each with its place. */
export function checkCommand({ terminal, output }: Context): Command {
  return new Command('check')
    .description('Validate a pipeline file')
    .argument('<file>', 'Pipeline file')
    .addHelpText(
      'after',
      '\nThe certificates that the file names are checked too. The exit code is 1 if anything is invalid.',
    )
    .action(async (file: string) => {
      const { problems, lines, warnings, listeners } = await withPipelineModule(async ({ examinePipeline, lineOf }) => {
        const examined = await examinePipeline(resolve(terminal.cwd, file), file);
        return { ...examined, lines: examined.problems.map(lineOf) };
      });
      const ok = problems.length === 0;
      const out = output();
      if (out.format === 'json') {
        out.json({ ok, problems: problems.map(({ at, text }) => ({ ...at, message: text })), warnings });
      } else {
        for (const line of lines) terminal.stdout.write(`${sanitizeLine(line)}\n`);
        for (const warning of warnings) terminal.stderr.write(`warning: ${sanitizeLine(warning)}\n`);
        if (ok)
          out.done({}, `ok: ${file} (${listeners.length === 1 ? 'listener' : 'listeners'} ${listeners.join(', ')})`);
      }
      if (!ok) throw new Exit(1);
    });
}
