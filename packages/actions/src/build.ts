import { rename, rm, stat, writeFile } from 'node:fs/promises';
import { resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { ActionBuildError } from './action-build-error.ts';
import { bundle } from './bundle/bundle.ts';
import { shown } from './bundle/place.ts';
import { quickjs } from './quickjs.ts';
import { starlingmonkey } from './starlingmonkey.ts';

export { ActionBuildError } from './action-build-error.ts';

/** The JavaScript engine that goes into the component. */
export type ActionEngine = 'quickjs' | 'starlingmonkey';

/** Settings of {@link buildAction}. */
export interface ActionBuild {
  /** The file that exports `evaluate`, TypeScript or JavaScript. */
  readonly entry: string;
  /** Where the component is written; without it, nowhere. */
  readonly output?: string | undefined;
  /**
   * `quickjs` by default: 1.0 MB, and 2 ms per request. `starlingmonkey` has more of what browsers have (`URL`,
   * `TextEncoder`, `structuredClone`) for 12 MB and 10 ms; it needs `@bytecodealliance/componentize-js`.
   */
  readonly engine?: ActionEngine | undefined;
}

/**
 * Makes a component of an action and all that it imports (spec "Host functions available to actions"). Types are not
 * checked: `tsc` does that. The top level of the modules runs now, and the component begins where it has ended. Two
 * builds of one source are equal but for what the engine has drawn by lot. Throws {@link ActionBuildError}.
 */
export async function buildAction({ entry, output, engine = 'quickjs' }: ActionBuild): Promise<Uint8Array> {
  const bundled = await bundle(resolve(entry));
  if (output !== undefined) await spare(bundled.files, resolve(output));
  const wit = fileURLToPath(new URL('../wit/evaluator.wit', import.meta.url));
  const component = await (engine === 'quickjs' ? quickjs(bundled, wit) : starlingmonkey(bundled, wit));
  if (output !== undefined) await replace(resolve(output), component);
  return component;
}

/** Throws when the component would be written in place of a file that it is made of, whatever name that goes by. */
async function spare(files: readonly string[], output: string): Promise<void> {
  const there = await stat(output, { bigint: true }).catch(() => undefined);
  if (there === undefined) return;
  for (const file of files) {
    const source = await stat(file, { bigint: true }).catch(() => undefined);
    if (source?.ino !== there.ino || source.dev !== there.dev) continue;
    throw new ActionBuildError([
      `${shown(output)}: the action is made of this file; name another one for the component`,
    ]);
  }
}

/** Whoever reads the file meanwhile sees the old component or the new one. */
async function replace(path: string, component: Uint8Array): Promise<void> {
  const draft = `${path}.${process.pid}.tmp`;
  try {
    await writeFile(draft, component);
    await rename(draft, path);
  } catch (error) {
    await rm(draft, { force: true });
    throw error;
  }
}
