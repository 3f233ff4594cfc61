import { basename, dirname, extname, resolve } from 'node:path';
import type { ActionEngine } from '@sluice/actions/build';
import { counted } from '@sluice/protocol/text';
import { Command, Option } from 'commander';
import type { Context } from '../context.ts';
import { Failure } from '../failure.ts';
import { errorCode, errorReason } from '../files/system-error.ts';
import { testCommand } from './test-command.ts';

interface BuildOptions {
  readonly out?: string;
  readonly engine: ActionEngine;
}

const ENGINES: readonly ActionEngine[] = ['quickjs', 'starlingmonkey'];

/** `sluice action build`: builds a component from TypeScript or JavaScript. */
function buildCommand({ terminal, output }: Context): Command {
  return new Command('build')
    .description('Build a WebAssembly component from a TypeScript or JavaScript action')
    .argument('<entry>', 'Source file that exports evaluate')
    .option('-o, --out <file>', 'Output file (default: the entry name with .wasm, in the current folder)')
    .addOption(new Option('--engine <engine>', 'JavaScript engine to embed').choices(ENGINES).default(ENGINES[0]))
    .addHelpText(
      'after',
      `
Imported modules are bundled. Types are not checked; run tsc for that.

Example:
  sluice action build my-action.ts -o my-action.wasm`,
    )
    .action(async (entry: string, { out = `${basename(entry, extname(entry))}.wasm`, engine }: BuildOptions) => {
      const { ActionBuildError, buildAction } = await loadBuilder();
      const started = performance.now();
      const options = { entry: resolve(terminal.cwd, entry), output: resolve(terminal.cwd, out), engine };
      const component = await buildAction(options).catch((error: unknown) => {
        if (error instanceof ActionBuildError) {
          const { problems } = error;
          throw problems.length === 1
            ? new Failure(error.message, { cause: error })
            : new Failure(`${entry}: ${counted(problems.length, 'problem')}`, { notes: problems, cause: error });
        }
        const reason = errorCode(error) === 'ENOENT' ? `no such folder: ${dirname(out)}` : errorReason(error);
        throw new Failure(`${out}: ${reason ?? String(error)}`, { cause: error });
      });
      const ms = Math.round(performance.now() - started);
      output().done(
        { file: out, bytes: component.length, engine, duration_ms: ms },
        `${out}: ${(component.length / 1e6).toFixed(1)} MB, built with ${engine} in ${ms} ms`,
      );
    });
}

/** Loads the bundler and the engines, which takes time. */
async function loadBuilder(): Promise<typeof import('@sluice/actions/build')> {
  try {
    return await import('@sluice/actions/build');
  } catch (error) {
    if (errorCode(error) !== 'ERR_MODULE_NOT_FOUND') throw error;
    throw new Failure('the container image cannot build actions: install Sluice with npm for that', { cause: error });
  }
}

const ERROR_REASONS: ReadonlyMap<string, string> = new Map([
  ['EEXIST', 'a file with this name exists'],
  ['ENOENT', 'cannot create the folder'],
]);

/** `sluice action init`: creates a sample action. */
function initCommand({ terminal, output }: Context): Command {
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
      if (out.isStructured) return out.payload(files);
      for (const { name, written } of files) {
        out.done({}, `${written ? 'created' : 'skipped'} ${name}`);
      }
      const quoted = /^[\w./-]+$/.test(folder) ? folder : `'${folder.replaceAll("'", "'\\''")}'`;
      const steps = [
        ...(path === resolve(terminal.cwd) ? [] : [`cd ${quoted}`]),
        'sluice action build my-action.ts',
        'sluice action test my-action.wasm --context ctx.json',
        'sluice evaluators apply -f evaluator.yaml   (replaces ALL evaluators)',
      ];
      terminal.stderr.write(`\nnext: ${steps.join('\n      ')}\n`);
    });
}

/** `sluice action`: commands for authors of actions; none needs a service. */
export function actionCommand(context: Context): Command {
  return new Command('action')
    .description('Write, build and test evaluator actions')
    .addCommand(initCommand(context))
    .addCommand(buildCommand(context))
    .addCommand(testCommand(context));
}
