import { componentize } from 'componentize-qjs';
import type { Bundle } from './bundle/bundle.ts';
import { engineFailure } from './engine-failure.ts';

/** A component of a bundle with QuickJS in it. Throws `ActionBuildError`. */
export async function quickjs(bundle: Bundle, wit: string): Promise<Uint8Array> {
  try {
    const { component } = await componentize({
      witPath: wit,
      world: 'evaluator-action',
      jsSource: bundle.code,
      // The service calls `evaluate` and waits for nothing, and a small component starts sooner.
      sync: true,
      optSize: true,
      // With WASI stubbed, `Date.now()` ends the action.
      stubWasi: false,
    });
    return component;
  } catch (error) {
    throw await engineFailure(error, bundle);
  }
}
