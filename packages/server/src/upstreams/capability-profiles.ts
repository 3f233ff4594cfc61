import {
  type ClientCapabilities,
  capabilityKey,
  FULL_CAPABILITIES,
  NO_CAPABILITIES,
} from '@sluice/protocol/mcp/capabilities';
import { withTimeout } from '@sluice/protocol/timing';
import {
  CLIENT_DISCOVERY_LIMITS,
  ClientDiscoveries,
  type ClientDiscoveryLimits,
  type DiscoveryCause,
} from './client-discoveries.ts';

/** Limits on what clients may declare: their capabilities are arbitrary. */
const MAX_PROFILES = 16;
const MAX_KEY_LENGTH = 4096;
/** Time for which a client with new capabilities waits for discovery with them. */
const WAIT_MS = 2_000;
/** When the limit is reached, at most one set is replaced in this time: each costs a discovery of all forwards. */
const EVICTION_INTERVAL_MS = 10_000;

interface Profile {
  readonly capabilities: ClientCapabilities;
  /** One of the two initial sets, which are never evicted. */
  readonly fixed: boolean;
  /** Sequence number of the last use. */
  lastUse: number;
  /** Resolves when the forwards were discovered with it or a client has waited long enough; then undefined. */
  discovery: Promise<void> | undefined;
}

/**
 * Sets of client capabilities that forwards are discovered with: the empty and the full one from the start, and those that
 * clients declared recently. A new set evicts the least recently declared one.
 */
export class CapabilityProfiles {
  readonly #discover: () => Promise<unknown>;
  readonly #discoveries: ClientDiscoveries;
  readonly #now: () => number;
  readonly #profiles = new Map<string, Profile>();
  #lastUse = 0;
  #evictedAt = Number.NEGATIVE_INFINITY;

  /** `discover` discovers the forwards with all sets and never rejects; `now` returns milliseconds of a monotonic clock. */
  constructor(
    discover: () => Promise<unknown>,
    limits: ClientDiscoveryLimits = CLIENT_DISCOVERY_LIMITS,
    now: () => number = () => performance.now(),
  ) {
    this.#discover = discover;
    this.#discoveries = new ClientDiscoveries(limits, now);
    this.#now = now;
    for (const capabilities of [NO_CAPABILITIES, FULL_CAPABILITIES]) this.#add(capabilities, true);
  }

  /** The sets, the fixed ones first. */
  *capabilities(): Generator<ClientCapabilities> {
    for (const { capabilities } of this.#profiles.values()) yield capabilities;
  }

  /** Adds a set declared before a restart, if the limit allows it. */
  restore(capabilities: ClientCapabilities): void {
    if (this.#profiles.size < MAX_PROFILES && !this.#profiles.has(capabilityKey(capabilities))) {
      this.#add(capabilities, false);
    }
  }

  /**
   * Makes sure that the forwards are discovered with a client's capabilities, whose canonical form is `key`. Undefined if
   * they are, which is nearly always, or if a limit is reached; else a promise to wait for, shared by all
   * clients that declare the set meanwhile. Never rejects.
   */
  ensureDiscovered(key: string, capabilities: ClientCapabilities, cause: DiscoveryCause): Promise<void> | undefined {
    const known = this.#profiles.get(key);
    if (known) {
      known.lastUse = ++this.#lastUse;
      return known.discovery;
    }
    const hasRoom = this.#profiles.size < MAX_PROFILES || this.#now() - this.#evictedAt >= EVICTION_INTERVAL_MS;
    if (key.length > MAX_KEY_LENGTH || !hasRoom) return undefined;
    const run = this.#discoveries.run(cause, async () => {
      // It may have been evicted while it waited.
      if (this.#profiles.get(key) === added) await this.#discover();
    });
    if (!run) return undefined;
    this.#evictIfFull();
    const added = this.#add(capabilities, false);
    added.lastUse = ++this.#lastUse;
    added.discovery = withTimeout(WAIT_MS, run).then(() => {
      added.discovery = undefined;
    });
    return added.discovery;
  }

  #evictIfFull(): void {
    if (this.#profiles.size < MAX_PROFILES) return;
    let oldest: string | undefined;
    let lastUse = Number.POSITIVE_INFINITY;
    for (const [key, profile] of this.#profiles) {
      if (profile.fixed || profile.lastUse >= lastUse) continue;
      oldest = key;
      lastUse = profile.lastUse;
    }
    if (oldest !== undefined) this.#profiles.delete(oldest);
    this.#evictedAt = this.#now();
  }

  #add(capabilities: ClientCapabilities, fixed: boolean): Profile {
    const profile: Profile = { capabilities, fixed, lastUse: 0, discovery: undefined };
    this.#profiles.set(capabilityKey(capabilities), profile);
    return profile;
  }
}
