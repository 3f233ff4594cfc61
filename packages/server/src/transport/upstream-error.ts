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
