import { LIST_CHANGED, SERVER_ERROR } from '@sluice/protocol/mcp/constants';
import {
  acknowledgment,
  type ListenFilter,
  listenResult,
  resourceUpdated,
  subscriptionNotification,
  withSubscriptionId,
} from '@sluice/protocol/mcp/subscriptions';
import type { Holder } from '../http/shares.ts';
import type { Kind } from '../registry/entries.ts';
import {
  type NamespacedClient,
  ResourceWatcher,
  type ResourceWatcherOptions,
  type ResourceWatchHandler,
} from '../upstreams/mcp/streams/resource-watcher.ts';
import type { ListChangeNotifier, NamespaceListener } from './list-changes.ts';
import type { OpenStream, OpenStreams } from './open-streams.ts';
import type { ResponseWriter } from './response.ts';
import { type CountedSubscription, NO_SUBSCRIPTIONS, type SubscriptionShares } from './sessions/subscription-shares.ts';

/** Dependencies of all streams. */
export interface ListenParts {
  readonly listChanges: ListChangeNotifier;
  readonly openStreams: OpenStreams;
  /** Counts the subscribed resources. */
  readonly subscriptions: SubscriptionShares;
  readonly watcherOptions: ResourceWatcherOptions;
}

/** Time after which the connection of a client that does not read is closed. */
const LINGER_MS = 2_000;

/**
 * The stream of one `subscriptions/listen` (2026-07-28, "Subscriptions"): the acknowledgment, once the upstreams of the
 * resources have responded; then notifications, until the client disconnects or the service ends the stream with a result.
 *
 * The stream also ends with a result when its resource subscriptions have to make room for those of others: the client may
 * subscribe again.
 *
 * A client that reads slowly gets each notification once, and the upstreams are paused.
 */
export class ListenStream implements OpenStream, NamespaceListener, ResourceWatchHandler, CountedSubscription {
  readonly #parts: ListenParts;
  readonly #requested: ListenFilter;
  readonly #watcher: NamespacedClient;
  readonly #holder: Holder;
  readonly #client: ResponseWriter;
  /** The subscribed lists. */
  readonly #kinds: ReadonlySet<Kind>;
  /** Changed lists whose notifications are pending. */
  readonly #changed = new Set<Kind>();
  /** Updated resources whose notifications are pending, with the upstream's own notification if there is one. */
  readonly #updated = new Map<string, string | undefined>();
  #watch: ResourceWatcher | undefined = undefined;
  #unsubscribe: (() => void) | undefined = undefined;
  #removeStream: (() => void) | undefined = undefined;
  #acknowledged = false;
  /** True while the client reads too slowly. */
  #blocked = false;
  #ended = false;

  constructor(
    parts: ListenParts,
    requested: ListenFilter,
    watcher: NamespacedClient,
    holder: Holder,
    client: ResponseWriter,
  ) {
    this.#parts = parts;
    this.#requested = requested;
    this.#watcher = watcher;
    this.#holder = holder;
    this.#client = client;
    const kinds: Kind[] = [];
    if (requested.toolsListChanged) kinds.push('tool');
    if (requested.promptsListChanged) kinds.push('prompt');
    if (requested.resourcesListChanged) kinds.push('resource');
    this.#kinds = new Set(kinds);
  }

  start(): void {
    const { listChanges, openStreams, subscriptions, watcherOptions } = this.#parts;
    const uris = this.#requested.resourceSubscriptions;
    if (uris && !subscriptions.add(this, this.#holder, uris)) {
      return this.#client.sendError({ code: SERVER_ERROR, message: NO_SUBSCRIPTIONS });
    }
    this.#client.onDisconnect(() => this.#close());
    this.#removeStream = openStreams.add(this);
    if (this.#ended) return;
    // Changes from here on are reported after the acknowledgment.
    this.#unsubscribe = listChanges.subscribe(this.#watcher.namespace, this);
    if (!uris) return this.onReady([]);
    this.#watch = new ResourceWatcher(watcherOptions, this.#watcher, uris, this);
    this.#watch.start();
  }

  onReady(granted: readonly string[]): void {
    if (this.#ended || this.#acknowledged) return;
    this.#acknowledge(granted);
    this.#flush();
    if (!this.#blocked) this.#watch?.resume();
  }

  onUpdated(uri: string, text: string | undefined): boolean {
    this.#updated.set(uri, text);
    this.#flush();
    return this.#acknowledged && !this.#blocked;
  }

  onMissedEvents(): void {
    this.end();
  }

  onChanged(kinds: ReadonlySet<Kind>): void {
    for (const kind of kinds) if (this.#kinds.has(kind)) this.#changed.add(kind);
    this.#flush();
  }

  onEntriesChanged(kinds: ReadonlySet<Kind>): void {
    if (kinds.has('resource')) this.#watch?.refresh();
  }

  onDeleted(): void {
    this.end();
  }

  keepAlive(): void {
    if (this.#acknowledged && !this.#blocked) this.#client.keepAlive();
  }

  displace(): void {
    this.end();
  }

  /** Sends the pending notifications and the result. */
  end(): void {
    if (this.#ended) return;
    if (!this.#acknowledged) this.#acknowledge([]);
    this.#flush(true);
    this.#client.sendResult(listenResult(this.#client.idText));
    this.#close();
    if (this.#blocked) setTimeout(() => this.#client.destroy(), LINGER_MS).unref();
  }

  #acknowledge(granted: readonly string[]): void {
    const { resourceSubscriptions: _, ...lists } = this.#requested;
    const filter = granted.length > 0 ? { ...lists, resourceSubscriptions: granted } : lists;
    this.#acknowledged = true;
    this.#client.beginStream();
    this.#write(acknowledgment(this.#client.idText, filter));
  }

  /** Sends pending notifications while the client keeps up, or `all` of them. */
  #flush(all = false): void {
    if (!this.#acknowledged || this.#ended) return;
    const { idText } = this.#client;
    for (const kind of this.#changed) {
      if (this.#blocked && !all) return;
      this.#changed.delete(kind);
      this.#write(subscriptionNotification(idText, LIST_CHANGED[kind]));
    }
    for (const [uri, text] of this.#updated) {
      if (this.#blocked && !all) return;
      this.#updated.delete(uri);
      this.#write(text === undefined ? resourceUpdated(idText, uri) : withSubscriptionId(text, idText));
    }
  }

  #write(text: string): void {
    if (this.#client.sendEvent(text) || this.#blocked) return;
    this.#blocked = true;
    this.#client.onDrain(() => this.#drained());
  }

  #drained(): void {
    if (this.#ended) return;
    this.#blocked = false;
    this.#flush();
    if (!this.#blocked) this.#watch?.resume();
  }

  /** Releases the resources of the stream. */
  #close(): void {
    this.#ended = true;
    this.#parts.subscriptions.delete(this);
    this.#removeStream?.();
    this.#unsubscribe?.();
    this.#watch?.close();
  }
}
