import type { KeySettings } from '@sluice/contract';
import { hashServiceKey } from '@sluice/contract/service-key';
import { type Authenticated, authenticated } from './authenticator.ts';
import { createSource, type Invalid, invalid, KEYS_SOURCE, principalOf } from './claims.ts';
import type { Principal } from './principal.ts';

/** A key of a service account, by one of its hashes. */
export class ServiceKey {
  readonly settings: KeySettings;
  /** Its SHA-256, which proves the principal without the key. */
  readonly hash: string;
  readonly authenticated: Authenticated;
  /** Time of its last use in this process; undefined before. */
  lastUsedAt: number | undefined = undefined;

  constructor(settings: KeySettings, hash: string, principal: Principal) {
    const expiresAt = settings.expires === undefined ? undefined : Date.parse(settings.expires) + DAY_MS;
    this.settings = settings;
    this.hash = hash;
    this.authenticated = authenticated(principal, { kind: 'key', hash, header: 'authorization' }, expiresAt);
  }
}

const DAY_MS = 24 * 60 * 60 * 1_000;

const MALFORMED = invalid('the key is malformed');
const UNKNOWN = invalid('the key is unknown');
const EXPIRED = invalid('the key has expired');

/**
 * The keys of service accounts. They are found by their hashes in a map, whose look-up takes a time that depends on the hash. What
 * that reveals about a stored hash is of no use: a key with a given hash cannot be found, and keys have 256 random bits.
 */
export class ServiceKeys {
  /** In the order of the settings; a key with two hashes is listed twice. */
  readonly all: readonly ServiceKey[];
  readonly #byHash: ReadonlyMap<string, ServiceKey>;
  readonly #now: () => number;

  /**
   * `earlier`: keys that these replace, whose last use counts for equal ones. Throws if a name or group is not valid, or if two
   * keys have the same hash.
   */
  constructor(settings: readonly KeySettings[], now: () => number = Date.now, earlier: readonly ServiceKey[] = []) {
    this.all = settings.flatMap(keysOf);
    this.#byHash = new Map(this.all.map((key) => [key.hash, key]));
    this.#now = now;
    for (const { hash, lastUsedAt } of earlier) {
      const key = this.#byHash.get(hash);
      if (key) key.lastUsedAt = lastUsedAt;
    }
    if (this.#byHash.size < this.all.length) throw new Error('two keys of identity.keys have the same hash');
  }

  /** Returns the key that a client has sent, and notes its use. */
  authenticate(text: string): ServiceKey | Invalid {
    const hash = hashServiceKey(text);
    if (hash === undefined) return MALFORMED;
    const key = this.find(hash);
    if (key instanceof ServiceKey) key.lastUsedAt = this.#now();
    return key;
  }

  /** Returns the key with this hash, if it is still accepted. `knownExpiry`: what has begun before this time may continue. */
  find(hash: string, knownExpiry?: number): ServiceKey | Invalid {
    const key = this.#byHash.get(hash);
    if (key === undefined) return UNKNOWN;
    const { expiresAt } = key.authenticated;
    const isExpired = expiresAt !== undefined && expiresAt !== knownExpiry && this.#now() >= expiresAt;
    return isExpired ? EXPIRED : key;
  }
}

const SOURCE = createSource(KEYS_SOURCE, false);

function keysOf(settings: KeySettings): ServiceKey[] {
  const { name, groups, sha256 } = settings;
  const principal = principalOf(SOURCE, { kind: 'service_account', id: name, groups, person: undefined });
  if (principal.kind === 'invalid') throw new Error(`key "${name}" of identity.keys: ${principal.reason}`);
  return sha256.map((hash) => new ServiceKey(settings, hash, principal));
}
