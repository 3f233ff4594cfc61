import { ApiError } from '@sluice/contract/client';
import { Failure } from '../failure.ts';
import { IdleTimeoutFailure } from '../http/fetch.ts';
import { explainNetworkError } from '../http/network-error.ts';

/** Of a text that is not the API's. */
const MAX_TEXT_LENGTH = 500;

/** A failure in words: one line, and what is listed below it. */
export interface Explanation {
  readonly message: string;
  readonly notes: readonly string[];
}

/** What people read of an error that a command ended with. `host` is where the management API was looked for, if it was. */
export function explainError(error: unknown, host: string | undefined): Explanation {
  if (error instanceof Failure) return { message: error.message, notes: error.notes };
  if (host !== undefined && error instanceof ApiError) return explainApiError(error, host);
  const network = host === undefined ? undefined : explainNetworkError(error, host);
  return { message: network ?? rootMessage(error), notes: [] };
}

/** `fetch` says only that it failed, and keeps why. */
function rootMessage(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  return error instanceof TypeError && error.cause instanceof Error ? rootMessage(error.cause) : error.message;
}

/** An answer of the API, or of what stands before it: an authenticating proxy, or something else altogether. */
function explainApiError({ status, code, message, details, location }: ApiError, host: string): Explanation {
  if (code !== undefined)
    return { message: `${withOptionNames(message)} (${status} ${code})`, notes: formatDetails(details) };
  if (isJsonRpc(message)) {
    return { message: `${host} is the MCP port; the management API is at another (8080 by default)`, notes: [] };
  }
  const login = `sluice auth login --host ${host}`;
  if (status >= 300 && status < 400) return { message: explainRedirect(status, location, host, login), notes: [] };
  if (status === 401 || status === 403) {
    return { message: `not accepted by ${host} (${status}): ${login}`, notes: [] };
  }
  const page = /^\s*</.test(message);
  return {
    message: `${host} answered ${status}: ${page ? 'a page that is not of the management API' : message.slice(0, MAX_TEXT_LENGTH)}`,
    notes: [],
  };
}

/** What the service says of its queries, in the words of the command line. */
function withOptionNames(message: string): string {
  return message.replace('?cascade=true', '--cascade').replace('?namespace=', '-N').replace('?uri=', '--uri');
}

/** What the MCP listener answers, whatever it is asked for. */
function isJsonRpc(text: string): boolean {
  return /^\s*\{.*"jsonrpc"\s*:/s.test(text);
}

function explainRedirect(status: number, location: string | undefined, host: string, login: string): string {
  const target = location === undefined ? null : URL.parse(location, host);
  // The query of a log-in page is of no use to people, and carries state that is not theirs to show.
  const where = target === null ? 'elsewhere' : target.origin + target.pathname;
  return status === 301 || status === 308
    ? `${host} has moved to ${where}: give that as --host`
    : `${host} needs authentication (${status} to ${where}): ${login}`;
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
 * Whether a request that failed so may go well later without anybody doing something about it: the service, what stands
 * before it, or the network is away. What is refused stays refused.
 */
export function isTransient(error: unknown, host: string): boolean {
  if (error instanceof ApiError) {
    return error.status >= 500 || error.status === REQUEST_TIMEOUT || error.status === TOO_MANY_REQUESTS;
  }
  return error instanceof IdleTimeoutFailure || explainNetworkError(error, host) !== undefined;
}
