import * as log from 'service:evaluator/log';
import type { EvaluationContext } from 'service:evaluator/types';
import { ASYNC_EVALUATE, NOT_A_FUNCTION, startRun } from './host-calls.ts';
import { LogConsole } from './log-console.ts';
import { authorFrames } from './stack-frames.ts';

/**
 * Returns a replacement for `Math.random` (sfc32, not cryptographic). The engine's own state is part of the component, so
 * every run would get the same numbers, and an action that samples every tenth request would sample none or all.
 */
export function createRandom(seed: string): () => number {
  // FNV-1a of the seed, then of itself.
  let hash = 0x811c9dc5;
  for (let at = 0; at < seed.length; at++) hash = Math.imul(hash ^ seed.charCodeAt(at), 0x01000193);
  const [a, b, c] = [hash, Math.imul(hash ^ 1, 0x01000193), Math.imul(hash ^ 2, 0x01000193)];
  const state = new Int32Array([a, b, c, 1]);
  const next = () => {
    const [x = 0, y = 0, z = 0, count = 0] = state;
    const result = (x + y + count) | 0;
    state.set([y ^ (y >>> 9), (z + (z << 3)) | 0, (((z << 21) | (z >>> 11)) + result) | 0, count + 1]);
    return (result >>> 0) / 2 ** 32;
  };
  // The first numbers correlate with the seed.
  for (let at = 0; at < 12; at++) next();
  return next;
}

const lines = new LogConsole();
Reflect.set(globalThis, 'console', lines);

/** Globals of browsers and Node.js that QuickJS lacks. */
const MISSING = /\b(URL|URLSearchParams|TextEncoder|TextDecoder|structuredClone|crypto)\b/;

/** Returns the exported `evaluate`, or throws. Called during the build, so that the build fails instead of a request. */
export function checkAction(evaluate: unknown): unknown {
  if (typeof evaluate !== 'function') throw new TypeError(NOT_A_FUNCTION);
  if (evaluate.constructor.name === 'AsyncFunction') throw new TypeError(ASYNC_EVALUATE);
  return evaluate;
}

/**
 * Runs the action with a context that does not depend on the engine, and logs its error. Rethrows the error, because a
 * failed action must not be taken for one that passes the request.
 */
export function runAction(evaluate: unknown, context: EvaluationContext): void {
  startRun();
  lines.flush();
  Math.random = createRandom(seedOf(context));
  try {
    if (typeof evaluate !== 'function') throw new TypeError(NOT_A_FUNCTION);
    const { toolName, conversationId, ...rest } = context;
    // Engines differ in null and undefined for an absent option.
    const result: unknown = evaluate({
      ...rest,
      toolName: toolName ?? undefined,
      conversationId: conversationId ?? undefined,
    });
    if (result instanceof Promise) throw new TypeError(ASYNC_EVALUATE);
  } catch (error) {
    log.error(describeError(error));
    throw error;
  }
}

/** Returns a seed that differs between requests. Strings are truncated: a character costs an engine about 100 ns. */
function seedOf({ toolName, conversationId, llmResult, arguments: given }: EvaluationContext): string {
  const pairs = given.slice(0, 16).map(([name, value]) => `${name.slice(0, 64)} ${value.slice(0, 64)}`);
  const texts = [toolName, conversationId, llmResult.slice(0, 64), ...pairs];
  return [Date.now(), performance.now(), given.length, ...texts].join(' ');
}

/** Returns the log message of an error: a line that the service recognizes by its first word, and the stack frames. */
function describeError(error: unknown): string {
  if (!(error instanceof Error)) return `uncaught ${singleLine(String(error))}`;
  const missing = error instanceof ReferenceError && MISSING.test(error.message);
  const hint = missing ? ' (not available in QuickJS; build with --engine starlingmonkey)' : '';
  const frames = authorFrames(String(error.stack ?? ''));
  const position = frames[0] === undefined ? '' : `, at ${frames[0].position}`;
  const stack = frames.map(({ name, position }) => `\n    at ${name === '' ? position : `${name} (${position})`}`);
  return `uncaught ${error.name}: ${singleLine(String(error.message))}${hint}${position}${stack.join('')}`;
}

/** Shortens a message: the service reports the first 300 characters, which must include the position. */
function singleLine(text: string): string {
  const line = text.replace(/\s+/g, ' ').trim();
  return line.length > 200 ? `${line.slice(0, 197)}...` : line;
}
