import type { TokenIssuerSettings } from '@sluice/contract';
import type { JsonObject } from '@sluice/protocol/json/parse';
import {
  type Authenticate,
  type Authenticated,
  authenticated,
  type ReceivedHead,
  type Rejected,
} from './authenticator.ts';
import { createSource, type Invalid, invalid } from './claims.ts';
import type { Principal } from './principal.ts';
import { claimReader } from './token-claims.ts';

/** A sign-in of a person to the console, which has not ended. */
export interface SignIn {
  /** SHA-256 of the value of its cookie. */
  readonly id: string;
  /** Name of the token issuer that has proven it. */
  readonly issuer: string;
  /** Those of its ID token. */
  readonly claims: JsonObject;
  /** Time in milliseconds from which on it does not count. */
  readonly expires: number;
}

/** The sign-ins to the console. */
export interface SignIns {
  /** Returns the sign-in of this id; undefined if it has ended. */
  get(id: string): SignIn | undefined;
  /**
   * Returns the sign-in that the cookies of a request prove; undefined without such a cookie, null if it has ended. A promise while
   * the issuer is asked whether it still counts.
   */
  find(cookies: readonly string[] | undefined): SignIn | undefined | null | Promise<SignIn | null>;
}

/**
 * A sign-in in use is confirmed at its issuer after this time at the latest. A request does that, so that no stream may last longer: its
 * client opens it again.
 */
export const MAX_UNCONFIRMED_MS = 5 * 60 * 1_000;

const NO_ISSUER = invalid('the issuer of the sign-in is unknown');
const ENDED: Rejected = {
  kind: 'rejected',
  status: 401,
  reason: 'the sign-in has ended: sign in again',
  cause: 'the sign-in has ended',
  headers: ['WWW-Authenticate', 'Bearer'],
};

/** Whether a page of the console itself has made a request. Browsers do not let pages set this header. */
export function isFromConsole({ 'sec-fetch-site': site }: ReceivedHead['headers']): boolean {
  return site === 'same-origin';
}

/** Reads the principals of sign-ins, by the settings of their issuers. */
export class SignInReader {
  readonly #signIns: SignIns | undefined;
  readonly #readers: ReadonlyMap<string, { readonly issuer: string; readonly read: ReturnType<typeof claimReader> }>;
  /** By the sign-in, which is another object once its claims have changed. */
  readonly #read = new WeakMap<SignIn, Authenticated | Rejected>();

  constructor(issuers: readonly TokenIssuerSettings[], signIns: SignIns | undefined) {
    this.#signIns = signIns;
    const names = issuers.map(({ name }) => name);
    const used = issuers.filter(({ sign_in: client }) => client !== undefined);
    this.#readers = new Map(
      used.map((settings) => {
        const { name, bare, issuer } = settings;
        return [name, { issuer, read: claimReader(settings, createSource(name, bare, names)) }];
      }),
    );
  }

  /** Returns who has signed in, if a page of the console has made the request; undefined without a sign-in. */
  authenticate({ headers, credentials }: ReceivedHead): ReturnType<Authenticate> | undefined {
    const cookies = credentials?.get('cookie');
    if (!cookies || !isFromConsole(headers)) return undefined;
    const found = this.#signIns?.find(cookies);
    if (found instanceof Promise) return found.then((signIn) => this.#authenticated(signIn));
    return found === undefined ? undefined : this.#authenticated(found);
  }

  /** Returns whoever the sign-in with this id proves now; undefined if it has ended. */
  reassess(id: string): Authenticated | undefined {
    const found = this.#authenticated(this.#signIns?.get(id) ?? null);
    return found.kind === 'authenticated' ? found : undefined;
  }

  /** Returns the principal of a sign-in. One at an earlier issuer with the name of another one proves nothing there. */
  principalOf({ issuer, claims }: Pick<SignIn, 'issuer' | 'claims'>): Principal | Invalid {
    const reader = this.#readers.get(issuer);
    return reader && reader.issuer === claims.iss ? reader.read(claims) : NO_ISSUER;
  }

  #authenticated(signIn: SignIn | null): Authenticated | Rejected {
    if (signIn === null) return ENDED;
    const known = this.#read.get(signIn);
    if (known) return known;
    const principal = this.principalOf(signIn);
    const found: Authenticated | Rejected =
      principal.kind === 'invalid'
        ? { ...ENDED, cause: principal.reason }
        : authenticated(principal, { kind: 'sign_in', id: signIn.id }, signIn.expires);
    this.#read.set(signIn, found);
    return found;
  }
}
