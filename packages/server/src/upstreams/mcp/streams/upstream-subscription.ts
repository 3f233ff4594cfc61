import { isJsonObject, type JsonObject } from '@sluice/protocol/json/parse';
import type { Era } from '@sluice/protocol/mcp/constants';
import type { ListenFilter } from '@sluice/protocol/mcp/subscriptions';
import type { UpstreamError } from '../../../http/client/errors.ts';
import type { Upstream } from '../upstream.ts';
import { LegacySubscription } from './legacy-subscription.ts';
import { type ListenHandler, ListenSubscription } from './listen-subscription.ts';
import { coversUri } from './notification-stream.ts';

/** Client of a subscription, as declared to the upstream. */
export interface SubscribingClient {
  readonly clientInfo: JsonObject;
  readonly capabilities: JsonObject;
  /** Headers besides the protocol's own, names and values alternating: hop count and forwarded client headers. */
  readonly headers: readonly string[];
}

/** Callbacks of an {@link UpstreamSubscription}; none from its constructor, none after `close`. */
export interface SubscriptionHandler {
  /** The upstream granted these of the requested uris; `gap`: notifications may have been missed before. */
  onGranted(granted: ReadonlySet<string>, gap: boolean): void;
  /** The upstream rejected the subscription; `final` unless it is retried. */
  onRejected(error: UpstreamError, final: boolean): void;
  /** The upstream's `notifications/resources/updated`, as text. False pauses until `resume`. */
  onUpdated(uri: string, text: string): boolean;
  /** The upstream was closed. */
  onUpstreamClosed(): void;
}

export interface UpstreamSubscriptionOptions {
  readonly upstream: Upstream;
  /** Era of the subscription. */
  readonly era: Era;
  readonly uris: readonly string[];
  readonly client: SubscribingClient;
  /** Milliseconds for the acknowledgement of a modern upstream (default 10000). */
  readonly acknowledgeMs?: number;
  readonly handler: SubscriptionHandler;
}

/** Resource subscriptions of one client at one upstream of either era. */
export class UpstreamSubscription implements ListenHandler {
  readonly upstream: Upstream;
  readonly requested: ReadonlySet<string>;
  /** Uris whose updates are delivered: a subset of the requested, later of the granted ones. */
  uris: ReadonlySet<string>;
  /** Uris granted so far; undefined before the first grant. */
  granted: ReadonlySet<string> | undefined = undefined;
  /** True once the upstream has granted or rejected it. */
  isSettled = false;
  readonly #handler: SubscriptionHandler;
  readonly #driver: ListenSubscription | LegacySubscription;

  constructor(options: UpstreamSubscriptionOptions) {
    const { upstream, uris, handler: sink } = options;
    this.upstream = upstream;
    this.requested = new Set(uris);
    this.uris = this.requested;
    this.#handler = sink;
    upstream.closeSignal.addEventListener('abort', sink.onUpstreamClosed);
    this.#driver = openDriver(options, this);
  }

  /** True while updates arrive; false before the grant and while the connection is broken. */
  get isActive(): boolean {
    return this.#driver.isAcknowledged;
  }

  onAcknowledged({ resourceSubscriptions = [] }: ListenFilter, gap: boolean): void {
    const granted = new Set(resourceSubscriptions.filter((uri) => this.requested.has(uri)));
    // A uri once granted stays so: after a reconnect the upstream may grant fewer for a while.
    if (this.granted) this.granted = this.granted.union(granted);
    else {
      this.granted = granted;
      this.restrictTo(this.uris);
    }
    this.isSettled = true;
    this.#handler.onGranted(granted, gap);
  }

  onNotification(text: string, { method, params }: JsonObject): boolean {
    if (!this.granted || method !== 'notifications/resources/updated') return true;
    const uri = isJsonObject(params) ? params.uri : undefined;
    if (typeof uri !== 'string' || !coversUri(this.uris, uri)) return true;
    return this.#handler.onUpdated(uri, text);
  }

  onRefused(error: UpstreamError, final: boolean): void {
    if (final) {
      this.isSettled = true;
      this.granted = undefined;
    }
    this.#handler.onRejected(error, final);
  }

  /** Delivers only updates of these uris, as far as they are granted. */
  restrictTo(uris: Iterable<string>): void {
    const { granted } = this;
    this.uris = new Set([...uris].filter((uri) => granted?.has(uri) ?? true));
  }

  /** Resumes after `onUpdated` returned false. */
  resume(): void {
    this.#driver.resume();
  }

  close(): void {
    this.upstream.closeSignal.removeEventListener('abort', this.#handler.onUpstreamClosed);
    this.#driver.close();
  }
}

function openDriver({ upstream, era, uris, client, acknowledgeMs }: UpstreamSubscriptionOptions, sink: ListenHandler) {
  const { transport, sessions } = upstream;
  const { clientInfo, headers, capabilities } = client;
  if (era === 'legacy') {
    return new LegacySubscription({
      transport,
      clientInfo,
      headers,
      uris,
      handler: sink,
      onListsChanged: () => upstream.reportListsChanged(),
    });
  }
  return new ListenSubscription({
    transport,
    clientInfo,
    capabilities,
    headers,
    filter: { resourceSubscriptions: uris },
    nextId: () => sessions.nextId(),
    ...(acknowledgeMs !== undefined && { acknowledgeMs }),
    handler: sink,
  });
}
