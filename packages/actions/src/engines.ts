import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { componentize } from 'componentize-qjs';
import { ActionBuildError, type Bundle } from './bundle/bundle.ts';
import { displayPath, evaluatePosition } from './bundle/source-positions.ts';
import { ASYNC_EVALUATE, NOT_A_FUNCTION } from './runtime/host-calls.ts';

/** Stack frame in the bundle, in the format of either engine. */
const FRAME = /\b(?:user|action)\.js:(\d+):(\d+)/g;

const TOO_EARLY = /service:evaluator\/[\w-]+ must not be called at the top level of a module; call it in evaluate/;

/**
 * Converts an engine's error to a build error with the position in the source files. Only top-level code runs during a
 * build, including the check of `evaluate`.
 */
async function toBuildError(cause: unknown, { positions, entry }: Bundle): Promise<ActionBuildError> {
  const message = cause instanceof Error ? cause.message : String(cause);
  const violated = [ASYNC_EVALUATE, NOT_A_FUNCTION].find((rule) => message.includes(`: ${rule}`));
  if (violated !== undefined) return new ActionBuildError([`${await evaluatePosition(entry)}: ${violated}`], { cause });
  let position: string | undefined;
  for (const [, line, column] of message.matchAll(FRAME))
    position ??= positions.positionOf(Number(line), Number(column));
  return new ActionBuildError([`${position ?? displayPath(entry)}: ${describeFailure(message)}`], { cause });
}

function describeFailure(message: string): string {
  const [early] = TOO_EARLY.exec(message) ?? [];
  if (early !== undefined) return early;
  // QuickJS labels the error, StarlingMonkey puts it after the position.
  const thrown =
    /module evaluation: (?:Error: )?([\s\S]+?)(?:\n +at |$)/.exec(message)?.[1] ??
    /top-level script\n(?:action\.js:\S+ )?(?:Error: )?(.+)/.exec(message)?.[1];
  const summary = thrown === undefined ? 'cannot create the component' : 'module initialization failed';
  const line = (thrown ?? message).replace(/\s+/g, ' ').replace(/^[: ]+/, '');
  return `${summary}: ${line.trim()}`;
}

/** Returns a component with the bundle and QuickJS. Throws {@link ActionBuildError}. */
export async function buildWithQuickjs(bundle: Bundle, wit: string): Promise<Uint8Array> {
  try {
    const { component } = await componentize({
      witPath: wit,
      world: 'evaluator-action',
      jsSource: bundle.code,
      // `evaluate` is synchronous, and a small component starts faster.
      sync: true,
      optSize: true,
      // `Date.now()` traps with stubbed WASI.
      stubWasi: false,
    });
    return component;
  } catch (error) {
    throw await toBuildError(error, bundle);
  }
}

const PACKAGE = '@bytecodealliance/componentize-js';

/** Returns a component with the bundle and StarlingMonkey. Throws {@link ActionBuildError}. */
export async function buildWithStarlingmonkey(bundle: Bundle, wit: string): Promise<Uint8Array> {
  const { componentize } = await importComponentize();
  const folder = await mkdtemp(join(tmpdir(), 'sluice-action-'));
  try {
    const sourcePath = join(folder, 'action.js');
    await writeFile(sourcePath, bundle.code);
    const { component } = await componentize({
      sourcePath,
      witPath: wit,
      worldName: 'evaluator-action',
      // The runtime provides log and random numbers; the only WASI feature needed is clocks.
      disableFeatures: ['stdio', 'random', 'http', 'fetch-event'],
    });
    return component;
  } catch (error) {
    throw await toBuildError(error, bundle);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

/** Imports the optional package (40 MB). */
async function importComponentize(): Promise<typeof import('@bytecodealliance/componentize-js')> {
  try {
    return await import('@bytecodealliance/componentize-js');
  } catch (error) {
    throw new ActionBuildError(
      [`engine starlingmonkey requires ${PACKAGE}; run: npm install --save-dev ${PACKAGE}@0.23`],
      { cause: error },
    );
  }
}
