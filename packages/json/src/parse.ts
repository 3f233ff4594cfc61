import { hasEscapedKey, readJson } from './reader.ts';

/**
 * `JSON.parse`, also right where V8's is not (see {@link hasEscapedKey}). For text from outside whose members decide
 * something. Throws a SyntaxError; texts without escaped keys cost one look for a backslash more.
 */
export function parseJson(text: string): unknown {
  const value: unknown = JSON.parse(text);
  return hasEscapedKey(text) ? readJson(text, Number) : value;
}

/** The same for text that may be anything: undefined when it is not JSON. */
export function tryParseJson(text: string): unknown {
  try {
    return parseJson(text);
  } catch {
    return undefined;
  }
}
