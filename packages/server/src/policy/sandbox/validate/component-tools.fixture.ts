import { Script } from 'node:vm';
import { loadTools } from '../compiling/tools.ts';
import { evaluatorWit } from '../fixtures/evaluator-wit.ts';
import { validateComponent } from './types.ts';

/** jco's tools, loaded as the compiling process does. */
export const tools = await loadTools();

/** Judges a component by the world of actions. */
export function judged(bytes: Uint8Array): void {
  validateComponent(bytes, { tools, wit: evaluatorWit });
}

/** JavaScript that jco makes of a component, whatever is in it. */
export function glueOf(bytes: Uint8Array): string {
  const [, glue] = tools.generate(bytes).find(([name]) => name === 'action.js') ?? [];
  return Buffer.from(glue ?? []).toString();
}

/** Compiles glue without running it. */
export function parsed(glue: string): Script {
  return new Script(glue.replace('export function', 'function').replace('export const', 'const'));
}
