import { createHash } from 'node:crypto';
import { z } from 'zod';
import type { StoredPrincipal } from '../identity/principal.ts';

/** Whom an item counts for. */
export const quotaOwnerSchema = z.object({
  namespace: z.string(),
  /** Key of the principal; `address:` and the address of the client if it is anonymous. */
  name: z.string(),
});
/** See {@link quotaOwnerSchema}. */
export type QuotaOwner = Readonly<z.output<typeof quotaOwnerSchema>>;

/** Owner of what was stored without one. */
export const NO_OWNER: QuotaOwner = { namespace: '', name: '' };

/** Prefix of the names of anonymous owners; keys of principals have others. */
const ADDRESS = 'address:';
/** Longer names are hashed: what is counted must not grow with what clients send. */
const MAX_NAME = 64;

/** Returns whom the items of a request count for. */
export function quotaOwner(
  namespace: string,
  { key }: Pick<StoredPrincipal, 'key'>,
  address: string | undefined,
): QuotaOwner {
  const name = key === '' ? `${ADDRESS}${address ?? ''}` : key;
  return { namespace, name: name.length > MAX_NAME ? createHash('sha256').update(name).digest('base64url') : name };
}

/**
 * A total that its owners have in common, of which each may have at most twice as much as is still free. One owner alone gets two
 * thirds of the total, two get 2/5 each, and ten 2/21 each: nobody uses it up, and no part has to be configured. Nothing is taken
 * from an owner for another one: a new one gets two thirds of what is free, and more as others release.
 *
 * The factor is a compromise. Often there is one owner: all anonymous clients behind one address, in one namespace. With four times
 * what is free it would get 4/5, but owners that take all they get one after the other would leave a fifth each instead of a third.
 *
 * An authenticated principal is one owner in all namespaces, as it could use up the total through several of them. An address is
 * an owner in each namespace: there may be a whole network behind it.
 */
export class Quota<Item> {
  readonly #limit: number;
  #used = 0;
  readonly #owners = new Map<string, Owned<Item>>();
  /** Where each item counts. */
  readonly #items = new Map<Item, Owned<Item>>();

  constructor(limit: number) {
    this.#limit = limit;
  }

  /** Sum of all amounts. */
  get used(): number {
    return this.#used;
  }

  /** Number of items. */
  get size(): number {
    return this.#items.size;
  }

  has(item: Item): boolean {
    return this.#items.has(item);
  }

  /** Whether an owner may have `more`. An owner without items may take the last 1 that is free. */
  allows(owner: QuotaOwner, more: number): boolean {
    const free = this.#limit - this.#used - more;
    // No owner has more than all of them.
    if (this.#used + more <= FREE_FACTOR * free) return true;
    const own = (this.#owners.get(keyOf(owner))?.used ?? 0) + more;
    return own <= (free === 0 ? 1 : FREE_FACTOR * free);
  }

  /** Sets the amount of an item, allowed or not. A new one is the newest of its owner. */
  set(item: Item, owner: QuotaOwner, amount: number): void {
    let owned = this.#items.get(item);
    if (!owned) {
      owned = this.#ownedBy(keyOf(owner));
      this.#items.set(item, owned);
    }
    const more = amount - (owned.items.get(item) ?? 0);
    owned.items.set(item, amount);
    owned.used += more;
    this.#used += more;
  }

  /** Sets the amount of an item; false if its owner may not have that much more. */
  reserve(item: Item, owner: QuotaOwner, amount: number): boolean {
    const more = amount - (this.#items.get(item)?.items.get(item) ?? 0);
    if (more > 0 && !this.allows(owner, more)) return false;
    this.set(item, owner, amount);
    return true;
  }

  /** Removes an item; false if it is not counted. */
  delete(item: Item): boolean {
    const owned = this.#items.get(item);
    if (!owned) return false;
    const amount = owned.items.get(item) ?? 0;
    this.#items.delete(item);
    owned.items.delete(item);
    owned.used -= amount;
    this.#used -= amount;
    if (owned.items.size === 0) this.#owners.delete(owned.key);
    return true;
  }

  /**
   * Removes the oldest items of an owner until it may have `more`, and calls `onEvicted` with each; false if it has too few of them.
   * Twice as much is enough: an owner whose quota has become smaller gets there step by step.
   */
  evict(owner: QuotaOwner, more: number, onEvicted: (item: Item) => void): boolean {
    const enough = this.#used - 2 * more;
    while (this.#used > enough && !this.allows(owner, more)) {
      const [oldest] = this.items(owner);
      if (oldest === undefined) return false;
      this.delete(oldest);
      onEvicted(oldest);
    }
    return true;
  }

  /** Items of an owner, the oldest first. */
  items(owner: QuotaOwner): IteratorObject<Item> {
    return this.#owners.get(keyOf(owner))?.items.keys() ?? NOTHING.values();
  }

  #ownedBy(key: string): Owned<Item> {
    let owned = this.#owners.get(key);
    if (!owned) {
      owned = { key, used: 0, items: new Map() };
      this.#owners.set(key, owned);
    }
    return owned;
  }
}

/** How much an owner may have, as a multiple of what is free. */
const FREE_FACTOR = 2;
const NOTHING: readonly never[] = [];

/** What an owner has: amounts by item, and their sum. */
interface Owned<Item> {
  readonly key: string;
  used: number;
  readonly items: Map<Item, number>;
}

/** Principals are the same in all namespaces. */
function keyOf({ namespace, name }: QuotaOwner): string {
  return name.startsWith(ADDRESS) ? `${name} ${namespace}` : name;
}
