import { setTimeout as delay } from 'node:timers/promises';
import { INVALID_PARAMS } from '@sluice/protocol/mcp/constants';
import { Backoff, withTimeout } from '@sluice/protocol/timing';
import type { Access } from '../../../access/access.ts';
import { UpstreamError } from '../../../http/client/errors.ts';
import type { TargetLogger } from '../../../telemetry/log.ts';
import type { DownstreamClient, DownstreamSession } from '../../downstream.ts';
import type { InFlightCalls } from '../../in-flight-calls.ts';
import type { MessageTranslator } from '../relay/call-spec.ts';
import type { LegacyClient, RpcReply } from '../rpc-client.ts';
import { postMessage } from '../rpc-request.ts';
import { LOG_LEVEL_MS } from '../session-log-level.ts';
import { SessionSubscription } from '../streams/session-subscriptions.ts';
import type { Upstream } from '../upstream.ts';
import type { UpstreamSession } from '../upstream-sessions.ts';
import type { Upstreams } from '../upstreams.ts';
import { type BoundSession, NotificationBridge, outlineFor } from './notification-bridge.ts';
import type { SharedUpstreamSessions } from './shared-sessions.ts';

export interface SessionBindingsOptions {
  readonly access: Pick<Access, 'outline' | 'slicer'>;
  readonly upstreams: Upstreams;
  readonly calls: InFlightCalls;
  /** Returns the translator of messages about tasks between an upstream session and a client's session. */
  taskMessages?(upstream: Upstream, bound: UpstreamSession, session: DownstreamSession): MessageTranslator;
  readonly log: TargetLogger;
  /** Sessions at upstreams that replicas share; undefined for a single one. */
  readonly sharedSessions?: SharedUpstreamSessions | undefined;
}

/** Maximum number of a client's notifications in flight to one upstream; more are dropped. */
const MAX_PENDING_NOTIFICATIONS = 16;

/** The reply of an upstream that is not asked. */
const ACCEPTED: RpcReply = { kind: 'result', text: '{}', result: {} };

/**
 * Upstream sessions that are bound to clients' sessions: opened with the log level and the subscriptions of the client, and
 * reopened for as long as the client listens.
 */
export class SessionBindings {
  readonly #options: SessionBindingsOptions;
  /** Subscriptions at upstreams that support only the modern era, by the id of the session, while they are needed. */
  readonly #subscriptions = new WeakMap<Upstream, Map<string, SessionSubscription>>();
  /** Sessions and forwards for which a session is being reopened. */
  readonly #reopening = new Set<string>();
  /** Sessions of clients that listen here, with several replicas. */
  readonly #listening = new Map<string, DownstreamClient>();

  constructor(options: SessionBindingsOptions) {
    this.#options = options;
    options.sharedSessions?.opened.subscribe((owner) => this.#joinShared(owner));
  }

  /** Closes the upstream sessions of a client session that has ended. */
  onEnded(session: string): void {
    for (const { sessions } of this.#options.upstreams) sessions.close(session).catch(() => undefined);
  }

  /** Sets the log level of the session at all its upstreams, for at most 5 s. Never rejects. */
  async updateLogLevel(session: DownstreamSession): Promise<void> {
    const bound = [...this.#options.upstreams].map(async ({ sessions }) => {
      const upstreamSession = await sessions.get(session.id);
      await upstreamSession?.logLevel.set(session.state.logLevel);
    });
    await withTimeout(LOG_LEVEL_MS, Promise.allSettled(bound));
  }

  /** Sends a notification of the client, as text, to all upstreams of its session. */
  forwardNotification(session: DownstreamSession, headers: readonly string[], text: string): void {
    for (const upstream of this.#options.upstreams) {
      const bound = upstream.sessions.get(session.id);
      // A client that notifies faster than an upstream accepts must not use up our connections.
      if (!bound || bound instanceof Promise || bound.use.notifications >= MAX_PENDING_NOTIFICATIONS) continue;
      bound.use.notifications++;
      postMessage(upstream.transport, [...bound.identityHeaders, ...headers], text)
        .catch(() => undefined)
        .finally(() => bound.use.notifications--);
    }
  }

  /** Ends the sessions of clients at forwards that were moved out of their namespaces or blocked, and those of blocked principals. */
  endHidden(): void {
    for (const { sessions } of this.#options.upstreams) {
      sessions.forEach(({ bridge }, owner) => {
        if (bridge?.isHidden) sessions.close(owner).catch(() => undefined);
      });
    }
  }

  #isHidden(upstream: Upstream, client: DownstreamClient): boolean {
    return outlineFor(this.#options.access, client, upstream).isHidden();
  }

  /** Other resources may be hidden from clients: subscriptions to restored ones continue. */
  onResourcesChanged(): void {
    for (const upstream of this.#options.upstreams) {
      upstream.sessions.forEach(({ bridge }) => void bridge?.onResourcesChanged?.());
      for (const subscription of this.#subscriptions.get(upstream)?.values() ?? []) subscription.onResourcesChanged();
    }
  }

  /**
   * Subscribes to a resource, and stores that with `store` once the upstream has accepted it. Rejects with {@link UpstreamError} if
   * the upstream does not reply, and as `store` does.
   */
  async subscribe(
    upstream: Upstream,
    client: DownstreamClient,
    uri: string,
    store: () => Promise<void>,
  ): Promise<RpcReply> {
    if (upstream.eras.isModernOnly) {
      // It has no `resources/subscribe`: probes whether it sends updates of the resource.
      if (await this.#subscriptionOf(upstream, client).subscribe(uri, store)) return ACCEPTED;
      const message = `forward "${upstream.forward}" does not support subscriptions to ${uri}`;
      return { kind: 'error', code: INVALID_PARAMS, message, data: undefined };
    }
    const reply = await this.#request('resources/subscribe', uri, upstream, client);
    if (reply.kind === 'error') return reply;
    try {
      await store();
    } catch (error) {
      // It is removed upstream too.
      this.#request('resources/unsubscribe', uri, upstream, client).catch(() => undefined);
      throw error;
    }
    return reply;
  }

  /** Ends a subscription at its upstream. Rejects with {@link UpstreamError} if the upstream does not reply. */
  async unsubscribe(upstream: Upstream, client: DownstreamClient, uri: string): Promise<RpcReply> {
    if (this.#isHidden(upstream, client)) return ACCEPTED;
    if (!upstream.eras.isModernOnly) return await this.#request('resources/unsubscribe', uri, upstream, client);
    this.#subscriptions.get(upstream)?.get(client.session.id)?.reconcile();
    return ACCEPTED;
  }

  /** The subscription of a session, which is created if nothing is subscribed. */
  #subscriptionOf(upstream: Upstream, client: DownstreamClient): SessionSubscription {
    const { id } = client.session;
    const bySession = this.#subscriptions.getOrInsertComputed(upstream, () => new Map());
    const onLegacyAvailable = (latest: DownstreamClient) => this.onListening(latest, false);
    const onClosed = () => bySession.delete(id);
    const subscription = bySession.getOrInsertComputed(
      id,
      () => new SessionSubscription({ ...this.#options, upstream, onLegacyAvailable, onClosed }, client),
    );
    subscription.client = client;
    return subscription;
  }

  async #request(
    method: 'resources/subscribe' | 'resources/unsubscribe',
    uri: string,
    upstream: Upstream,
    client: DownstreamClient,
  ): Promise<RpcReply> {
    const find = () => upstream.sessions.use(client.session.id, () => this.open(upstream, client));
    const request = async ({ client: rpc }: UpstreamSession): Promise<RpcReply> => {
      if (!rpc) throw new UpstreamError('invalid', upstream.transport.address, `does not support ${method}`);
      if (method === 'resources/unsubscribe') return await rpc.request(method, { uri });
      return await rpc.subscribe(outlineFor(this.#options.access, client, upstream), uri);
    };
    const bound = await find();
    try {
      const reply = await request(bound);
      if (reply.kind === 'error') upstream.sessions.check(bound, reply.isSessionLost ? 'lost' : 'uncertain');
      return reply;
    } catch (error) {
      if (!(error instanceof UpstreamError)) throw error;
      if (error.kind === 'http') upstream.sessions.check(bound, 'uncertain');
      if (error.kind !== 'session-lost') throw error;
      upstream.sessions.discard(bound, true);
      return await request(await find());
    }
  }

  /**
   * The client opened a notification stream: its subscriptions are maintained at the upstreams until it closes its last one.
   * `gap`: it may have missed notifications.
   */
  onListening(client: DownstreamClient, gap: boolean): void {
    const { session } = client;
    if (this.#options.sharedSessions) {
      for (const [id, known] of this.#listening) if (!known.session.active?.isListening) this.#listening.delete(id);
      this.#listening.set(session.id, client);
      this.#joinShared(session.id);
    }
    const forwards = new Set(session.state.subscriptions.map(({ forward }) => forward));
    for (const forward of forwards) {
      const upstream = this.#options.upstreams.of(forward);
      if (upstream?.eras.isModernOnly) {
        this.#subscriptionOf(upstream, client).onListening(gap);
        continue;
      }
      const bound = upstream?.sessions.get(session.id);
      if (gap && bound && !(bound instanceof Promise)) bound.bridge?.onMissed?.();
      void this.#reopen(forward, client, new Backoff(), 0);
    }
  }

  /** Joins the upstream sessions that other replicas have opened for a client that listens here: it gets their notifications. */
  #joinShared(owner: string): void {
    const { sharedSessions, upstreams } = this.#options;
    const client = this.#listening.get(owner);
    if (!client?.session.active?.isListening) return;
    for (const upstream of upstreams) {
      if (upstream.sessions.get(owner) || !sharedSessions?.find(upstream.transport.address, owner)) continue;
      this.open(upstream, client).catch(() => undefined);
    }
  }

  /**
   * Opens the upstream session of a session that has none. `backoff` continues over the sessions that the upstream loses,
   * until one has a stream. Rejects with {@link UpstreamError}.
   */
  open(upstream: Upstream, client: DownstreamClient, backoff: Backoff = new Backoff()): Promise<UpstreamSession> {
    const { id: key, hasEnded, protocolVersion, capabilities, clientInfo } = client.session;
    // A call that outlives its client's session must not open a session upstream: it would never be closed.
    if (hasEnded) {
      const what = 'was not called: the session of the client has ended';
      return Promise.reject(new UpstreamError('aborted', upstream.transport.address, what));
    }
    if (this.#isHidden(upstream, client)) {
      const what = 'was not called: it is in another namespace than the client';
      return Promise.reject(new UpstreamError('aborted', upstream.transport.address, what));
    }
    const { headers } = client;
    const onOpened = (bound: UpstreamSession, rpc: LegacyClient) =>
      this.#onOpened({ upstream, client, bound, rpc, backoff });
    // Returns the promise itself: calls that wait for the session are sent in the order in which they came.
    return upstream.sessions.open({
      key,
      isShared: true,
      protocolVersion,
      capabilities,
      clientInfo,
      headers,
      onOpened,
    });
  }

  /** Restores log level and subscriptions in a new upstream session. Requests that the upstream rejects are ignored. */
  async #onOpened(opened: BoundSession): Promise<void> {
    const { upstream, client, bound, backoff } = opened;
    await bound.logLevel.set(client.session.state.logLevel);
    const bridge = new NotificationBridge({
      ...this.#options,
      ...opened,
      tasks: this.#options.taskMessages?.(upstream, bound, client.session),
      onMissedEvents: () => {
        upstream.sessions.discard(bound);
        if (upstream.forward !== undefined) void this.#reopen(upstream.forward, client, backoff, backoff.next());
      },
    });
    bound.bridge = bridge;
    // The upstream now supports the legacy era: subscriptions are created in this session.
    this.#subscriptions.get(upstream)?.get(client.session.id)?.close();
    // Calls do not wait for the subscriptions.
    void bridge.resubscribe();
  }

  /**
   * Reopens the upstream session, unless that is already being attempted: while the client listens, the first time after `waitMs`.
   * Never rejects.
   */
  async #reopen(forward: string, client: DownstreamClient, backoff: Backoff, waitMs: number): Promise<void> {
    const key = JSON.stringify([client.session.id, forward]);
    if (this.#reopening.has(key)) return;
    this.#reopening.add(key);
    let ms = waitMs;
    while (!(await this.#tryReopen(forward, client, backoff, ms))) ms = backoff.next();
    this.#reopening.delete(key);
  }

  /** Attempts it once after `waitMs`. Returns false if another attempt is needed. */
  async #tryReopen(forward: string, client: DownstreamClient, backoff: Backoff, waitMs: number): Promise<boolean> {
    if (waitMs > 0) await delay(waitMs, undefined, { ref: false });
    const { session } = client;
    const upstream = this.#options.upstreams.of(forward);
    const isSubscribed = session.state.subscriptions.some((subscription) => subscription.forward === forward);
    if (!upstream || !isSubscribed || !session.active?.isListening || this.#isHidden(upstream, client)) return true;
    const bound = upstream.sessions.get(session.id);
    // The eras of the upstream may have been detected meanwhile, or have changed.
    if (!bound && upstream.eras.isModernOnly) {
      this.#subscriptionOf(upstream, client).onListening(false);
      return true;
    }
    try {
      // If a call is opening the session and fails, there would be no further attempt.
      await (bound ?? this.open(upstream, client, backoff));
      return true;
    } catch {
      return false;
    }
  }
}
