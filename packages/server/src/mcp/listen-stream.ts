import { LIST_CHANGED } from '@sluice/protocol/mcp/constants';
import {
  acknowledgement,
  type ListenFilter,
  listenResult,
  resourceUpdated,
  subscriptionNotice,
  withSubscriptionId,
} from '@sluice/protocol/mcp/subscriptions';
import type { Kind } from '../registry/entries.ts';
import {
  ResourceWatch,
  type Watcher,
  type WatchParts,
  type WatchSink,
} from '../upstreams/mcp/streams/resource-watch.ts';
import type { ListChangeNotifier, NoticeListener } from './list-changes.ts';
import type { LongStream, OpenStreams } from './long-streams.ts';
import type { ResponseWriter } from './response.ts';

/** What all streams work with. */
export interface ListenParts {
  readonly notices: ListChangeNotifier;
  readonly longStreams: OpenStreams;
  readonly watching: WatchParts;
}

/** What a client that does not read may hold open after its stream has ended. */
const LINGER_MS = 2_000;

/**
 * The stream of one `subscriptions/listen` (2026-07-28, "Subscriptions"): acknowledged first, as soon as the upstreams
 * of the resources have answered; then notices, until the client leaves or the service ends it with a result.
 *
 * To a client that reads slowly each notice is told once, however often it came meanwhile, and the upstreams are paused.
 */
export class ListenStream implements LongStream, NoticeListener, WatchSink {
  readonly #parts: ListenParts;
  readonly #asked: ListenFilter;
  readonly #watcher: Watcher;
  readonly #client: ResponseWriter;
  /** The lists that it is told of. */
  readonly #kinds: ReadonlySet<Kind>;
  /** Lists that have changed and that the client is still to be told of. */
  readonly #changed = new Set<Kind>();
  /** Resources that have changed, with the upstream's own words where there are any. */
  readonly #updated = new Map<string, string | undefined>();
  #watch: ResourceWatch | undefined = undefined;
  #leaveNotices: (() => void) | undefined = undefined;
  #leaveStreams: (() => void) | undefined = undefined;
  #acknowledged = false;
  /** True while the client reads too slowly. */
  #blocked = false;
  #over = false;

  constructor(parts: ListenParts, asked: ListenFilter, watcher: Watcher, client: ResponseWriter) {
    this.#parts = parts;
    this.#asked = asked;
    this.#watcher = watcher;
    this.#client = client;
    const kinds: Kind[] = [];
    if (asked.toolsListChanged) kinds.push('tool');
    if (asked.promptsListChanged) kinds.push('prompt');
    if (asked.resourcesListChanged) kinds.push('resource');
    this.#kinds = new Set(kinds);
  }

  start(): void {
    const { notices, longStreams, watching } = this.#parts;
    this.#client.onLeave(() => this.#close());
    this.#leaveStreams = longStreams.add(this);
    if (this.#over) return;
    // Changes from here on are told after the acknowledgement: none falls in between.
    this.#leaveNotices = notices.subscribe(this.#watcher.namespace, this);
    const uris = this.#asked.resourceSubscriptions;
    if (!uris) return this.onReady([]);
    this.#watch = new ResourceWatch(watching, this.#watcher, uris, this);
    this.#watch.start();
  }

  onReady(granted: readonly string[]): void {
    if (this.#over || this.#acknowledged) return;
    this.#acknowledge(granted);
    this.#flush();
    if (!this.#blocked) this.#watch?.resume();
  }

  onUpdated(uri: string, text: string | undefined): boolean {
    this.#updated.set(uri, text);
    this.#flush();
    return this.#acknowledged && !this.#blocked;
  }

  onLost(): void {
    this.end();
  }

  onChanged(kinds: ReadonlySet<Kind>): void {
    for (const kind of kinds) if (this.#kinds.has(kind)) this.#changed.add(kind);
    this.#flush();
  }

  onTouched(kinds: ReadonlySet<Kind>): void {
    if (kinds.has('resource')) this.#watch?.refresh();
  }

  onGone(): void {
    this.end();
  }

  keepAlive(): void {
    if (this.#acknowledged && !this.#blocked) this.#client.keepAlive();
  }

  /** Tells what is left to tell, and that this is all. */
  end(): void {
    if (this.#over) return;
    if (!this.#acknowledged) this.#acknowledge([]);
    this.#flush(true);
    this.#client.result(listenResult(this.#client.idText));
    this.#close();
    if (this.#blocked) setTimeout(() => this.#client.destroy(), LINGER_MS).unref();
  }

  #acknowledge(granted: readonly string[]): void {
    const { resourceSubscriptions: _, ...lists } = this.#asked;
    const filter = granted.length > 0 ? { ...lists, resourceSubscriptions: granted } : lists;
    this.#acknowledged = true;
    this.#client.beginStream();
    this.#write(acknowledgement(this.#client.idText, filter));
  }

  /** Tells what there is to tell, as far as the client reads, or in any case. */
  #flush(all = false): void {
    if (!this.#acknowledged || this.#over) return;
    const { idText } = this.#client;
    for (const kind of this.#changed) {
      if (this.#blocked && !all) return;
      this.#changed.delete(kind);
      this.#write(subscriptionNotice(idText, LIST_CHANGED[kind]));
    }
    for (const [uri, text] of this.#updated) {
      if (this.#blocked && !all) return;
      this.#updated.delete(uri);
      this.#write(text === undefined ? resourceUpdated(idText, uri) : withSubscriptionId(text, idText));
    }
  }

  #write(text: string): void {
    if (this.#client.event(text) || this.#blocked) return;
    this.#blocked = true;
    this.#client.onDrain(() => this.#drained());
  }

  #drained(): void {
    if (this.#over) return;
    this.#blocked = false;
    this.#flush();
    if (!this.#blocked) this.#watch?.resume();
  }

  /** Ends everything that stands behind the stream. */
  #close(): void {
    this.#over = true;
    this.#leaveStreams?.();
    this.#leaveNotices?.();
    this.#watch?.close();
  }
}
