import type { JsonValue } from '@sluice/protocol/json/parse';

/** What the management API has collections of. */
export type Collection = 'namespaces' | 'forwards' | 'tools' | 'resources' | 'prompts' | 'services';

/** One management call. Everything in it is as it was meant: nothing is percent-encoded yet. */
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

/** What a call is answered (decisions 2.1). */
export interface Answer {
  readonly status: number;
  readonly location?: string | undefined;
  readonly data?: JsonValue | undefined;
  readonly code?: string | undefined;
  readonly message?: string | undefined;
  readonly details?: JsonValue | undefined;
}

/** The call's path and query as they go over the wire. */
export function pathOf({ collection, name, refreshes, query = {} }: ApiRequest): string {
  if (collection === 'statistics') return '/api/v1/management/statistics';
  const item = name === undefined ? '' : `/${encodeURIComponent(name)}`;
  const search = new URLSearchParams(query).toString();
  return `/api/v1/${collection}${item}${refreshes ? '/refreshes' : ''}${search === '' ? '' : `?${search}`}`;
}

/** A call that the documents say is refused. Whoever throws it has changed nothing. */
export class Refusal extends Error {
  readonly answer: Answer;

  constructor(status: number, code: string, more: Pick<Answer, 'message' | 'details'> = {}) {
    super(`${status} ${code}`);
    this.answer = { status, code, ...more };
  }
}

/** 404 (decisions 4.1: "`<kind> not found: <name>`"). */
export function notFound(kind: string, name: string): Refusal {
  return new Refusal(404, 'NOT_FOUND', { message: `${kind} not found: ${name}` });
}

/** 409; `details` where they are decided. */
export function conflict(details?: JsonValue): Refusal {
  return new Refusal(409, 'CONFLICT', details === undefined ? {} : { details });
}
