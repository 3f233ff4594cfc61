import { type QuotaOwner, Shares } from '../../http/shares.ts';

/** Limits of all resource subscriptions together. */
export interface SubscriptionLimits {
  readonly count: number;
  /** UTF-8 bytes of the uris. */
  readonly bytes: number;
}

/** Defaults of SERVICE_MAX_SUBSCRIPTIONS and SERVICE_MAX_SUBSCRIPTION_BYTES. */
export const SUBSCRIPTION_LIMITS: SubscriptionLimits = { count: 10_000, bytes: 64 * 1024 * 1024 };

/** Why a subscription was rejected. */
export const NO_SUBSCRIPTIONS = 'too many resource subscriptions at once; unsubscribe from others or try again later';

/** Subscriptions that begin and end together: one of a session, or all of a `subscriptions/listen`. */
export interface CountedSubscription {
  /** Ends the subscriptions to make room for others. They are not counted any more. */
  displace(): void;
}

/** Resource subscriptions of all clients, which namespaces and users share. */
export class SubscriptionShares {
  readonly #count: Shares<CountedSubscription>;
  readonly #bytes: Shares<CountedSubscription>;

  constructor({ count, bytes }: SubscriptionLimits = SUBSCRIPTION_LIMITS) {
    this.#count = new Shares(count);
    this.#bytes = new Shares(bytes);
  }

  /** Number of subscriptions. */
  get size(): number {
    return this.#count.used;
  }

  /** Counts subscriptions to these uris. False if there is no room for them. */
  add(subscription: CountedSubscription, holder: QuotaOwner, uris: Iterable<string>): boolean {
    const { count, bytes } = sizeOf(uris);
    const displace = (victim: CountedSubscription): void => {
      this.delete(victim);
      victim.displace();
    };
    if (!this.#count.makeRoom(holder, count, displace) || !this.#bytes.makeRoom(holder, bytes, displace)) return false;
    this.#set(subscription, holder, count, bytes);
    return true;
  }

  /** Counts subscriptions that exist, whether there is room or not. */
  restore(subscription: CountedSubscription, holder: QuotaOwner, uris: Iterable<string>): void {
    const { count, bytes } = sizeOf(uris);
    this.#set(subscription, holder, count, bytes);
  }

  delete(subscription: CountedSubscription): void {
    this.#count.delete(subscription);
    this.#bytes.delete(subscription);
  }

  #set(subscription: CountedSubscription, holder: QuotaOwner, count: number, bytes: number): void {
    this.#count.set(subscription, holder, count);
    this.#bytes.set(subscription, holder, bytes);
  }
}

function sizeOf(uris: Iterable<string>): { count: number; bytes: number } {
  let count = 0;
  let bytes = 0;
  for (const uri of uris) {
    count++;
    bytes += Buffer.byteLength(uri);
  }
  return { count, bytes };
}
