import { ReconnectDelay, type ReconnectDelayOptions } from '@sluice/protocol/backoff';
import { crossedCapabilities } from '@sluice/protocol/mcp/capabilities';
import { legacyResourceUpdated, withoutSubscriptionId } from '@sluice/protocol/mcp/subscriptions';
import { UpstreamError } from '../../../http/client/errors.ts';
import type { ActiveSession, ActiveSessions, SessionChannel } from '../../../mcp/sessions/live-sessions.ts';
import type { ClientSession, ClientSessions } from '../../../mcp/sessions/sessions.ts';
import type { TargetLogger } from '../../../telemetry/log.ts';
import type { Upstream } from '../upstream.ts';
import { UpstreamSubscription } from './resource-watch.ts';

/** Tells a legacy session's notification stream of updated resources, as fast as the client reads. */
export class SessionUpdates {
  readonly #live: ActiveSession;
  readonly #drained: () => void;
  /** What the client is to be told of once it reads on, once each. */
  readonly #untold = new Set<string>();
  #blocked = false;

  /** `drained` is called when the client reads on after {@link SessionUpdates.pass} returned false. */
  constructor(live: ActiveSession, drained: () => void) {
    this.#live = live;
    this.#drained = drained;
  }

  /** Passes on an upstream's notification. False: the client reads slowly, send no more until it reads on. */
  pass(text: string): boolean {
    if (this.#live.notify(text)) return true;
    if (this.#blocked) return false;
    this.#blocked = true;
    this.#live.onDrain(() => this.#goOn());
    return false;
  }

  /** Tells that this may have changed. */
  tell(uri: string): void {
    if (this.#blocked) this.#untold.add(uri);
    else this.pass(legacyResourceUpdated(uri));
  }

  /** Leaves untold what is: nobody reads any more. */
  clear(): void {
    this.#untold.clear();
    this.#blocked = false;
  }

  #goOn(): void {
    this.#blocked = false;
    const untold = [...this.#untold];
    this.#untold.clear();
    for (const uri of untold) this.tell(uri);
    if (!this.#blocked) this.#drained();
  }
}

export interface SessionWatchOptions {
  readonly upstream: Upstream;
  readonly session: ClientSession;
  readonly live: ActiveSession;
  readonly log: TargetLogger;
  readonly delays?: ReconnectDelayOptions | undefined;
  /** What the client is subscribed to at this upstream, as it is kept. */
  kept(): readonly string[];
  /** The upstream speaks the legacy era too, by now: what the client is subscribed to is to be held there. */
  elsewhere(headers: readonly string[]): void;
  /** There is nothing to do any more. */
  over(): void;
}

/** A uri that the upstream is to be asked for, for a client that waits. */
interface Ask {
  readonly answer: Promise<boolean>;
  resolve(granted: boolean): void;
  reject(error: UpstreamError): void;
}

/** What the upstream is being asked for, and who waits for the answer. */
interface Attempt {
  readonly leg: UpstreamSubscription;
  readonly asks: ReadonlyMap<string, Ask>;
}

/** What the upstream has to grant a subscription. */
const GRANT_MS = 5_000;
/** What was held for so long was no fluke: the next attempt counts as a first one again. */
const SETTLED_MS = 60_000;

/**
 * What a legacy client's session is subscribed to at an upstream of the modern era (mcp 5): one `subscriptions/listen`
 * there, with all of it, held for as long as the client has a notification stream. When something comes or goes, another
 * one is opened before the one that is there is closed.
 *
 * What the upstream refuses after it was granted is asked for again, ever more patiently. Whatever was not watched for a
 * while, whyever, the client is told of once it is: it may have missed an update.
 */
export class SessionSubscription implements SessionChannel {
  readonly #options: SessionWatchOptions;
  readonly #delay: ReconnectDelay;
  readonly #updates: SessionUpdates;
  #headers: readonly string[] = [];
  /** Whose notices go to the client, and what it was granted last. */
  #held: UpstreamSubscription | undefined = undefined;
  #covered: ReadonlySet<string> = new Set();
  #heldAt = Number.POSITIVE_INFINITY;
  /** What the upstream was asked for last, whatever came of it. */
  #asked: ReadonlySet<string> = new Set();
  /** What is to take the place of what is held, once it is granted. */
  #next: Attempt | undefined = undefined;
  /** What clients wait for and the upstream was not asked for yet. */
  readonly #asks = new Map<string, Ask>();
  /** Granted and not kept yet. */
  readonly #granted = new Set<string>();
  /** Subscriptions that are being made. */
  #making = 0;
  /** Until what was refused is asked for again. */
  #timer: NodeJS.Timeout | undefined = undefined;
  #closed = false;

  constructor(options: SessionWatchOptions) {
    this.#options = options;
    this.#delay = new ReconnectDelay(options.delays);
    this.#updates = new SessionUpdates(options.live, () => this.#held?.resume());
    options.live.join(this);
  }

  /** Headers besides the protocol's own, alternating names and values, for requests from now on. */
  set headers(headers: readonly string[]) {
    this.#headers = headers;
  }

  /**
   * Asks the upstream for a uri, and has the subscription kept when it is granted; false when it is not. Rejects with
   * {@link UpstreamError} when the upstream cannot be asked, and as `keep` does.
   */
  async subscribe(uri: string, keep: () => Promise<void>): Promise<boolean> {
    this.#making++;
    try {
      if (!(await this.#ask(uri))) return false;
      await keep();
      return true;
    } finally {
      this.#making--;
      this.#granted.delete(uri);
      this.check();
    }
  }

  listening(on: boolean): void {
    // At once, whatever is under way: what came from now on would be nobody's.
    if (!on) this.#rest();
    this.check();
  }

  /** News went to a stream that the client does not take up again. */
  missed(): void {
    if (this.#held?.heard) this.#tell(this.#covered);
  }

  /** To be told when something else is kept: sees to it that this is what the upstream is asked for. */
  check(): void {
    // One at a time: its end leads here again.
    if (this.#closed || this.#next) return;
    if (this.#options.upstream.ended.aborted) return this.close();
    const wanted = this.#wanted();
    this.#held?.keep(wanted);
    if (this.#asks.size === 0) {
      if (wanted.size === 0) {
        this.#rest();
        if (this.#making === 0) this.close();
        return;
      }
      const waits = this.#timer !== undefined && wanted.isSubsetOf(this.#asked);
      if (waits || (this.#held && isSame(wanted, this.#covered))) return;
    }
    this.#open(wanted);
  }

  close(): void {
    if (this.#closed) return;
    this.#closed = true;
    this.#rest();
    const { upstream, live, over } = this.#options;
    const error = new UpstreamError('aborted', upstream.transport.address, 'is not asked any more');
    for (const ask of [...this.#asks.values(), ...(this.#next?.asks.values() ?? [])]) ask.reject(error);
    this.#next?.leg.close();
    live.leave(this);
    over();
  }

  /** What is to be watched: nothing while nobody listens. */
  #wanted(): ReadonlySet<string> {
    return new Set(this.#options.live.listening ? [...this.#options.kept(), ...this.#granted] : []);
  }

  /** Whether the upstream grants a uri. Rejects when it cannot be asked. */
  #ask(uri: string): Promise<boolean> {
    if (this.#held?.heard && this.#covered.has(uri)) {
      this.#granted.add(uri);
      return Promise.resolve(true);
    }
    let ask = this.#next?.asks.get(uri) ?? this.#asks.get(uri);
    if (!ask) {
      const { promise: answer, resolve, reject } = Promise.withResolvers<boolean>();
      ask = { answer, resolve, reject };
      this.#asks.set(uri, ask);
      this.check();
    }
    return ask.answer;
  }

  #open(wanted: ReadonlySet<string>): void {
    const { upstream, session } = this.#options;
    const asks = new Map(this.#asks);
    this.#asks.clear();
    this.#asked = wanted.union(new Set(asks.keys()));
    clearTimeout(this.#timer);
    this.#timer = undefined;
    const leg = new UpstreamSubscription({
      upstream,
      era: 'modern',
      uris: [...this.#asked],
      client: {
        clientInfo: session.clientInfo,
        capabilities: crossedCapabilities(session.profile.capabilities, true),
        headers: this.#headers,
      },
      acknowledgeMs: GRANT_MS,
      sink: {
        answered: (granted) => this.#answered(leg, granted),
        refused: (error, final) => this.#refused(leg, error, final),
        updated: (_uri, text) => leg !== this.#held || this.#updates.pass(withoutSubscriptionId(text)),
        ended: () => this.close(),
      },
    });
    this.#next = { leg, asks };
  }

  #answered(leg: UpstreamSubscription, granted: ReadonlySet<string>): void {
    if (leg === this.#next?.leg) return this.#take(this.#next, granted);
    if (leg !== this.#held) return;
    // The connection was broken.
    this.#covered = granted;
    this.#tell(granted);
    this.#askMissing();
    this.check();
  }

  /** What was opened takes the place of what was there, as far as anybody listens. */
  #take({ leg, asks }: Attempt, granted: ReadonlySet<string>): void {
    this.#next = undefined;
    for (const [uri, ask] of asks) {
      if (granted.has(uri)) this.#granted.add(uri);
      ask.resolve(granted.has(uri));
    }
    if (this.#options.live.listening) {
      const watched = this.#held?.heard ? this.#covered : new Set<string>();
      this.#held?.close();
      this.#held = leg;
      this.#covered = granted;
      this.#heldAt = performance.now();
      this.#tell(granted.difference(watched));
      this.#askMissing();
    } else {
      leg.close();
    }
    this.check();
  }

  #refused(leg: UpstreamSubscription, error: UpstreamError, final: boolean): void {
    this.#options.log.debug('resources cannot be watched', { reason: error.message, final });
    if (leg === this.#next?.leg) {
      const { asks } = this.#next;
      this.#next = undefined;
      leg.close();
      for (const ask of asks.values()) {
        if (error.kind === 'rpc') ask.resolve(false);
        else ask.reject(error);
      }
      this.#askMissing();
      this.check();
    } else if (leg === this.#held && final) {
      leg.close();
      this.#held = undefined;
      this.#covered = new Set();
      this.#askMissing();
    }
  }

  /** What is wanted and was not granted is asked for again after a while. */
  #askMissing(): void {
    const refused = this.#asked.intersection(this.#wanted()).difference(this.#covered);
    if (this.#timer !== undefined || refused.size === 0) return;
    if (performance.now() - this.#heldAt > SETTLED_MS) this.#delay.reset();
    this.#heldAt = Number.POSITIVE_INFINITY;
    this.#timer = setTimeout(() => {
      this.#timer = undefined;
      if (this.#options.upstream.modernOnly) return this.check();
      this.close();
      this.#options.elsewhere(this.#headers);
    }, this.#delay.next()).unref();
  }

  /** Ends what is held for a client that listens. */
  #rest(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#held?.close();
    this.#held = undefined;
    this.#covered = new Set();
    this.#updates.clear();
  }

  /** Tells of what may have changed, as far as the client is subscribed to it. */
  #tell(uris: ReadonlySet<string>): void {
    for (const uri of this.#options.kept()) if (uris.has(uri)) this.#updates.tell(uri);
  }
}

function isSame(some: ReadonlySet<string>, others: ReadonlySet<string>): boolean {
  return some.size === others.size && some.isSubsetOf(others);
}

export interface SessionWatchesOptions {
  readonly sessions: ClientSessions;
  readonly lives: ActiveSessions;
  readonly log: TargetLogger;
  /** An upstream speaks the legacy era too, by now: what the session is subscribed to is to be held there. */
  elsewhere(session: ClientSession, headers: readonly string[]): void;
  /** For tests. */
  readonly delays?: ReconnectDelayOptions;
}

/**
 * What legacy clients' sessions are subscribed to at upstreams that speak the modern era alone; what `SessionLinks` is
 * for those that speak the legacy era. A watch is there only while there is something to do.
 */
export class SessionSubscriptions {
  readonly #options: SessionWatchesOptions;
  readonly #watches = new WeakMap<Upstream, Map<string, SessionSubscription>>();

  constructor(options: SessionWatchesOptions) {
    this.#options = options;
  }

  /**
   * Asks the upstream to let a uri be watched, and has the subscription kept (`keep`) when it does; false when it does
   * not. Rejects with `UpstreamError` when it cannot be asked within 5 s, and as `keep` does.
   */
  subscribe(
    upstream: Upstream,
    session: ClientSession,
    headers: readonly string[],
    uri: string,
    keep: () => Promise<void>,
  ): Promise<boolean> {
    return this.#watch(upstream, session, headers).subscribe(uri, keep);
  }

  /** To be told when the session has ended a subscription at this upstream. */
  changed(upstream: Upstream, session: ClientSession): void {
    this.#find(upstream, session)?.check();
  }

  /** The client has begun to listen; `gap`: it may have missed what came while it was away. */
  hold(upstream: Upstream, session: ClientSession, headers: readonly string[], gap: boolean): void {
    if (gap) this.#find(upstream, session)?.missed();
    this.#watch(upstream, session, headers).check();
  }

  /** Ends what is held of the session at an upstream: it is held in another way from now on. */
  end(upstream: Upstream, session: ClientSession): void {
    this.#find(upstream, session)?.close();
  }

  #find(upstream: Upstream, { id }: ClientSession): SessionSubscription | undefined {
    return this.#watches.get(upstream)?.get(id);
  }

  #watch(upstream: Upstream, session: ClientSession, headers: readonly string[]): SessionSubscription {
    const watch = this.#find(upstream, session) ?? this.#open(upstream, session);
    watch.headers = headers;
    return watch;
  }

  #open(upstream: Upstream, session: ClientSession): SessionSubscription {
    const { sessions, lives, log, elsewhere, delays } = this.#options;
    const watches = this.#watches.get(upstream) ?? new Map<string, SessionSubscription>();
    this.#watches.set(upstream, watches);
    const kept = () => sessions.state(session)?.subscriptions ?? [];
    const watch = new SessionSubscription({
      upstream,
      session,
      live: lives.of(session.id),
      log,
      delays,
      kept: () => kept().flatMap(({ uri, forward }) => (forward === upstream.forward ? [uri] : [])),
      elsewhere: (own) => elsewhere(session, own),
      over: () => watches.delete(session.id),
    });
    watches.set(session.id, watch);
    return watch;
  }
}
