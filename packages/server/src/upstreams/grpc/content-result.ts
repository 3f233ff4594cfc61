import { setImmediate as nextTurn } from 'node:timers/promises';
import type { JsonObject } from '@sluice/protocol/json/parse';
import type { Era } from '@sluice/protocol/mcp/constants';
import { resultText } from '@sluice/protocol/mcp/message';
import type { CallOutcome } from '../response-sink.ts';

/** Result that consists of the texts of a capability service, serialized when it is sent: it may be large. */
export interface ContentResult {
  /** JSON before the first block, of a block before its text, and after the last block. */
  readonly head: string;
  readonly block: string;
  readonly tail: string;
  readonly texts: readonly string[];
}

/** Characters from which on a result is serialized in steps, and of one step: a few milliseconds. */
const CHARACTERS_PER_STEP = 256 * 1024;
/** Cost of a block besides its text, which may be empty. */
export const BLOCK_CHARACTERS = 128;

/** Result of a tool call, with one text block per text. */
export function toolResult(era: Era, texts: readonly string[], isError: boolean): ContentResult {
  return contentResult(era, { content: [], isError }, { type: 'text' }, texts);
}

/** The outcome of a tool call that has failed. */
export function toolFailure(era: Era, { message }: Error): CallOutcome {
  return { kind: 'result', json: contentJson(toolResult(era, [message], true)) };
}

/** Result of reading a resource, with one text content per text. */
export function resourceResult(era: Era, uri: string, mimeType: string, texts: readonly string[]): ContentResult {
  // The modern era requires cache hints (2026-07-28, "Caching"): a result for one caller must not be cached.
  const hints: JsonObject = era === 'modern' ? { ttlMs: 0, cacheScope: 'private' } : {};
  return contentResult(era, { contents: [], ...hints }, { uri, mimeType }, texts);
}

/** `result` begins with the empty list of blocks, `block` has the members of each besides its text. */
function contentResult(era: Era, result: JsonObject, block: JsonObject, texts: readonly string[]): ContentResult {
  const json = resultText(era, result);
  const list = json.indexOf('[]') + 1;
  const members = JSON.stringify(block).slice(0, -1);
  return { head: json.slice(0, list), block: `${members},"text":`, tail: json.slice(list), texts };
}

/** Returns the outcome of a call with this result, which takes several turns of the event loop if it is large. */
export async function contentOutcome(result: ContentResult): Promise<CallOutcome> {
  if (!isLargeContent(result)) return { kind: 'result', json: contentJson(result) };
  const steps = contentBytes(result);
  let step = steps.next();
  while (!step.done) {
    await nextTurn();
    step = steps.next();
  }
  const before = [Buffer.from('{"jsonrpc":"2.0","id":')];
  const after = [Buffer.from(',"result":'), ...step.value, Buffer.from('}')];
  return { kind: 'large', bytes: { before, after }, value: { result: {} }, status: 200 };
}

/** True for a result that must be serialized in steps. */
export function isLargeContent({ block, texts }: ContentResult): boolean {
  let characters = 0;
  for (const { length } of texts) {
    characters += length + block.length + BLOCK_CHARACTERS;
    if (characters > CHARACTERS_PER_STEP) return true;
  }
  return false;
}

/** Returns a result as JSON. */
export function contentJson({ head, block, tail, texts }: ContentResult): string {
  return `${head}${texts.map((text) => `${block}${JSON.stringify(text)}}`).join(',')}${tail}`;
}

/** Serializes a large result, in steps of a few milliseconds. */
export function* contentBytes({ head, block, tail, texts }: ContentResult): Generator<void, Buffer[]> {
  const parts: Buffer[] = [];
  let json = head;
  let characters = 0;
  let separator = '';
  for (const text of texts) {
    json += `${separator}${block}"`;
    separator = ',';
    characters += block.length + BLOCK_CHARACTERS;
    for (let at = 0; ; ) {
      const end = stepEnd(text, at + Math.max(1, CHARACTERS_PER_STEP - characters));
      json += JSON.stringify(text.slice(at, end)).slice(1, -1);
      characters += end - at;
      at = end;
      if (characters >= CHARACTERS_PER_STEP) {
        parts.push(Buffer.from(json));
        json = '';
        characters = 0;
        yield;
      }
      // After the step, which empty texts need too.
      if (at === text.length) break;
    }
    json += '"}';
  }
  parts.push(Buffer.from(`${json}${tail}`));
  return parts;
}

/** Returns a position near this one that is not within a pair of surrogates, and not after the end. */
function stepEnd(text: string, at: number): number {
  if (at >= text.length) return text.length;
  const code = text.charCodeAt(at - 1);
  return code >= 0xd800 && code <= 0xdbff ? at + 1 : at;
}
