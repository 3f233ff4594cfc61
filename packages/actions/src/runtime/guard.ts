import * as log from 'service:evaluator/log';
import type { EvaluationContext } from 'service:evaluator/types';
import { LogConsole } from './log-console.ts';
import { randomOf } from './random.ts';
import { ASYNC, NO_FUNCTION } from './unusable.ts';

const lines = new LogConsole();
Reflect.set(globalThis, 'console', lines);

/** Names that browsers and Node.js have, and QuickJS has not. */
const MISSING = /\b(URL|URLSearchParams|TextEncoder|TextDecoder|structuredClone|crypto)\b/;

/**
 * What is exported as `evaluate`, when it can be: called while the action is built, so that the build fails and not the
 * first request.
 */
export function checked(evaluate: unknown): unknown {
  if (typeof evaluate !== 'function') throw new TypeError(NO_FUNCTION);
  if (evaluate.constructor.name === 'AsyncFunction') throw new TypeError(ASYNC);
  return evaluate;
}

/**
 * What the component exports, around what the author wrote: one shape of the context whatever the engine, and failures
 * that can be read in the log. An action that fails must not pass for one that has nothing to say, so it throws again.
 */
export function run(evaluate: unknown, context: EvaluationContext): void {
  lines.begin();
  Math.random = randomOf(`${Date.now()} ${performance.now()} ${JSON.stringify(context)}`);
  try {
    if (typeof evaluate !== 'function') throw new TypeError(NO_FUNCTION);
    const { toolName, conversationId, ...given } = context;
    // One engine says null of what is not there, the other undefined.
    const result: unknown = evaluate({
      ...given,
      toolName: toolName ?? undefined,
      conversationId: conversationId ?? undefined,
    });
    if (result instanceof Promise) throw new TypeError(ASYNC);
  } catch (error) {
    log.error(explained(error));
    throw error;
  }
}

function explained(error: unknown): string {
  if (!(error instanceof Error)) return `uncaught: ${String(error)}`;
  const missing = error instanceof ReferenceError && MISSING.test(error.message);
  const remedy = missing ? ' (QuickJS has not got it: build with --engine starlingmonkey)' : '';
  return `uncaught ${error.name}: ${error.message}${remedy}\n${error.stack ?? ''}`.trimEnd();
}
