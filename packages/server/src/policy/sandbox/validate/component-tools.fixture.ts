import { Script } from 'node:vm';
import { loadJco } from '../compiling/jco.ts';
import { evaluatorWit } from '../fixtures/evaluator-wit.ts';
import { validateComponent } from './interface.ts';

/** jco's tools, loaded as in the compiler process. */
export const tools = await loadJco();

/** Validates a component against the world of actions. */
export function validate(bytes: Uint8Array): void {
  validateComponent(bytes, tools, evaluatorWit);
}

/** Glue that jco generates from a component, without validation. */
export function glueOf(bytes: Uint8Array): string {
  const [, glue] = tools.generate(bytes).find(([name]) => name === 'action.js') ?? [];
  return Buffer.from(glue ?? []).toString();
}

/** Compiles glue without running it. */
export function parsed(glue: string): Script {
  return new Script(glue.replace('export function', 'function').replace('export const', 'const'));
}
