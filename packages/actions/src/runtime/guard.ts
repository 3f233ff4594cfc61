import * as log from 'service:evaluator/log';
import type { EvaluationContext } from 'service:evaluator/types';
import { LogConsole } from './log-console.ts';
import { placesOf } from './places.ts';
import { randomOf } from './random.ts';
import { begin } from './running.ts';
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
  begin();
  lines.begin();
  Math.random = randomOf(seedOf(context));
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

/** What differs from request to request; a long text's beginning, since each character costs an engine some 100 ns. */
function seedOf({ toolName, conversationId, llmResult, arguments: given }: EvaluationContext): string {
  const pairs = given.slice(0, 16).map(([name, value]) => `${name.slice(0, 64)} ${value.slice(0, 64)}`);
  const texts = [toolName, conversationId, llmResult.slice(0, 64), ...pairs];
  return [Date.now(), performance.now(), given.length, ...texts].join(' ');
}

/**
 * What is told of an error: what it is and where, in a line that the service recognizes by its first word (`host/inside.ts`),
 * and the author's frames of its stack.
 */
function explained(error: unknown): string {
  if (!(error instanceof Error)) return `uncaught ${inLine(String(error))}`;
  const missing = error instanceof ReferenceError && MISSING.test(error.message);
  const remedy = missing ? ' (QuickJS has not got it: build with --engine starlingmonkey)' : '';
  const frames = placesOf(String(error.stack ?? ''));
  const where = frames[0] === undefined ? '' : `, at ${frames[0].place}`;
  const stack = frames.map(({ called, place }) => `\n    at ${called === '' ? place : `${called} (${place})`}`);
  return `uncaught ${error.name}: ${inLine(String(error.message))}${remedy}${where}${stack.join('')}`;
}

/** The service tells the first line, in 300 characters: where it happened has to be in there. */
function inLine(text: string): string {
  const line = text.replace(/\s+/g, ' ').trim();
  return line.length > 200 ? `${line.slice(0, 197)}...` : line;
}
