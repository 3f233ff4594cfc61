import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { ActionBuildError } from './action-build-error.ts';
import type { Bundle } from './bundle/bundle.ts';
import { engineFailure } from './engine-failure.ts';

const PACKAGE = '@bytecodealliance/componentize-js';

/** A component of a bundle with StarlingMonkey in it. Throws {@link ActionBuildError}. */
export async function starlingmonkey(bundle: Bundle, wit: string): Promise<Uint8Array> {
  const { componentize } = await componentizer();
  const folder = await mkdtemp(join(tmpdir(), 'sluice-action-'));
  try {
    const sourcePath = join(folder, 'action.js');
    await writeFile(sourcePath, bundle.code);
    const { component } = await componentize({
      sourcePath,
      witPath: wit,
      worldName: 'evaluator-action',
      // Of WASI an action has clocks alone; log and random numbers are seen to by what is around it.
      disableFeatures: ['stdio', 'random', 'http', 'fetch-event'],
    });
    return component;
  } catch (error) {
    throw await engineFailure(error, bundle);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

/** It is optional: 40 MB that few need. */
async function componentizer(): Promise<typeof import('@bytecodealliance/componentize-js')> {
  try {
    return await import('@bytecodealliance/componentize-js');
  } catch (error) {
    throw new ActionBuildError(
      [`the engine starlingmonkey needs the package ${PACKAGE}; install it: npm install --save-dev ${PACKAGE}@0.23`],
      { cause: error },
    );
  }
}
