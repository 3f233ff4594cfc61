import type { z } from 'zod';
import type { ErrorCode } from '../envelope.ts';

/** A query parameter. Requests need not name it; unknown ones are ignored (decisions 2.2). */
export interface QueryParameter {
  readonly description: string;
  /** The values that mean something, others being ignored; any text where undefined. */
  readonly values?: readonly string[];
}

/** What is answered when it went well. */
export interface Answer {
  readonly description: string;
  /** The payload. */
  readonly data: z.ZodType;
  /** The header `Location` says where what was made can be read. */
  readonly location?: true;
  /** The header `ETag` says which revision is active, in quotes; `"0"` when none is. */
  readonly etag?: true;
  /** What may stand beside the payload as `warnings`, when there is something to warn of. */
  readonly warnings?: z.ZodType;
  /** The payload stands alone, without the envelope. */
  readonly bare?: true;
  /** An event stream that stays open; the payload is that of each event, alone. */
  readonly events?: true;
}

/** The body that a request needs, or may have. */
export interface Body {
  /** What it describes, for messages: `tool`. */
  readonly kind: string;
  /** Under canonical member names. */
  readonly schema: z.ZodType;
  /** A request without one is as good as one with `{}`. */
  readonly optional?: true;
}

/**
 * One operation of the management API, all of it in one place: the service makes its route of it, and the OpenAPI
 * document, and thereby the typed client, is made of it too.
 */
export interface Operation {
  /** Unique among all. */
  readonly id: string;
  readonly method: 'GET' | 'POST' | 'PUT' | 'DELETE';
  /** With parameters in braces: `/api/v1/tools/{name}`. */
  readonly path: string;
  /** What the path's parameter is, where it is no name. */
  readonly parameter?: z.ZodType;
  /** The group that it is shown in. */
  readonly tag: string;
  /** What it does, in a line. */
  readonly summary: string;
  /** What else there is to know. */
  readonly description?: string;
  readonly query?: Readonly<Record<string, QueryParameter>>;
  readonly body?: Body;
  /** By HTTP status. */
  readonly answers: Readonly<Record<number, Answer>>;
  /** Codes of its own failures, besides those that any operation may have ({@link commonFailures}). */
  readonly failures: readonly ErrorCode[];
}

/**
 * What any operation may be answered: a Host or Origin that is not accepted, a request that cannot be read, a failure of
 * the service itself; and where a body may come, one that is too large.
 */
export function commonFailures(method: Operation['method']): readonly ErrorCode[] {
  return method === 'GET'
    ? ['BAD_REQUEST', 'FORBIDDEN', 'INTERNAL']
    : ['BAD_REQUEST', 'FORBIDDEN', 'PAYLOAD_TOO_LARGE', 'INTERNAL'];
}

/** An operation as it is given: keeps the types of its schemas. */
export function operation<const Defined extends Operation>(defined: Defined): Defined {
  return defined;
}
