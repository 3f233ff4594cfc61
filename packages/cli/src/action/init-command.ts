import { resolve } from 'node:path';
import { Command } from 'commander';
import type { Context } from '../context.ts';
import { Failure } from '../failure.ts';
import { errorCode, errorReason } from '../files/system-error.ts';

const ERROR_REASONS: ReadonlyMap<string, string> = new Map([
  ['EEXIST', 'a file stands in its place'],
  ['ENOENT', 'no folder can be made there'],
]);

/** `sluice action init`: a folder to begin with. */
export function initCommand({ terminal, output }: Context): Command {
  return new Command('init')
    .description('Create a sample action and the files to test it')
    .argument('<folder>', 'Folder to create the files in; existing files are kept')
    .action(async (folder: string) => {
      const { initAction } = await import('@sluice/actions/init');
      const path = resolve(terminal.cwd, folder);
      const files = await initAction(path).catch((error: unknown) => {
        const code = errorCode(error);
        if (code === undefined) throw error;
        const reason = ERROR_REASONS.get(code) ?? errorReason(error);
        throw new Failure(`${folder}: ${reason}`, { cause: error });
      });
      const out = output();
      if (out.format === 'json') return out.json(files);
      for (const { name, written } of files) {
        out.done({}, `${written ? 'written' : 'kept   '} ${name}`);
      }
      const quoted = /^[\w./-]+$/.test(folder) ? folder : `'${folder.replaceAll("'", "'\\''")}'`;
      const steps = [
        ...(path === resolve(terminal.cwd) ? [] : [`cd ${quoted}`]),
        'sluice action build my-action.ts',
        'sluice action test my-action.wasm --context ctx.json',
        'sluice evaluators apply -f evaluator.yaml   (replaces ALL evaluators by those of the file)',
      ];
      terminal.stderr.write(`\nnext: ${steps.join('\n      ')}\n`);
    });
}
