import fc from 'fast-check';
import { runs } from './arbitraries.ts';
import { ModelMismatch, run, Tally } from './run.ts';
import { shortened } from './shorten.ts';
import type { Step } from './step.ts';
import { TestSystem } from './test-system.ts';

export interface PropertyOptions {
  /** Runs at most, and steps of each at most. */
  readonly runs: number;
  readonly steps: number;
  /**
   * Milliseconds after which no further run starts, unless there were fewer than `atLeast` (default 1), or coverage is
   * missing.
   */
  readonly ms: number;
  readonly atLeast?: number;
  /** Whether the runs had the required coverage; true by default. */
  readonly enough?: (tally: Tally) => boolean;
  /** The same seed repeats the same runs. */
  readonly seed: number;
  /** Milliseconds for finding a shorter run that fails too (default 120000). */
  readonly shrinkMs?: number;
  readonly progress?: (tally: Tally) => void;
}

export interface PropertyResult {
  readonly tally: Tally;
  /** Undefined if service and model agreed; else a description of the shortest failing run. */
  readonly failure: string | undefined;
}

/**
 * Runs random sequences of management calls with restarts against the real service and the model. A failing run is
 * repeated and shortened.
 */
export async function checkModel(options: PropertyOptions): Promise<PropertyResult> {
  const { steps, ms, atLeast = 1, enough = () => true, seed, shrinkMs = 120_000, progress } = options;
  const tally = new Tally();
  const system = await TestSystem.start();
  try {
    const deadline = performance.now() + ms;
    const property = fc.asyncProperty(runs(steps), async (sequence) => {
      // fast-check's own time limit would abandon a run in progress.
      if (performance.now() > deadline && tally.runs >= atLeast && enough(tally)) return;
      await run(system, sequence, tally);
      progress?.(tally);
    });
    // A run takes a second, so shrinking uses knowledge about the failing run.
    const found = await fc.check(property, { seed, numRuns: options.runs, endOnFailure: true });
    const [failing] = found.counterexample ?? [];
    if (!failing) return { tally, failure: undefined };
    const shorter = await shortened(failing, (sequence) => failureOf(system, sequence), shrinkMs);
    const failure = shorter?.failure ?? `it did not fail when repeated\n${String(found.errorInstance)}`;
    return {
      tally,
      failure: `SEED=${seed} repeats these runs; number ${found.numRuns} failed, and so does:\n${failure}`,
    };
  } finally {
    await system.close();
  }
}

async function failureOf(system: TestSystem, steps: readonly Step[]): Promise<string | undefined> {
  try {
    await run(system, steps, new Tally());
    return undefined;
  } catch (error) {
    return error instanceof ModelMismatch ? error.message : String(error);
  }
}
