import { singleLine } from '@sluice/protocol/text';
import { MalformedMessage } from '../message-parser.ts';
import { canOpenFiles } from '../open-files.ts';
import { type EgressProxy, ProxyError } from './egress-proxies.ts';

/**
 * Kinds of failed upstream requests.
 *
 * - `refused`: no connection (refused, unknown host name, TLS error, connect timeout), or headers without their secrets;
 *   nothing was sent
 * - `timeout`: no response within the caller's deadline
 * - `dropped`: the connection or event stream ended before the end of the response
 * - `redirect`: a redirect that is not followed
 * - `http`: an HTTP status that is not a response of MCP; see `status`
 * - `session-lost`: the upstream no longer knows the session; a new `initialize` is required
 * - `rpc`: a JSON-RPC error where a result is required; see `code` and `data`
 * - `invalid`: a response that is not valid HTTP, JSON, JSON-RPC or MCP
 * - `too-large`: a response beyond the limit
 * - `aborted`: canceled by the service
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

const UNAVAILABLE: ReadonlySet<UpstreamFailure> = new Set(['refused', 'timeout', 'dropped', 'session-lost']);

/**
 * A failed request to an upstream. The message contains the address and the reason, to be used after the name of the
 * forward: `upstream http://127.0.0.1:4110/mcp refused the connection (ECONNREFUSED)`.
 */
export class UpstreamError extends Error {
  override readonly name = 'UpstreamError';
  readonly kind: UpstreamFailure;
  /** The upstream's address without credentials and query. */
  readonly address: string;
  /** Predicate of the message, without the remedy. */
  readonly what: string;
  /** HTTP status, if there was a response. */
  readonly status: number | undefined;
  /** JSON-RPC error code, if the response contains one. */
  readonly code: number | undefined;
  /** Parsed `data` of the JSON-RPC error. */
  readonly data: unknown;
  /** What to do about it: the end of the message, after a semicolon. */
  readonly remedy: string | undefined;

  /** `what` is the predicate of the message, whose subject is the upstream. */
  constructor(kind: UpstreamFailure, address: string, what: string, details: FailureDetails = {}) {
    const { status, code, data, remedy, cause } = details;
    const end = remedy === undefined ? '' : `; ${remedy}`;
    super(`upstream ${address} ${what}${end}`, cause === undefined ? undefined : { cause });
    this.kind = kind;
    this.address = address;
    this.what = what;
    this.status = status;
    this.code = code;
    this.data = data;
    this.remedy = remedy;
  }

  /** The same failure with another message and without its cause. */
  withMessage(what: string, remedy: string | undefined): UpstreamError {
    const { kind, address, status, code, data } = this;
    return new UpstreamError(kind, address, what, { status, code, data, remedy });
  }

  /** True if the upstream could not be reached or did not respond in time, or a proxy in front of it reports that. */
  get isUnavailable(): boolean {
    return UNAVAILABLE.has(this.kind) || (this.kind === 'http' && this.status !== undefined && this.status >= 500);
  }
}

interface FailureDetails extends Partial<Pick<UpstreamError, 'status' | 'code' | 'data' | 'remedy'>> {
  readonly cause?: unknown;
}

/** Returns an address for messages: without user, password, query and fragment, which may contain credentials. */
export function displayAddress(url: URL): string {
  return `${url.origin}${url.pathname}`;
}

const MAX_TEXT_LENGTH = 300;

/** Returns text of an upstream for a message: one line of at most 300 characters. */
export function quoted(text: string): string {
  return singleLine(text, MAX_TEXT_LENGTH);
}

/** Connect errors with a local cause. */
const LOCAL_ERRORS: ReadonlySet<string> = new Set(['EMFILE', 'ENFILE', 'ENOBUFS', 'ENOMEM', 'EADDRNOTAVAIL']);

/** Returns the error of a call that did not get through its proxy; nothing was sent to the upstream. */
export function proxyFailure(address: string, cause: ProxyError): UpstreamError {
  return new UpstreamError('refused', address, `is unreachable: ${cause.problem}`, { cause, remedy: cause.remedy });
}

/** Returns the error of a connection to a proxy. */
export function proxyConnectionFailure(address: string, proxy: EgressProxy, cause: Error): UpstreamError {
  const code = codeOf(cause);
  // A problem of this machine.
  if (LOCAL_ERRORS.has(code)) return connectionFailure(address, cause, false);
  return proxyFailure(address, new ProxyError(proxy, connectProblem(code, cause).what, { cause }));
}

function codeOf(cause: Error): string {
  return 'code' in cause && typeof cause.code === 'string' ? cause.code : cause.message;
}

/** Explains a failed connection. */
function connectProblem(code: string, cause: Error): EndpointProblem {
  if (code === 'ECONNREFUSED') {
    const remedy =
      'check that it runs and listens on this address and port, and not only on the loopback of its container';
    return { what: 'refused the connection (ECONNREFUSED)', remedy };
  }
  if (code === 'ENOTFOUND' || code === 'EAI_AGAIN') {
    const remedy = 'check the host of the address, and the name server of this machine or container';
    return { what: `has a host name that cannot be resolved (${code})`, remedy };
  }
  const certificate = certificateProblem(code);
  if (certificate !== undefined) {
    return { what: `is unreachable: its certificate ${certificate.what} (${code})`, remedy: certificate.remedy };
  }
  // The message of OpenSSL names places in its source.
  if (/^ERR_SSL_|^EPROTO$/.test(code)) return { what: `does not establish TLS (${code})`, remedy: PLAIN_REMEDY };
  const isHandshake = /before secure TLS connection/.test(cause.message);
  if (isHandshake) return { what: `closed the connection instead of establishing TLS (${code})`, remedy: PLAIN_REMEDY };
  const remedy = 'check the address, and that firewalls and network policies let this machine connect';
  return { what: `is unreachable (${code}: ${cause.message})`, remedy };
}

const PLAIN_REMEDY = 'check that this port uses TLS, else use an http:// address';

/** Returns the error of a call whose connection failed. `sent`: the upstream may have received the request. */
export function connectionFailure(address: string, cause: Error, sent: boolean): UpstreamError {
  if (cause instanceof MalformedMessage) {
    const [what, remedy] =
      cause.kind === 'too-large'
        ? ['sent a response head beyond the limit', 'have it send fewer and shorter headers']
        : [`sent an invalid HTTP/1.1 response: ${cause.message}`, PROTOCOL_REMEDY];
    return new UpstreamError(cause.kind, address, what, { cause, remedy });
  }
  const code = codeOf(cause);
  if (sent) {
    const what = `closed the connection before the end of the response (${code})`;
    return new UpstreamError('dropped', address, what, { cause, remedy: DROPPED_REMEDY });
  }
  if (LOCAL_ERRORS.has(code)) {
    const what = `is unreachable: no local sockets available (${code})`;
    return new UpstreamError('aborted', address, what, { cause });
  }
  // A lookup that cannot open files reports an unknown name.
  if ((code === 'ENOTFOUND' || code === 'EAI_AGAIN') && !canOpenFiles()) return noSocket(address);
  const { what, remedy } = connectProblem(code, cause);
  return new UpstreamError('refused', address, what, { cause, remedy });
}

const PROTOCOL_REMEDY = 'check that this is the port of an HTTP server, and use https:// if it requires TLS';
const DROPPED_REMEDY = 'see the log of the upstream, and use https:// if this port requires TLS';

/** No connection, because this process may not open another one. */
export function noSocket(address: string): UpstreamError {
  return new UpstreamError('aborted', address, 'is unreachable: no local sockets available (limit of open files)');
}

/** Connect timeout. */
export function connectTimeout(address: string, afterMs: number): UpstreamError {
  const remedy = 'check the address, and that no firewall or network policy drops the packets';
  return new UpstreamError('refused', address, `did not accept a connection within ${afterMs / 1000} s`, { remedy });
}

/** Request to an upstream whose transport was closed. */
export function transportClosed(address: string): UpstreamError {
  return new UpstreamError('aborted', address, 'is no longer used: the request was canceled');
}

/** Request that was aborted by this signal, whose reason may be an {@link UpstreamError} itself. */
export function abortError(address: string, signal: AbortSignal | undefined): UpstreamError {
  const cause: unknown = signal?.reason;
  if (cause instanceof UpstreamError) return cause;
  return new UpstreamError('aborted', address, 'did not answer before the request was canceled', { cause });
}

/** Why a server or its certificate cannot be used, as a predicate of it, and what to do. */
interface EndpointProblem {
  readonly what: string;
  readonly remedy: string;
}

const TRUST = 'and restart Sluice';

/** By the codes of Node.js and OpenSSL, whose messages are for those who know them. */
const PROBLEMS: Readonly<Record<string, EndpointProblem>> = {
  DEPTH_ZERO_SELF_SIGNED_CERT: {
    what: 'is self-signed, and this machine does not trust it',
    remedy: `set NODE_EXTRA_CA_CERTS to a file with that certificate ${TRUST}`,
  },
  SELF_SIGNED_CERT_IN_CHAIN: {
    what: 'is of an authority that this machine does not trust',
    remedy: `set NODE_EXTRA_CA_CERTS to a file with the certificate of that authority ${TRUST}`,
  },
  CERT_HAS_EXPIRED: {
    what: 'has expired',
    remedy: 'renew the certificate of the server, or correct the clock of this machine',
  },
  CERT_NOT_YET_VALID: {
    what: 'is not valid yet',
    remedy: 'correct the clock of this machine or of the server',
  },
  ERR_TLS_CERT_ALTNAME_INVALID: {
    what: 'is for other hosts',
    remedy: 'use a host for which the certificate is valid, or add this one to the certificate',
  },
};

/** Of all others about trust: the certificate of the issuer is missing. */
const UNKNOWN_ISSUER: EndpointProblem = {
  what: 'is of an authority that this machine does not know, or is sent without the certificate of its issuer',
  remedy: `have the server send its whole chain, or set NODE_EXTRA_CA_CERTS to a file with the certificate of the authority ${TRUST}`,
};

const OTHER: EndpointProblem = {
  what: 'is not accepted',
  remedy: `have the server use another certificate, or set NODE_EXTRA_CA_CERTS to a file with the certificate of its authority ${TRUST}`,
};

/** Explains the error of a TLS connection; undefined if the certificate is not the reason. */
function certificateProblem(code: string): EndpointProblem | undefined {
  if (!/CERT|SIGNATURE|ISSUER/.test(code)) return undefined;
  return PROBLEMS[code] ?? (code.startsWith('UNABLE_TO_') ? UNKNOWN_ISSUER : OTHER);
}
