import type { JsonValue } from '@sluice/protocol/json/parse';

/** Collections of the management API. */
export type Collection = 'namespaces' | 'forwards' | 'tools' | 'resources' | 'prompts' | 'services';

/** One management call, before percent-encoding. */
export interface ApiRequest {
  readonly method: 'GET' | 'POST' | 'PUT' | 'DELETE';
  readonly collection: Collection | 'statistics';
  readonly name?: string | undefined;
  /** Of a forward: `/refreshes` behind its name. */
  readonly refreshes?: true | undefined;
  readonly query?: Readonly<Record<string, string>> | undefined;
  /** The text that is sent. */
  readonly body?: string | undefined;
}

/** Response to a call. */
export interface ApiResponse {
  readonly status: number;
  readonly location?: string | undefined;
  readonly data?: JsonValue | undefined;
  readonly code?: string | undefined;
  readonly message?: string | undefined;
  readonly details?: JsonValue | undefined;
}

/** The rules for unknown members of a PUT depend on what upstreams list; they have tests of their own. */
const KEEP_UNKNOWN = { unknown_members: 'keep' };

/** The encoded path and query of a call. Names that no path has are in the query. */
export function pathOf({ method, collection, name, refreshes, query = {} }: ApiRequest): string {
  if (collection === 'statistics') return '/api/v1/management/statistics';
  const isDots = name === '.' || name === '..';
  const item = name === undefined ? '' : `/${isDots ? '-' : encodeURIComponent(name)}`;
  const parameters = { ...query, ...(method === 'PUT' && KEEP_UNKNOWN), ...(isDots && { name }) };
  const search = new URLSearchParams(parameters).toString();
  return `/api/v1/${collection}${item}${refreshes ? '/refreshes' : ''}${search === '' ? '' : `?${search}`}`;
}

/** A call that must be rejected by the documents. It has changed nothing. */
export class Rejection extends Error {
  readonly answer: ApiResponse;

  constructor(status: number, code: string, more: Pick<ApiResponse, 'message' | 'details'> = {}) {
    super(`${status} ${code}`);
    this.answer = { status, code, ...more };
  }
}

/** 404 ("`<kind> not found: <name>`"). */
export function notFound(kind: string, name: string): Rejection {
  return new Rejection(404, 'NOT_FOUND', { message: `${kind} not found: ${name}` });
}

/** 409; `details` where they are decided. */
export function conflict(details?: JsonValue): Rejection {
  return new Rejection(409, 'CONFLICT', details === undefined ? {} : { details });
}
