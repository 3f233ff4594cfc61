import { ApiError } from '@sluice/contract/client';
import { Failure } from '../failure.ts';
import { IdleTimeoutFailure } from '../http/fetch.ts';
import { explainNetworkError } from '../http/network-error.ts';

/** Maximum length of a response text that does not come from the API. */
const MAX_TEXT_LENGTH = 500;

/** A one-line message and the notes below it. */
export interface Explanation {
  readonly message: string;
  readonly notes: readonly string[];
}

/** Explains the error that ended a command. `host` is the management API URL, if one was used. */
export function explainError(error: unknown, host: string | undefined): Explanation {
  if (error instanceof Failure) return { message: error.message, notes: error.notes };
  if (host !== undefined && error instanceof ApiError) return explainApiError(error, host);
  const network = host === undefined ? undefined : explainNetworkError(error, host);
  return { message: network ?? rootMessage(error), notes: [] };
}

/** `fetch` wraps the actual error as its cause. */
function rootMessage(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  return error instanceof TypeError && error.cause instanceof Error ? rootMessage(error.cause) : error.message;
}

/** Explains an error response of the API or of a proxy in front of it. */
function explainApiError({ status, code, message, details, location }: ApiError, host: string): Explanation {
  if (code !== undefined)
    return { message: `${withOptionNames(message)} (${status} ${code})`, notes: formatDetails(details) };
  const listener = isJsonRpc(message) ? 'MCP' : isInferenceError(message) ? 'inference' : undefined;
  if (listener !== undefined) {
    return {
      message: `${host} is the ${listener} listener; the management API is on another port (8080 by default)`,
      notes: [],
    };
  }
  const login = `sluice auth login --host ${host}`;
  if (status >= 300 && status < 400) return { message: explainRedirect(status, location, host, login), notes: [] };
  if (status === 401) {
    return {
      message: `${host} requires authentication, or rejected the credentials (401): run "${login}"`,
      notes: [],
    };
  }
  if (status === 403) return { message: `${host} denied access (403): run "${login}"`, notes: [] };
  const page = /^\s*</.test(message);
  if (status === 404 || status === 405) {
    return {
      message: `${host} is not the management API but another web server (${status}): ${message.slice(0, MAX_TEXT_LENGTH)}`,
      notes: [],
    };
  }
  return {
    message: `${host} returned ${status}: ${page ? 'a page that is not from the management API' : message.slice(0, MAX_TEXT_LENGTH)}`,
    notes: [],
  };
}

/** Replaces query parameters in messages of the service by command-line options. */
function withOptionNames(message: string): string {
  return message.replace('?cascade=true', '--cascade').replace('?namespace=', '-N').replace('?uri=', '--uri');
}

/** The MCP listener responds to every request with JSON-RPC. */
function isJsonRpc(text: string): boolean {
  return /^\s*\{.*"jsonrpc"\s*:/s.test(text);
}

/** The inference listener proxies every request to its upstream, which is often not running. */
function isInferenceError(text: string): boolean {
  return /"message":\s*"inference upstream /.test(text);
}

function explainRedirect(status: number, location: string | undefined, host: string, login: string): string {
  const target = location === undefined ? null : URL.parse(location, host);
  // The query of a login page may contain state and is omitted.
  const destination = target === null ? 'elsewhere' : target.origin + target.pathname;
  return status === 301 || status === 308
    ? `${host} has moved to ${destination}: use that as --host`
    : `${host} requires authentication (${status} to ${destination}): run "${login}"`;
}

function formatDetails(details: ApiError['details']): string[] {
  if (details === undefined) return [];
  if (Array.isArray(details))
    return details.map(({ path, message }) => (path === '' ? message : `${path}: ${message}`));
  return Object.entries(details).map(([name, value]) => {
    const items = Array.isArray(value) ? value : [value];
    return `${name}: ${items.map((item) => (typeof item === 'string' ? item : JSON.stringify(item))).join(', ')}`;
  });
}

const REQUEST_TIMEOUT = 408;
const TOO_MANY_REQUESTS = 429;

/**
 * Whether a failed request may succeed later without intervention: the service, a proxy or the network is unavailable.
 */
export function isTransient(error: unknown, host: string): boolean {
  if (error instanceof ApiError) {
    return error.status >= 500 || error.status === REQUEST_TIMEOUT || error.status === TOO_MANY_REQUESTS;
  }
  return error instanceof IdleTimeoutFailure || explainNetworkError(error, host) !== undefined;
}
