import { rename, rm, stat, writeFile } from 'node:fs/promises';
import { resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { ActionBuildError, bundle } from './bundle/bundle.ts';
import { displayPath } from './bundle/source-positions.ts';
import { buildWithQuickjs, buildWithStarlingmonkey } from './engines.ts';

export { ActionBuildError } from './bundle/bundle.ts';

/** JavaScript engine of the component. */
export type ActionEngine = 'quickjs' | 'starlingmonkey';

/** Options of {@link buildAction}. */
export interface BuildActionOptions {
  /** TypeScript or JavaScript file that exports `evaluate`. */
  readonly entry: string;
  /** Output file of the component; not written if undefined. */
  readonly output?: string | undefined;
  /**
   * Default `quickjs`: 1.0 MB, 2 ms per request. `starlingmonkey` supports more browser APIs (`URL`, `TextEncoder`,
   * `structuredClone`) with 12 MB and 10 ms per request; it requires `@bytecodealliance/componentize-js`.
   */
  readonly engine?: ActionEngine | undefined;
}

/**
 * Builds a component from an action and its imports. Types are not checked. Top-level code runs during the build, and every run
 * starts from its result. Builds of the same source differ only in the engine's random seeds. Throws {@link ActionBuildError}.
 */
export async function buildAction({ entry, output, engine = 'quickjs' }: BuildActionOptions): Promise<Uint8Array> {
  const bundled = await bundle(resolve(entry));
  if (output !== undefined) await assertNotSource(bundled.files, resolve(output));
  const wit = fileURLToPath(new URL('../wit/evaluator.wit', import.meta.url));
  const component = await (engine === 'quickjs'
    ? buildWithQuickjs(bundled, wit)
    : buildWithStarlingmonkey(bundled, wit));
  if (output !== undefined) await writeAtomically(resolve(output), component);
  return component;
}

/** Throws if the output would overwrite a source file, even through a link. */
async function assertNotSource(files: readonly string[], output: string): Promise<void> {
  const existing = await stat(output, { bigint: true }).catch(() => undefined);
  if (existing === undefined) return;
  for (const file of files) {
    const source = await stat(file, { bigint: true }).catch(() => undefined);
    if (source?.ino !== existing.ino || source.dev !== existing.dev) continue;
    throw new ActionBuildError([
      `${displayPath(output)}: output would overwrite a source file of the action; specify another output`,
    ]);
  }
}

/** Replaces the file atomically for concurrent readers. */
async function writeAtomically(path: string, component: Uint8Array): Promise<void> {
  const temporary = `${path}.${process.pid}.tmp`;
  try {
    await writeFile(temporary, component);
    await rename(temporary, path);
  } catch (error) {
    await rm(temporary, { force: true });
    throw error;
  }
}
