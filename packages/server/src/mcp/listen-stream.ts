import { LIST_CHANGED, SERVER_ERROR } from '@sluice/protocol/mcp/constants';
import {
  acknowledgment,
  type ListenFilter,
  listenResult,
  resourceUpdated,
  subscriptionNotification,
  withSubscriptionId,
} from '@sluice/protocol/mcp/subscriptions';
import type { QuotaOwner } from '../http/quota.ts';
import type { Authenticated } from '../identity/authenticator.ts';
import { KINDS, type Kind } from '../registry/entries.ts';
import {
  type NamespacedClient,
  ResourceWatcher,
  type ResourceWatcherOptions,
  type ResourceWatchHandler,
} from '../upstreams/mcp/streams/resource-watcher.ts';
import type { Task } from '../upstreams/mcp/tasks/task.ts';
import {
  type TaskWatch,
  type TaskWatcherOptions,
  type TaskWatchHandler,
  watchTasks,
} from '../upstreams/mcp/tasks/watcher.ts';
import type { ClientSink } from './client-sink.ts';
import type { ListChangeNotifier, NamespaceListener } from './list-changes.ts';
import type { OpenStream, OpenStreams } from './open-streams.ts';
import { NO_SUBSCRIPTIONS, type SubscriptionQuota } from './sessions/subscription-quota.ts';

/** Dependencies of all streams. */
export interface ListenParts {
  readonly listChanges: ListChangeNotifier;
  readonly openStreams: OpenStreams;
  /** Counts the subscribed resources. */
  readonly subscriptions: SubscriptionQuota;
  readonly watcherOptions: ResourceWatcherOptions;
}

/** The request that a stream responds to. */
export interface ListenRequest {
  readonly filter: ListenFilter;
  readonly client: NamespacedClient;
  /** Whom the subscriptions count for. */
  readonly owner: QuotaOwner;
  /** Tasks that the stream reports. */
  readonly tasks?: { readonly options: TaskWatcherOptions; readonly tasks: readonly Task[] } | undefined;
}

/** Time after which the connection of a client that does not read is closed. */
const LINGER_MS = 2_000;

/**
 * The stream of one `subscriptions/listen` (2026-07-28, "Subscriptions"): the acknowledgment, once the upstreams of the
 * resources and tasks have responded; then notifications, until the client disconnects or the service ends the stream with a
 * result.
 *
 * A client that reads slowly gets each notification once, and the upstreams are paused.
 */
export class ListenStream implements OpenStream, NamespaceListener, ResourceWatchHandler, TaskWatchHandler {
  readonly #parts: ListenParts;
  readonly #request: ListenRequest;
  readonly #client: ClientSink;
  /** The subscribed lists. */
  readonly #kinds: ReadonlySet<Kind>;
  /** Notifications that are pending: the latest of each list, resource and task. */
  readonly #pending = new Map<string, string>();
  #watch: ResourceWatcher | undefined = undefined;
  #taskWatch: TaskWatch | undefined = undefined;
  /** Granted uris and ids of tasks, once their upstreams have responded. */
  #grantedUris: readonly string[] | undefined = undefined;
  #grantedTasks: readonly string[] | undefined = undefined;
  /** What the stream uses until it ends. */
  readonly #open = new DisposableStack();
  #acknowledged = false;
  /** True while the client reads too slowly. */
  #blocked = false;
  #ended = false;

  constructor(parts: ListenParts, request: ListenRequest, client: ClientSink) {
    this.#parts = parts;
    this.#request = request;
    this.#client = client;
    this.#kinds = new Set(KINDS.filter((kind) => request.filter[`${kind}sListChanged`]));
  }

  get by(): Authenticated | undefined {
    return this.#client.client.authenticated;
  }

  start(): void {
    const { listChanges, openStreams, subscriptions, watcherOptions } = this.#parts;
    const { filter, client, owner, tasks } = this.#request;
    const { resourceSubscriptions: uris } = filter;
    const counted = [...(uris ?? []), ...(tasks?.tasks.map(({ id }) => id) ?? [])];
    if (counted.length > 0 && !subscriptions.add(this, owner, counted)) {
      subscriptions.delete(this);
      const error = { code: SERVER_ERROR, message: NO_SUBSCRIPTIONS };
      return this.#client.complete({ kind: 'failed', error });
    }
    this.#client.onDisconnect(() => this.#close());
    const remove = openStreams.add(this);
    if (this.#ended) return;
    this.#open.defer(remove);
    // Changes from here on are reported after the acknowledgment.
    this.#open.defer(listChanges.subscribe(client.namespace, this));
    if (uris) this.#watch = new ResourceWatcher(watcherOptions, client, uris, this);
    else this.#grantedUris = [];
    if (tasks) this.#taskWatch = watchTasks(tasks.options, client, tasks.tasks, this);
    else this.#grantedTasks = [];
    this.#watch?.start();
    this.#acknowledgeIfReady();
  }

  onReady(granted: readonly string[]): void {
    this.#grantedUris = granted;
    this.#acknowledgeIfReady();
  }

  onTasksReady(granted: readonly string[]): void {
    this.#grantedTasks = granted;
    this.#acknowledgeIfReady();
  }

  onTask(id: string, text: string): boolean {
    return this.#notify(`task ${id}`, withSubscriptionId(text, this.#idText));
  }

  get #idText(): string {
    return this.#client.client.idText;
  }

  #acknowledgeIfReady(): void {
    if (this.#ended || this.#acknowledged || !this.#grantedUris || !this.#grantedTasks) return;
    this.#acknowledge(this.#grantedUris, this.#grantedTasks);
    this.#flush();
    if (!this.#blocked) this.#resume();
  }

  #resume(): void {
    this.#watch?.resume();
    this.#taskWatch?.resume();
  }

  onUpdated(uri: string, text: string | undefined): boolean {
    const idText = this.#idText;
    return this.#notify(
      `uri ${uri}`,
      text === undefined ? resourceUpdated(idText, uri) : withSubscriptionId(text, idText),
    );
  }

  onMissedEvents(): void {
    this.end();
  }

  onChanged(kinds: ReadonlySet<Kind>): void {
    for (const kind of kinds.intersection(this.#kinds)) {
      this.#notify(`list ${kind}`, subscriptionNotification(this.#idText, LIST_CHANGED[kind]));
    }
  }

  onEntriesChanged(kinds: ReadonlySet<Kind>): void {
    if (kinds.has('resource')) this.#watch?.refresh();
  }

  onDeleted(): void {
    this.end();
  }

  /** Sends the pending notifications and the result. */
  end(): void {
    if (this.#ended) return;
    if (!this.#acknowledged) this.#acknowledge([], []);
    this.#flush(true);
    this.#client.complete({ kind: 'result', json: listenResult(this.#idText) });
    this.#close();
    if (this.#blocked) setTimeout(() => this.#client.writer.response.destroy(), LINGER_MS).unref();
  }

  #acknowledge(uris: readonly string[], taskIds: readonly string[]): void {
    const { resourceSubscriptions: _, taskIds: __, ...lists } = this.#request.filter;
    const filter = {
      ...lists,
      ...(uris.length > 0 && { resourceSubscriptions: uris }),
      ...(taskIds.length > 0 && { taskIds }),
    };
    this.#acknowledged = true;
    this.#write(acknowledgment(this.#idText, filter));
  }

  /** Sends a notification, or replaces a pending one about the same. False while it cannot be sent. */
  #notify(about: string, text: string): boolean {
    this.#pending.set(about, text);
    this.#flush();
    return this.#acknowledged && !this.#blocked;
  }

  /** Sends pending notifications while the client keeps up, or `all` of them. */
  #flush(all = false): void {
    if (!this.#acknowledged || this.#ended) return;
    for (const [about, text] of this.#pending) {
      if (this.#blocked && !all) return;
      this.#pending.delete(about);
      this.#write(text);
    }
  }

  #write(text: string): void {
    if (this.#client.sendMessage(text) || this.#blocked) return;
    this.#blocked = true;
    this.#client.onDrain(() => this.#drained());
  }

  #drained(): void {
    if (this.#ended) return;
    this.#blocked = false;
    this.#flush();
    if (!this.#blocked) this.#resume();
  }

  #close(): void {
    this.#ended = true;
    this.#parts.subscriptions.delete(this);
    this.#open.dispose();
    this.#watch?.close();
    this.#taskWatch?.close();
  }
}
