import { isJsonObject, type JsonValue } from '@sluice/protocol/json/parse';

/** All texts of one event, in bytes of UTF-8 (decisions 6, 8). */
const MOST_BYTES = 16 * 1024;
/** Of how many texts they are at most: a short one takes more room than its bytes, and one without a character takes room. */
const MOST_TEXTS = 512;

/** The texts that a COMPLETED event tells, together at most 16 KiB, and 512 of them. */
export interface EventContent {
  readonly texts: readonly string[];
  /** There was more. */
  readonly truncated: boolean;
}

const NOTHING: EventContent = { texts: [], truncated: false };

/** The texts of a capability service's reply. */
export function contentOfTexts(texts: Iterable<string>): EventContent {
  const kept: string[] = [];
  let left = MOST_BYTES;
  for (const text of texts) {
    if (kept.length === MOST_TEXTS) return { texts: kept, truncated: true };
    // A text has at least as many bytes as characters, so that a long one need not be measured.
    const bytes = text.length > left ? text.length : Buffer.byteLength(text);
    if (bytes > left) {
      if (left > 0) kept.push(cutAtBytes(text, left));
      return { texts: kept, truncated: true };
    }
    kept.push(text);
    left -= bytes;
  }
  return { texts: kept, truncated: false };
}

/** The texts of an MCP result, which is not trusted to have the form that it should. */
export function contentOfResult(result: JsonValue | undefined): EventContent {
  if (!isJsonObject(result) || !Array.isArray(result.content)) return NOTHING;
  return contentOfTexts(textBlocks(result.content));
}

/** Whether an MCP result says that the tool failed. */
export function saysError(result: JsonValue | undefined): boolean {
  return isJsonObject(result) && result.isError === true;
}

function* textBlocks(blocks: readonly JsonValue[]): Generator<string> {
  for (const block of blocks) {
    if (isJsonObject(block) && block.type === 'text' && typeof block.text === 'string') yield block.text;
  }
}

/** The first bytes of a text that has more of them, without half a character at the end; a copy, which keeps no more alive. */
function cutAtBytes(text: string, most: number): string {
  const last = text.charCodeAt(most - 1);
  const bytes = Buffer.from(text.slice(0, last >= 0xd800 && last <= 0xdbff ? most - 1 : most));
  let end = Math.min(most, bytes.length);
  while (end > 0 && isContinuation(bytes[end])) end--;
  return bytes.toString('utf8', 0, end);
}

function isContinuation(byte: number | undefined): boolean {
  return byte !== undefined && (byte & 0xc0) === 0x80;
}
