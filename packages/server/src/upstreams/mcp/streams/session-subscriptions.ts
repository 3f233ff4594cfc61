import { translatedCapabilities } from '@sluice/protocol/mcp/capabilities';
import { withoutSubscriptionId } from '@sluice/protocol/mcp/subscriptions';
import { ReconnectDelay } from '@sluice/protocol/timing';
import type { Access } from '../../../access/access.ts';
import { UpstreamError } from '../../../http/client/errors.ts';
import type { TargetLogger } from '../../../telemetry/log.ts';
import type { DownstreamClient, StreamListener } from '../../downstream.ts';
import { ResourceUpdates } from '../sessions/notification-bridge.ts';
import type { Upstream } from '../upstream.ts';
import { Subscription } from './subscription.ts';

interface SessionSubscriptionOptions {
  readonly access: Pick<Access, 'outline' | 'slicer'>;
  readonly upstream: Upstream;
  readonly log: TargetLogger;
  /** The upstream now supports the legacy era too, in which the subscriptions are created from now on. */
  onLegacyAvailable(client: DownstreamClient): void;
  /** Nothing is subscribed any more. */
  onClosed(): void;
}

/** A uri that clients have requested, until the subscription is stored or rejected. */
interface RequestedUri extends PromiseWithResolvers<boolean> {
  isGranted: boolean;
  /** Requests of the client in progress. */
  requests: number;
}

/** Milliseconds for the upstream to grant a subscription. */
const GRANT_MS = 5_000;
/** Milliseconds after which an active subscription resets the retry delay. */
const STABLE_MS = 60_000;

/**
 * Resource subscriptions of a legacy session at a modern upstream: one `Subscription` with all uris, open while the client has a
 * notification stream. A change of the uris opens a new one before the current one is closed.
 *
 * A uri that is rejected after it was granted is requested again with increasing delay. After any interruption the client
 * gets an update for each uri, since it may have missed one.
 */
export class SessionSubscription implements StreamListener {
  readonly #options: SessionSubscriptionOptions;
  readonly #delay = new ReconnectDelay();
  readonly #updates: ResourceUpdates;
  /** As of its latest request. */
  client: DownstreamClient;
  /** Subscription whose updates go to the client, and the uris granted last. */
  #current: Subscription | undefined = undefined;
  #covered: ReadonlySet<string> = new Set();
  #currentSince = Number.POSITIVE_INFINITY;
  /** Replaces the current subscription once it is granted. */
  #next: Subscription | undefined = undefined;
  /** Uris of the last request to the upstream. */
  #wanted: ReadonlySet<string> = new Set();
  readonly #requested = new Map<string, RequestedUri>();
  /** Until rejected uris are requested again. */
  #timer: NodeJS.Timeout | undefined = undefined;
  #closed = false;

  constructor(options: SessionSubscriptionOptions, client: DownstreamClient) {
    this.#options = options;
    this.client = client;
    this.#updates = new ResourceUpdates({ ...options, client }, () => this.#current?.resume());
    this.#updates.channel.addListener(this);
  }

  /**
   * Subscribes to a uri and stores the subscription with `store`; false if the upstream does not grant it. Rejects with
   * `UpstreamError` if the upstream does not respond within 5 s, and as `store` does.
   */
  async subscribe(uri: string, store: () => Promise<void>): Promise<boolean> {
    const requested = this.#request(uri);
    requested.requests++;
    try {
      if (!(await requested.promise)) return false;
      await store();
      return true;
    } finally {
      requested.requests--;
      if (requested.requests === 0) this.#remove(uri, requested);
      this.reconcile();
    }
  }

  onListeningChanged(isListening: boolean): void {
    // Immediately: later updates have no recipient.
    if (!isListening) this.#closeCurrent();
    this.reconcile();
  }

  /** The client has opened a notification stream; `gap`: updates went to one that it did not resume. */
  onListening(gap: boolean): void {
    if (gap && this.#current?.isActive) this.#updates.notifyMissed(this.#covered);
    this.reconcile();
  }

  /** Other resources may be hidden from clients. */
  onResourcesChanged(): void {
    // What is decided meanwhile is cached.
    void this.#updates.findRestored()?.then(() => this.reconcile());
  }

  /** Adapts the upstream subscription to the stored ones. Called when they change, or other resources are hidden from clients. */
  reconcile(): void {
    // One at a time: its outcome calls this again.
    if (this.#closed || this.#next) return;
    if (this.#options.upstream.closeSignal.aborted) return this.close();
    const waiting = [...this.#requested].flatMap(([uri, { isGranted }]) => (isGranted ? [] : [uri]));
    const listened = this.#listened();
    this.#current?.restrictTo(listened);
    if (waiting.length === 0) {
      if (listened.size === 0) {
        this.#closeCurrent();
        // Hidden resources may be restored while the client listens.
        const isWaiting = this.#updates.channel.isListening && this.#updates.hidden.size > 0;
        if (this.#requested.size === 0 && !isWaiting) this.close();
        return;
      }
      const isScheduled = this.#timer !== undefined && listened.isSubsetOf(this.#wanted);
      if (isScheduled || (this.#current && listened.symmetricDifference(this.#covered).size === 0)) return;
    }
    this.#open(listened.union(new Set(waiting)));
  }

  /** From now on, the subscriptions are made in a legacy session. */
  close(): void {
    if (this.#closed) return;
    this.#closed = true;
    this.#closeCurrent();
    const { upstream, onClosed } = this.#options;
    const error = new UpstreamError('aborted', upstream.transport.address, 'was closed');
    for (const requested of this.#requested.values()) requested.reject(error);
    this.#next?.close();
    this.#updates.channel.removeListener(this);
    onClosed();
  }

  /** Uris whose updates the client is to get: none while it does not listen. */
  #listened(): ReadonlySet<string> {
    if (!this.#updates.channel.isListening) return new Set();
    const unstored = [...this.#requested].flatMap(([uri, { isGranted }]) => (isGranted ? [uri] : []));
    return new Set([...this.#updates.subscribed, ...unstored]);
  }

  #request(uri: string): RequestedUri {
    const found = this.#requested.get(uri);
    if (found) return found;
    const isGranted = (this.#current?.isActive ?? false) && this.#covered.has(uri);
    const requested: RequestedUri = { ...Promise.withResolvers<boolean>(), isGranted, requests: 0 };
    this.#requested.set(uri, requested);
    if (isGranted) requested.resolve(true);
    else this.reconcile();
    return requested;
  }

  #remove(uri: string, requested: RequestedUri): void {
    if (this.#requested.get(uri) === requested) this.#requested.delete(uri);
  }

  #open(uris: ReadonlySet<string>): void {
    const { upstream } = this.#options;
    const { session, headers } = this.client;
    this.#wanted = uris;
    clearTimeout(this.#timer);
    this.#timer = undefined;
    const subscription = new Subscription({
      upstream,
      era: 'modern',
      filter: {},
      resources: { permit: this.#updates.permit, uris: [...uris] },
      client: {
        clientInfo: session.clientInfo,
        capabilities: translatedCapabilities(session.capabilities, true),
        headers,
      },
      acknowledgeMs: GRANT_MS,
      handler: {
        onGranted: (granted) => this.#onGranted(subscription, granted.uris),
        onRejected: (error, final) => this.#onRejected(subscription, error, final),
        onUpdated: (_uri, text) => subscription !== this.#current || this.#updates.send(withoutSubscriptionId(text)),
        onUpstreamClosed: () => this.close(),
      },
    });
    this.#next = subscription;
  }

  #onGranted(subscription: Subscription, granted: ReadonlySet<string>): void {
    if (subscription === this.#next) {
      this.#next = undefined;
      this.#settle((requested, uri) => {
        requested.isGranted = granted.has(uri);
        requested.resolve(requested.isGranted);
      });
      // The client may have stopped listening meanwhile.
      if (this.#updates.channel.isListening) this.#replaceCurrent(subscription, granted);
      else subscription.close();
    } else if (subscription === this.#current) {
      // After a reconnect.
      this.#covered = granted;
      this.#updates.notifyMissed(granted);
      this.#retryMissing();
    }
    this.reconcile();
  }

  #replaceCurrent(subscription: Subscription, granted: ReadonlySet<string>): void {
    const watched = this.#current?.isActive ? this.#covered : new Set<string>();
    this.#current?.close();
    this.#current = subscription;
    this.#covered = granted;
    this.#currentSince = performance.now();
    this.#updates.notifyMissed(granted.difference(watched));
    this.#retryMissing();
  }

  #onRejected(subscription: Subscription, error: UpstreamError, final: boolean): void {
    this.#options.log.debug('upstream rejects resource subscription', { reason: error.message, final });
    if (subscription === this.#next) {
      this.#next = undefined;
      subscription.close();
      this.#settle((requested) => {
        if (error.kind === 'rpc') requested.resolve(false);
        else requested.reject(error);
      });
      this.#retryMissing();
      this.reconcile();
    } else if (subscription === this.#current && final) {
      this.#current = undefined;
      this.#covered = new Set();
      this.#retryMissing();
    }
  }

  /** Settles the requested uris of the last request to the upstream. */
  #settle(settle: (requested: RequestedUri, uri: string) => void): void {
    for (const [uri, requested] of this.#requested) {
      if (requested.isGranted || !this.#wanted.has(uri)) continue;
      settle(requested, uri);
      if (!requested.isGranted) this.#remove(uri, requested);
    }
  }

  /** Schedules another request for wanted uris that were not granted. */
  #retryMissing(): void {
    const missing = this.#wanted.intersection(this.#listened()).difference(this.#covered);
    if (this.#timer !== undefined || missing.size === 0) return;
    if (performance.now() - this.#currentSince > STABLE_MS) this.#delay.reset();
    this.#currentSince = Number.POSITIVE_INFINITY;
    this.#timer = setTimeout(() => {
      this.#timer = undefined;
      const { upstream, onLegacyAvailable } = this.#options;
      if (upstream.eras.isModernOnly) return this.reconcile();
      this.close();
      onLegacyAvailable(this.client);
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
}
