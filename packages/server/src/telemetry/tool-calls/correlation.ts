import type { IncomingHttpHeaders } from 'node:http';

/** Ids that let others find a tool call again. */
export interface Correlation {
  readonly conversationId: string | undefined;
  readonly requestId: string | undefined;
}

/** Node reads headers as Latin-1, a character a byte. */
const MOST_BYTES = 256;

/**
 * The ids that a request carries: the conversation's is `x-conversation-id`, else `x-request-id`, else the one that its
 * namespace is bound to (decisions 4.7, "Correlation"). Ids that are empty or have more than 256 bytes are none.
 */
export function correlationOf(headers: IncomingHttpHeaders, bound?: string): Correlation {
  const requestId = idIn(headers['x-request-id']);
  return { conversationId: idIn(headers['x-conversation-id']) ?? requestId ?? bound, requestId };
}

function idIn(value: string | string[] | undefined): string | undefined {
  return typeof value === 'string' && value !== '' && value.length <= MOST_BYTES ? value : undefined;
}
