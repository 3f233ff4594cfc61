import type { IncomingHttpHeaders } from 'node:http';
import type { Served } from '../identity/active-identity.ts';

/** What relates a request to others: ids of the client, and where it was made. */
export interface Correlation {
  readonly conversationId: string | undefined;
  readonly requestId: string | undefined;
  /** Name of the first header whose id is ignored because it is too long. */
  readonly oversizedHeader?: string | undefined;
  /** Set for a request of the console. */
  readonly via?: 'console' | undefined;
}

/** Returns what the listener serves that a request for MCP came to. */
export function servedOf({ via }: Pick<Correlation, 'via'>): Served {
  return via === 'console' ? 'management' : 'mcp';
}

/** Node.js reads headers as Latin-1, one character per byte. */
const MAX_ID_BYTES = 256;

/**
 * Returns the ids of a request: the conversation id is `x-conversation-id`, else `x-request-id`. Ids that are empty or have more
 * than 256 bytes are ignored.
 */
export function correlationOf(headers: IncomingHttpHeaders, via?: Correlation['via']): Correlation {
  const { 'x-conversation-id': conversation, 'x-request-id': request } = headers;
  const requestId = validId(request);
  return {
    conversationId: validId(conversation) ?? requestId,
    requestId,
    oversizedHeader: isOversized(conversation)
      ? 'x-conversation-id'
      : isOversized(request)
        ? 'x-request-id'
        : undefined,
    via,
  };
}

function validId(value: string | string[] | undefined): string | undefined {
  return typeof value === 'string' && value !== '' && value.length <= MAX_ID_BYTES ? value : undefined;
}

function isOversized(value: string | string[] | undefined): boolean {
  return (value?.length ?? 0) > MAX_ID_BYTES;
}
