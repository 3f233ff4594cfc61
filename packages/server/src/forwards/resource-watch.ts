import { memberText } from '@sluice/protocol/json/scan';
import type { Era } from '@sluice/protocol/mcp/constants';
import { ResourceFinder } from '../mcp/find-resource.ts';
import type { Forward, KnownCatalogue } from '../registry/entries.ts';
import type { Namespace } from '../registry/names.ts';
import type { Registry } from '../registry/registry.ts';
import type { NamespaceState } from '../registry/snapshot.ts';
import type { TargetLogger } from '../telemetry/log.ts';
import type { UpstreamError } from '../transport/upstream-error.ts';
import type { Forwards } from './forwards.ts';
import type { Upstream } from './upstream.ts';
import { type WatchingClient, WatchLeg } from './watch-leg.ts';

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
  readonly #legs = new Map<Upstream, WatchLeg>();
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
    const leg = new WatchLeg({
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

  #answered(leg: WatchLeg, gap: boolean): void {
    if (!this.#ready) return this.#settleIfAnswered();
    if (!gap) return;
    for (const uri of leg.uris) this.#sink.onUpdated(uri, undefined);
  }

  #refused(leg: WatchLeg, error: UpstreamError, final: boolean): void {
    this.#parts.log.debug('resources cannot be watched', { reason: error.message, final });
    if (!final) return;
    if (!this.#ready) return this.#settleIfAnswered();
    // A client that asks again learns what is granted now; this stream can only keep silent about it.
    for (const uri of leg.uris) this.#sink.onUpdated(uri, undefined);
    this.#sink.onLost();
  }

  /** The forward is gone: what it served may be served by another one, or by the same at another address. */
  #ended(leg: WatchLeg): void {
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

  #close(leg: WatchLeg): void {
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
