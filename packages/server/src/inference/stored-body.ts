import { isUtf8 } from 'node:buffer';
import type { JsonOutline } from './json-outline.ts';

/** A body as it is kept: its bytes, in a buffer of their own and not as a view of a larger one. They are UTF-8. */
export interface StoredBody {
  /** The bytes are JSON; else they are text. */
  readonly isJson: boolean;
  readonly bytes: Buffer;
}

/** Bodies nested deeper are kept as text: many readers of JSON fail on them. */
const DEEPEST = 256;

/**
 * Makes a body of its first bytes: of all of them, or, where it was cut, of those up to the last whole character. Bytes
 * that are no UTF-8 become replacement characters (decisions 2.9: parsed JSON, else a string, else null).
 */
export function storedBody(bytes: Buffer | undefined, cut: boolean, outline: JsonOutline): StoredBody | undefined {
  if (bytes === undefined) return undefined;
  if (cut) return { isJson: false, bytes: asUtf8(bytes.subarray(0, wholeCharacters(bytes))) };
  const isJson = outline.complete && outline.deepest <= DEEPEST;
  return { isJson, bytes: asUtf8(isJson ? bytes.subarray(outline.markBytes) : bytes) };
}

/**
 * The body that a value is, as JSON. Where that has more than `limit` bytes, the body is the beginning of it, as a text,
 * as it is of all bodies that are cut (decisions 4.8). `deepest`: how deeply the value is nested, at most.
 */
export function jsonBody(value: object, deepest: number, limit: number): { body: StoredBody; cut: boolean } {
  const text = JSON.stringify(value);
  const size = Buffer.byteLength(text);
  // `Buffer.from` would cut small ones from a shared buffer. Characters that are not all in it are not written.
  const bytes = Buffer.allocUnsafeSlow(Math.min(size, limit));
  const written = bytes.write(text);
  const cut = size > limit;
  return { body: { isJson: !cut && deepest <= DEEPEST, bytes: bytes.subarray(0, written) }, cut };
}

function asUtf8(bytes: Buffer): Buffer {
  if (isUtf8(bytes)) return bytes;
  const text = bytes.toString();
  const replaced = Buffer.allocUnsafeSlow(Buffer.byteLength(text));
  replaced.write(text);
  return replaced;
}

/** How many bytes there are without a character at the end that is not all there. */
function wholeCharacters(bytes: Buffer): number {
  let at = bytes.length;
  while (at > 0 && bytes.length - at < 3 && ((bytes[at - 1] ?? 0) & 0xc0) === 0x80) at--;
  const lead = bytes[at - 1] ?? 0;
  const length = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : lead >= 0xc0 ? 2 : 1;
  return at > 0 && at - 1 + length > bytes.length ? at - 1 : bytes.length;
}
