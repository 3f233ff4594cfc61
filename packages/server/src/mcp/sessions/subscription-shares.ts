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

  get size(): number {
    return this.#count.used;
  }

  /** Counts subscriptions to these uris. False if there is no room for them. */
  add(subscription: CountedSubscription, holder: QuotaOwner, uris: readonly string[]): boolean {
    const displace = (victim: CountedSubscription): void => {
      this.delete(victim);
      victim.displace();
    };
    if (!this.#count.makeRoom(holder, uris.length, displace)) return false;
    if (!this.#bytes.makeRoom(holder, bytesOf(uris), displace)) return false;
    this.restore(subscription, holder, uris);
    return true;
  }

  /** Counts subscriptions that exist, whether there is room or not. */
  restore(subscription: CountedSubscription, holder: QuotaOwner, uris: readonly string[]): void {
    this.#count.set(subscription, holder, uris.length);
    this.#bytes.set(subscription, holder, bytesOf(uris));
  }

  delete(subscription: CountedSubscription): void {
    this.#count.delete(subscription);
    this.#bytes.delete(subscription);
  }
}

function bytesOf(uris: readonly string[]): number {
  return uris.reduce((bytes, uri) => bytes + Buffer.byteLength(uri), 0);
}
