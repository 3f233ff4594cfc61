import { Readable } from 'node:stream';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { ERROR_STATUS, type ErrorCode, type PageInfo } from '@sluice/contract';
import type { PlainOutcome } from '../http/outcome.ts';

/** A response of the API. Header names are in lower case. */
export interface ApiResponse {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  /** Values of `Set-Cookie`, each in a line of its own. */
  readonly cookies?: readonly string[];
  readonly body: string | Buffer | Readable;
}

/** Optional parts of a response with a payload. */
export interface DataOptions {
  /** 200 by default. */
  readonly status?: number;
  readonly headers?: Readonly<Record<string, string>>;
  readonly warnings?: readonly object[] | undefined;
  /** Ids of the replicas that may not have applied the change. */
  readonly unconfirmed?: readonly string[] | undefined;
}

/** Optional parts of a response with a list. */
export interface ListOptions {
  readonly headers?: Readonly<Record<string, string>>;
  /** Position of the list within a longer one. */
  readonly page?: PageInfo;
}

const JSON_TYPE = { 'content-type': 'application/json' };

/**
 * Returns a response with a payload in the envelope. The payload is JSON text, so
 * that the numbers of entries are exact.
 */
export function dataResponse(
  data: string,
  { status = 200, headers, warnings = [], unconfirmed = [] }: DataOptions = {},
): ApiResponse {
  return {
    status,
    headers: { ...headers, ...JSON_TYPE },
    body: `{"data":${data}${envelopeEnd(warnings, unconfirmed)}`,
  };
}

/** The envelope after its payload. */
export function envelopeEnd(warnings: readonly object[], unconfirmed: readonly string[]): string {
  const warned = warnings.length === 0 ? '' : `,"warnings":${JSON.stringify(warnings)}`;
  const pending = unconfirmed.length === 0 ? '' : `,"unconfirmed":${JSON.stringify(unconfirmed)}`;
  return `,"error":null${warned}${pending}}`;
}

/** Returns an error in the envelope. */
export function errorResponse(code: ErrorCode, message: string, details?: unknown): ApiResponse & { body: string } {
  const body = JSON.stringify({ data: null, error: { code, message, ...(details !== undefined && { details }) } });
  return { status: ERROR_STATUS[code], headers: JSON_TYPE, body };
}

/** Returns the response to a request for a path that does not exist. */
export function pathNotFound(path: string): ApiResponse {
  return errorResponse('NOT_FOUND', `path not found: ${path}`);
}

/** Returns a response with further headers, which replace others of the same name. */
export function withHeaders(response: ApiResponse, headers: ApiResponse['headers']): ApiResponse {
  return { ...response, headers: { ...response.headers, ...headers } };
}

/** Marks an enveloped response as the last known state, which may be out of date (docs/replicas.md). */
export function markStale(response: ApiResponse): ApiResponse {
  return withMember(response, 'stale', 'true');
}

/** Time for the answers of other replicas to a list, in milliseconds; to one that is streamed, for its next piece. */
export const LIST_TIMEOUT_MS = 2_000;

/** Names the replicas that did not answer, if there are any: what they have in memory is missing. */
export function withMissing(response: ApiResponse, replicas: readonly string[]): ApiResponse {
  return replicas.length === 0 ? response : withMember(response, 'unanswered', JSON.stringify(replicas));
}

/** Adds a member to an enveloped response; `json` is its value. */
function withMember(response: ApiResponse, name: string, json: string): ApiResponse {
  const { body, headers } = response;
  if (headers['content-type'] !== 'application/json' || Buffer.isBuffer(body)) return response;
  const end = `,"${name}":${json}}`;
  if (typeof body === 'string') return { ...response, body: `${body.slice(0, -1)}${end}` };
  return { ...response, body: Readable.from(replaceEnd(body, end), { objectMode: false }) };
}

/** The chunks, with `end` instead of the last character. */
async function* replaceEnd(chunks: AsyncIterable<Buffer>, end: string): AsyncGenerator<Buffer> {
  let last: Buffer | undefined;
  for await (const chunk of chunks) {
    if (last) yield last;
    last = chunk;
  }
  if (last) yield Buffer.concat([last.subarray(0, -1), Buffer.from(end)]);
}

/** Returns an error response for the proxy to the legacy backend. */
export function plainError(code: ErrorCode, message: string): PlainOutcome {
  const { status, body } = errorResponse(code, message);
  return { kind: 'plain', status, headers: ['Content-Type', 'application/json'], body };
}

/** Items serialized per turn of the event loop: about a millisecond of work. */
const SLICE = 200;

/**
 * Returns a response with a list. A long one is serialized a slice per turn while it is sent, so that listing 100,000 tools
 * does not block other requests.
 */
export function listResponse<T>(
  items: readonly T[],
  serialize: (item: T) => string,
  { headers, page }: ListOptions = {},
): ApiResponse {
  const end = page === undefined ? '' : `,"page":${JSON.stringify(page)}`;
  if (items.length > SLICE) {
    const chunks = arraySlices('{"data":[', items, serialize, `],"error":null${end}}`, SLICE);
    return streamResponse(chunks, { ...headers, ...JSON_TYPE });
  }
  const body = `{"data":[${items.map(serialize).join(',')}],"error":null${end}}`;
  return { status: 200, headers: { ...headers, ...JSON_TYPE }, body };
}

/** Returns a response whose body is produced while it is sent. */
export function streamResponse(
  chunks: AsyncIterable<Buffer> | Iterable<string>,
  headers: ApiResponse['headers'],
): ApiResponse {
  return { status: 200, headers, body: Readable.from(chunks, { objectMode: false }) };
}

/** JSON text with an array between `head` and `end`, in slices of as many items as take about a millisecond of work. */
export async function* arraySlices<T>(
  head: string,
  items: Iterable<T>,
  serialize: (item: T) => string,
  end: string,
  perSlice: number,
): AsyncGenerator<Buffer> {
  let text = head;
  let count = 0;
  for (const item of items) {
    text += count === 0 ? serialize(item) : `,${serialize(item)}`;
    if (++count % perSlice !== 0) continue;
    yield Buffer.from(text);
    text = '';
    await nextTurn();
  }
  yield Buffer.from(text + end);
}
