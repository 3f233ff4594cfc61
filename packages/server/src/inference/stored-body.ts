import { isUtf8 } from 'node:buffer';
import type { StoredBody } from './interaction-store.ts';

/** Deeper bodies are stored as text: many JSON parsers fail on them. */
const MAX_JSON_DEPTH = 256;

/** What is known about bytes that may be JSON. */
export interface JsonState {
  readonly isComplete: boolean;
  /** Depth of the deepest array or object. */
  readonly maxDepth: number;
}

/**
 * Returns the body for its stored bytes; a truncated one ends at the last whole character. Invalid UTF-8 becomes replacement
 * characters (parsed JSON, else a string, else null).
 */
export function toStoredBody(
  bytes: Buffer | undefined,
  isTruncated: boolean,
  { isComplete, maxDepth }: JsonState,
): StoredBody | undefined {
  if (bytes === undefined) return undefined;
  if (isTruncated) return { isJson: false, bytes: toUtf8(bytes.subarray(0, wholeCharacterBytes(bytes))) };
  return { isJson: isComplete && maxDepth <= MAX_JSON_DEPTH, bytes: toUtf8(bytes) };
}

/**
 * Returns the body for a value, as JSON. If that exceeds `limit` bytes, the body is its beginning, as text, like all truncated
 * bodies. `maxDepth`: upper bound of the depth of the value.
 */
export function toJsonBody(value: object, maxDepth: number, limit: number): { body: StoredBody; isTruncated: boolean } {
  const text = JSON.stringify(value);
  const size = Buffer.byteLength(text);
  // `Buffer.from` would slice small buffers from a shared one. `write` writes whole characters only.
  const bytes = Buffer.allocUnsafeSlow(Math.min(size, limit));
  const written = bytes.write(text);
  const isTruncated = size > limit;
  const isJson = !isTruncated && maxDepth <= MAX_JSON_DEPTH;
  return { body: { isJson, bytes: bytes.subarray(0, written) }, isTruncated };
}

function toUtf8(bytes: Buffer): Buffer {
  if (isUtf8(bytes)) return bytes;
  const text = bytes.toString();
  const replaced = Buffer.allocUnsafeSlow(Buffer.byteLength(text));
  replaced.write(text);
  return replaced;
}

/** Number of bytes without an incomplete character at the end. */
function wholeCharacterBytes(bytes: Buffer): number {
  let at = bytes.length;
  while (at > 0 && bytes.length - at < 3 && ((bytes[at - 1] ?? 0) & 0xc0) === 0x80) at--;
  const lead = bytes[at - 1] ?? 0;
  const length = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : lead >= 0xc0 ? 2 : 1;
  return at > 0 && at - 1 + length > bytes.length ? at - 1 : bytes.length;
}
