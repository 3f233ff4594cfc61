import { type ComponentTools, checkInterface } from './interface-check.ts';
import { checkSize } from './limits.ts';
import { type Anatomy, walkComponent } from './walk.ts';

/** What judging a component takes from outside. */
export interface Measure {
  readonly tools: ComponentTools;
  /** The text of the WIT package `service:evaluator`. */
  readonly wit: string;
}

/** A component of which glue may be made. */
export type Judgement = Anatomy;

/**
 * Judges a component before glue is made of it (spec "Evaluator processing rules", decisions 4.9): its size, every name
 * and number in it, its validity, its imports and exports. Throws `ComponentRefusal`, whose message names what is wrong
 * and the remedy. Function bodies are left to WebAssembly.
 */
export function judgeComponent(bytes: Uint8Array, measure: Measure): Judgement {
  checkSize(bytes);
  const anatomy = walkComponent(bytes);
  checkInterface(bytes, measure.tools, measure.wit);
  return anatomy;
}
