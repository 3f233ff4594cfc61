import { isUtf8 } from 'node:buffer';
import { JsonOutline } from './json-outline.ts';

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

/** The body that a value is, as JSON. */
export function jsonBody(value: object): StoredBody | undefined {
  const bytes = bytesOf(JSON.stringify(value));
  const outline = new JsonOutline();
  outline.write(bytes);
  return storedBody(bytes, false, outline);
}

function asUtf8(bytes: Buffer): Buffer {
  return isUtf8(bytes) ? bytes : bytesOf(bytes.toString());
}

/** `Buffer.from` would cut small ones from a shared buffer. */
function bytesOf(text: string): Buffer {
  const bytes = Buffer.allocUnsafeSlow(Buffer.byteLength(text));
  bytes.write(text);
  return bytes;
}

/** How many bytes there are without a character at the end that is not all there. */
function wholeCharacters(bytes: Buffer): number {
  let at = bytes.length;
  while (at > 0 && bytes.length - at < 3 && ((bytes[at - 1] ?? 0) & 0xc0) === 0x80) at--;
  const lead = bytes[at - 1] ?? 0;
  const length = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : lead >= 0xc0 ? 2 : 1;
  return at > 0 && at - 1 + length > bytes.length ? at - 1 : bytes.length;
}
