import { isJsonObject, type JsonObject } from '@sluice/protocol/json/parse';
import type { Era } from '@sluice/protocol/mcp/constants';
import type { ListenFilter } from '@sluice/protocol/mcp/subscriptions';
import type { UpstreamError } from '../transport/upstream-error.ts';
import { LegacyListening } from './legacy-listening.ts';
import { Listening, type ListenSink } from './listening.ts';
import type { Upstream } from './upstream.ts';
import { concerns } from './watched-uris.ts';

/** For whom resources are watched, as upstreams are told. */
export interface WatchingClient {
  readonly clientInfo: JsonObject;
  readonly capabilities: JsonObject;
  /** Headers besides the protocol's own, names and values alternating: the hop count, and what is let through. */
  readonly headers: readonly string[];
}

/** What a {@link WatchLeg} calls back; never from inside its constructor, and nothing after `close`. */
export interface LegSink {
  /** The upstream lets these be watched, of what it was asked for; `gap`: notices may have been missed before. */
  answered(granted: ReadonlySet<string>, gap: boolean): void;
  /** The upstream has refused, for good or for now. */
  refused(error: UpstreamError, final: boolean): void;
  /** The upstream's `notifications/resources/updated`, as text. False: send no more until `resume`. */
  updated(uri: string, text: string): boolean;
  /** The upstream has been given up. */
  ended(): void;
}

/** What is watched, where and for whom. */
export interface LegOptions {
  readonly upstream: Upstream;
  /** The era in which the upstream is asked. */
  readonly era: Era;
  readonly uris: readonly string[];
  readonly client: WatchingClient;
  /** Milliseconds that a modern upstream has for the acknowledgement (default 10000). */
  readonly acknowledgeMs?: number;
  readonly sink: LegSink;
}

/** What is watched for one client at one upstream, whichever era that speaks. */
export class WatchLeg implements ListenSink {
  readonly upstream: Upstream;
  /** What the upstream was asked for. */
  readonly asked: ReadonlySet<string>;
  /** Of this, what is passed on. */
  uris: ReadonlySet<string>;
  /** What the upstream has granted so far; undefined until it has. */
  granted: ReadonlySet<string> | undefined = undefined;
  /** True once it has granted or refused. */
  answered = false;
  readonly #sink: LegSink;
  readonly #listening: Listening | LegacyListening;

  constructor(options: LegOptions) {
    const { upstream, uris, sink } = options;
    this.upstream = upstream;
    this.asked = new Set(uris);
    this.uris = this.asked;
    this.#sink = sink;
    upstream.ended.addEventListener('abort', sink.ended);
    this.#listening = listeningOf(options, this);
  }

  /** True while the upstream tells of what it has granted; false until it has, and while the connection is broken. */
  get heard(): boolean {
    return this.#listening.acknowledged;
  }

  onAcknowledged({ resourceSubscriptions = [] }: ListenFilter, gap: boolean): void {
    const granted = new Set(resourceSubscriptions.filter((uri) => this.asked.has(uri)));
    // What was granted once is not taken back: on a later connection the upstream may grant less for a while.
    if (this.granted) this.granted = this.granted.union(granted);
    else {
      this.granted = granted;
      this.keep(this.uris);
    }
    this.answered = true;
    this.#sink.answered(granted, gap);
  }

  onNotification(text: string, { method, params }: JsonObject): boolean {
    if (!this.granted || method !== 'notifications/resources/updated') return true;
    const uri = isJsonObject(params) ? params.uri : undefined;
    if (typeof uri !== 'string' || !concerns(this.uris, uri)) return true;
    return this.#sink.updated(uri, text);
  }

  onRefused(error: UpstreamError, final: boolean): void {
    if (final) {
      this.answered = true;
      this.granted = undefined;
    }
    this.#sink.refused(error, final);
  }

  /** Passes on only what concerns these uris, of those that are granted. */
  keep(uris: Iterable<string>): void {
    const { granted } = this;
    this.uris = new Set([...uris].filter((uri) => granted?.has(uri) ?? true));
  }

  /** Goes on after `updated` returned false. */
  resume(): void {
    this.#listening.resume();
  }

  close(): void {
    this.upstream.ended.removeEventListener('abort', this.#sink.ended);
    this.#listening.close();
  }
}

function listeningOf({ upstream, era, uris, client, acknowledgeMs }: LegOptions, sink: ListenSink) {
  const { transport, links } = upstream;
  const { clientInfo, headers, capabilities } = client;
  if (era === 'legacy') {
    return new LegacyListening({ transport, clientInfo, headers, uris, sink, changed: () => upstream.changed() });
  }
  return new Listening({
    transport,
    clientInfo,
    capabilities,
    headers,
    filter: { resourceSubscriptions: uris },
    nextId: () => links.nextId(),
    ...(acknowledgeMs !== undefined && { acknowledgeMs }),
    sink,
  });
}
