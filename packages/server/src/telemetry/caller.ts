import type { IncomingHttpHeaders } from 'node:http';
import type { TargetLogger } from './log.ts';
import { boundedName } from './redaction.ts';

/** Identity of the caller of one request, from its headers. */
export interface CallerIdentity extends Correlation {
  /** The user that an authenticating proxy names; undefined without such a proxy. */
  readonly user: string | undefined;
  /** Name of a header whose id is ignored because it is too long. */
  readonly oversizedHeader: string | undefined;
}

/** Ids that relate a request to others. */
export interface Correlation {
  readonly conversationId: string | undefined;
  readonly requestId: string | undefined;
}

/** Node.js reads headers as Latin-1, one character per byte. */
const MAX_ID_BYTES = 256;

/** Returns the identity of the caller. */
export function callerOf(headers: IncomingHttpHeaders): CallerIdentity {
  const { 'x-forwarded-user': forwarded, 'x-auth-request-user': requested } = headers;
  const requestId = validId(headers['x-request-id']);
  return {
    conversationId: validId(headers['x-conversation-id']) ?? requestId,
    requestId,
    user:
      forwarded === undefined || requested === undefined
        ? (forwarded ?? requested)?.toString()
        : userOf(forwarded, requested),
    oversizedHeader: oversizedIdHeader(headers),
  };
}

/**
 * Returns the ids of a request: the conversation id is `x-conversation-id`, else `x-request-id` (decisions 4.7,
 * "Correlation"). Ids that are empty or have more than 256 bytes are ignored.
 */
export function correlationOf(headers: IncomingHttpHeaders): Correlation {
  const requestId = validId(headers['x-request-id']);
  return { conversationId: validId(headers['x-conversation-id']) ?? requestId, requestId };
}

function validId(value: string | string[] | undefined): string | undefined {
  return typeof value === 'string' && value !== '' && value.length <= MAX_ID_BYTES ? value : undefined;
}

/**
 * Returns the user if both headers name one (mcp 3). If they differ, the client may have sent the one that its proxy does
 * not set: both values are returned, which equals neither user.
 */
function userOf(forwarded: string | string[], requested: string | string[]): string {
  return forwarded === requested ? forwarded.toString() : JSON.stringify([forwarded, requested]);
}

/** Returns the name of the first header with an id that is too long. */
export function oversizedIdHeader(headers: IncomingHttpHeaders): string | undefined {
  if ((headers['x-conversation-id']?.length ?? 0) > MAX_ID_BYTES) return 'x-conversation-id';
  return (headers['x-request-id']?.length ?? 0) > MAX_ID_BYTES ? 'x-request-id' : undefined;
}

/** Clients must not be able to fill the log. */
const WARNING_INTERVAL_MS = 60_000;

/** Logs a warning about ids that are too long (decisions 4.7, "Correlation"), at most once a minute. */
export class OversizedIdWarner {
  readonly #log: TargetLogger;
  readonly #now: () => number;
  #suppressedUntil = Number.NEGATIVE_INFINITY;

  /** `now` returns the milliseconds of a monotonic clock. */
  constructor(log: TargetLogger, now: () => number = () => performance.now()) {
    this.#log = log;
    this.#now = now;
  }

  /** Logs the header of a request that calls this tool. */
  warn(header: string, tool: string): void {
    if (this.#now() < this.#suppressedUntil) return;
    this.#suppressedUntil = this.#now() + WARNING_INTERVAL_MS;
    this.#log.warn(`${header} has more than 256 bytes and is ignored`, { tool: boundedName(tool) });
  }
}
