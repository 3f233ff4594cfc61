import {
  type ClientCapabilities,
  capabilityKey,
  FULL_CAPABILITIES,
  NO_CAPABILITIES,
} from '@sluice/protocol/mcp/capabilities';
import { withTimeout } from './with-timeout.ts';

/** Capability sets that forwards are asked with. Clients choose what they declare, so there must be an end to it. */
const MAX_VARIANTS = 16;
const MAX_KEY_LENGTH = 4096;
/** A client whose capabilities nobody has had before waits so long for the forwards to be asked with them. */
const WAIT_MS = 2_000;
/** When there is no room, one set gives way to another at most this often: each time all forwards are asked anew. */
const EVICTION_MS = 10_000;

interface Variant {
  readonly capabilities: ClientCapabilities;
  /** The two that discovery begins with, which never give way. */
  readonly fixed: boolean;
  /** When it was last declared, as a number that grows. */
  used: number;
  /** Ends when the forwards were asked with it, or after as long as a client is made to wait; undefined after that. */
  asking: Promise<void> | undefined;
}

/**
 * The sets of client capabilities that discovery asks with (mcp 4): none and all from the beginning, and those that
 * clients declared of late. A new one takes the place of the one that was not declared for longest.
 */
export class CapabilityProfiles {
  readonly #discover: () => Promise<unknown>;
  readonly #now: () => number;
  readonly #known = new Map<string, Variant>();
  #uses = 0;
  #evictedAt = Number.NEGATIVE_INFINITY;

  /** `discover` asks the forwards with all sets, never rejecting; `now` is milliseconds of a clock that does not go back. */
  constructor(discover: () => Promise<unknown>, now: () => number = () => performance.now()) {
    this.#discover = discover;
    this.#now = now;
    for (const capabilities of [NO_CAPABILITIES, FULL_CAPABILITIES]) this.#put(capabilities, true);
  }

  /** The sets, the fixed ones first. */
  *capabilities(): Generator<ClientCapabilities> {
    for (const { capabilities } of this.#known.values()) yield capabilities;
  }

  /** Takes in a set that clients had declared before a restart, as long as there is room. */
  restore(capabilities: ClientCapabilities): void {
    if (this.#known.size < MAX_VARIANTS && !this.#known.has(capabilityKey(capabilities)))
      this.#put(capabilities, false);
  }

  /**
   * Makes sure that the forwards were asked with a client's capabilities, of which `key` is the canonical form.
   * Undefined when they were, which is nearly always, and when there is no room at the moment; else a promise to wait
   * for, the same one for everybody who comes meanwhile. Never rejects.
   */
  admit(key: string, capabilities: ClientCapabilities): Promise<void> | undefined {
    const known = this.#known.get(key);
    if (known) {
      known.used = ++this.#uses;
      return known.asking;
    }
    if (key.length > MAX_KEY_LENGTH || !this.#makeRoom()) return undefined;
    const added = this.#put(capabilities, false);
    added.used = ++this.#uses;
    added.asking = withTimeout(WAIT_MS, this.#discover()).then(() => {
      added.asking = undefined;
    });
    return added.asking;
  }

  #makeRoom(): boolean {
    if (this.#known.size < MAX_VARIANTS) return true;
    const now = this.#now();
    if (now - this.#evictedAt < EVICTION_MS) return false;
    let oldest: string | undefined;
    let used = Number.POSITIVE_INFINITY;
    for (const [key, variant] of this.#known) {
      if (variant.fixed || variant.used >= used) continue;
      oldest = key;
      used = variant.used;
    }
    if (oldest === undefined) return false;
    this.#known.delete(oldest);
    this.#evictedAt = now;
    return true;
  }

  #put(capabilities: ClientCapabilities, fixed: boolean): Variant {
    const variant: Variant = { capabilities, fixed, used: 0, asking: undefined };
    this.#known.set(capabilityKey(capabilities), variant);
    return variant;
  }
}
