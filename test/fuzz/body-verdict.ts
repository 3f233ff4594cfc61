import type { ValidateFunction } from 'ajv';
import { isObject } from './document.ts';

/** Classification of a request body by the document. */
export interface BodyVerdict {
  /**
   * `valid`: it matches the schema. `invalid`: it must be rejected. `too-large`: it exceeds the limit. `none`: there is none,
   * or the operation does not read one. `unspecified`: the document does not determine it.
   */
  readonly kind: 'valid' | 'invalid' | 'too-large' | 'unspecified' | 'none';
  readonly reason: string;
}

/** Maximum nesting depth of a body in the document. */
const MAX_DEPTH = 256;

/** Classifies the bytes of a body by its schema. */
export function classifyBody(bytes: Buffer, ambiguous: boolean, validate: ValidateFunction): BodyVerdict {
  if (ambiguous) return { kind: 'unspecified', reason: 'the body is ambiguous' };
  let text: string;
  let value: unknown;
  try {
    text = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes);
    // Operations with an optional body take it for none.
    if (text.trim() === '') return { kind: 'unspecified', reason: 'the body is blank' };
    value = JSON.parse(text);
  } catch (error) {
    return { kind: 'invalid', reason: error instanceof SyntaxError ? 'not JSON' : 'not UTF-8' };
  }
  if (depthOf(text) > MAX_DEPTH) return { kind: 'invalid', reason: `nested deeper than ${MAX_DEPTH} levels` };
  if (validate(value)) return { kind: 'valid', reason: '' };
  const errors = validate.errors ?? [];
  // Formats need not be enforced (JSON Schema 2020-12, "Format-Annotation").
  if (errors.every(({ keyword }) => keyword === 'format')) return { kind: 'unspecified', reason: 'a format' };
  const [error] = errors;
  const reason = `${error?.instancePath} ${error?.message}`;
  // Names and addresses are trimStrings before validation.
  return validate(trimStrings(value))
    ? { kind: 'unspecified', reason: 'whitespace around strings' }
    : { kind: 'invalid', reason };
}

/** Nesting depth of a JSON text. */
function depthOf(text: string): number {
  let [depth, max] = [0, 0];
  for (const [token] of text.matchAll(/"(?:[^"\\]|\\.)*"|[[{]|[\]}]/g)) {
    if (token === '[' || token === '{') max = Math.max(max, ++depth);
    else if (token === ']' || token === '}') depth--;
  }
  return max;
}

function trimStrings(value: unknown): unknown {
  // Some strings are not trimmed: those are allowed to be blank.
  if (typeof value === 'string') return value.trim() || value;
  if (Array.isArray(value)) return value.map(trimStrings);
  if (!isObject(value)) return value;
  return Object.fromEntries(Object.entries(value).map(([key, member]) => [key, trimStrings(member)]));
}
