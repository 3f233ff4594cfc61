/**
 * How a request to an upstream can fail.
 *
 * - `refused`: no connection came about (refused, name unknown, TLS, no answer to connecting in time); nothing was sent
 * - `timeout`: the answer did not come within the caller's own deadline
 * - `dropped`: the connection or the event stream ended before the answer was complete
 * - `redirect`: the upstream answered with a redirect, which is not followed (mcp 4)
 * - `http`: an HTTP status that is not an answer of MCP; see `status`
 * - `session-lost`: the upstream no longer knows the session; it takes a new `initialize`
 * - `rpc`: a JSON-RPC error where only a result will do; see `code` and `data`
 * - `invalid`: an answer that cannot be read as HTTP, JSON, JSON-RPC or MCP
 * - `too-large`: an answer over the limit
 * - `aborted`: ended from our side
 */
export type UpstreamFailure =
  | 'refused'
  | 'timeout'
  | 'dropped'
  | 'redirect'
  | 'http'
  | 'session-lost'
  | 'rpc'
  | 'invalid'
  | 'too-large'
  | 'aborted';

/**
 * A failed request to an upstream. The message names the address and what happened, ready to be shown behind the
 * forward's name: `upstream http://127.0.0.1:4110/mcp refused the connection (ECONNREFUSED)`.
 */
export class UpstreamError extends Error {
  override readonly name = 'UpstreamError';
  readonly kind: UpstreamFailure;
  /** The upstream's address without credentials and query. */
  readonly address: string;
  /** HTTP status, when there was an answer. */
  readonly status: number | undefined;
  /** JSON-RPC error code, when the answer carried one. */
  readonly code: number | undefined;
  /** Parsed `data` of that error. */
  readonly data: unknown;

  /** `what` completes the sentence that begins with the upstream's address. */
  constructor(
    kind: UpstreamFailure,
    address: string,
    what: string,
    details: { status?: number; code?: number; data?: unknown; cause?: unknown } = {},
  ) {
    super(`upstream ${address} ${what}`, details.cause === undefined ? undefined : { cause: details.cause });
    this.kind = kind;
    this.address = address;
    this.status = details.status;
    this.code = details.code;
    this.data = details.data;
  }
}

/** The address as it may be shown: without user, password, query and fragment, where credentials may stand. */
export function displayAddress(url: URL): string {
  return `${url.origin}${url.pathname}`;
}

/** Text of an upstream as it may stand in a message of ours: one line of at most 300 characters. */
export function quoted(text: string): string {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what is taken out
  const line = text.replace(/[\u0000-\u001f\u007f-\u009f\u2028\u2029]+/g, ' ').trim();
  return line.length > 300 ? `${line.slice(0, 300)}…` : line;
}

/**
 * An answer that is not strict HTTP/1.1. Nothing after it on its connection can be trusted. The message is a reason of
 * ours, without anything that the upstream sent.
 */
export class MalformedResponse extends Error {
  override readonly name = 'MalformedResponse';
  /** `too-large`: more bytes of head or trailers than are accepted. */
  readonly kind: 'invalid' | 'too-large';

  constructor(reason: string, kind: 'invalid' | 'too-large' = 'invalid') {
    super(reason);
    this.kind = kind;
  }
}

/** Failures to connect that say nothing about the other side. */
const OURS: ReadonlySet<string> = new Set(['EMFILE', 'ENFILE', 'ENOBUFS', 'ENOMEM', 'EADDRNOTAVAIL']);

/** Sorts what ended a connection by what it means for its call. `sent`: whether the upstream may have the request. */
export function connectionFailure(address: string, cause: Error, sent: boolean): UpstreamError {
  if (cause instanceof MalformedResponse) {
    const what =
      cause.kind === 'too-large'
        ? 'answered with more header bytes than are accepted'
        : `did not answer in HTTP/1.1: ${cause.message}`;
    return new UpstreamError(cause.kind, address, what, { cause });
  }
  const code = 'code' in cause && typeof cause.code === 'string' ? cause.code : cause.message;
  if (sent) {
    const what = `closed the connection before the answer was complete (${code})`;
    return new UpstreamError('dropped', address, what, { cause });
  }
  if (OURS.has(code)) {
    const what = `could not be connected to: there are no more connections to be had here (${code})`;
    return new UpstreamError('aborted', address, what, { cause });
  }
  let what = `could not be connected to (${code}: ${cause.message})`;
  if (code === 'ECONNREFUSED') what = 'refused the connection (ECONNREFUSED)';
  if (code === 'ENOTFOUND' || code === 'EAI_AGAIN') what = `has a host name that cannot be resolved (${code})`;
  return new UpstreamError('refused', address, what, { cause });
}

/** No connection in the time there is for it. */
export function connectTimeout(address: string, afterMs: number): UpstreamError {
  return new UpstreamError('refused', address, `accepted no connection within ${afterMs / 1000} s`);
}

/** No answer in the time there is for its first byte. */
export function answerTimeout(address: string, afterMs: number): UpstreamError {
  return new UpstreamError('timeout', address, `began no answer within ${afterMs / 1000} s`);
}

/** A request whose body is not what it said; `how` completes "its body …". */
export function bodyFailure(address: string, how: string): UpstreamError {
  return new UpstreamError('aborted', address, `was not sent the whole request: its body ${how}`);
}

/** A request that cannot be written. */
export function unsendable(address: string, cause: Error): UpstreamError {
  return new UpstreamError('invalid', address, `cannot be sent this request: ${cause.message}`, { cause });
}

/** A request to an upstream whose connections were given up. */
export function noLongerInUse(address: string): UpstreamError {
  return new UpstreamError('aborted', address, 'is no longer in use: the request was ended');
}

/** An answer that leads elsewhere; only the origin of the place is shown. */
export function redirected(address: string, status: number, location: string | string[] | undefined): UpstreamError {
  const target =
    typeof location === 'string' && URL.canParse(location, address) ? new URL(location, address) : undefined;
  const where = target === undefined ? 'without saying where to' : `to ${target.origin}`;
  const what = `redirects ${where} (HTTP ${status}), which is not followed: register the address it means`;
  return new UpstreamError('redirect', address, what, { status });
}
