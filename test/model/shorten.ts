import type { Step } from './step.ts';

/** A run that fails, and how. */
export interface Failing {
  readonly steps: readonly Step[];
  readonly failure: string;
}

/**
 * Shortens a failing run by omitting half of it, then quarters, then single steps, then single objects of upstreams,
 * while it still fails. `failureOf` runs steps and returns their failure. Undefined if the given run does not fail;
 * otherwise the best result within the time limit.
 */
export async function shortened(
  steps: readonly Step[],
  failureOf: (steps: readonly Step[]) => Promise<string | undefined>,
  ms: number,
): Promise<Failing | undefined> {
  const deadline = performance.now() + ms;
  const failure = await failureOf(steps);
  if (failure === undefined) return undefined;
  let best: Failing = { steps, failure };
  const attempt = async (fewer: readonly Step[]): Promise<boolean> => {
    const failure = performance.now() < deadline ? await failureOf(fewer) : undefined;
    if (failure !== undefined) best = { steps: fewer, failure };
    return failure !== undefined;
  };
  // Restarts cost more time than all the rest.
  await attempt(best.steps.filter((step) => step.kind !== 'restart'));
  for (let size = best.steps.length >> 1; size > 0; size = size === 1 ? 0 : (size + 1) >> 1) {
    // From the end: steps after the failure are removed first.
    for (let at = best.steps.length - size; at > -size; at -= size) {
      const from = Math.max(at, 0);
      await attempt(best.steps.toSpliced(from, at + size - from));
    }
  }
  for (const at of best.steps.keys()) {
    for (const list of ['tools', 'resources', 'templates', 'prompts'] as const) {
      const step = best.steps[at];
      if (step?.kind !== 'upstream' || typeof step.offers !== 'object') continue;
      for (const object of step.offers[list]) {
        const now = best.steps[at];
        if (now?.kind !== 'upstream' || typeof now.offers !== 'object') continue;
        const rest = now.offers[list].filter((other) => other !== object);
        await attempt(best.steps.with(at, { ...now, offers: { ...now.offers, [list]: rest } }));
      }
    }
  }
  return best;
}
