import type { IncomingHttpHeaders } from 'node:http';

/** Ids that let others find a tool call again. */
export interface Correlation {
  readonly conversationId: string | undefined;
  readonly requestId: string | undefined;
}

/** Node reads headers as Latin-1, a character a byte. */
const MOST_BYTES = 256;

const ID_HEADERS = ['x-conversation-id', 'x-request-id'] as const;

/**
 * The ids that a request carries: the conversation's is `x-conversation-id`, else `x-request-id`, else the one that its
 * namespace is bound to (decisions 4.7, "Correlation"). Ids that are empty or have more than 256 bytes are none.
 */
export function correlationOf(headers: IncomingHttpHeaders, bound?: string): Correlation {
  const requestId = idIn(headers['x-request-id']);
  return { conversationId: idIn(headers['x-conversation-id']) ?? requestId ?? bound, requestId };
}

/** The headers of the request that carry an id too long to be used. */
export function idsTooLong(headers: IncomingHttpHeaders): readonly string[] {
  return ID_HEADERS.filter((name) => (headers[name]?.length ?? 0) > MOST_BYTES);
}

function idIn(value: string | string[] | undefined): string | undefined {
  return typeof value === 'string' && value !== '' && value.length <= MOST_BYTES ? value : undefined;
}
