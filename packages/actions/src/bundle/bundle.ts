import { stat } from 'node:fs/promises';
import { isBuiltin } from 'node:module';
import { dirname, resolve } from 'node:path';
import { stripVTControlCharacters } from 'node:util';
import { type Plugin, type RolldownError, rolldown } from 'rolldown';
import {
  ENTRY_MODULE,
  exportedFunctions,
  INTERFACE_PREFIX,
  interfaceFile,
  interfaceNames,
  interfaceOfFile,
  isRuntimeFile,
  runtimeFile,
} from './interfaces.ts';
import { displayPath, importPosition, SourcePositions } from './source-positions.ts';

/** Failed build of an action. The message has one line per problem: `my-action.ts:3:10: …`. */
export class ActionBuildError extends Error {
  override name = 'ActionBuildError';
  readonly problems: readonly string[];

  constructor(problems: readonly string[], options?: ErrorOptions) {
    super(problems.join('\n'), options);
    this.problems = problems;
  }
}

const TYPES_MODULE = '\0types';

/** Resolves the imports of an action. Collects all problems, so that a build reports them together. */
export class ModuleResolver {
  readonly problems: string[] = [];
  /** All files read, including those of the runtime. */
  readonly files: string[] = [];
  readonly #entry: string;

  constructor(entry: string) {
    this.#entry = entry;
  }

  plugin(): Plugin {
    const entry = this.#entry;
    const { files } = this;
    const reject = async (source: string, importer: string | undefined, why: string) => {
      const problem = `${importer === undefined || source === entry ? displayPath(source) : await importPosition(source, importer)}: ${why}`;
      if (!this.problems.includes(problem)) this.problems.push(problem);
      return { id: source, external: true };
    };
    return {
      name: 'action-modules',
      async resolveId(source, importer) {
        if (source === ENTRY_MODULE) return ENTRY_MODULE;
        if (source.startsWith(INTERFACE_PREFIX)) {
          // Runtime files import the host interfaces; an action imports the runtime file that wraps them.
          if (importer !== undefined && isRuntimeFile(importer)) return { id: source, external: true };
          if (source === `${INTERFACE_PREFIX}types`) return TYPES_MODULE;
          const file = interfaceFile(source);
          if (file !== undefined) return file;
          return reject(
            source,
            importer,
            `unknown interface "${source}"; available interfaces: ${interfaceNames().join(', ')}`,
          );
        }
        const found = await this.resolve(source, importer, { skipSelf: true });
        // An installed package takes precedence over a Node.js module of the same name (events, buffer).
        if (found !== null && !found.external) return found;
        if (source === entry) return reject(source, importer, 'no such file');
        if (isBuiltin(source)) {
          return reject(source, importer, `Node.js module "${source}" is not available in actions`);
        }
        const reason = source.startsWith('.') ? 'no such file' : 'package is not installed';
        return reject(source, importer, `cannot import "${source}": ${reason}`);
      },
      load(id) {
        if (id === TYPES_MODULE) return 'export {};';
        if (id !== ENTRY_MODULE) {
          files.push(id);
          return null;
        }
        // The guard is imported first, because it defines `console` for the action's modules.
        return `
import { checkAction, runAction } from ${JSON.stringify(runtimeFile('guard.ts'))};
import { evaluate as exported } from ${JSON.stringify(entry)};
const action = checkAction(exported);
function guarded(context) { runAction(action, context); }
export { guarded as evaluate };
`;
      },
    };
  }
}

/** An action, its imports and the runtime, bundled into one module. */
export interface Bundle {
  /** Absolute path of the entry file. */
  readonly entry: string;
  readonly code: string;
  readonly positions: SourcePositions;
  /** Source files of the bundle. */
  readonly files: readonly string[];
}

/** Placeholder for the position table in `runtime/stack-frames.ts`. */
const TABLE_PLACEHOLDER = JSON.stringify('<positions>');

/** Bundles the action whose entry file has this absolute path. Throws {@link ActionBuildError}. */
export async function bundle(entry: string): Promise<Bundle> {
  // The bundler would look for an index file in it.
  if ((await stat(entry).catch(() => undefined))?.isDirectory()) {
    throw new ActionBuildError([`${displayPath(entry)}: is a folder; specify the file that exports evaluate`]);
  }
  const modules = new ModuleResolver(entry);
  const build = await rolldown({
    input: ENTRY_MODULE,
    // Neither Node.js nor a browser. ES modules are preferred to CommonJS.
    platform: 'neutral',
    resolve: { mainFields: ['module', 'main'], conditionNames: ['import', 'module', 'default'] },
    transform: { define: { 'process.env.NODE_ENV': '"production"' } },
    logLevel: 'silent',
    plugins: [modules.plugin()],
  });
  try {
    const { output } = await build.generate({
      format: 'esm',
      codeSplitting: false,
      comments: false,
      sourcemap: 'hidden',
      sourcemapPathTransform: (path, map) => resolve(dirname(map), path),
    });
    if (modules.problems.length > 0) throw new ActionBuildError(sortUnique(modules.problems));
    const [{ code, map }] = output;
    if (map === null) throw new Error('the bundler returned no source map');
    const positions = new SourcePositions(code, map);
    const table = JSON.stringify(positions.toTable(dirname(entry)));
    // No code of the action follows on the placeholder's line, so columns stay valid.
    return { entry, code: code.replace(TABLE_PLACEHOLDER, () => table), positions, files: modules.files };
  } catch (error) {
    if (!(error instanceof Error) || error instanceof ActionBuildError) throw error;
    const found = 'errors' in error && Array.isArray(error.errors) ? error.errors : [error];
    const problems = await Promise.all(found.map((one: RolldownError) => describeError(one, entry)));
    throw new ActionBuildError(sortUnique([...modules.problems, ...problems]), { cause: error });
  } finally {
    await build.close();
  }
}

/** Returns the problems without duplicates, sorted by position. */
function sortUnique(problems: readonly string[]): string[] {
  const { compare } = new Intl.Collator('en', { numeric: true });
  return [...new Set(problems)].sort(compare);
}

/** Returns an error of the bundler in one line with its position. */
async function describeError(error: RolldownError, entry: string): Promise<string> {
  const { code, exporter, id, loc } = error;
  // Drops the colors, the error code and the source excerpt.
  const [line = ''] = stripVTControlCharacters(error.message).split('\n');
  const message = line.replace(/^\[[A-Z_]+\] */, '').replace(/\.$/, '');
  if (code === 'MISSING_EXPORT' && id === ENTRY_MODULE) {
    return `${displayPath(entry)}: missing export "evaluate"; add: export function evaluate(ctx: EvaluationContext)`;
  }
  const position =
    loc === undefined
      ? displayPath(id ?? entry)
      : `${displayPath(loc.file ?? id ?? entry)}:${loc.line}:${loc.column + 1}`;
  const missing = code === 'MISSING_EXPORT' ? interfaceOfFile(exporter) : undefined;
  if (missing === undefined) return `${position}: ${message}`;
  const [name = ''] = /"[^"]*"/.exec(message) ?? [];
  return `${position}: ${missing} does not export ${name}; available: ${(await exportedFunctions(missing)).join(', ')}`;
}
