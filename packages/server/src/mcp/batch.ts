import { isJsonObject } from '@sluice/json/lossless';
import { elements } from '@sluice/json/scan';
import type { Malformed } from './message.ts';
import { INVALID_REQUEST } from './protocol.ts';

/** A JSON-RPC batch: several messages in one body, which only sessions of 2025-03-26 may send (mcp 6). */
export interface Batch {
  readonly kind: 'batch';
  /** The exact text of each element. What stands in it is judged when its turn comes. */
  readonly messages: readonly string[];
  /** True when an element is, or was meant to be, a request: then there are responses to send. */
  readonly asks: boolean;
}

/** All of them are under way at the same time. */
const MAX_MESSAGES = 100;

/** Cuts a batch into its messages; `value` is the parsed `text`. */
export function parseBatch(text: string, value: readonly unknown[]): Batch | Malformed {
  if (value.length === 0) return malformedBatch('invalid request: an empty batch');
  if (value.length > MAX_MESSAGES) {
    return malformedBatch(`invalid request: ${value.length} messages in a batch, at most ${MAX_MESSAGES} are accepted`);
  }
  const messages: string[] = [];
  for (const { start, end } of elements(text)) messages.push(text.slice(start, end));
  return { kind: 'batch', messages, asks: value.some(asks) };
}

function asks(element: unknown): boolean {
  return isJsonObject(element) && typeof element.method === 'string' && 'id' in element;
}

function malformedBatch(message: string): Malformed {
  return { kind: 'malformed', code: INVALID_REQUEST, message, idText: 'null' };
}
