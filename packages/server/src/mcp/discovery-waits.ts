import { followedBy } from '../http/chain.ts';
import type { ErrorOutcome } from '../http/outcome.ts';
import { Quota, quotaOwner } from '../http/quota.ts';
import type { Registry } from '../registry/registry.ts';
import type { NamespaceState } from '../registry/snapshot.ts';
import type { RequestOutcome } from '../upstreams/deferred-outcome.ts';
import { ANNOUNCED_LISTS } from '../upstreams/forward-connection.ts';
import type { Forwards } from '../upstreams/forwards.ts';
import { CancelableRequest, type InFlightCalls } from '../upstreams/in-flight-calls.ts';
import type { ProfileDiscovery } from '../upstreams/profile-discovery.ts';
import type { ClientProfile } from './client-profile.ts';
import type { McpExchange, McpFilter, McpOutcome } from './exchange.ts';

/** Dependencies of {@link DiscoveryWaits}. */
export interface DiscoveryWaitParts {
  readonly forwards: Pick<Forwards, 'firstDiscoveries'>;
  readonly profileDiscovery: Pick<ProfileDiscovery, 'ensureDiscoveredFor' | 'reread'>;
  readonly registry: Pick<Registry, 'current' | 'isShared' | 'recheck'>;
  readonly calls: InFlightCalls;
  /** Time for which one request waits at most, for whatever it waits for. */
  readonly waitMs: number;
  /** Default: {@link MAX_WAITING}. */
  readonly maxWaiting?: number;
}

/** Requests that wait at once; further ones are answered with what is known. */
const MAX_WAITING = 1_000;

/** State of the namespace after the wait, undefined if it is gone, or the outcome of a request that was canceled meanwhile. */
type Waited = { readonly ended: McpOutcome } | { readonly namespace: NamespaceState | undefined };

/** Outcome of a filter; undefined: it passes the request on. */
interface Found {
  readonly outcome: McpOutcome | undefined;
}

/**
 * Makes requests wait for discoveries: answers that depend on all entries of the namespace before they are given, all others
 * only if they would be "not found". Everything that one request waits for has one deadline. Requests that wait can be canceled.
 */
export class DiscoveryWaits {
  readonly #parts: DiscoveryWaitParts;
  /** The requests that wait: functions that end their waits. */
  readonly #waiting: Quota<() => void>;

  constructor(parts: DiscoveryWaitParts) {
    this.#parts = parts;
    this.#waiting = new Quota(parts.maxWaiting ?? MAX_WAITING);
  }

  get size(): number {
    return this.#waiting.size;
  }

  /**
   * Waits for the first discoveries of the namespace and, with a profile, for those with its capabilities. Undefined if there is
   * nothing to wait for, as nearly always.
   */
  beforeAnswer(exchange: McpExchange, namespace: NamespaceState, profile?: ClientProfile): Promise<Waited> | undefined {
    const { forwards, profileDiscovery } = this.#parts;
    const first = forwards.firstDiscoveries.pending === 0 ? undefined : forwards.firstDiscoveries.all(namespace.name);
    const own = profile && profileDiscovery.ensureDiscoveredFor(profile, exchange);
    if (!first && !own) return undefined;
    const discovered = Promise.all([first, own]).then(() => undefined);
    return this.#wait(exchange, namespace, () => discovered, true).then((ended) =>
      ended ? { ended } : { namespace: this.#parts.registry.current.stateOf(namespace) },
    );
  }

  /** Whether the lists of a namespace lack entries that are not known yet. */
  isIncomplete({ name }: NamespaceState): boolean {
    return this.#parts.forwards.firstDiscoveries.isIncomplete(name);
  }

  /** Whether requests wait for a first discovery in a namespace. */
  isPending(namespace: NamespaceState): boolean {
    return this.#nextFirst(namespace) !== undefined;
  }

  /**
   * Makes a filter look again for what it did not find: in the commits of other replicas, which may have just added it, and after
   * each discovery that may have found it.
   */
  retryMisses(filter: McpFilter): McpFilter {
    const rechecked = this.#parts.registry.isShared
      ? whenNotFound(filter, (exchange, missed) => this.#recheck(filter, exchange, missed))
      : filter;
    return whenNotFound(rechecked, (exchange, missed) => this.#retry(rechecked, exchange, missed));
  }

  async #recheck(filter: McpFilter, exchange: McpExchange, missed: ErrorOutcome): Promise<McpOutcome | undefined> {
    const { registry } = this.#parts;
    const before = registry.current;
    await registry.recheck();
    if (registry.current === before) return missed;
    const { namespace } = exchange;
    if (namespace) exchange.namespace = registry.current.namespace(namespace.name) ?? namespace;
    return await filter(exchange);
  }

  #retry(filter: McpFilter, exchange: McpExchange, missed: ErrorOutcome): ReturnType<McpFilter> {
    const { namespace } = exchange;
    const discovery = namespace && (this.#nextFirst(namespace) ?? this.#reread(exchange, namespace));
    return discovery ? this.#retryAfter(filter, exchange, namespace, discovery, missed) : missed;
  }

  async #retryAfter(
    filter: McpFilter,
    exchange: McpExchange,
    namespace: NamespaceState,
    discovery: Promise<unknown>,
    missed: ErrorOutcome,
  ): Promise<McpOutcome | undefined> {
    // A filter executes nothing before its outcome is used, so that it can be called again.
    const search = async (isOver: () => boolean): Promise<Found> => {
      let outcome: McpOutcome | undefined = missed;
      let next: Promise<unknown> | undefined = discovery;
      let isReread = this.#nextFirst(namespace) === undefined;
      while (next) {
        await next;
        const current = this.#parts.registry.current.stateOf(namespace);
        if (isOver() || !current) break;
        exchange.namespace = current;
        outcome = await filter(exchange);
        if (outcome?.kind !== 'error' || !outcome.notFoundLocally) break;
        next = this.#nextFirst(namespace);
        if (next || isReread) continue;
        isReread = true;
        next = this.#reread(exchange, namespace);
      }
      return { outcome };
    };
    const waited = await this.#wait(exchange, namespace, search, false);
    if (!waited) return missed;
    return 'kind' in waited ? waited : waited.outcome;
  }

  /** Resolves when the next first discovery of the namespace is over. */
  #nextFirst({ name }: NamespaceState): Promise<unknown> | undefined {
    const { firstDiscoveries } = this.#parts.forwards;
    return firstDiscoveries.pending === 0 ? undefined : firstDiscoveries.next(name);
  }

  /** Reads lists again that may have what the request has missed, whether it is unknown or hidden. */
  #reread({ message }: McpExchange, { name }: NamespaceState): Promise<unknown> | undefined {
    if (this.#parts.waitMs === 0) return undefined;
    const method = message?.kind === 'request' ? message.method : '';
    const list = ANNOUNCED_LISTS.find((one) => method.startsWith(`${one}/`));
    return this.#parts.profileDiscovery.reread(name, list);
  }

  /**
   * Resolves with the outcome of the work or, if the request is canceled, of that; undefined if it has waited long enough or must
   * not wait. `endsWithClient`: whether there is nothing to be done for a client that has disconnected, in either era.
   */
  async #wait<Result>(
    exchange: McpExchange,
    { name }: NamespaceState,
    work: (isOver: () => boolean) => Promise<Result>,
    endsWithClient: boolean,
  ): Promise<Result | RequestOutcome | undefined> {
    const { calls, waitMs } = this.#parts;
    const now = performance.now();
    const { waitUntil = now + waitMs } = exchange;
    exchange.waitUntil = waitUntil;
    if (waitUntil <= now) return undefined;
    const stopped = Promise.withResolvers<undefined>();
    let isOver = false;
    const stop = (): void => {
      isOver = true;
      stopped.resolve(undefined);
    };
    const owner = quotaOwner(name, exchange.principal, exchange.head.address);
    if (!this.#waiting.reserve(stop, owner, 1)) return undefined;
    if (endsWithClient) exchange.response.on('close', stop);
    const timer = setTimeout(stop, waitUntil - now);
    const request = new CancelableRequest(exchange, calls);
    try {
      return await request.outcome(Promise.race([stopped.promise, work(() => isOver)]));
    } finally {
      clearTimeout(timer);
      this.#waiting.delete(stop);
      stop();
    }
  }
}

/** A filter with a function that is called when it has not found something. */
function whenNotFound(
  filter: McpFilter,
  retry: (exchange: McpExchange, missed: ErrorOutcome) => ReturnType<McpFilter>,
): McpFilter {
  return followedBy(filter, (exchange, outcome) =>
    outcome?.kind === 'error' && outcome.notFoundLocally ? retry(exchange, outcome) : outcome,
  );
}
