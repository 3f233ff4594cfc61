import { ASYNC, NO_FUNCTION } from './runtime/unusable.ts';

/**
 * What an engine says of an action whose `evaluate` cannot be used, without the engine's words around it; undefined for
 * any other failure. It is found out while the component is made, so it looks like a failure of the top level.
 */
export function unusableEvaluate(message: string): string | undefined {
  return [ASYNC, NO_FUNCTION].find((problem) => message.includes(`: ${problem}`));
}
