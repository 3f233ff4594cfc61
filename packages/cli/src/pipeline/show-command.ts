import { resolve } from 'node:path';
import { Command } from 'commander';
import type { Context } from '../context.ts';
import { sanitizeLine } from '../terminal/harmless.ts';
import { withPipelineModule } from './pipeline-files.ts';

/** `sluice pipeline show`: the pipeline that the service would run, as a file. */
export function showCommand({ terminal, output }: Context): Command {
  return new Command('show')
    .description('Print a pipeline file with defaults and environment variables applied')
    .argument('[file]', 'Pipeline file (default: the built-in pipeline)')
    .addHelpText('after', '\nExample: sluice pipeline show > pipeline.yaml')
    .action(async (file: string | undefined) => {
      const { toYaml } = await import('../apply/yaml-text.ts');
      const named = file === undefined ? undefined : { path: resolve(terminal.cwd, file), name: file };
      const { content, text, warnings } = await withPipelineModule(({ effectivePipeline }) =>
        effectivePipeline(named, terminal.env),
      );
      const out = output();
      if (out.format === 'json') out.json(content);
      else terminal.stdout.write(text ?? toYaml(content));
      for (const warning of warnings) terminal.stderr.write(`warning: ${sanitizeLine(warning)}\n`);
    });
}
