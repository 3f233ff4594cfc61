import { createHash } from 'node:crypto';
import { z } from 'zod';
import type { StoredPrincipal } from '../identity/principal.ts';

/** Whom an item counts for: totals are shared between namespaces, and within one between principals. */
export const quotaOwnerSchema = z.object({
  namespace: z.string(),
  /** Key of the principal; `address:` and the address of the client if it is anonymous. */
  name: z.string(),
});
/** See {@link quotaOwnerSchema}. */
export type QuotaOwner = Readonly<z.output<typeof quotaOwnerSchema>>;

/** Owner of what was stored without one. */
export const NO_OWNER: QuotaOwner = { namespace: '', name: '' };

/** Longer names are hashed: what is counted must not grow with what clients send. */
const MAX_NAME = 64;

/** Returns whom the items of a request count for. */
export function quotaOwner(
  namespace: string,
  { key }: Pick<StoredPrincipal, 'key'>,
  address: string | undefined,
): QuotaOwner {
  const name = key === '' ? `address:${address ?? ''}` : key;
  return { namespace, name: name.length > MAX_NAME ? createHash('sha256').update(name).digest('base64url') : name };
}

/**
 * A total that namespaces and their users share. When it is used up, a holder that has less than its share displaces the oldest
 * item of the largest holder: of the largest user of the largest namespace or, if its own namespace has its share already, of the
 * largest user there. Any other holder gets no more. What counts is what a holder has, not what it asks for.
 *
 * Each operation takes logarithmic time in the number of holders, and memory is proportional to the items.
 */
export class Shares<Item> {
  readonly limit: number;
  readonly #root = new Share<Item>('', undefined);
  /** The share that each item counts in. */
  readonly #items = new Map<Item, Share<Item>>();

  constructor(limit: number) {
    this.limit = limit;
  }

  /** Sum of all amounts. */
  get used(): number {
    return this.#root.used;
  }

  /** Number of items. */
  get size(): number {
    return this.#items.size;
  }

  has(item: Item): boolean {
    return this.#items.has(item);
  }

  /** Sets the amount of an item. A new one is the newest of its holder. */
  set(item: Item, { namespace, name }: QuotaOwner, amount: number): void {
    let share = this.#items.get(item);
    if (!share) {
      share = this.#root.ensureChild(namespace).ensureChild(name);
      this.#items.set(item, share);
    }
    share.setAmount(item, amount);
  }

  /** Removes an item; false if it is not counted. */
  delete(item: Item): boolean {
    const share = this.#items.get(item);
    if (!share) return false;
    this.#items.delete(item);
    share.deleteItem(item);
    return true;
  }

  /**
   * Makes room for `more` of this holder: displaced items are removed and passed to `displace`. False if the holder gets no
   * more. `canDisplace`: whether an item can be displaced at this time; default all.
   */
  makeRoom(
    holder: QuotaOwner,
    more: number,
    displace: (item: Item) => void,
    canDisplace: (item: Item) => boolean = () => true,
  ): boolean {
    if (more > this.limit) return false;
    while (this.used + more > this.limit) {
      const victim = this.displaceable(holder).find(canDisplace);
      if (victim === undefined) return false;
      this.delete(victim);
      displace(victim);
    }
    return true;
  }

  /** Items that make room for this holder, the oldest first; none if the holder has its share. */
  displaceable({ namespace, name }: QuotaOwner): IteratorObject<Item> {
    let total = this.limit;
    let level: Share<Item> | undefined = this.#root;
    for (const key of [namespace, name]) {
      if (!level) break;
      const own: Share<Item> | undefined = level.child(key);
      const { largest } = level;
      const isBelow = (own?.used ?? 0) < total / (level.childCount + (own ? 0 : 1));
      if (isBelow && largest && largest !== own) return (largest.largest ?? largest).items();
      level = own;
      total = own?.used ?? 0;
    }
    return NOTHING.values();
  }

  /** Items of one holder, the oldest first. */
  items({ namespace, name }: QuotaOwner): IteratorObject<Item> {
    return this.#root.child(namespace)?.child(name)?.items() ?? NOTHING.values();
  }
}

const NOTHING: readonly never[] = [];

/** Part of a total: the whole, the part of a namespace, or that of a user. Only users have items. */
class Share<Item> {
  used = 0;
  readonly #key: string;
  readonly #parent: Share<Item> | undefined;
  /** Index in the heap of the parent. */
  #position = 0;
  readonly #children = new Map<string, Share<Item>>();
  /** Binary heap of the children, the largest first. */
  readonly #heap: Share<Item>[] = [];
  /** Amounts by item. */
  readonly #items = new Map<Item, number>();

  constructor(key: string, parent: Share<Item> | undefined) {
    this.#key = key;
    this.#parent = parent;
  }

  get childCount(): number {
    return this.#heap.length;
  }

  get largest(): Share<Item> | undefined {
    return this.#heap[0];
  }

  child(key: string): Share<Item> | undefined {
    return this.#children.get(key);
  }

  ensureChild(key: string): Share<Item> {
    const existing = this.#children.get(key);
    if (existing) return existing;
    const added = new Share<Item>(key, this);
    this.#children.set(key, added);
    added.#position = this.#heap.push(added) - 1;
    return added;
  }

  items(): IteratorObject<Item> {
    return this.#items.keys();
  }

  setAmount(item: Item, amount: number): void {
    const more = amount - (this.#items.get(item) ?? 0);
    this.#items.set(item, amount);
    this.#add(more);
  }

  deleteItem(item: Item): void {
    const amount = this.#items.get(item) ?? 0;
    this.#items.delete(item);
    this.#add(-amount);
    if (this.#items.size === 0 && this.#parent) this.#parent.#remove(this);
  }

  #add(more: number): void {
    this.used += more;
    if (!this.#parent) return;
    this.#parent.#sift(this, more > 0);
    this.#parent.#add(more);
  }

  #remove(child: Share<Item>): void {
    this.#children.delete(child.#key);
    const last = this.#heap.pop();
    if (last && last !== child) {
      this.#place(last, child.#position);
      this.#sift(last, true);
      this.#sift(last, false);
    }
    if (this.#heap.length === 0 && this.#parent) this.#parent.#remove(this);
  }

  /** Restores the order of the heap after a child has grown or shrunk. */
  #sift(child: Share<Item>, grown: boolean): void {
    for (;;) {
      const position = child.#position;
      const other = grown ? this.#heap[(position - 1) >> 1] : this.#largerChild(position);
      if (!other || other === child) return;
      if (grown ? other.used >= child.used : other.used <= child.used) return;
      const vacated = other.#position;
      this.#place(other, position);
      this.#place(child, vacated);
    }
  }

  #largerChild(position: number): Share<Item> | undefined {
    const left = this.#heap[2 * position + 1];
    const right = this.#heap[2 * position + 2];
    return right && left && right.used > left.used ? right : left;
  }

  #place(child: Share<Item>, position: number): void {
    this.#heap[position] = child;
    child.#position = position;
  }
}
