import type { StoredPrincipal } from './principal.ts';

/** Beginning of the id of a block of a forward. No id of a principal that a source of `identity` has begins with it. */
export const FORWARD_PREFIX = 'forward:';

/** Returns the forward that an id of a block names; undefined for the id of a principal or key. */
export function blockedForward(id: string): string | undefined {
  return id.startsWith(FORWARD_PREFIX) ? id.slice(FORWARD_PREFIX.length) : undefined;
}

/** For how long something is blocked, and why. Times are epoch milliseconds. */
export interface Block {
  readonly since: number;
  /** When it ends, has ended or was lifted; undefined without an end. */
  readonly until?: number | undefined;
  readonly reason?: string | undefined;
  /** Id of the principal that has blocked it. */
  readonly by?: string | undefined;
}

/** Whether a block is in force. */
export function isActive({ until }: Block, now: number): boolean {
  return until === undefined || until > now;
}

const NONE: ReadonlySet<string> = new Set();

/**
 * The principals, by id whatever their kind, and the forwards that are blocked, in memory. Keys are principals: their ids begin with
 * `keys/`. Part of the hot path: every request asks, and every message of a batch.
 */
export class Blocks {
  /** The blocked forwards: the same object until others are. See {@link update}. */
  forwards: ReadonlySet<string> = NONE;
  /** Also those that have ended, for what is older. */
  readonly #blocks = new Map<string, Block>();
  readonly #retainMs: number;
  readonly #now: () => number;

  /**
   * `retainMs`: how long a block is known after its end, which is the longest life of what the principal had opened. `now`: epoch
   * milliseconds; defaults to the system clock.
   */
  constructor(retainMs = 0, now: () => number = Date.now) {
    this.#retainMs = retainMs;
    this.#now = now;
  }

  /** Whether a principal is blocked. */
  isBlocked({ id }: Pick<StoredPrincipal, 'id'>): boolean {
    return this.#blocks.size > 0 && this.active(id) !== undefined;
  }

  /** Whether a principal was blocked at this time or later: what it had opened by then has ended. */
  wasBlockedSince(id: string, time: number): boolean {
    const block = this.#blocks.get(id);
    return block !== undefined && (block.until ?? Number.POSITIVE_INFINITY) >= time;
  }

  /** Returns the block with this id that is in force; undefined if there is none. */
  active(id: string): Block | undefined {
    const block = this.#blocks.get(id);
    return block && isActive(block, this.#now()) ? block : undefined;
  }

  /** Sets `forwards`. Returns when the next block of a forward ends; infinity if none does. */
  update(): number {
    const names = new Set<string>();
    let next = Number.POSITIVE_INFINITY;
    for (const id of this.#blocks.keys()) {
      const name = blockedForward(id);
      const block = name === undefined ? undefined : this.active(id);
      if (name === undefined || !block) continue;
      names.add(name);
      next = Math.min(block.until ?? next, next);
    }
    if (names.symmetricDifference(this.forwards).size > 0) this.forwards = names;
    return next;
  }

  // Where the records are: the table of their collection.

  get(id: string): Block | undefined {
    return this.#blocks.get(id);
  }

  entries(): Iterable<[id: string, block: Block]> {
    return this.#blocks.entries();
  }

  get size(): number {
    return this.#blocks.size;
  }

  set(id: string, block: Block | undefined): void {
    if (block) this.#blocks.set(id, block);
    else this.#blocks.delete(id);
  }

  follow(id: string, block: Block | undefined): void {
    this.set(id, block);
  }

  /** When a block may be forgotten, in epoch milliseconds; undefined: never. */
  expiryOf({ until }: Block): number | undefined {
    return until === undefined ? undefined : until + this.#retainMs;
  }

  removeExpired(now: number): number {
    for (const [id, block] of this.#blocks) if ((this.expiryOf(block) ?? now + 1) <= now) this.#blocks.delete(id);
    return this.#blocks.size;
  }
}
