import type { IncomingHttpHeaders } from 'node:http';
import { SERVICE_KEY_PREFIX } from '@sluice/contract/service-key';
import type { JsonObject } from '@sluice/protocol/json/parse';
import { ANONYMOUS, type Principal } from './principal.ts';

/**
 * Values of the credential headers of a request by name in lower case, one for each line. A line in another notation, such as
 * `X_Forwarded_User`, is taken out as well, and has its own name here: proxies may let it pass. The values are parts of the text of
 * the head.
 */
export type Credentials = ReadonlyMap<string, readonly string[]>;

/** Those of a request without any. */
export const NO_CREDENTIALS: Credentials = new Map();

const SERVICE_KEY = new RegExp(`${SERVICE_KEY_PREFIX}[A-Za-z0-9_-]{43}`);

/** Whether a value of a header has a key of this service, in whatever notation. */
export function hasServiceKey(value: string): boolean {
  return SERVICE_KEY.test(value);
}

/** Header with the credential of a client: on the inference listener `Authorization` has that of the model. */
export type CredentialHeader = 'authorization' | 'x-sluice-authorization';

/**
 * Returns the values of `Authorization` for another server, which verifies them itself: nothing that was verified here (`by`), and no
 * key of this service.
 */
export function authorizationOf(
  credentials: Credentials,
  { proof }: Authenticated = ANONYMOUS_CALLER,
): readonly string[] {
  if ('header' in proof && proof.header === 'authorization') return [];
  return credentials.get('authorization')?.filter((value) => !hasServiceKey(value)) ?? [];
}

/** The part of the head of a request that authenticators may read. */
export interface ReceivedHead {
  /** Path and query. */
  readonly target: string;
  /** Without the credential headers of the listener. */
  readonly headers: IncomingHttpHeaders;
  /** Set for each request of a listener. */
  readonly credentials?: Credentials;
  /** Address of the connection: of the client, or of a proxy. */
  readonly peer?: string | undefined;
  /** Address of the client. */
  readonly address: string | undefined;
}

/**
 * What has proven a principal, so that other settings can be applied to requests that were admitted before, without their
 * credential.
 */
export type Proof =
  /** Nothing: anonymous, or headers that are believed from everybody. */
  | { readonly kind: 'none' }
  /** Identity headers of a proxy, and its address. */
  | { readonly kind: 'proxy'; readonly headers: Credentials; readonly peer?: string | undefined }
  /** The SHA-256 of a key, and the header that it was in. */
  | { readonly kind: 'key'; readonly hash: string; readonly header: CredentialHeader }
  /** All claims of a token, the name of its source, the public key that has signed it (as JSON), and the header that it was in. */
  | {
      readonly kind: 'token';
      readonly source: string;
      readonly claims: JsonObject;
      readonly algorithm: string;
      readonly key: string;
      readonly header: CredentialHeader;
    }
  /** A key that was made on this machine. */
  | { readonly kind: 'recovery' }
  /** The id of a sign-in to the console. */
  | { readonly kind: 'sign_in'; readonly id: string };

/** A request whose principal is proven. Requests with the same credential share it where it is cached. */
export interface Authenticated {
  readonly kind: 'authenticated';
  readonly principal: Principal;
  readonly proof: Proof;
  /** Time in milliseconds from which on the credential is not accepted, `Date.now()`; undefined if it does not expire. */
  readonly expiresAt: number | undefined;
  /** Another replica has verified it, and where it counts. */
  readonly isHandedOff: boolean;
}

const NO_PROOF: Proof = { kind: 'none' };

/** Returns an {@link Authenticated}. */
export function authenticated(principal: Principal, proof: Proof = NO_PROOF, expiresAt?: number): Authenticated {
  return { kind: 'authenticated', principal, proof, expiresAt, isHandedOff: false };
}

/** A request without a credential. */
export const ANONYMOUS_CALLER: Authenticated = authenticated(ANONYMOUS);

/** A request whose credential is not accepted. */
export interface Rejected {
  readonly kind: 'rejected';
  readonly status: 400 | 401 | 403 | 503;
  /** What the client gets. */
  readonly reason: string;
  /** Why, for the log; without the credential. The reason, if undefined. */
  readonly cause?: string;
  /** Headers of the response, such as `WWW-Authenticate`: names and values, alternating. */
  readonly headers?: readonly string[];
}

/**
 * Decides who makes a request. Returns a promise only for a credential that has not been verified before: the body stays unread
 * until it settles. A promise that rejects is answered with 503.
 */
export type Authenticate = (head: ReceivedHead) => Authenticated | Rejected | Promise<Authenticated | Rejected>;

/** Whether a request is authenticated: `open` requests are not, whatever their credentials; `required` ones may not be anonymous. */
export type Requirement = 'open' | 'optional' | 'required';
