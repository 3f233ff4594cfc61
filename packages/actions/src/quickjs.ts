import { componentize } from 'componentize-qjs';
import { ActionBuildError } from './action-build-error.ts';
import { unusableEvaluate } from './unusable-evaluate.ts';

/** A component of one module with QuickJS in it. Throws {@link ActionBuildError}. */
export async function quickjs(source: string, wit: string): Promise<Uint8Array> {
  try {
    const { component } = await componentize({
      witPath: wit,
      world: 'evaluator-action',
      jsSource: source,
      // The service calls `evaluate` and waits for nothing, and a small component starts sooner.
      sync: true,
      optSize: true,
      // With WASI stubbed, `Date.now()` ends the action.
      stubWasi: false,
    });
    return component;
  } catch (error) {
    throw new ActionBuildError([reason(error)], { cause: error });
  }
}

/** Top-level code is all that runs while a component is made. */
function reason(error: unknown): string {
  const message = error instanceof Error ? error.message : String(error);
  const called = /unknown import: `(service:evaluator\/[\w-]+)#/.exec(message);
  if (called !== null) return `${called[1]} is called at the top level of a module; call it in evaluate`;
  const unusable = unusableEvaluate(message);
  if (unusable !== undefined) return unusable;
  const thrown = /module evaluation: (?:Error: )?([\s\S]+)$/.exec(message)?.[1] ?? message;
  return `the top level of a module failed: ${thrown.trim()}`;
}
