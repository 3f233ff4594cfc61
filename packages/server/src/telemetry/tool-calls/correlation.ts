import type { IncomingHttpHeaders } from 'node:http';

/** Ids that let others find a tool call again. */
export interface Correlation {
  readonly conversationId: string | undefined;
  readonly requestId: string | undefined;
}

/** Node reads headers as Latin-1, a character a byte. */
const MOST_BYTES = 256;

/**
 * The ids that a request carries: the conversation's is `x-conversation-id`, else `x-request-id` (decisions 4.7,
 * "Correlation"). Ids that are empty or have more than 256 bytes are none.
 */
export function correlationOf(headers: IncomingHttpHeaders): Correlation {
  const requestId = idIn(headers['x-request-id']);
  return { conversationId: idIn(headers['x-conversation-id']) ?? requestId, requestId };
}

/** The first header of the request that carries an id too long to be used. */
export function idTooLong(headers: IncomingHttpHeaders): string | undefined {
  if (isTooLong(headers['x-conversation-id'])) return 'x-conversation-id';
  return isTooLong(headers['x-request-id']) ? 'x-request-id' : undefined;
}

function isTooLong(value: string | string[] | undefined): boolean {
  return value !== undefined && value.length > MOST_BYTES;
}

function idIn(value: string | string[] | undefined): string | undefined {
  return typeof value === 'string' && value !== '' && !isTooLong(value) ? value : undefined;
}
