import type { IncomingHttpHeaders } from 'node:http';
import type { TargetLogger } from './log.ts';
import { attributeText, cutName } from './metrics/instruments.ts';
import type { Subject } from './request-telemetry.ts';

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

/** A client can send as many as it likes, and is not to fill the log with them. */
const WARN_EVERY_MS = 60_000;

/** Warns of ids that are too long to be used (decisions 4.7, "Correlation"), at most once a minute. */
export class LongIds {
  readonly #log: TargetLogger;
  readonly #now: () => number;
  #quietUntil = Number.NEGATIVE_INFINITY;

  /** `now`: milliseconds of a clock that only goes forwards. */
  constructor(log: TargetLogger, now: () => number = () => performance.now()) {
    this.#log = log;
    this.#now = now;
  }

  /** Looks at the headers of a request that calls this tool. */
  look(headers: IncomingHttpHeaders, tool: string): void {
    const header = idTooLong(headers);
    if (header === undefined || this.#now() < this.#quietUntil) return;
    this.#quietUntil = this.#now() + WARN_EVERY_MS;
    this.#log.warn(`${header} has more than 256 bytes: it is ignored; send a shorter one`, { tool });
  }
}

/** Longer ones are cut: what is told is for finding, not for keeping. */
const LONGEST = 1_024;

/**
 * What is told of a request's target: its path as the client sent it. Never its query, nor what stands before the path of
 * one that is absolute: either may hold credentials.
 */
export function loggablePath(target: string): string {
  return beforeQuery(target.startsWith('/') ? target : target.replace(/^[a-z][a-z\d+.-]*:\/\/[^/?#]*/i, ''));
}

/** What is told of the uri of a resource: neither its query nor its user and password. */
export function toldUri(uri: string): string {
  return beforeQuery(uri.replace(/^([a-z][a-z\d+.-]*:\/\/)[^/?#]*@/i, '$1'));
}

function beforeQuery(text: string): string {
  const end = text.search(/[?#]/);
  return (end === -1 ? text : text.slice(0, end)).slice(0, LONGEST);
}

/** Longer ones are cut: what is told is for finding, not for keeping. */
const LONGEST_METHOD = 1_024;

/**
 * What is told of what a request is about. Its name may be one that an upstream has chosen, megabytes long: it is cut at
 * 256 characters, and is not a piece of the whole, which would be kept with it.
 */
export function redactedSubject(subject: Subject): Subject {
  const { kind, name } = subject;
  return cutName(name).length === name.length ? subject : { kind, name: attributeText(name) };
}

/** What is told of the method of a message, which clients may have made up. */
export function toldMethod(method: string): string {
  return method.slice(0, LONGEST_METHOD);
}

/**
 * The user as the authenticating proxy passes it (mcp 3); undefined without such a proxy. Where both headers name one and
 * differ, the client may have sent the one that its proxy does not set: then it is neither of the two.
 */
export function userOf(headers: IncomingHttpHeaders): string | undefined {
  const { 'x-forwarded-user': forwarded, 'x-auth-request-user': requested } = headers;
  if (forwarded === undefined || requested === undefined || forwarded === requested) {
    return (forwarded ?? requested)?.toString();
  }
  return JSON.stringify([forwarded, requested]);
}
