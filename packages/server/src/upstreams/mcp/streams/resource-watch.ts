import { isJsonObject, type JsonObject } from '@sluice/protocol/json/parse';
import { memberText } from '@sluice/protocol/json/scan';
import type { Era } from '@sluice/protocol/mcp/constants';
import type { ListenFilter } from '@sluice/protocol/mcp/subscriptions';
import type { UpstreamError } from '../../../http/client/errors.ts';
import type { Forward, KnownCatalogue, Namespace } from '../../../registry/entries.ts';
import type { Registry } from '../../../registry/registry.ts';
import { type NamespaceState, ResourceFinder } from '../../../registry/snapshot.ts';
import type { TargetLogger } from '../../../telemetry/log.ts';
import type { Forwards } from '../forwards.ts';
import type { Upstream } from '../upstream.ts';
import { LegacySubscription } from './legacy-subscription.ts';
import { type ListenSink, ListenSubscription } from './listen-subscription.ts';
import { concerns } from './notification-stream.ts';

/** For whom resources are watched, as upstreams are told. */
export interface WatchingClient {
  readonly clientInfo: JsonObject;
  readonly capabilities: JsonObject;
  /** Headers besides the protocol's own, names and values alternating: the hop count, and what is let through. */
  readonly headers: readonly string[];
}

/** What a {@link UpstreamSubscription} calls back; never from inside its constructor, and nothing after `close`. */
export interface SubscriptionHandler {
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
  readonly sink: SubscriptionHandler;
}

/** What is watched for one client at one upstream, whichever era that speaks. */
export class UpstreamSubscription implements ListenSink {
  readonly upstream: Upstream;
  /** What the upstream was asked for. */
  readonly asked: ReadonlySet<string>;
  /** Of this, what is passed on. */
  uris: ReadonlySet<string>;
  /** What the upstream has granted so far; undefined until it has. */
  granted: ReadonlySet<string> | undefined = undefined;
  /** True once it has granted or refused. */
  answered = false;
  readonly #sink: SubscriptionHandler;
  readonly #listening: ListenSubscription | LegacySubscription;

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
    return new LegacySubscription({ transport, clientInfo, headers, uris, sink, changed: () => upstream.changed() });
  }
  return new ListenSubscription({
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

/** Who watches. */
export interface Watcher extends WatchingClient {
  readonly namespace: Namespace;
}

/** Told of watched resources. */
export interface WatchSink {
  /** Every upstream has answered, or had its time: these uris are watched from now on, and no others. Called once. */
  onReady(granted: readonly string[]): void;
  /**
   * The upstream's `notifications/resources/updated` for a granted uri or for what is below one, as text; undefined when
   * one may have been missed. It may come before `onReady`. False: send no more until `resume`.
   */
  onUpdated(uri: string, text: string | undefined): boolean;
  /** An upstream no longer lets a granted uri be watched, and there is no way to say so but to end the whole. */
  onLost(): void;
}

/** What watching works with. */
export interface WatchParts {
  readonly registry: Pick<Registry, 'current'>;
  readonly forwards: Pick<Forwards, 'upstream'>;
  /** The forward of a uri that no list names. */
  readonly unlisted: (namespace: NamespaceState, uri: string) => string | undefined;
  readonly log: TargetLogger;
  /** Milliseconds that upstreams get to grant what is asked for (default 5000); for tests. */
  readonly readyMs?: number;
}

const READY_MS = 5_000;
/** Who serves what is looked for no more often than this: lists may change all the time. */
const SPACING_MS = 1_000;

/**
 * Watches resources for one client: each uri at the forward that serves it, on a `subscriptions/listen` of its own per
 * upstream, or in a session of its own where the upstream speaks the legacy era alone. A uri whose resource moves to
 * another forward is followed there, on {@link refresh}. Only upstreams that declare `resources.subscribe` are asked.
 */
export class ResourceWatch {
  readonly #parts: WatchParts;
  readonly #watcher: Watcher;
  readonly #sink: WatchSink;
  /** What is asked for at first, and later what was granted, with the upstream that it was last looked for at. */
  #owners: Map<string, Upstream | undefined>;
  /** In which era each upstream is asked. */
  readonly #eras = new WeakMap<Upstream, Era>();
  readonly #legs = new Map<Upstream, UpstreamSubscription>();
  readonly #finder = new ResourceFinder();
  #ready = false;
  #closed = false;
  #timer: NodeJS.Timeout | undefined = undefined;
  #refreshing: NodeJS.Timeout | undefined = undefined;
  #refreshedAt = Number.NEGATIVE_INFINITY;

  constructor(parts: WatchParts, watcher: Watcher, uris: Iterable<string>, sink: WatchSink) {
    this.#parts = parts;
    this.#watcher = watcher;
    this.#sink = sink;
    this.#owners = new Map([...uris].map((uri) => [uri, undefined]));
  }

  /** Asks the upstreams. `onReady` may come before this returns. */
  start(): void {
    this.#owners = this.#resolve();
    for (const [upstream, uris] of byUpstream(this.#owners)) this.#open(upstream, uris);
    this.#timer = setTimeout(() => this.#settle(), this.#parts.readyMs ?? READY_MS).unref();
    this.#settleIfAnswered();
  }

  /** To be called when the namespace's resources have changed: looks anew for who serves what is watched, soon. */
  refresh(): void {
    if (!this.#ready || this.#closed) return;
    const waitMs = Math.max(this.#refreshedAt + SPACING_MS - performance.now(), 0);
    this.#refreshing ??= setTimeout(() => this.#refresh(), waitMs).unref();
  }

  #refresh(): void {
    this.#refreshing = undefined;
    this.#refreshedAt = performance.now();
    const before = this.#owners;
    this.#owners = this.#resolve();
    const groups = byUpstream(this.#owners);
    for (const [upstream, leg] of this.#legs) {
      const uris = groups.get(upstream);
      // What has left is left out; only for what has come the upstream must be asked anew.
      if (uris?.every((uri) => leg.asked.has(uri))) leg.keep(uris);
      else this.#close(leg);
    }
    const asked = new Set<Upstream | undefined>();
    for (const [upstream, uris] of groups) {
      if (this.#legs.has(upstream)) continue;
      this.#open(upstream, uris);
      asked.add(upstream);
    }
    for (const [uri, owner] of this.#owners) {
      // An upstream that is asked now has this told when it answers: nothing is missed from then on.
      if (owner !== before.get(uri) && !asked.has(owner)) this.#sink.onUpdated(uri, undefined);
    }
  }

  /** Goes on after `onUpdated` returned false. */
  resume(): void {
    for (const leg of this.#legs.values()) leg.resume();
  }

  /** Ends everything that was opened upstream. */
  close(): void {
    this.#closed = true;
    clearTimeout(this.#timer);
    clearTimeout(this.#refreshing);
    for (const leg of [...this.#legs.values()]) this.#close(leg);
  }

  #open(upstream: Upstream, uris: readonly string[]): void {
    const late = this.#ready;
    const leg = new UpstreamSubscription({
      upstream,
      era: this.#eras.get(upstream) ?? 'modern',
      uris,
      client: this.#watcher,
      sink: {
        answered: (_granted, gap) => this.#answered(leg, gap || late),
        refused: (error, final) => this.#refused(leg, error, final),
        updated: (uri, text) => this.#sink.onUpdated(uri, text),
        ended: () => this.#ended(leg),
      },
    });
    this.#legs.set(upstream, leg);
  }

  #answered(leg: UpstreamSubscription, gap: boolean): void {
    if (!this.#ready) return this.#settleIfAnswered();
    if (!gap) return;
    for (const uri of leg.uris) this.#sink.onUpdated(uri, undefined);
  }

  #refused(leg: UpstreamSubscription, error: UpstreamError, final: boolean): void {
    this.#parts.log.debug('resources cannot be watched', { reason: error.message, final });
    if (!final) return;
    if (!this.#ready) return this.#settleIfAnswered();
    // A client that asks again learns what is granted now; this stream can only keep silent about it.
    for (const uri of leg.uris) this.#sink.onUpdated(uri, undefined);
    this.#sink.onLost();
  }

  /** The forward is gone: what it served may be served by another one, or by the same at another address. */
  #ended(leg: UpstreamSubscription): void {
    this.#close(leg);
    if (this.#ready) this.refresh();
    else this.#settleIfAnswered();
  }

  #settleIfAnswered(): void {
    if ([...this.#legs.values()].every((leg) => leg.answered)) this.#settle();
  }

  /** What is granted now is all that is watched. */
  #settle(): void {
    if (this.#ready) return;
    this.#ready = true;
    clearTimeout(this.#timer);
    const owners = new Map<string, Upstream | undefined>();
    for (const leg of [...this.#legs.values()]) {
      if (!leg.granted || leg.uris.size === 0) this.#close(leg);
      else for (const uri of leg.uris) owners.set(uri, leg.upstream);
    }
    // In the order in which they were asked for.
    const granted = [...this.#owners.keys()].filter((uri) => owners.has(uri));
    this.#owners = new Map(granted.map((uri) => [uri, owners.get(uri)]));
    this.#sink.onReady(granted);
    this.refresh();
  }

  #close(leg: UpstreamSubscription): void {
    this.#legs.delete(leg.upstream);
    leg.close();
  }

  /** Who serves each uri now. */
  #resolve(): Map<string, Upstream | undefined> {
    const { registry, forwards } = this.#parts;
    const { current } = registry;
    const namespace = current.namespaces.get(this.#watcher.namespace);
    const upstreams = new Map<string, Upstream | undefined>();
    const owners = new Map<string, Upstream | undefined>();
    for (const uri of this.#owners.keys()) {
      const name = namespace && this.#forwardOf(namespace, uri);
      if (name !== undefined && !upstreams.has(name)) {
        const forward = current.forwards.get(name);
        const era = forward && watchedIn(forward);
        const upstream = era && forwards.upstream(name);
        if (upstream) this.#eras.set(upstream, era);
        upstreams.set(name, upstream);
      }
      owners.set(uri, name === undefined ? undefined : upstreams.get(name));
    }
    return owners;
  }

  /** The forward that `resources/read` would ask. */
  #forwardOf(namespace: NamespaceState, uri: string): string | undefined {
    const entry = this.#finder.find(namespace.shelves.resource, uri);
    return entry ? entry.discovered?.forward : this.#parts.unlisted(namespace, uri);
  }
}

/** The era in which a forward says that its resources can be watched, modern if it says so there; undefined for none. */
function watchedIn({ catalogues }: Forward): Era | undefined {
  const eras = catalogues.filter(declaresSubscribe).map(({ era }) => era);
  return eras.includes('modern') ? 'modern' : eras[0];
}

function declaresSubscribe({ identity }: KnownCatalogue): boolean {
  const capabilities = memberText(identity, 'capabilities') ?? '{}';
  return memberText(memberText(capabilities, 'resources') ?? '{}', 'subscribe') === 'true';
}

function byUpstream(owners: ReadonlyMap<string, Upstream | undefined>): Map<Upstream, string[]> {
  const groups = new Map<Upstream, string[]>();
  for (const [uri, upstream] of owners) {
    if (!upstream) continue;
    const uris = groups.get(upstream) ?? [];
    groups.set(upstream, uris);
    uris.push(uri);
  }
  return groups;
}
