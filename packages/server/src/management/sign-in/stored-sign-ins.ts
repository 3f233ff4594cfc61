import { hash, randomBytes } from 'node:crypto';
import { jsonObject } from '@sluice/contract';
import { Emitter } from '@sluice/protocol/emitter';
import type { JsonObject } from '@sluice/protocol/json/parse';
import type { TokenSealer } from '@sluice/protocol/seal';
import { z } from 'zod';
import { type OwnCookie, ownCookie } from '../../identity/own-cookies.ts';
import { MAX_UNCONFIRMED_MS, type SignIn, type SignIns } from '../../identity/sign-ins.ts';
import { Collection } from '../../registry/store/collection.ts';
import type { RecordLog } from '../../registry/store/record-log.ts';

/** What is stored of a sign-in. */
const storedSignIn = z.object({
  id: z.string(),
  issuer: z.string(),
  claims: jsonObject,
  signedInAt: z.number(),
  /** When the issuer has last confirmed it. */
  refreshedAt: z.number(),
  expires: z.number(),
  /** How it can be confirmed again: sealed. */
  refreshToken: z.string().optional(),
  /** When it is confirmed again. */
  refreshAt: z.number().optional(),
  /** A process asks the issuer until then; no other one may use the refresh token meanwhile. */
  refreshingUntil: z.number().optional(),
});
/** See {@link storedSignIn}. */
export type StoredSignIn = z.output<typeof storedSignIn>;

/** What the issuer has proven. */
export interface Proven {
  readonly claims: JsonObject;
  readonly refreshToken: string | undefined;
  /** Seconds until it is to be confirmed. */
  readonly expiresIn: number | undefined;
}

/** Result of a refresh: what the issuer has proven, whether it has ended the sign-in, or its new token if nothing else is known. */
export type Refreshed = Proven | 'ended' | { readonly refreshToken: string };

/** Options of {@link StoredSignIns}. */
export interface StoredSignInsOptions {
  readonly cookie: OwnCookie;
  readonly sealer: TokenSealer;
  /** Asks the issuer with the refresh token. Rejects if it cannot be reached. */
  readonly refresh: (signIn: SignIn, refreshToken: string) => Promise<Refreshed>;
  readonly now?: () => number;
}

/** Sign-ins of one person; another one ends the oldest. */
const MAX_PER_PERSON = 20;
const MAX_SIGN_INS = 10_000;

const MIN_REFRESH_MS = 10 * 1_000;
/** Pause after a refresh that has failed. */
const RETRY_MS = 30 * 1_000;
/** Longer than a request to the issuer takes, with clocks that differ. */
const CLAIM_MS = 60 * 1_000;

/** There are too many sign-ins. */
export class TooManySignInsError extends Error {
  override readonly name = 'TooManySignInsError';
}

/**
 * The sign-ins to the console, which all replicas share. Their cookies are not stored, but their SHA-256; so is no access token, and
 * the refresh tokens are sealed.
 */
export class StoredSignIns implements SignIns {
  /** The sign-in of this id has ended, or its claims have changed. */
  readonly changed = new Emitter<string>();
  readonly #options: StoredSignInsOptions;
  readonly #now: () => number;
  readonly #records: Collection<StoredSignIn>;
  readonly #refreshes = new Map<string, Promise<SignIn | null>>();

  constructor(options: StoredSignInsOptions) {
    const { now = Date.now } = options;
    this.#options = options;
    this.#now = now;
    this.#records = new Collection({
      name: 'sign_ins',
      schema: storedSignIn,
      expires: ({ expires }) => expires,
      // The next request may arrive at any replica, and none may accept one that has ended.
      isConfirmed: true,
      now,
    });
    this.#records.changed.subscribe(({ id, before, content }) => {
      if (before && before.refreshedAt !== content?.refreshedAt) this.changed.emit(id);
    });
  }

  /** Loads them. Rejects with `StoreError`. */
  async open(log: RecordLog): Promise<void> {
    await this.#records.open(log);
  }

  /** Finishes pending changes. */
  async close(): Promise<void> {
    await this.#records.close();
  }

  /** Those that have not ended, newest first. */
  list(): readonly StoredSignIn[] {
    const now = this.#now();
    const all = Array.from(this.#records.entries(), ([, signIn]) => signIn);
    return all.filter(({ expires }) => expires > now).sort((one, other) => other.signedInAt - one.signedInAt);
  }

  get(id: string): StoredSignIn | undefined {
    const stored = this.#records.get(id);
    return stored && stored.expires > this.#now() ? stored : undefined;
  }

  find(cookies: readonly string[] | undefined): SignIn | undefined | null | Promise<SignIn | null> {
    const value = ownCookie(cookies, this.#options.cookie);
    if (value === undefined) return undefined;
    const id = idOf(value);
    const stored = this.get(id);
    const isDue = stored?.refreshToken !== undefined && (stored.refreshAt ?? 0) <= this.#now();
    if (!isDue) return stored ?? null;
    return this.#refreshes.getOrInsertComputed(id, () =>
      this.#refresh(id).finally(() => void this.#refreshes.delete(id)),
    );
  }

  /** Returns the id of the sign-in that the cookies of a request prove, whether or not it has ended. */
  idIn(cookies: readonly string[] | undefined): string | undefined {
    const value = ownCookie(cookies, this.#options.cookie);
    return value === undefined ? undefined : idOf(value);
  }

  /**
   * Stores a sign-in. Returns the value of its cookie. Rejects with {@link TooManySignInsError} or `StoreError`; then there is none.
   */
  async add(issuer: string, proven: Proven, lifetimeMs: number): Promise<string> {
    const all = this.list();
    const { sub } = proven.claims;
    const own = all.filter((other) => other.issuer === issuer && other.claims.sub === sub);
    const excess = own.slice(MAX_PER_PERSON - 1);
    if (all.length - excess.length >= MAX_SIGN_INS) throw new TooManySignInsError('too many sign-ins');
    const value = randomBytes(32).toString('base64url');
    const id = idOf(value);
    const signedInAt = this.#now();
    const stored = { id, issuer, signedInAt, expires: signedInAt + lifetimeMs, ...this.#stored(proven) };
    await Promise.all([this.#records.put(id, stored), ...excess.map((old) => this.#records.remove(old.id))]);
    return value;
  }

  /** Ends a sign-in. Returns it with its refresh token, if there was one; it has ended on all replicas then. */
  async end(id: string): Promise<{ readonly signIn: SignIn; readonly refreshToken: string | undefined } | undefined> {
    let ended: StoredSignIn | undefined;
    await this.#records.update(id, (before) => {
      ended = before;
      return before && null;
    });
    return ended && { signIn: ended, refreshToken: this.#unsealed(ended) };
  }

  /** Asks the issuer, unless another process does. Resolves with null if the sign-in has ended. */
  async #refresh(id: string): Promise<SignIn | null> {
    const { refresh } = this.#options;
    try {
      const claimed = await this.#claim(id);
      const refreshToken = claimed && this.#unsealed(claimed);
      const signIn = this.get(id);
      if (claimed && signIn) {
        const result =
          refreshToken === undefined ? 'ended' : await refresh(signIn, refreshToken).catch(() => undefined);
        await this.#records.update(id, (before) => before && this.#after(before, result));
      }
    } catch {
      // The database cannot be reached: the last known claims count.
    }
    return this.get(id) ?? null;
  }

  /** Reserves the refresh token for this process, so that no other one uses it. Undefined if there is nothing to do. */
  async #claim(id: string): Promise<StoredSignIn | undefined> {
    let claimed: StoredSignIn | undefined;
    await this.#records.update(id, (before) => {
      const now = this.#now();
      claimed = undefined;
      if (!before || (before.refreshAt ?? 0) > now || (before.refreshingUntil ?? 0) > now) return undefined;
      claimed = { ...before, refreshingUntil: now + CLAIM_MS };
      return claimed;
    });
    return claimed;
  }

  /** `result`: undefined if the issuer cannot be reached. */
  #after({ refreshingUntil: _, ...before }: StoredSignIn, result: Refreshed | undefined): StoredSignIn | null {
    if (result === 'ended') return null;
    if (result && 'claims' in result) return { ...before, ...this.#stored(result) };
    const sealed = result && { refreshToken: this.#sealed(result.refreshToken) };
    return { ...before, ...sealed, refreshAt: this.#now() + RETRY_MS };
  }

  #stored({ claims, refreshToken, expiresIn = Number.POSITIVE_INFINITY }: Proven) {
    const now = this.#now();
    const delay = Math.max(MIN_REFRESH_MS, Math.min(expiresIn * 1_000, MAX_UNCONFIRMED_MS));
    const next = refreshToken !== undefined && { refreshToken: this.#sealed(refreshToken), refreshAt: now + delay };
    return { claims, refreshedAt: now, ...next };
  }

  #sealed(refreshToken: string): string {
    return this.#options.sealer.seal('refreshToken', refreshToken);
  }

  /** Undefined if it was sealed with another key. */
  #unsealed({ refreshToken }: StoredSignIn): string | undefined {
    return refreshToken === undefined ? undefined : this.#options.sealer.open('refreshToken', refreshToken);
  }
}

function idOf(value: string): string {
  return hash('sha256', value, 'base64url');
}
