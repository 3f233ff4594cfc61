import { ReconnectDelay, type ReconnectDelayOptions } from '@sluice/protocol/backoff';
import { translatedCapabilities } from '@sluice/protocol/mcp/capabilities';
import { legacyResourceUpdated, withoutSubscriptionId } from '@sluice/protocol/mcp/subscriptions';
import { UpstreamError } from '../../../http/client/errors.ts';
import type { TargetLogger } from '../../../telemetry/log.ts';
import type { DownstreamChannel, DownstreamSession, StreamListener } from '../../downstream.ts';
import type { Upstream } from '../upstream.ts';
import { UpstreamSubscription } from './upstream-subscription.ts';

/** Sends resource updates on the notification stream of a legacy session, with backpressure. */
export class ResourceUpdateQueue {
  readonly #channel: DownstreamChannel;
  readonly #onDrain: () => void;
  /** Uris of updates to send when the client reads again, once each. */
  readonly #pending = new Set<string>();
  #blocked = false;

  /** `onDrain` is called when the client reads again after `pass` returned false. */
  constructor(channel: DownstreamChannel, onDrain: () => void) {
    this.#channel = channel;
    this.#onDrain = onDrain;
  }

  /** Sends an upstream's notification. False: the client reads slowly, wait for `onDrain`. */
  pass(text: string): boolean {
    if (this.#channel.send(text)) return true;
    if (this.#blocked) return false;
    this.#blocked = true;
    this.#channel.onDrain(() => this.#flush());
    return false;
  }

  /** Sends a notification of our own: the resource may have changed. */
  notifyUpdated(uri: string): void {
    if (this.#blocked) this.#pending.add(uri);
    else this.pass(legacyResourceUpdated(uri));
  }

  /** Drops pending updates: the client no longer listens. */
  clear(): void {
    this.#pending.clear();
    this.#blocked = false;
  }

  #flush(): void {
    this.#blocked = false;
    const uris = [...this.#pending];
    this.#pending.clear();
    for (const uri of uris) this.notifyUpdated(uri);
    if (!this.#blocked) this.#onDrain();
  }
}

export interface SessionSubscriptionOptions {
  readonly upstream: Upstream;
  readonly session: DownstreamSession;
  readonly channel: DownstreamChannel;
  readonly log: TargetLogger;
  readonly delays?: ReconnectDelayOptions | undefined;
  /** Stored subscriptions of the client at this upstream. */
  subscribedUris(): readonly string[];
  /** The upstream now speaks the legacy era too: the subscriptions are to be made there. */
  onLegacyAvailable(headers: readonly string[]): void;
  /** Nothing is subscribed any more. */
  onClosed(): void;
}

/** A uri requested by a waiting client. */
interface PendingUri {
  readonly granted: Promise<boolean>;
  resolve(granted: boolean): void;
  reject(error: UpstreamError): void;
}

/** A subscription not yet granted, and the requests that wait for it. */
interface PendingSubscription {
  readonly subscription: UpstreamSubscription;
  readonly pending: ReadonlyMap<string, PendingUri>;
}

/** Milliseconds for the upstream to grant a subscription. */
const GRANT_MS = 5_000;
/** Milliseconds after which an active subscription resets the retry delay. */
const SETTLED_MS = 60_000;

/**
 * Resource subscriptions of a legacy session at a modern upstream (mcp 5): one `subscriptions/listen` with all uris, open
 * while the client has a notification stream. A change of the uris opens a new one before the current one is closed.
 *
 * A uri that is rejected after it was granted is requested again with increasing delay. After any interruption the client
 * gets an update for each uri, since it may have missed one.
 */
export class SessionSubscription implements StreamListener {
  readonly #options: SessionSubscriptionOptions;
  readonly #delay: ReconnectDelay;
  readonly #updates: ResourceUpdateQueue;
  #headers: readonly string[] = [];
  /** Subscription whose updates go to the client, and the uris granted last. */
  #current: UpstreamSubscription | undefined = undefined;
  #covered: ReadonlySet<string> = new Set();
  #currentSince = Number.POSITIVE_INFINITY;
  /** Uris of the last request to the upstream. */
  #requested: ReadonlySet<string> = new Set();
  /** Replaces the current subscription once it is granted. */
  #next: PendingSubscription | undefined = undefined;
  /** Uris that clients wait for and that are not requested yet. */
  readonly #queued = new Map<string, PendingUri>();
  /** Granted, but not stored yet. */
  readonly #unstored = new Set<string>();
  /** Calls of `subscribe` in progress. */
  #subscribing = 0;
  /** Until rejected uris are requested again. */
  #timer: NodeJS.Timeout | undefined = undefined;
  #closed = false;

  constructor(options: SessionSubscriptionOptions) {
    this.#options = options;
    this.#delay = new ReconnectDelay(options.delays);
    this.#updates = new ResourceUpdateQueue(options.channel, () => this.#current?.resume());
    options.channel.addListener(this);
  }

  /** Headers of later requests besides the protocol's own: names and values, alternating. */
  set headers(headers: readonly string[]) {
    this.#headers = headers;
  }

  /**
   * Subscribes to a uri and stores the subscription with `store`; false if the upstream does not grant it. Rejects with
   * {@link UpstreamError} if the upstream does not respond, and as `store` does.
   */
  async subscribe(uri: string, store: () => Promise<void>): Promise<boolean> {
    this.#subscribing++;
    try {
      if (!(await this.#request(uri))) return false;
      await store();
      return true;
    } finally {
      this.#subscribing--;
      this.#unstored.delete(uri);
      this.reconcile();
    }
  }

  onListeningChanged(isListening: boolean): void {
    // Immediately: later updates have no recipient.
    if (!isListening) this.#closeCurrent();
    this.reconcile();
  }

  /** Updates went to a stream that the client did not resume. */
  onMissed(): void {
    if (this.#current?.isActive) this.#notifyUpdated(this.#covered);
  }

  /** Adapts the upstream subscription to the stored ones. Called when they change. */
  reconcile(): void {
    // One at a time: its outcome calls this again.
    if (this.#closed || this.#next) return;
    if (this.#options.upstream.closeSignal.aborted) return this.close();
    const wanted = this.#wanted();
    this.#current?.restrictTo(wanted);
    if (this.#queued.size === 0) {
      if (wanted.size === 0) {
        this.#closeCurrent();
        if (this.#subscribing === 0) this.close();
        return;
      }
      const isScheduled = this.#timer !== undefined && wanted.isSubsetOf(this.#requested);
      if (isScheduled || (this.#current && areEqual(wanted, this.#covered))) return;
    }
    this.#open(wanted);
  }

  close(): void {
    if (this.#closed) return;
    this.#closed = true;
    this.#closeCurrent();
    const { upstream, channel, onClosed } = this.#options;
    const error = new UpstreamError('aborted', upstream.transport.address, 'was closed');
    for (const request of [...this.#queued.values(), ...(this.#next?.pending.values() ?? [])]) request.reject(error);
    this.#next?.subscription.close();
    channel.removeListener(this);
    onClosed();
  }

  /** Uris to subscribe to: none while the client does not listen. */
  #wanted(): ReadonlySet<string> {
    return new Set(this.#options.channel.isListening ? [...this.#options.subscribedUris(), ...this.#unstored] : []);
  }

  /** Resolves to whether the upstream grants a uri. Rejects if it does not respond. */
  #request(uri: string): Promise<boolean> {
    if (this.#current?.isActive && this.#covered.has(uri)) {
      this.#unstored.add(uri);
      return Promise.resolve(true);
    }
    let request = this.#next?.pending.get(uri) ?? this.#queued.get(uri);
    if (!request) {
      const { promise: granted, resolve, reject } = Promise.withResolvers<boolean>();
      request = { granted, resolve, reject };
      this.#queued.set(uri, request);
      this.reconcile();
    }
    return request.granted;
  }

  #open(wanted: ReadonlySet<string>): void {
    const { upstream, session } = this.#options;
    const pending = new Map(this.#queued);
    this.#queued.clear();
    this.#requested = wanted.union(new Set(pending.keys()));
    clearTimeout(this.#timer);
    this.#timer = undefined;
    const subscription = new UpstreamSubscription({
      upstream,
      era: 'modern',
      uris: [...this.#requested],
      client: {
        clientInfo: session.clientInfo,
        capabilities: translatedCapabilities(session.capabilities, true),
        headers: this.#headers,
      },
      acknowledgeMs: GRANT_MS,
      handler: {
        onGranted: (granted) => this.#onGranted(subscription, granted),
        onRejected: (error, final) => this.#onRejected(subscription, error, final),
        onUpdated: (_uri, text) => subscription !== this.#current || this.#updates.pass(withoutSubscriptionId(text)),
        onUpstreamClosed: () => this.close(),
      },
    });
    this.#next = { subscription, pending };
  }

  #onGranted(subscription: UpstreamSubscription, granted: ReadonlySet<string>): void {
    if (subscription === this.#next?.subscription) return this.#replaceCurrent(this.#next, granted);
    if (subscription !== this.#current) return;
    // After a reconnect.
    this.#covered = granted;
    this.#notifyUpdated(granted);
    this.#retryMissing();
    this.reconcile();
  }

  /** Replaces the current subscription, if the client still listens. */
  #replaceCurrent({ subscription, pending }: PendingSubscription, granted: ReadonlySet<string>): void {
    this.#next = undefined;
    for (const [uri, request] of pending) {
      if (granted.has(uri)) this.#unstored.add(uri);
      request.resolve(granted.has(uri));
    }
    if (this.#options.channel.isListening) {
      const watched = this.#current?.isActive ? this.#covered : new Set<string>();
      this.#current?.close();
      this.#current = subscription;
      this.#covered = granted;
      this.#currentSince = performance.now();
      this.#notifyUpdated(granted.difference(watched));
      this.#retryMissing();
    } else {
      subscription.close();
    }
    this.reconcile();
  }

  #onRejected(subscription: UpstreamSubscription, error: UpstreamError, final: boolean): void {
    this.#options.log.debug('upstream rejects resource subscription', { reason: error.message, final });
    if (subscription === this.#next?.subscription) {
      const { pending } = this.#next;
      this.#next = undefined;
      subscription.close();
      for (const request of pending.values()) {
        if (error.kind === 'rpc') request.resolve(false);
        else request.reject(error);
      }
      this.#retryMissing();
      this.reconcile();
    } else if (subscription === this.#current && final) {
      subscription.close();
      this.#current = undefined;
      this.#covered = new Set();
      this.#retryMissing();
    }
  }

  /** Schedules another request for wanted uris that were not granted. */
  #retryMissing(): void {
    const missing = this.#requested.intersection(this.#wanted()).difference(this.#covered);
    if (this.#timer !== undefined || missing.size === 0) return;
    if (performance.now() - this.#currentSince > SETTLED_MS) this.#delay.reset();
    this.#currentSince = Number.POSITIVE_INFINITY;
    this.#timer = setTimeout(() => {
      this.#timer = undefined;
      if (this.#options.upstream.isModernOnly) return this.reconcile();
      this.close();
      this.#options.onLegacyAvailable(this.#headers);
    }, this.#delay.next()).unref();
  }

  #closeCurrent(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#current?.close();
    this.#current = undefined;
    this.#covered = new Set();
    this.#updates.clear();
  }

  /** Sends an update for each of the uris that the client is subscribed to. */
  #notifyUpdated(uris: ReadonlySet<string>): void {
    for (const uri of this.#options.subscribedUris()) if (uris.has(uri)) this.#updates.notifyUpdated(uri);
  }
}

function areEqual(some: ReadonlySet<string>, others: ReadonlySet<string>): boolean {
  return some.size === others.size && some.isSubsetOf(others);
}

export interface SessionSubscriptionsOptions {
  readonly log: TargetLogger;
  /** An upstream now speaks the legacy era too: the subscriptions of the session are to be made there. */
  onLegacyAvailable(session: DownstreamSession, headers: readonly string[]): void;
  /** For tests. */
  readonly delays?: ReconnectDelayOptions;
}

/**
 * Resource subscriptions of legacy sessions at upstreams that speak only the modern era; `SessionBindings` has those at
 * legacy upstreams. A {@link SessionSubscription} exists only while it has something to do.
 */
export class SessionSubscriptions {
  readonly #options: SessionSubscriptionsOptions;
  readonly #subscriptions = new WeakMap<Upstream, Map<string, SessionSubscription>>();

  constructor(options: SessionSubscriptionsOptions) {
    this.#options = options;
  }

  /**
   * Subscribes to a uri and stores the subscription with `store`; false if the upstream does not grant it. Rejects with
   * `UpstreamError` if the upstream does not respond within 5 s, and as `store` does.
   */
  subscribe(
    upstream: Upstream,
    session: DownstreamSession,
    headers: readonly string[],
    uri: string,
    store: () => Promise<void>,
  ): Promise<boolean> {
    return this.#ensure(upstream, session, headers).subscribe(uri, store);
  }

  /** The session has ended a subscription at this upstream. */
  onUnsubscribed(upstream: Upstream, session: DownstreamSession): void {
    this.#find(upstream, session)?.reconcile();
  }

  /** The client listens; `gap`: it may have missed updates before. */
  onListening(upstream: Upstream, session: DownstreamSession, headers: readonly string[], gap: boolean): void {
    if (gap) this.#find(upstream, session)?.onMissed();
    this.#ensure(upstream, session, headers).reconcile();
  }

  /** Closes the session's subscription at an upstream: from now on it is made in a legacy session. */
  close(upstream: Upstream, session: DownstreamSession): void {
    this.#find(upstream, session)?.close();
  }

  #find(upstream: Upstream, { id }: DownstreamSession): SessionSubscription | undefined {
    return this.#subscriptions.get(upstream)?.get(id);
  }

  #ensure(upstream: Upstream, session: DownstreamSession, headers: readonly string[]): SessionSubscription {
    const subscription = this.#find(upstream, session) ?? this.#open(upstream, session);
    subscription.headers = headers;
    return subscription;
  }

  #open(upstream: Upstream, session: DownstreamSession): SessionSubscription {
    const { log, onLegacyAvailable, delays } = this.#options;
    const bySession = this.#subscriptions.get(upstream) ?? new Map<string, SessionSubscription>();
    this.#subscriptions.set(upstream, bySession);
    const subscription = new SessionSubscription({
      upstream,
      session,
      channel: session.channel(),
      log,
      delays,
      subscribedUris: () =>
        session.subscriptions.flatMap(({ uri, forward }) => (forward === upstream.forward ? [uri] : [])),
      onLegacyAvailable: (own) => onLegacyAvailable(session, own),
      onClosed: () => bySession.delete(session.id),
    });
    bySession.set(session.id, subscription);
    return subscription;
  }
}
