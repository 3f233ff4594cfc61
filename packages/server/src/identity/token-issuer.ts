import type { TokenIssuerSettings } from '@sluice/contract';
import type { JsonObject } from '@sluice/protocol/json/parse';
import { compactVerify } from 'jose';
import { type Authenticated, authenticated } from './authenticator.ts';
import { type Invalid, invalid, type PrincipalSource } from './claims.ts';
import { type IssuerKeyParts, IssuerKeys } from './issuer-keys.ts';
import type { IssuerKey } from './key-set.ts';
import { claimReader } from './token-claims.ts';
import { audiencesOf, checkDates, type ParsedToken } from './token-format.ts';

/** A token that cannot be verified now: the keys of its issuer are unknown, or too many others are verified. */
export interface Unavailable {
  readonly kind: 'unavailable';
}

const UNAVAILABLE: Unavailable = { kind: 'unavailable' };
const OTHER_ALGORITHM = invalid('the algorithm of the token is not allowed');
const UNKNOWN_KEY = invalid('the key of the token is none of its issuer');
const WRONG_SIGNATURE = invalid('the signature of the token is wrong');

/** Keys that are tried for a token that does not name one. */
const MAX_CANDIDATES = 3;

/** What token issuers need from outside. */
export interface IssuerParts extends IssuerKeyParts {
  /** Where clients reach the MCP listeners: the begin of the URLs of endpoints, without trailing slash. */
  readonly publicUrl: string | undefined;
  readonly turns: SignatureTurns;
}

/** A token that was verified. It counts while its issuer has the key, and until it expires. */
export interface VerifiedToken {
  readonly kind: 'verified';
  readonly issuer: TokenIssuer;
  readonly key: IssuerKey;
  readonly claims: JsonObject;
  readonly authenticated: Authenticated;
  /** Time in milliseconds from which on it is not accepted. */
  readonly expiresAt: number;
  /** Namespaces whose endpoints are in its audience; `*` for all, and what belongs to no namespace. */
  readonly namespaces: readonly string[];
  /** Whether the management listener is in its audience. */
  readonly isForManagement: boolean;
}

/** Verifies the tokens of one issuer. */
export class TokenIssuer {
  readonly settings: TokenIssuerSettings;
  readonly keys: IssuerKeys;
  readonly #parts: IssuerParts;
  readonly #turns: SignatureTurns;
  readonly #principalOf: ReturnType<typeof claimReader>;

  /** `keys`: those of the same issuer under earlier settings. */
  constructor(settings: TokenIssuerSettings, source: PrincipalSource, parts: IssuerParts, keys?: IssuerKeys) {
    this.settings = settings;
    this.keys = keys ?? new IssuerKeys(settings, parts);
    this.#parts = parts;
    this.#turns = parts.turns;
    this.#principalOf = claimReader(settings, source);
  }

  /** Verifies a token that names this issuer, after checks that cost nothing. `problem`: what is wrong with it already. */
  async verify(token: ParsedToken, problem: Invalid | undefined): Promise<VerifiedToken | Invalid | Unavailable> {
    const { algorithm, keyId, claims } = token;
    const expiresAt = problem ?? this.#expiryOf(algorithm, claims);
    if (typeof expiresAt !== 'number') return expiresAt;
    const found = this.keys.find(algorithm, keyId);
    const candidates = found instanceof Promise ? await found : found;
    if (candidates?.length === 0) return UNKNOWN_KEY;
    if (!candidates || this.#turns.isFull) return UNAVAILABLE;
    const turn = this.#turns.take();
    if (turn) await turn;
    const key = await signerOf(token, candidates);
    this.#turns.end();
    return key ? this.assess(claims, algorithm, key) : WRONG_SIGNATURE;
  }

  /** Reads claims that a key of this issuer has signed. */
  assess(
    claims: JsonObject,
    algorithm: string,
    key: IssuerKey,
    now: number = this.#parts.now(),
  ): VerifiedToken | Invalid {
    const expiresAt = this.#expiryOf(algorithm, claims, now);
    if (typeof expiresAt !== 'number') return expiresAt;
    const principal = this.#principalOf(claims);
    if (principal.kind === 'invalid') return principal;
    const { name: source } = this.settings;
    const by = authenticated(
      principal,
      { kind: 'token', source, claims, algorithm, key: key.text, header: 'authorization' },
      expiresAt,
    );
    return { kind: 'verified', issuer: this, key, claims, authenticated: by, expiresAt, ...this.#audienceOf(claims) };
  }

  #expiryOf(algorithm: string, claims: JsonObject, now: number = this.#parts.now()): number | Invalid {
    const { algorithms, max_lifetime_hours: hours } = this.settings;
    const isAllowed = algorithms.some((allowed) => allowed === algorithm);
    return isAllowed ? checkDates(claims, hours, now) : OTHER_ALGORITHM;
  }

  #audienceOf(claims: JsonObject): Pick<VerifiedToken, 'namespaces' | 'isForManagement'> {
    const { audiences, management_audiences: own } = this.settings;
    const named = audiencesOf(claims);
    const namespaces = new Set(audiences.filter(({ value }) => named.includes(value)).flatMap((each) => each.for));
    for (const audience of named) {
      const endpoint = endpointIn(audience, this.#parts.publicUrl);
      if (endpoint !== undefined) namespaces.add(endpoint);
    }
    return { namespaces: [...namespaces], isForManagement: named.some((audience) => own.includes(audience)) };
  }
}

const ENDPOINT = /^\/([^/*]+)\/mcp\/?$/;

/** Returns the namespace whose endpoint an audience is. */
export function endpointIn(audience: string, publicUrl: string | undefined): string | undefined {
  if (publicUrl === undefined || !audience.startsWith(publicUrl)) return undefined;
  return ENDPOINT.exec(audience.slice(publicUrl.length))?.[1];
}

/** Returns the key that has signed the token; undefined if none of them has. Never rejects. */
async function signerOf({ text, algorithm }: ParsedToken, keys: readonly IssuerKey[]): Promise<IssuerKey | undefined> {
  for (const key of keys.slice(0, MAX_CANDIDATES)) {
    try {
      await compactVerify(text, await key.import(algorithm), { algorithms: [algorithm] });
      return key;
    } catch {
      // Another signature, or a malformed key.
    }
  }
  return undefined;
}

/** Signatures that are verified at once: in threads of Node.js that also sync files. */
const MAX_VERIFYING = 2;
const MAX_WAITING = 1_000;

/** Limits the verification of signatures; the others wait. */
export class SignatureTurns {
  #free = MAX_VERIFYING;
  readonly #waiting: (() => void)[] = [];

  /** Whether no other one may wait. */
  get isFull(): boolean {
    return this.#waiting.length >= MAX_WAITING;
  }

  /** Returns a promise if others have to {@link end} before. */
  take(): Promise<void> | undefined {
    if (this.#free === 0) return new Promise<void>((resolve) => void this.#waiting.push(resolve));
    this.#free--;
    return undefined;
  }

  /** Ends a turn. */
  end(): void {
    const next = this.#waiting.shift();
    if (next) next();
    else this.#free++;
  }
}
