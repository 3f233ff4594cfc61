import { setTimeout as delay } from 'node:timers/promises';
import { Backoff, withTimeout } from '@sluice/protocol/timing';
import { UpstreamError } from '../../../http/client/errors.ts';
import type { TargetLogger } from '../../../telemetry/log.ts';
import type { DownstreamSession } from '../../downstream.ts';
import type { InFlightCalls } from '../../in-flight-calls.ts';
import type { MessageTranslator } from '../relay/call-spec.ts';
import type { LegacyClient, RpcReply, SessionMethod } from '../rpc-client.ts';
import { postMessage } from '../rpc-request.ts';
import { subscribeEach } from '../streams/legacy-driver.ts';
import type { SessionSubscriptions } from '../streams/session-subscriptions.ts';
import type { Upstream, UpstreamSession } from '../upstream.ts';
import { NotificationBridge } from './notification-bridge.ts';
import type { SharedUpstreamSessions } from './shared-sessions.ts';

export interface SessionBindingsOptions {
  /** Returns all upstreams. */
  upstreams(): Iterable<Upstream>;
  /** Returns the upstream of a forward. */
  upstream(forward: string): Upstream | undefined;
  readonly calls: InFlightCalls;
  /** Subscriptions of sessions at upstreams that do not support the legacy era. */
  readonly subscriptions: SessionSubscriptions;
  /** Returns the translator of messages about tasks between an upstream session and a client's session. */
  taskMessages?(upstream: Upstream, bound: UpstreamSession, session: DownstreamSession): MessageTranslator;
  readonly log: TargetLogger;
  /** Sessions at upstreams that replicas share; undefined for a single one. */
  readonly sharedSessions?: SharedUpstreamSessions | undefined;
}

/** Maximum time to set the log level at the upstreams, in milliseconds. */
const LOG_LEVEL_MS = 5_000;
/** Maximum number of a client's notifications in flight to one upstream; more are dropped. */
const MAX_PENDING_NOTIFICATIONS = 16;

/**
 * Upstream sessions that are bound to clients' sessions: opened with the log level and the subscriptions of the client, and
 * reopened for as long as the client listens.
 */
export class SessionBindings {
  readonly #options: SessionBindingsOptions;
  /** Sessions and forwards for which a session is being reopened. */
  readonly #reopening = new Set<string>();
  /** Sessions of clients that listen here, with several replicas. */
  readonly #listening = new Map<string, { readonly session: DownstreamSession; readonly headers: readonly string[] }>();
  readonly #settingLevel = new Map<UpstreamSession, Promise<void>>();

  constructor(options: SessionBindingsOptions) {
    this.#options = options;
    options.sharedSessions?.opened.subscribe((owner) => this.#joinShared(owner));
  }

  /** Sets the log level of the session at all its upstreams, for at most 5 s. Never rejects. */
  async updateLogLevel(session: DownstreamSession): Promise<void> {
    const bound = [...this.#options.upstreams()].map(async ({ sessions }) => {
      const upstreamSession = await sessions.get(session.id);
      if (upstreamSession) await this.#setLevelOnce(session, upstreamSession);
    });
    await withTimeout(LOG_LEVEL_MS, Promise.allSettled(bound));
  }

  /** Sends a notification of the client, as text, to all upstreams of its session. */
  forwardNotification(session: DownstreamSession, headers: readonly string[], text: string): void {
    for (const upstream of this.#options.upstreams()) {
      const bound = upstream.sessions.get(session.id);
      // A client that notifies faster than an upstream accepts must not use up our connections.
      if (!bound || bound instanceof Promise || bound.pendingNotifications >= MAX_PENDING_NOTIFICATIONS) continue;
      bound.pendingNotifications++;
      postMessage(upstream.transport, [...bound.identityHeaders, ...headers], text)
        .catch(() => undefined)
        .finally(() => bound.pendingNotifications--);
    }
  }

  /** Other resources may be hidden from clients: subscriptions to restored ones continue. */
  onResourcesChanged(): void {
    for (const upstream of this.#options.upstreams()) {
      upstream.sessions.onResourcesChanged();
      this.#options.subscriptions.onResourcesChanged(upstream);
    }
  }

  /** Subscribes to or unsubscribes from a resource. Rejects with {@link UpstreamError} if the upstream does not reply. */
  async requestSubscription(
    method: 'resources/subscribe' | 'resources/unsubscribe',
    uri: string,
    upstream: Upstream,
    session: DownstreamSession,
    headers: readonly string[],
  ): Promise<RpcReply> {
    const find = () => upstream.sessions.use(session.id, () => this.open(upstream, session, headers));
    const bound = await find();
    try {
      const reply = await request(bound, method, uri, upstream);
      if (reply.kind === 'error') upstream.sessions.check(bound, reply.isSessionLost ? 'lost' : 'uncertain');
      return reply;
    } catch (error) {
      if (!(error instanceof UpstreamError)) throw error;
      if (error.kind === 'http') upstream.sessions.check(bound, 'uncertain');
      if (error.kind !== 'session-lost') throw error;
      upstream.sessions.onLost(bound);
      return await request(await find(), method, uri, upstream);
    }
  }

  /**
   * The client opened a notification stream: its subscriptions are maintained at the upstreams until it closes its last
   * one.
   * `gap`: it may have missed notifications.
   */
  onListening(session: DownstreamSession, headers: readonly string[], gap: boolean): void {
    if (this.#options.sharedSessions) {
      for (const [id, known] of this.#listening) if (!known.session.isListening) this.#listening.delete(id);
      this.#listening.set(session.id, { session, headers });
      this.#joinShared(session.id);
    }
    const forwards = new Set(session.subscriptions.map(({ forward }) => forward));
    for (const forward of forwards) {
      const upstream = this.#options.upstream(forward);
      if (upstream?.isModernOnly) {
        this.#options.subscriptions.onListening(upstream, session, headers, gap);
        continue;
      }
      const bound = upstream?.sessions.get(session.id);
      if (gap && bound && !(bound instanceof Promise)) bound.bridge?.onMissed();
      this.#reopen(forward, session, headers, newBackoff(), 0);
    }
  }

  /** Joins the upstream sessions that other replicas have opened for a client that listens here: it gets their notifications. */
  #joinShared(owner: string): void {
    const { sharedSessions, upstreams } = this.#options;
    const { session, headers } = this.#listening.get(owner) ?? {};
    if (!session?.isListening || !headers) return;
    for (const upstream of upstreams()) {
      if (upstream.sessions.get(owner) || !sharedSessions?.find(upstream.transport.address, owner)) continue;
      this.open(upstream, session, headers).catch(() => undefined);
    }
  }

  /**
   * Opens the upstream session of a session that has none. `backoff` continues over the sessions that the upstream loses,
   * until one has a stream. Rejects with {@link UpstreamError}.
   */
  open(
    upstream: Upstream,
    session: DownstreamSession,
    headers: readonly string[],
    backoff: Backoff = newBackoff(),
  ): Promise<UpstreamSession> {
    // A call that outlives its client's session must not open a session upstream: it would never be closed.
    if (session.hasEnded) {
      const what = 'was not called: the session of the client has ended';
      return Promise.reject(new UpstreamError('aborted', upstream.transport.address, what));
    }
    // Returns the promise itself: calls that wait for the session are sent in the order in which they came.
    return upstream.sessions.open({
      key: session.id,
      isShared: true,
      protocolVersion: session.protocolVersion,
      capabilities: session.capabilities,
      clientInfo: session.clientInfo,
      headers,
      onOpened: (bound, client) => this.#onOpened(upstream, session, headers, backoff, bound, client),
    });
  }

  /** Restores log level and subscriptions in a new upstream session. Requests that the upstream rejects are ignored. */
  async #onOpened(
    upstream: Upstream,
    session: DownstreamSession,
    headers: readonly string[],
    backoff: Backoff,
    bound: UpstreamSession,
    client: LegacyClient,
  ): Promise<void> {
    const { calls, subscriptions, log } = this.#options;
    await withTimeout(LOG_LEVEL_MS, setLevel(session, client));
    const bridge = new NotificationBridge({
      upstream,
      bound,
      client,
      headers,
      session,
      calls,
      log,
      tasks: this.#options.taskMessages?.(upstream, bound, session),
      backoff,
      onMissedEvents: () => {
        upstream.sessions.discard(bound);
        const { forward } = upstream;
        if (forward !== undefined) this.#reopen(forward, session, headers, backoff, backoff.next());
      },
    });
    bound.bridge = bridge;
    // The upstream now supports the legacy era: subscriptions are created in this session.
    subscriptions.close(upstream, session);
    // Calls do not wait for the subscriptions.
    void resubscribe(upstream, session, bridge, client);
  }

  /** Sets the level with one request at a time, which continues until the upstream has the latest level. */
  #setLevelOnce(session: DownstreamSession, bound: UpstreamSession): Promise<void> {
    const inFlight = this.#settingLevel.get(bound);
    if (inFlight) return inFlight;
    const setting = setLevel(session, bound.client).finally(() => this.#settingLevel.delete(bound));
    this.#settingLevel.set(bound, setting);
    return setting;
  }

  /** Reopens the upstream session unless that is already being attempted. */
  #reopen(
    forward: string,
    session: DownstreamSession,
    headers: readonly string[],
    backoff: Backoff,
    firstMs: number,
  ): void {
    const key = JSON.stringify([session.id, forward]);
    if (this.#reopening.has(key)) return;
    this.#reopening.add(key);
    void this.#retryOpen(forward, session, headers, backoff, firstMs).finally(() => this.#reopening.delete(key));
  }

  /** Attempts to open the upstream session while the client listens; the first time after `firstMs`. */
  async #retryOpen(
    forward: string,
    session: DownstreamSession,
    headers: readonly string[],
    backoff: Backoff,
    firstMs: number,
  ): Promise<void> {
    for (let waitMs = firstMs; ; waitMs = backoff.next()) {
      if (waitMs > 0) await delay(waitMs, undefined, { ref: false });
      const upstream = this.#options.upstream(forward);
      const isSubscribed = session.subscriptions.some((subscription) => subscription.forward === forward);
      if (!upstream || !isSubscribed || !session.isListening) return;
      const bound = upstream.sessions.get(session.id);
      // The eras of the upstream may have been detected meanwhile, or have changed.
      if (!bound && upstream.isModernOnly) {
        return this.#options.subscriptions.onListening(upstream, session, headers, false);
      }
      try {
        // If a call is opening the session and fails, there would be no further attempt.
        await (bound ?? this.open(upstream, session, headers, backoff));
        return;
      } catch {
        // Tried again after the next delay.
      }
    }
  }
}

function newBackoff(): Backoff {
  return new Backoff(Math.random, () => performance.now());
}

/** Sets the log level of the session, and each other one that the client sets meanwhile. Never rejects. */
async function setLevel(session: DownstreamSession, client: LegacyClient | undefined): Promise<void> {
  let current: string | undefined;
  for (;;) {
    const level = session.logLevel;
    if (level === undefined || level === current) return;
    if (client?.serverCapabilities.logging !== undefined) {
      await client.request('logging/setLevel', { level }).catch(() => undefined);
    }
    current = level;
  }
}

/** Restores the subscriptions of the session in a new upstream session, except those that are ended meanwhile. */
async function resubscribe(
  upstream: Upstream,
  session: DownstreamSession,
  bridge: NotificationBridge,
  client: LegacyClient,
): Promise<void> {
  const { forward } = upstream;
  const uris = session.subscriptions.flatMap((one) => (one.forward === forward ? [one.uri] : []));
  if (uris.length === 0) return;
  const isWanted = (uri: string) =>
    upstream.allowsResource(uri) && session.subscriptions.some((one) => one.uri === uri && one.forward === forward);
  await subscribeEach(uris, async (uri) => {
    if (bridge.closed || !isWanted(uri)) return;
    await client.request('resources/subscribe', { uri }).catch(() => undefined);
    if (!isWanted(uri)) await client.request('resources/unsubscribe', { uri }).catch(() => undefined);
  });
  // Updates between the previous session and this one were missed.
  bridge.onMissed();
}

async function request(
  { client }: UpstreamSession,
  method: SessionMethod,
  uri: string,
  upstream: Upstream,
): Promise<RpcReply> {
  if (!client) throw new UpstreamError('invalid', upstream.transport.address, `does not support ${method}`);
  return await client.request(method, { uri });
}
