import { memberText } from '@sluice/protocol/json/text';
import type { Era } from '@sluice/protocol/mcp/constants';
import type { Access, PermitOutline } from '../../../access/access.ts';
import { type findResource, ResourceFinder } from '../../../access/find-resource.ts';
import type { UpstreamError } from '../../../http/client/errors.ts';
import type { Principal } from '../../../identity/principal.ts';
import type { Forward, KnownCatalog, Namespace } from '../../../registry/entries.ts';
import type { Registry } from '../../../registry/registry.ts';
import type { Snapshot } from '../../../registry/snapshot.ts';
import type { Steps } from '../../../registry/steps.ts';
import type { TargetLogger } from '../../../telemetry/log.ts';
import type { Upstream } from '../upstream.ts';
import type { Upstreams } from '../upstreams.ts';
import { Subscription } from './subscription.ts';
import type { SubscribingClient } from './subscription-driver.ts';

/** Client of a {@link ResourceWatcher}. */
export interface NamespacedClient extends SubscribingClient {
  readonly namespace: Namespace;
  readonly principal: Principal;
}

/** Callbacks of a {@link ResourceWatcher}. */
export interface ResourceWatchHandler {
  /** All upstreams have responded or timed out: exactly these uris are watched from now on. Called once. */
  onReady(granted: readonly string[]): void;
  /**
   * The upstream's `notifications/resources/updated` for a granted uri or a sub-resource, as text; undefined if one may
   * have been missed. May be called before `onReady`. False pauses until `resume`.
   */
  onUpdated(uri: string, text: string | undefined): boolean;
  /** An upstream revoked a granted uri, which can only be reported by closing the stream. */
  onMissedEvents(): void;
}

export interface ResourceWatcherOptions {
  readonly registry: Pick<Registry, 'current'>;
  readonly upstreams: Pick<Upstreams, 'of'>;
  readonly access: Pick<Access, 'outline' | 'routeUri' | 'slicer'>;
  readonly log: TargetLogger;
  /** Milliseconds for upstreams to grant subscriptions (default 5000); for tests. */
  readonly readyMs?: number;
}

const READY_MS = 5_000;
/** Minimum interval between refreshes: lists may change continuously. */
const REFRESH_INTERVAL_MS = 1_000;

/**
 * Watches resources for one client, each uri at the forward that serves it: with one `subscriptions/listen` per
 * upstream, or a dedicated session if the upstream supports only the legacy era. {@link refresh} moves subscriptions
 * whose resource has moved to another forward. Only upstreams that declare `resources.subscribe` are used.
 */
export class ResourceWatcher {
  readonly #options: ResourceWatcherOptions;
  readonly #client: NamespacedClient;
  readonly #handler: ResourceWatchHandler;
  /** Requested uris, later the granted ones, with the upstream that last served them. */
  #owners: Map<string, Upstream | undefined>;
  readonly #subscriptions = new Map<Upstream, Subscription>();
  readonly #finder = new ResourceFinder();
  #ready = false;
  /** What uris are assigned to may have changed since the refresh began that was the last, or is in progress. */
  #isStale = false;
  #isRefreshing = false;
  #closed = false;
  #timer: NodeJS.Timeout | undefined = undefined;
  #refreshTimer: NodeJS.Timeout | undefined = undefined;
  #refreshedAt = Number.NEGATIVE_INFINITY;

  constructor(
    options: ResourceWatcherOptions,
    client: NamespacedClient,
    uris: Iterable<string>,
    handler: ResourceWatchHandler,
  ) {
    this.#options = options;
    this.#client = client;
    this.#handler = handler;
    this.#owners = new Map([...uris].map((uri) => [uri, undefined]));
  }

  /** Opens the subscriptions. */
  start(): void {
    this.#timer = setTimeout(() => this.#settle(), this.#options.readyMs ?? READY_MS).unref();
    void this.#resolve().then((owners) => {
      if (this.#ready || this.#closed) return;
      this.#owners = owners;
      for (const [upstream, uris] of groupByUpstream(owners)) this.#open(upstream, uris);
      this.#settleIfAnswered();
    });
  }

  /** Schedules a new assignment of uris to upstreams, after the resources of the namespace have changed. */
  refresh(): void {
    if (!this.#ready || this.#closed) return;
    this.#isStale = true;
    if (this.#isRefreshing) return;
    const waitMs = Math.max(this.#refreshedAt + REFRESH_INTERVAL_MS - performance.now(), 0);
    this.#refreshTimer ??= setTimeout(() => void this.#refresh(), waitMs).unref();
  }

  async #refresh(): Promise<void> {
    this.#refreshTimer = undefined;
    this.#refreshedAt = performance.now();
    this.#isStale = false;
    this.#isRefreshing = true;
    const owners = await this.#resolve();
    this.#isRefreshing = false;
    if (this.#closed) return;
    this.#reassign(owners);
    if (this.#isStale) this.refresh();
  }

  #reassign(owners: Map<string, Upstream | undefined>): void {
    const before = this.#owners;
    this.#owners = owners;
    const groups = groupByUpstream(this.#owners);
    for (const [upstream, subscription] of this.#subscriptions) {
      const uris = groups.get(upstream);
      // Removed uris are filtered out; added ones require a new subscription.
      if (uris?.every((uri) => subscription.requested.has(uri))) subscription.restrictTo(uris);
      else this.#close(subscription);
    }
    const opened = new Set<Upstream | undefined>();
    for (const [upstream, uris] of groups) {
      if (this.#subscriptions.has(upstream)) continue;
      this.#open(upstream, uris);
      opened.add(upstream);
    }
    for (const [uri, owner] of this.#owners) {
      // A new subscription reports this once it is granted. What is hidden falls silent.
      const earlier = before.get(uri);
      if (owner === earlier || opened.has(owner) || (earlier && this.#permitAt(earlier).isHidden(uri))) continue;
      this.#handler.onUpdated(uri, undefined);
    }
  }

  /** Resumes after `onUpdated` returned false. */
  resume(): void {
    for (const subscription of this.#subscriptions.values()) subscription.resume();
  }

  /** Closes all subscriptions. */
  close(): void {
    this.#closed = true;
    clearTimeout(this.#timer);
    clearTimeout(this.#refreshTimer);
    for (const subscription of [...this.#subscriptions.values()]) this.#close(subscription);
  }

  #open(upstream: Upstream, uris: readonly string[]): void {
    const isLate = this.#ready;
    const forward = this.#options.registry.current.forwards.get(upstream.forward ?? '');
    const subscription = new Subscription({
      upstream,
      era: (forward && subscriptionEra(forward)) ?? 'modern',
      filter: {},
      resources: { permit: this.#permitAt(upstream), uris },
      client: this.#client,
      handler: {
        onGranted: (_granted, gap) => this.#onGranted(subscription, gap || isLate),
        onRejected: (error, final) => this.#onRejected(subscription, error, final),
        onUpdated: (uri, text) => this.#handler.onUpdated(uri, text),
        onUpstreamClosed: () => this.#onUpstreamClosed(subscription),
      },
    });
    this.#subscriptions.set(upstream, subscription);
  }

  #permitAt({ forward }: Upstream): PermitOutline {
    const { principal, namespace } = this.#client;
    return this.#options.access.outline(principal, { namespace, forward });
  }

  #onGranted(subscription: Subscription, gap: boolean): void {
    if (!this.#ready) return this.#settleIfAnswered();
    if (!gap) return;
    for (const uri of subscription.uris) this.#handler.onUpdated(uri, undefined);
  }

  #onRejected(subscription: Subscription, error: UpstreamError, final: boolean): void {
    this.#options.log.debug('upstream rejects resource subscription', { reason: error.message, final });
    if (!final) return;
    if (!this.#ready) return this.#settleIfAnswered();
    // A client that subscribes again learns what is granted now.
    for (const uri of subscription.uris) this.#handler.onUpdated(uri, undefined);
    this.#handler.onMissedEvents();
  }

  /** The forward was removed: its resources may be served by another one, or at another address. */
  #onUpstreamClosed(subscription: Subscription): void {
    this.#close(subscription);
    if (this.#ready) this.refresh();
    else this.#settleIfAnswered();
  }

  #settleIfAnswered(): void {
    if ([...this.#subscriptions.values()].every((subscription) => subscription.isSettled)) this.#settle();
  }

  /** Fixes the set of watched uris to those granted so far. */
  #settle(): void {
    if (this.#ready) return;
    this.#ready = true;
    clearTimeout(this.#timer);
    const owners = new Map<string, Upstream | undefined>();
    for (const subscription of [...this.#subscriptions.values()]) {
      if (!subscription.granted || subscription.uris.size === 0) this.#close(subscription);
      else for (const uri of subscription.uris) owners.set(uri, subscription.upstream);
    }
    // In the order of the request.
    const granted = [...this.#owners.keys()].filter((uri) => owners.has(uri));
    this.#owners = new Map(granted.map((uri) => [uri, owners.get(uri)]));
    this.#handler.onReady(granted);
    this.refresh();
  }

  #close(subscription: Subscription): void {
    this.#subscriptions.delete(subscription.upstream);
    subscription.close();
  }

  /** Returns the upstream that serves each uri now. A change meanwhile is followed by a refresh. */
  async #resolve(): Promise<Map<string, Upstream | undefined>> {
    const { registry, access } = this.#options;
    const { current } = registry;
    const forwards = await access.slicer.run(this.#route(current));
    const upstreams = new Map<string, Upstream | undefined>();
    const owners = new Map<string, Upstream | undefined>();
    for (const [uri, name] of forwards) {
      if (name !== undefined && !upstreams.has(name)) {
        const forward = current.forwards.get(name);
        const isWatched = forward !== undefined && subscriptionEra(forward) !== undefined;
        upstreams.set(name, isWatched ? this.#options.upstreams.of(name) : undefined);
      }
      owners.set(uri, name === undefined ? undefined : upstreams.get(name));
    }
    return owners;
  }

  /** Returns the forward that `resources/read` would use for each uri. */
  *#route(current: Snapshot): Steps<Map<string, string | undefined>> {
    const namespace = current.namespaces.get(this.#client.namespace);
    const forwards = new Map<string, string | undefined>();
    const find: typeof findResource = (index, uri) => this.#finder.find(index, uri);
    for (const uri of this.#owners.keys()) {
      forwards.set(uri, namespace && this.#options.access.routeUri(namespace, uri, find)?.forward);
      yield;
    }
    return forwards;
  }
}

/** Era in which a forward declares resource subscriptions, preferably modern; undefined for none. */
function subscriptionEra({ catalogs }: Forward): Era | undefined {
  const eras = catalogs.filter(declaresSubscribe).map(({ era }) => era);
  return eras.includes('modern') ? 'modern' : eras[0];
}

function declaresSubscribe({ identity }: KnownCatalog): boolean {
  const capabilities = memberText(identity, 'capabilities') ?? '{}';
  return memberText(memberText(capabilities, 'resources') ?? '{}', 'subscribe') === 'true';
}

function groupByUpstream(owners: ReadonlyMap<string, Upstream | undefined>): Map<Upstream, string[]> {
  const groups = new Map<Upstream, string[]>();
  for (const [uri, owner] of owners) if (owner) groups.getOrInsertComputed(owner, () => []).push(uri);
  return groups;
}
