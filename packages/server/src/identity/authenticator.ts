import type { IncomingHttpHeaders } from 'node:http';
import type { Principal } from './principal.ts';

/** The part of the head of a request that authenticators may read. */
export interface ReceivedHead {
  /** Path and query. */
  readonly target: string;
  readonly headers: IncomingHttpHeaders;
  /** Address of the client. */
  readonly address: string | undefined;
}

/** A request whose credential is not accepted. */
export interface Rejected {
  readonly kind: 'rejected';
  readonly status: 400 | 401 | 403 | 503;
  readonly reason: string;
  /** Headers of the response, such as `WWW-Authenticate`: names and values, alternating. */
  readonly headers?: readonly string[];
}

/**
 * Decides who makes a request. Returns a promise only for a credential that has not been verified before: the body stays unread
 * until it settles. A promise that rejects is answered with 503.
 */
export type Authenticate = (head: ReceivedHead) => Principal | Rejected | Promise<Principal | Rejected>;

/** Whether a request is authenticated: `open` requests are not, whatever their credentials; `required` ones may not be anonymous. */
export type Requirement = 'open' | 'optional' | 'required';
