import { hash } from 'node:crypto';
import { isDeepStrictEqual } from 'node:util';
import type { IdentitySettings } from '@sluice/contract';
import { detach } from '@sluice/protocol/text';
import type { Proof } from './authenticator.ts';
import { createSource, type Invalid, invalid } from './claims.ts';
import type { KeySource } from './issuer-keys.ts';
import { accessTokenProblem, idTokenProblem, parseToken, type SignInFacts } from './token-format.ts';
import { type IssuerParts, SignatureTurns, TokenIssuer, type Unavailable, type VerifiedToken } from './token-issuer.ts';

/** Verified tokens that are cached, and characters of all of them. */
const MAX_CACHED = 10_000;
const MAX_CACHED_CHARACTERS = 32 * 1024 * 1024;
/** Latest credentials, which are found without their hash: a power of two. Longer ones take too much memory. */
const RECENT = 4_096;
const MAX_RECENT_CHARACTERS = 4 * 1024;

const UNKNOWN_ISSUER = invalid('the issuer of the token is unknown');

/** What is stored of a verified token. */
export type TokenProof = Extract<Proof, { readonly kind: 'token' }>;

/** Result of a verification. */
export type Verification = VerifiedToken | Invalid | Unavailable;

interface CachedToken {
  readonly token: VerifiedToken;
  readonly characters: number;
}

/** A header with a credential, and the token that it has. */
interface RecentCredential {
  readonly line: string;
  readonly token: VerifiedToken;
}

/**
 * The bearer tokens of all issuers. Part of the hot path: a token is verified once, then found by its SHA-256. That takes 1 to 4 µs,
 * so the latest ones are found by the text of the header: it is compared with two others at most, which have an end like it. Nobody
 * can guess the end of a credential that is not theirs.
 */
export class Tokens {
  readonly #issuers: readonly TokenIssuer[];
  readonly #parts: IssuerParts;
  readonly #cached = new Map<string, CachedToken>();
  #cachedCharacters = 0;
  readonly #recent: (RecentCredential | undefined)[] = Array.from({ length: RECENT });
  /** Verifications by the hash of the token: clients send many requests at once. */
  readonly #pending = new Map<string, Promise<Verification>>();

  /** `earlier`: what these settings replace, which is closed. Keys are kept where their source is the same. */
  constructor(settings: IdentitySettings['tokens'], parts: Omit<IssuerParts, 'turns'>, earlier?: Tokens) {
    this.#parts = { ...parts, turns: earlier ? earlier.#parts.turns : new SignatureTurns() };
    const names = settings.map(({ name }) => name);
    const known = earlier ? earlier.#issuers : [];
    this.#issuers = settings.map((issuer) => {
      const keys = known.find((other) => isDeepStrictEqual(sourceOf(other.settings), sourceOf(issuer)))?.keys;
      return new TokenIssuer(issuer, createSource(issuer.name, issuer.bare, names), this.#parts, keys);
    });
    for (const { keys } of known) if (!this.#issuers.some((issuer) => issuer.keys === keys)) keys.close();
  }

  /** Returns the token in a header that was received before, if it still counts. */
  recent(line: string): VerifiedToken | undefined {
    const slot = slotOf(line);
    const first = this.#recent[slot];
    const found = first?.line === line ? first : this.#recent[slot ^ 1];
    return found?.line === line && this.#counts(found.token) ? found.token : undefined;
  }

  /** Verifies the token in a header. Returns a promise only for one that was not verified before. */
  verify(line: string, text: string): Verification | Promise<Verification> {
    const id = hash('sha256', text, 'base64url');
    const cached = this.#cached.get(id);
    if (cached && this.#counts(cached.token)) {
      this.#remember(line, cached.token);
      return cached.token;
    }
    if (cached) this.#remove(id, cached);
    return this.#pending.get(id) ?? this.#begin(text, id);
  }

  /** Verifies the ID token of a sign-in at the issuer with this name. It counts for the sign-in only. */
  async verifyIdToken(text: string, name: string, signIn: SignInFacts): Promise<Verification> {
    const token = parseToken(text);
    if ('kind' in token) return token;
    const issuer = this.#issuers.find(({ settings }) => settings.name === name);
    if (issuer?.settings.issuer !== token.issuer) return UNKNOWN_ISSUER;
    return await issuer.verify(token, idTokenProblem(token, signIn));
  }

  /**
   * Applies these settings to a token that was verified earlier; undefined if it does not count any more. What has begun before
   * `knownExpiry` may continue after it.
   */
  reassess({ source, claims, algorithm, key: text }: TokenProof, knownExpiry = Infinity): VerifiedToken | undefined {
    const issuer = this.#issuers.find(({ settings }) => settings.name === source && settings.issuer === claims.iss);
    const key = issuer?.keys.equalOf(text);
    const token = key && issuer?.assess(claims, algorithm, key, Math.min(this.#parts.now(), knownExpiry - 1));
    return token?.kind === 'verified' ? token : undefined;
  }

  /** Ends the refreshes of keys. */
  close(): void {
    for (const { keys } of this.#issuers) keys.close();
  }

  /** Nothing is stored of what no issuer can verify: everybody can make any number of such tokens. */
  #begin(text: string, id: string): Invalid | Promise<Verification> {
    const token = parseToken(text);
    if ('kind' in token) return token;
    const issuer = this.#issuers.find(({ settings }) => settings.issuer === token.issuer);
    if (!issuer) return UNKNOWN_ISSUER;
    const pending = issuer
      .verify(token, accessTokenProblem(token))
      .then((verification) => {
        if (verification.kind === 'verified') this.#add(id, { token: verification, characters: text.length });
        return verification;
      })
      .finally(() => this.#pending.delete(id));
    this.#pending.set(id, pending);
    return pending;
  }

  #counts({ expiresAt, issuer, key }: VerifiedToken): boolean {
    return this.#parts.now() < expiresAt && issuer.keys.has(key);
  }

  /** In the first of two places; the credential there moves to the second one. */
  #remember(line: string, token: VerifiedToken): void {
    if (line.length > MAX_RECENT_CHARACTERS) return;
    const slot = slotOf(line);
    this.#recent[slot ^ 1] = this.#recent[slot];
    this.#recent[slot] = { line: detach(line), token };
  }

  #add(id: string, cached: CachedToken): void {
    this.#cached.set(id, cached);
    this.#cachedCharacters += cached.characters;
    for (const [oldest, { characters }] of this.#cached) {
      if (this.#cached.size <= MAX_CACHED && this.#cachedCharacters <= MAX_CACHED_CHARACTERS) break;
      this.#remove(oldest, { characters });
    }
  }

  #remove(id: string, { characters }: Pick<CachedToken, 'characters'>): void {
    if (this.#cached.delete(id)) this.#cachedCharacters -= characters;
  }
}

/** Where the keys of an issuer come from. */
function sourceOf({ name, issuer, upstream_issuer, jwks_url, ca_file }: KeySource): KeySource {
  return { name, issuer, upstream_issuer, jwks_url, ca_file };
}

/** The end of a token is that of its signature, whose characters are random. */
function slotOf(line: string): number {
  const end = line.length;
  const mixed = Math.imul(line.charCodeAt(end - 3), 31) + Math.imul(line.charCodeAt(end - 5), 131);
  return (mixed + line.charCodeAt(end - 7)) & (RECENT - 1);
}
