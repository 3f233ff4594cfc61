import type { ValidateFunction } from 'ajv';
import { isObject } from './document.ts';

/** What follows from the document for a body that is sent. */
export interface BodyVerdict {
  /**
   * `fits`: it is as the schema wants it. `refused`: it cannot be taken. `large`: it is over the limit. `none`: there is
   * none, or nobody reads it. `open`: the document does not say.
   */
  readonly kind: 'fits' | 'refused' | 'large' | 'open' | 'none';
  readonly because: string;
}

/** Levels of nesting that the document allows in a body. */
const DEEPEST = 256;

/** Holds the bytes of a body against its schema. */
export function verdictOnBody(bytes: Buffer, ambiguous: boolean, fits: ValidateFunction): BodyVerdict {
  if (ambiguous) return { kind: 'open', because: 'the body may be read in several ways' };
  let text: string;
  let value: unknown;
  try {
    text = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes);
    value = JSON.parse(text);
  } catch (error) {
    return { kind: 'refused', because: error instanceof SyntaxError ? 'no JSON' : 'no UTF-8' };
  }
  if (levelsOf(text) > DEEPEST) return { kind: 'refused', because: `nested deeper than ${DEEPEST} levels` };
  if (fits(value)) return { kind: 'fits', because: '' };
  const errors = fits.errors ?? [];
  // A format does not have to be insisted on (JSON Schema 2020-12, "Format-Annotation").
  if (errors.every(({ keyword }) => keyword === 'format')) return { kind: 'open', because: 'a format' };
  const [error] = errors;
  const because = `${error?.instancePath} ${error?.message}`;
  // Names and addresses are trimmed before they are looked at.
  return fits(trimmed(value)) ? { kind: 'open', because: 'blanks around texts' } : { kind: 'refused', because };
}

/** How deep arrays and objects of a JSON text stand in one another. */
function levelsOf(text: string): number {
  let [levels, most] = [0, 0];
  for (const [token] of text.matchAll(/"(?:[^"\\]|\\.)*"|[[{]|[\]}]/g)) {
    if (token === '[' || token === '{') most = Math.max(most, ++levels);
    else if (token === ']' || token === '}') levels--;
  }
  return most;
}

function trimmed(value: unknown): unknown {
  if (typeof value === 'string') return value.trim();
  if (Array.isArray(value)) return value.map(trimmed);
  if (!isObject(value)) return value;
  return Object.fromEntries(Object.entries(value).map(([key, member]) => [key, trimmed(member)]));
}
