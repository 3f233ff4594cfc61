import { stat } from 'node:fs/promises';
import { dirname, resolve } from 'node:path';
import { stripVTControlCharacters } from 'node:util';
import { type RolldownError, rolldown } from 'rolldown';
import { ActionBuildError } from '../action-build-error.ts';
import { ActionModules } from './action-modules.ts';
import { ENTRY, interfaceOf, namesOf } from './interfaces.ts';
import { Origins } from './origins.ts';
import { shown } from './place.ts';

/** One module of an action and all that it imports, around what every action needs. */
export interface Bundle {
  /** An absolute path. */
  readonly entry: string;
  readonly code: string;
  readonly origins: Origins;
  /** The files that it was made of. */
  readonly files: readonly string[];
}

/** What stands in `runtime/places.ts` for the table of places. */
const PLACES = JSON.stringify('<places>');

/** `entry` is an absolute path. Throws {@link ActionBuildError}. */
export async function bundle(entry: string): Promise<Bundle> {
  // The bundler would look for an index in it.
  if ((await stat(entry).catch(() => undefined))?.isDirectory()) {
    throw new ActionBuildError([`${shown(entry)}: it is a folder; name the file that exports evaluate`]);
  }
  const modules = new ActionModules(entry);
  const build = await rolldown({
    input: ENTRY,
    // Neither Node.js nor a browser. Packages are taken as modules where they can be had so.
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
    if (modules.problems.length > 0) throw new ActionBuildError(sorted(modules.problems));
    const [{ code, map }] = output;
    if (map === null) throw new Error('the bundler has made no source map');
    const origins = new Origins(code, map);
    const table = JSON.stringify(origins.table(dirname(entry)));
    // Behind it in its line comes nothing of the author's.
    return { entry, code: code.replace(PLACES, () => table), origins, files: modules.files };
  } catch (error) {
    if (!(error instanceof Error) || error instanceof ActionBuildError) throw error;
    const found = 'errors' in error && Array.isArray(error.errors) ? error.errors : [error];
    const problems = await Promise.all(found.map((one: RolldownError) => problem(one, entry)));
    throw new ActionBuildError(sorted([...modules.problems, ...problems]), { cause: error });
  } finally {
    await build.close();
  }
}

/** Each once, by place. */
function sorted(problems: readonly string[]): string[] {
  const { compare } = new Intl.Collator('en', { numeric: true });
  return [...new Set(problems)].sort(compare);
}

/** What the bundler says, in one line that names the place. */
async function problem(error: RolldownError, entry: string): Promise<string> {
  const { code, exporter, id, loc } = error;
  // Without colours, its own code and the piece of source that it draws.
  const [line = ''] = stripVTControlCharacters(error.message).split('\n');
  const message = line.replace(/^\[[A-Z_]+\] */, '').replace(/\.$/, '');
  if (code === 'MISSING_EXPORT' && id === ENTRY) {
    return `${shown(entry)}: there is no export "evaluate"; write: export function evaluate(ctx: EvaluationContext)`;
  }
  const place =
    loc === undefined ? shown(id ?? entry) : `${shown(loc.file ?? id ?? entry)}:${loc.line}:${loc.column + 1}`;
  const missing = code === 'MISSING_EXPORT' ? interfaceOf(exporter) : undefined;
  if (missing === undefined) return `${place}: ${message}`;
  const [name = ''] = /"[^"]*"/.exec(message) ?? [];
  return `${place}: ${missing} has no ${name}; it has ${(await namesOf(missing)).join(', ')}`;
}
