import { isJsonObject } from '@sluice/protocol/json/parse';
import { isSameId } from './request-ids.ts';

/** What a response reveals about the session that its request was sent in. */
export type SessionVerdict =
  /** The upstream did not process the request, because it does not know the session. */
  | 'unknown'
  /** The upstream has processed the request, and names the loss of the session as its error. */
  | 'lost'
  /** The upstream rejected the request, perhaps because of the session: another request in it decides. */
  | 'uncertain'
  | 'known';

/** A response that is a failure; `value` is its parsed body. */
interface FailedResponse {
  readonly status: number;
  readonly value: unknown;
  /** The beginning of a body that may be no JSON. */
  readonly body: string;
  /** Whether the upstream may have processed the request nevertheless: then that must not be repeated. */
  readonly mayBeProcessed: boolean;
}

/** Words that say that a session is not valid. */
const REJECTING: ReadonlySet<string> = new Set([
  ...['no', 'invalid', 'missing', 'unknown', 'expired', 'required', 'unrecognized'],
]);
/** Words that say so after a negation. */
const NEGATED: ReadonlySet<string> = new Set(['valid', 'found', 'find', 'provided', 'exist', 'exists', 'recognized']);
const SESSION: ReadonlySet<string> = new Set(['session', 'sessionid']);
const NEGATIONS: ReadonlySet<string> = new Set(['not', 'cannot']);
/** Words that say so without a negation: a session that could not be closed is one of the upstream's business. */
const ENDED: ReadonlySet<string> = new Set(['terminated', 'closed', 'ended']);
/** Further words that a text of nothing else may have. */
const OTHERS: ReadonlySet<string> = new Set([
  ...['session', 'sessionid', 'id', 'mcp', 'header', 'transport', 'the', 'a', 'or', 'and', 'for', 'with', 'such'],
  ...['has', 'been', 'is', 'was', 'does', 'could', 'be', 'longer', 'please', 're', 'initialize', 'reinitialize'],
]);
const WORDS = REJECTING.union(NEGATED).union(NEGATIONS).union(ENDED).union(OTHERS);
const STATUS_PREFIX = /^(?:bad request|not found):\s*/i;
const ERROR_PREFIX = /^(?:invalid (?:params|request)|bad request|not found|gone|error):\s*/i;
/** A text that may be about the session of the request, or one of the upstream's business. */
const ABOUT_SESSION = /session|initiali[sz]/i;
const NOT_INITIALIZED = /^(?:session|server|client)? ?(?:is |was )?not (?:yet )?(?:been )?initialized[.!]?$/i;

/** What to do about an upstream that does not know the session that it has opened. */
export const LOST_SESSION_REMEDY = 'if it runs as several instances, route all requests of a session to the same one';

/** Statuses of proxies that are overloaded or cannot reach the server. */
const PROXY_STATUSES: ReadonlySet<number | undefined> = new Set([407, 429, 502, 503, 504]);

/** Whether a status comes from a proxy and says nothing about the server. */
export function isProxyStatus(status: number | undefined): boolean {
  return PROXY_STATUSES.has(status);
}

/**
 * Returns what a response to a request in a session reveals about the session. The protocol's status for an unknown session is
 * 404; many servers send 400 with a text. An upstream that has processed a request may say the same of a session of its own
 * business (a checkout, a browser), so only texts without any other word count, and only with these two statuses.
 */
export function sessionVerdict(
  { id, sessionId }: { readonly id: number | undefined; readonly sessionId: string | undefined },
  { status, value, body, mayBeProcessed }: FailedResponse,
): SessionVerdict {
  if (sessionId === undefined) return 'known';
  const isOwn = id !== undefined && isJsonObject(value) && isSameId(id, value.id);
  // Servers repeat the id of the session.
  const reason = rejectionText(value, body).replaceAll(sessionId, ' ').trim();
  const isRejected = () => isSessionRejection(reason.replace(STATUS_PREFIX, ''));
  if (status === 404 ? !isOwn || isRejected() : status === 400 && isRejected()) {
    return mayBeProcessed ? 'lost' : 'unknown';
  }
  const error = reason.replace(ERROR_PREFIX, '');
  if (status === 410 || NOT_INITIALIZED.test(error) || isSessionRejection(error)) return 'lost';
  if (isProxyStatus(status)) return 'known';
  // In other words, an upstream may say it too: otherwise, a session that it has lost would be used again and again.
  return status >= 400 || ABOUT_SESSION.test(reason) ? 'uncertain' : 'known';
}

/** Whether a text says that a session is not valid, and nothing else. */
function isSessionRejection(text: string): boolean {
  if (text.length > 200) return false;
  // Some servers send a code in place of a text: SessionNotFound, session_not_found.
  const separated = text.replaceAll(/([a-z])(?=[A-Z])/g, '$1 ');
  const words = separated.toLowerCase().match(/[a-z]+|[^\sa-z]/g) ?? [];
  if (words.some((word) => !WORDS.has(word) && !/^[-_.:;,!"'`()[\]]$/.test(word))) return false;
  const has = (some: ReadonlySet<string>) => words.some((word) => some.has(word));
  const isNegated = has(NEGATIONS);
  return has(SESSION) && (has(REJECTING) || has(isNegated ? NEGATED : ENDED));
}

/** Members of error bodies that may contain a text for people. */
const TEXT_MEMBERS: readonly string[] = ['error', 'message', 'detail', 'error_description', 'title'];
/** What web frameworks put beside the text: {"statusCode":400,"message":"Invalid session ID","error":"Bad Request"}. */
const STATUS_PHRASE = /^(?:error|bad request|not found)$/i;

/**
 * Returns the text of a rejection: that of the JSON-RPC error, else of a JSON body, else the body itself. `members` are those of
 * a JSON body that may contain it, in order.
 */
export function rejectionText(value: unknown, body: string, members: readonly string[] = TEXT_MEMBERS): string {
  if (!isJsonObject(value)) return body;
  const { error } = value;
  if (isJsonObject(error) && typeof error.message === 'string') return error.message;
  const texts = members.map((member) => value[member]).filter((text) => typeof text === 'string');
  return texts.find((text) => !STATUS_PHRASE.test(text)) ?? texts[0] ?? body;
}
