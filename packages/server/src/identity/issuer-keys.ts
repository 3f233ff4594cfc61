import type { TokenIssuerSettings } from '@sluice/contract';
import { isJsonObject, tryParseJson } from '@sluice/protocol/json/parse';
import { type IssuerKey, MAX_KEY_SET_BYTES, parseKeySet } from './key-set.ts';

/** Where the keys of an issuer come from. */
export type KeySource = Pick<TokenIssuerSettings, 'name' | 'issuer' | 'upstream_issuer' | 'jwks_url' | 'ca_file'>;

/** A request to a token issuer. */
export interface IssuerRequest {
  readonly url: string;
  /** Certificates (PEM) that are trusted beside those of the system. */
  readonly ca: string | undefined;
  /** Body of a POST, `application/x-www-form-urlencoded`; GET without it. */
  readonly form?: URLSearchParams;
  readonly maxBytes: number;
  readonly timeoutMs: number;
}

/** Sends a request to a token issuer. Redirects are not followed. Rejects with an error that has no credential. */
export type FetchIssuer = (request: IssuerRequest) => Promise<{ readonly status: number; readonly body: string }>;

/** What the keys of an issuer need from outside. */
export interface IssuerKeyParts {
  readonly fetch: FetchIssuer;
  readonly now: () => number;
  /** Gets the error of the first failed attempt after a successful one, and undefined once an attempt succeeds again. */
  readonly report: (source: KeySource, error: unknown) => void;
}

const REFRESH_MS = 10 * 60 * 1_000;
/** Pause between two attempts for an unknown key, or after a failed one. */
const PAUSE_MS = 30 * 1_000;
/** Pause while there are no keys, in which requests are answered with 503 at once. */
const FIRST_PAUSE_MS = 5 * 1_000;
const MAX_WAITING = 1_000;
const MAX_WAIT_MS = 5 * 1_000;

/**
 * Keys of one issuer: from its metadata (RFC 8414, OpenID Connect Discovery), from a URL, or from a text. They are fetched again every
 * 10 minutes, so that a removed key stops to count, and for a key that is unknown. While that fails, the known ones count.
 */
export class IssuerKeys {
  readonly source: KeySource;
  readonly #parts: IssuerKeyParts;
  #keys: readonly IssuerKey[] | undefined;
  #pending: Promise<void> | undefined;
  #lastAttempt = Number.NEGATIVE_INFINITY;
  #hasFailed = false;
  #waiting = 0;
  #timer: NodeJS.Timeout | undefined;
  #isClosed = false;

  /** Begins to fetch the keys. Throws if their text is invalid. */
  constructor(source: KeySource, parts: IssuerKeyParts) {
    this.source = source;
    this.#parts = parts;
    const { issuer, jwks_url: location } = source;
    if (typeof location === 'object') this.#keys = parseKeySet(location.text, issuer);
    else void this.#refresh();
  }

  /** Whether the key, which {@link find} has returned, is one of this issuer now. */
  has(key: IssuerKey): boolean {
    return this.#keys?.includes(key) ?? false;
  }

  /** Returns the key with this text, if this issuer has it now. */
  equalOf(text: string): IssuerKey | undefined {
    return this.#keys?.find((key) => key.text === text);
  }

  /**
   * Returns the keys that may have signed a token, after a refresh if there are none. Undefined if that is not known within 5 s, or
   * if too many requests wait for it already.
   */
  find(
    algorithm: string,
    keyId: string | undefined,
  ): readonly IssuerKey[] | undefined | Promise<readonly IssuerKey[] | undefined> {
    const known = this.#matching(algorithm, keyId);
    if ((known && known.length > 0) || !this.#mayRefresh()) return known;
    return this.#waiting < MAX_WAITING ? this.#refreshed(algorithm, keyId) : undefined;
  }

  async #refreshed(algorithm: string, keyId: string | undefined): Promise<readonly IssuerKey[] | undefined> {
    this.#waiting++;
    const isDone = await settles(this.#refresh(), MAX_WAIT_MS);
    this.#waiting--;
    return isDone ? this.#matching(algorithm, keyId) : undefined;
  }

  /** Ends the refreshes. */
  close(): void {
    this.#isClosed = true;
    clearTimeout(this.#timer);
  }

  #matching(algorithm: string, keyId: string | undefined): readonly IssuerKey[] | undefined {
    return this.#keys?.filter((key) => key.matches(algorithm, keyId));
  }

  /** Whether a request may cause an attempt, or wait for one. */
  #mayRefresh(): boolean {
    if (typeof this.source.jwks_url === 'object' || this.#isClosed) return false;
    const pause = this.#keys ? PAUSE_MS : FIRST_PAUSE_MS;
    return this.#pending !== undefined || this.#parts.now() - this.#lastAttempt >= pause;
  }

  /** Never rejects. */
  #refresh(): Promise<void> {
    this.#pending ??= this.#attempt();
    return this.#pending;
  }

  async #attempt(): Promise<void> {
    clearTimeout(this.#timer);
    this.#lastAttempt = this.#parts.now();
    try {
      this.#replace(parseKeySet(await this.#fetch(), this.source.issuer));
      if (this.#hasFailed) this.#parts.report(this.source, undefined);
      this.#hasFailed = false;
    } catch (error) {
      if (!this.#hasFailed) this.#parts.report(this.source, error);
      this.#hasFailed = true;
    }
    this.#pending = undefined;
    if (this.#isClosed) return;
    this.#timer = setTimeout(() => void this.#refresh(), this.#hasFailed ? PAUSE_MS : REFRESH_MS);
    this.#timer.unref();
  }

  /** A key stays the same object, so that tokens which it has signed stay verified. */
  #replace(keys: readonly IssuerKey[]): void {
    const known = new Map(this.#keys?.map((key) => [key.text, key]));
    this.#keys = keys.map((key) => known.get(key.text) ?? key);
  }

  async #fetch(): Promise<string> {
    const { jwks_url: location } = this.source;
    const url = typeof location === 'string' ? new URL(location) : await this.#locate();
    return this.#text(url);
  }

  async #text(url: URL): Promise<string> {
    const { href } = url;
    const limits = { maxBytes: MAX_KEY_SET_BYTES, timeoutMs: MAX_WAIT_MS };
    const { status, body } = await this.#parts.fetch({ url: href, ca: this.source.ca_file?.text, ...limits });
    if (status !== 200) throw new Error(`${href} answered with status ${status}`);
    return body;
  }

  /** Returns the URL of the keys that the metadata of the issuer names, as this service reaches it. */
  async #locate(): Promise<URL> {
    const { issuer, upstream_issuer: upstream = issuer } = this.source;
    const { origin, pathname } = new URL(upstream);
    const path = pathname.replace(/\/$/, '');
    let text: string;
    try {
      text = await this.#text(new URL(`${origin}${path}/.well-known/openid-configuration`));
    } catch (error) {
      // Authorization servers without OpenID Connect have this form only.
      const url = new URL(`${origin}/.well-known/oauth-authorization-server${path}`);
      text = await this.#text(url).catch(() => Promise.reject(error));
    }
    const metadata = tryParseJson(text);
    if (!isJsonObject(metadata)) throw new Error('the metadata is not a JSON object');
    if (metadata.issuer !== issuer && metadata.issuer !== upstream)
      throw new Error('the metadata is that of another issuer');
    const { jwks_uri: uri } = metadata;
    const url = typeof uri === 'string' ? URL.parse(uri) : null;
    if (!url || !/^https?:$/.test(url.protocol)) throw new Error('the metadata has no valid jwks_uri');
    return url.origin === new URL(issuer).origin ? new URL(url.pathname + url.search, origin) : url;
  }
}

/** Whether the promise, which never rejects, settles in this time. */
async function settles(promise: Promise<void>, ms: number): Promise<boolean> {
  let timer: NodeJS.Timeout | undefined;
  const timeout = new Promise<boolean>((resolve) => {
    timer = setTimeout(resolve, ms, false);
  });
  const isSettled = await Promise.race([promise.then(() => true), timeout]);
  clearTimeout(timer);
  return isSettled;
}
