import { type ComponentTools, checkInterface } from './interface-check.ts';
import { checkSize } from './limits.ts';
import { walkComponent } from './walk.ts';

/** What judging a component takes from outside. */
export interface Measure {
  readonly tools: ComponentTools;
  /** The text of the WIT package `service:evaluator`. */
  readonly wit: string;
}

/**
 * Judges a component before glue is made of it (spec "Evaluator processing rules", decisions 4.9): its size, every name
 * and number in it, its validity, its imports and exports. Throws `ComponentRefusal`, whose message names what is wrong
 * and the remedy. Function bodies are left to WebAssembly.
 */
export function judgeComponent(bytes: Uint8Array, measure: Measure): void {
  checkSize(bytes);
  walkComponent(bytes);
  checkInterface(bytes, measure.tools, measure.wit);
}
