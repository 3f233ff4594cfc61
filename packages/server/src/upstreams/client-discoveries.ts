import { FairLimiter, WaitBudget } from '../http/fair-queue.ts';
import { quotaOwner } from '../http/quota.ts';
import type { StoredPrincipal } from '../identity/principal.ts';

/** Limits of the discoveries that clients cause by declaring new capabilities. */
export interface ClientDiscoveryLimits {
  /** At once. `SERVICE_CLIENT_DISCOVERIES`. */
  readonly concurrent: number;
  /** For each namespace; one user in it can cause half of them. `SERVICE_CLIENT_DISCOVERIES_PER_MINUTE`. */
  readonly perMinute: number;
}

/** The defaults. */
export const CLIENT_DISCOVERY_LIMITS: ClientDiscoveryLimits = { concurrent: 4, perMinute: 30 };

/** The request that declares new capabilities. */
export interface DiscoveryCause {
  readonly namespace: { readonly name: string } | undefined;
  readonly principal: Pick<StoredPrincipal, 'key'>;
  readonly head: { readonly address?: string | undefined };
}

const MINUTE_MS = 60_000;

/** Bounds the discoveries on behalf of clients in rate and number. Those that wait get their turn by namespace, then by user. */
export class ClientDiscoveries {
  readonly #limits: ClientDiscoveryLimits;
  readonly #now: () => number;
  /** Times of the last minute by namespace, with the owners. */
  readonly #recent = new Map<string, { readonly name: string; readonly at: number }[]>();
  readonly #limiter: FairLimiter;

  /** `now` returns milliseconds of a monotonic clock. */
  constructor(limits: ClientDiscoveryLimits, now: () => number) {
    this.#limits = limits;
    this.#now = now;
    this.#limiter = new FairLimiter(Number.POSITIVE_INFINITY, limits.concurrent);
  }

  /**
   * Runs a discovery when it is its turn, and resolves when it has ended. Undefined if the namespace or user has caused too
   * many in the last minute. `discover` must not reject.
   */
  run(cause: DiscoveryCause, discover: () => Promise<unknown>): Promise<void> | undefined {
    const { perMinute } = this.#limits;
    const { namespace, name } = quotaOwner(cause.namespace?.name ?? '', cause.principal, cause.head.address);
    const recent = this.#recentOf(namespace);
    const own = recent.filter((other) => other.name === name);
    if (recent.length >= perMinute || own.length >= Math.ceil(perMinute / 2)) return undefined;
    this.#recent.set(namespace, [...recent, { name, at: this.#now() }]);
    // The caller notes first that the discovery is running.
    const start = async (): Promise<void> => void (await Promise.resolve().then(discover));
    return this.#limiter.run(start, new WaitBudget(namespace, name), '', undefined);
  }

  #recentOf(namespace: string): { readonly name: string; readonly at: number }[] {
    const since = this.#now() - MINUTE_MS;
    const recent = (this.#recent.get(namespace) ?? []).filter(({ at }) => at > since);
    if (recent.length > 0) this.#recent.set(namespace, recent);
    else this.#recent.delete(namespace);
    return recent;
  }
}
