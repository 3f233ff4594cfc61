import { isJsonObject } from '@sluice/protocol/json/parse';
import { NO_CAPABILITIES } from '@sluice/protocol/mcp/capabilities';
import { HEADER_HOPS } from '@sluice/protocol/mcp/constants';
import type { ListenFilter } from '@sluice/protocol/mcp/subscriptions';
import type { ReconnectDelayOptions } from '@sluice/protocol/timing';
import type { UpstreamError } from '../../../http/client/errors.ts';
import type { TargetLogger } from '../../../telemetry/log.ts';
import { ANNOUNCED_LISTS, type AnnouncedList } from '../../forward-connection.ts';
import type { RpcClient, RpcClientOptions } from '../rpc-client.ts';
import type { Upstream } from '../upstream.ts';
import { type Grant, Subscription, type SubscriptionHandler, type SubscriptionOptions } from './subscription.ts';

/** Capabilities of an upstream in each era that it supports. */
export interface ProbedClients {
  readonly legacy?: Pick<RpcClient, 'serverCapabilities'> | undefined;
  readonly modern?: Pick<RpcClient, 'serverCapabilities' | 'protocolVersion'> | undefined;
}

export interface ListChangeWatcherOptions {
  /** Notified when one of its lists has changed, or may have. */
  readonly upstream: Upstream;
  /** Identity of the gateway towards upstreams. */
  readonly clientInfo: RpcClientOptions['clientInfo'];
  readonly log: TargetLogger;
  /** Milliseconds that `watch` waits at most (default 500). */
  readonly readyMs?: number;
  readonly delays?: ReconnectDelayOptions;
}

const READY_MS = 500;

/** Lists that an upstream declares. */
export function listsOf({ serverCapabilities }: Pick<RpcClient, 'serverCapabilities'>): AnnouncedList[] {
  return ANNOUNCED_LISTS.filter((list) => isJsonObject(serverCapabilities[list]));
}

/**
 * Watches the lists of one upstream for changes while it is up: with `subscriptions/listen` in the modern era or, if that
 * announces less or is rejected, with the notification stream of a dedicated legacy session. Upstreams that do not declare
 * `listChanged` are not watched.
 *
 * The controller calls `watch` at each discovery and `pause` when the upstream is down; in between, the watcher reconnects
 * by itself.
 */
export class ListChangeWatcher implements SubscriptionHandler {
  readonly #options: ListChangeWatcherOptions;
  /** Targets of the current watch, as text; undefined while paused. */
  #key: string | undefined = undefined;
  /** Targets left to try. */
  #targets: WatchTarget[] = [];
  #ready = Promise.withResolvers<void>();
  /** Undefined while paused, and once all targets were rejected. */
  #subscription: Subscription | undefined = undefined;
  #granted: ListenFilter = {};
  /** Notifications may be missed until the upstream grants the subscription. */
  #missed = false;
  #closed = false;

  constructor(options: ListChangeWatcherOptions) {
    this.#options = options;
  }

  /**
   * Called at each discovery, before the lists are read, so that no change is missed in between. An active watch with the
   * same targets continues. Resolves when notifications can arrive or never will, or after a timeout, in which case a
   * change is reported later. Never rejects. `retryRejected`: try again if the upstream has rejected all targets.
   */
  async watch(clients: ProbedClients, retryRejected = false): Promise<void> {
    const targets = watchTargets(clients);
    const key = JSON.stringify(targets);
    if (this.#closed || (key === this.#key && (this.#subscription || !retryRejected))) return;
    this.pause();
    this.#key = key;
    this.#targets = targets;
    this.#granted = {};
    this.#missed = false;
    const ready = Promise.withResolvers<void>();
    this.#ready = ready;
    this.#startNextTarget();
    const timer = setTimeout(() => this.#onMissed(), this.#options.readyMs ?? READY_MS);
    await ready.promise;
    clearTimeout(timer);
  }

  /** Whether the upstream announces changes of this list now: not while the connection is broken. */
  announces(list: AnnouncedList): boolean {
    return this.#subscription?.isActive === true && this.#granted[`${list}ListChanged`] === true;
  }

  /** Closes the upstream connection until the next `watch`. */
  pause(): void {
    this.#key = undefined;
    this.#subscription?.close();
    this.#subscription = undefined;
    this.#ready.resolve();
  }

  /** Stops for good. */
  close(): void {
    this.#closed = true;
    this.pause();
  }

  onGranted({ lists }: Grant, gap: boolean): void {
    if (Object.keys(lists).length === 0 && this.#targets.length > 0) return this.#startNextTarget();
    this.#granted = lists;
    const missed = gap || this.#missed;
    this.#missed = false;
    this.#ready.resolve();
    if (missed) this.#options.upstream.changed.emit({ kind: 'lists' });
  }

  onRejected(error: UpstreamError, final: boolean): void {
    this.#options.log.debug('upstream rejects list change subscription', { reason: error.message, final });
    // Another attempt is not waited for.
    if (final) this.#startNextTarget();
    else this.#onMissed();
  }

  onUpstreamClosed(): void {
    this.#ready.resolve();
  }

  /** A later grant counts as a change. */
  #onMissed(): void {
    this.#missed = true;
    this.#ready.resolve();
  }

  /** Starts the next target; if there is none, no notification will arrive. */
  #startNextTarget(): void {
    this.#subscription?.close();
    this.#subscription = undefined;
    const target = this.#targets.shift();
    if (target === undefined) return this.#ready.resolve();
    const { upstream, clientInfo, delays = {} } = this.#options;
    const client = { clientInfo, capabilities: NO_CAPABILITIES, headers: [HEADER_HOPS, '1'] };
    this.#subscription = new Subscription({ upstream, client, delays, handler: this, ...target });
  }
}

/** An era to watch an upstream in. */
type WatchTarget = Pick<SubscriptionOptions, 'era' | 'filter' | 'protocolVersion'>;

/** Eras in which the upstream announces changes: first the one with the most lists, of equal ones the modern. */
function watchTargets({ legacy, modern }: ProbedClients): WatchTarget[] {
  const targets: WatchTarget[] = [];
  const modernLists = modern && declaredLists(modern);
  if (modernLists) targets.push({ era: 'modern', filter: modernLists, protocolVersion: modern.protocolVersion });
  const legacyLists = legacy && declaredLists(legacy);
  if (legacyLists) targets.push({ era: 'legacy', filter: legacyLists });
  return targets.sort((a, b) => Object.keys(b.filter).length - Object.keys(a.filter).length);
}

/** Lists whose changes the upstream announces; undefined for none. */
function declaredLists({ serverCapabilities }: Pick<RpcClient, 'serverCapabilities'>): ListenFilter | undefined {
  const declares = (list: string) => {
    const capability = serverCapabilities[list];
    return isJsonObject(capability) && capability.listChanged === true;
  };
  const filter: ListenFilter = {
    ...(declares('tools') && { toolsListChanged: true }),
    ...(declares('prompts') && { promptsListChanged: true }),
    ...(declares('resources') && { resourcesListChanged: true }),
  };
  return Object.keys(filter).length > 0 ? filter : undefined;
}
