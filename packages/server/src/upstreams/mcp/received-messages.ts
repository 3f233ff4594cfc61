import { isJsonObject, type JsonObject } from '@sluice/protocol/json/parse';
import { elements } from '@sluice/protocol/json/text';
import { detach } from '@sluice/protocol/text';
import type { LargeMessage } from './relay/large-message.ts';
import { isAnonymousId, isSameId } from './request-ids.ts';
import type { LargeMessageHandler } from './response-handler.ts';

/** Messages of an array, which are passed on in one turn of the event loop. */
const MAX_BATCH_MESSAGES = 5_000;

/** A response has more than is read of one; the message completes "answered tools/call with …". */
export class TooLargeError extends Error {
  override readonly name = 'TooLargeError';
}

/** Whether a message is the response to the request with this id. `anyId`: an error with any other id counts as well. */
export function isResponseTo(id: number | undefined, value: JsonObject, anyId = false): boolean {
  if (id === undefined || value.method !== undefined) return false;
  if (isSameId(id, value.id)) return 'result' in value || isJsonObject(value.error);
  if (!isJsonObject(value.error) || 'result' in value) return false;
  return anyId || isAnonymousId(value.id);
}

/**
 * Yields the messages of an array, as text and parsed. The texts are copies: a stream may store one, which must not retain the
 * whole array. Throws {@link TooLargeError}.
 */
export function* messagesIn(text: string, values: readonly unknown[]): Generator<readonly [string, unknown]> {
  const { length } = values;
  if (length > MAX_BATCH_MESSAGES) {
    throw new TooLargeError(`an array of ${length} messages: the limit is ${MAX_BATCH_MESSAGES}`);
  }
  let index = 0;
  for (const { start, end } of elements(text)) yield [detach(text.slice(start, end)), values[index++]];
}

/** Content that was received: its text, or a large message that need not be text, whose `value` has its known members. */
export interface ReceivedContent {
  readonly content: string | LargeMessage;
  readonly value: unknown;
}

/**
 * Returns the content of a complete large message: as text if it may have to be changed and can be parsed quickly, else as bytes.
 * Undefined if the handler has taken its parts. Throws {@link TooLargeError} for one that must be text and is too large for that.
 */
export function largeContent(
  large: LargeMessage,
  handler: LargeMessageHandler | undefined,
): ReceivedContent | undefined {
  const { value } = large;
  const response = isJsonObject(value) && value.method === undefined ? value : undefined;
  const use = handler ? handler.onComplete(response) : 'text';
  if (use === 'taken') return undefined;
  const mustBeText = use === 'text' || !response;
  const isText = value !== undefined && (mustBeText || response.error !== undefined);
  const parsed = isText ? large.parse() : undefined;
  if (typeof parsed === 'object') return { content: parsed.text, value: parsed.value };
  if (parsed !== undefined && mustBeText) {
    throw new TooLargeError(`a message that is too large to be parsed: ${parsed}`);
  }
  return { content: large, value };
}
