import * as functions from 'service:evaluator/validation';
import { whenRunning } from './running.ts';
import { text } from './text.ts';

const host = whenRunning('validation', functions);

export function verifyLlmResult(raw: string): string {
  const result = text(raw, 'verifyLlmResult', 'result');
  try {
    return host.verifyLlmResult(result);
  } catch (error) {
    throw new Error(finding(error), { cause: error });
  }
}

/** One engine throws what is wrong as the message of an error, the other beside it, in an error of another realm. */
function finding(error: unknown): string {
  if (typeof error !== 'object' || error === null) return String(error);
  if ('payload' in error && typeof error.payload === 'string') return error.payload;
  return 'message' in error ? String(error.message) : String(error);
}
