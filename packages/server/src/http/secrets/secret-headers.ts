import type { ForwardHeaders } from '@sluice/contract';
import type { TargetLogger } from '../../telemetry/log.ts';
import { MIN_REDACTED_LENGTH, SecretMatcher } from './redaction.ts';
import { type Resolved, referencesIn, SECRET_FILE_MS, type Secrets } from './secrets.ts';

/** The headers of an upstream with their secrets, or why they cannot be sent. */
export type ResolvedHeaders =
  /** Names and values, alternating. */
  { readonly lines: readonly string[] } | { readonly problem: string };

/** Replaced secrets that are still redacted: an upstream may repeat one after it was rotated. */
const MAX_SECRETS = 8;

/** The headers of one upstream, resolved when they are first needed and again when a file may have changed. */
export class SecretHeaders {
  /** In lower case. */
  readonly names: ReadonlySet<string>;
  /** Search for the secrets that were sent; undefined while there is nothing to redact. */
  search: SecretMatcher | undefined = undefined;
  readonly #headers: ForwardHeaders;
  readonly #origins: readonly string[];
  readonly #secrets: Secrets;
  readonly #log: TargetLogger;
  #block: ResolvedHeaders | Promise<ResolvedHeaders> | undefined = undefined;
  /** Milliseconds of `performance.now()` until which the block is used. */
  #validUntil = 0;
  /** Secrets that were sent, the newest first. */
  #sent: readonly string[] = [];

  /** `origins` get the headers: at least that of the upstream. */
  constructor(headers: ForwardHeaders, origins: readonly string[], secrets: Secrets, log: TargetLogger) {
    this.names = new Set(Object.keys(headers).map((name) => name.toLowerCase()));
    this.#headers = headers;
    this.#origins = origins;
    this.#secrets = secrets;
    this.#log = log;
  }

  /** The headers to send now; a promise while a file is read, which never rejects. */
  current(): ResolvedHeaders | Promise<ResolvedHeaders> {
    if (this.#block && performance.now() < this.#validUntil) return this.#block;
    const values = Object.values(this.#headers).map((value) => this.#resolve(value));
    if (values.every(isResolved)) return this.#store(values);
    this.#validUntil = Number.POSITIVE_INFINITY;
    this.#block = Promise.all(values).then((resolved) => this.#store(resolved));
    return this.#block;
  }

  #resolve(value: string): Resolved | Promise<Resolved> {
    const [origin = '', ...others] = this.#origins;
    const problem = others.map((other) => this.#secrets.problem(value, other)).find((found) => found !== undefined);
    return problem === undefined ? this.#secrets.resolve(value, origin) : { problem };
  }

  #store(values: readonly Resolved[]): ResolvedHeaders {
    const lines: string[] = [];
    const secrets = new Set<string>();
    let readAt = Number.POSITIVE_INFINITY;
    const names = Object.keys(this.#headers);
    for (const [at, value] of values.entries()) {
      const name = names[at] ?? '';
      // A missing variable never appears, but one of several problems may be that of a file.
      if ('problem' in value) return this.#use({ problem: `header ${name} ${value.problem}` }, performance.now());
      lines.push(name, value.text);
      for (const secret of value.secrets) secrets.add(secret);
      readAt = Math.min(readAt, value.readAt);
    }
    this.#remember([...secrets]);
    return this.#use({ lines }, readAt);
  }

  #use(block: ResolvedHeaders, readAt: number): ResolvedHeaders {
    this.#block = block;
    this.#validUntil = readAt + SECRET_FILE_MS;
    return block;
  }

  #remember(secrets: readonly string[]): void {
    const added = secrets.filter((secret) => !this.#sent.includes(secret));
    if (added.length === 0) return;
    this.#sent = [...added, ...this.#sent].slice(0, Math.max(MAX_SECRETS, secrets.length));
    const redacted = this.#sent.filter(isLongEnough);
    if (!added.every(isLongEnough)) {
      const references = Object.values(this.#headers).flatMap(referencesIn);
      this.#log.warn('secret too short to be redacted', { references: references.map(({ text }) => text) });
    }
    this.search = redacted.length > 0 ? new SecretMatcher(redacted) : undefined;
  }
}

/** Backslashes do not count: the search compares sequences of them as one. */
function isLongEnough(secret: string): boolean {
  return secret.replaceAll('\\', '').length >= MIN_REDACTED_LENGTH;
}

function isResolved(value: Resolved | Promise<Resolved>): value is Resolved {
  return !(value instanceof Promise);
}
