import { Quota, type QuotaOwner } from '../../http/quota.ts';

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

/** Counts the resource subscriptions of all clients: those of a session by its id, and those of a stream by itself. */
export class SubscriptionQuota {
  readonly #count: Quota<object | string>;
  readonly #bytes: Quota<object | string>;

  constructor({ count, bytes }: SubscriptionLimits = SUBSCRIPTION_LIMITS) {
    this.#count = new Quota(count);
    this.#bytes = new Quota(bytes);
  }

  get size(): number {
    return this.#count.used;
  }

  /** Counts subscriptions to these uris. If it returns false, since their owner may not have so many more, restore or delete them. */
  add(item: object | string, owner: QuotaOwner, uris: readonly string[]): boolean {
    return this.#count.reserve(item, owner, uris.length) && this.#bytes.reserve(item, owner, bytesOf(uris));
  }

  /** Counts subscriptions that exist, allowed or not. */
  restore(item: object | string, owner: QuotaOwner, uris: readonly string[]): void {
    this.#count.set(item, owner, uris.length);
    this.#bytes.set(item, owner, bytesOf(uris));
  }

  delete(item: object | string): void {
    this.#count.delete(item);
    this.#bytes.delete(item);
  }
}

function bytesOf(uris: readonly string[]): number {
  return uris.reduce((bytes, uri) => bytes + Buffer.byteLength(uri), 0);
}
