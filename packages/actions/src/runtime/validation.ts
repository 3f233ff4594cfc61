import * as functions from 'service:evaluator/validation';
import { guardHostFunctions, requireString } from './host-calls.ts';

const host = guardHostFunctions('validation', functions);

export function verifyLlmResult(raw: string): string {
  const result = requireString(raw, 'verifyLlmResult', 'result');
  try {
    return host.verifyLlmResult(result);
  } catch (error) {
    throw new Error(validationMessage(error), { cause: error });
  }
}

/** Returns the validation error. One engine throws it as an error's message, the other as its `payload`. */
function validationMessage(error: unknown): string {
  if (typeof error !== 'object' || error === null) return String(error);
  if ('payload' in error && typeof error.payload === 'string') return error.payload;
  return 'message' in error ? String(error.message) : String(error);
}
