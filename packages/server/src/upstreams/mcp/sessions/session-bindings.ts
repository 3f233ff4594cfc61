import { setTimeout as delay } from 'node:timers/promises';
import { Backoff } from '@sluice/protocol/backoff';
import type { JsonObject } from '@sluice/protocol/json/parse';
import { LEAST_LEVEL, reachesLevel } from '@sluice/protocol/mcp/capabilities';
import { LIST_CHANGED_METHODS } from '@sluice/protocol/mcp/constants';
import { legacyResourceUpdated } from '@sluice/protocol/mcp/subscriptions';
import { UpstreamError } from '../../../http/client/errors.ts';
import type { ActiveSession, ActiveSessions, SessionChannel } from '../../../mcp/sessions/live-sessions.ts';
import type { SessionState } from '../../../mcp/sessions/session-state.ts';
import type { ClientSession, ClientSessions } from '../../../mcp/sessions/sessions.ts';
import type { TargetLogger } from '../../../telemetry/log.ts';
import type { LegacyClient, Reply } from '../client.ts';
import { type InFlightCall, type InFlightCalls, passProgress } from '../relay/in-flight.ts';
import { Refusals } from '../relay/request-rewrite.ts';
import { UpstreamServerRequests } from '../relay/server-requests.ts';
import { postMessage } from '../rpc-request.ts';
import { SessionStream, type SessionStreamSink } from '../streams/notification-stream.ts';
import type { SessionSubscriptions } from '../streams/session-subscriptions.ts';
import type { SessionNotificationBridge, Upstream, UpstreamSession } from '../upstream.ts';
import { withTimeout } from '../with-timeout.ts';

export interface UpstreamChannelOptions {
  readonly upstream: Upstream;
  readonly link: UpstreamSession;
  /** Headers besides the link's own. */
  readonly headers: readonly string[];
  readonly live: ActiveSession;
  readonly calls: InFlightCalls<InFlightCall>;
  readonly log: TargetLogger;
  /** Delays between attempts to have the upstream's stream; begins anew when there is one. */
  readonly backoff: Backoff;
  /** What the client has changed in its session. */
  state(): SessionState | undefined;
  /** The upstream has forgotten the session. */
  lost(): void;
}

/**
 * What runs between a legacy client's session and its session with one upstream beside calls: while the client has a
 * notification stream, the upstream's is open too, and what comes on it goes to that client (2025-11-25, "Listening for
 * Messages from the Server").
 */
export class NotificationBridge implements SessionChannel, SessionNotificationBridge, SessionStreamSink {
  readonly #options: UpstreamChannelOptions;
  readonly #questions: UpstreamServerRequests;
  readonly #refusals: Refusals;
  #stream: SessionStream | undefined = undefined;
  /** The upstream's stream is there, or never will be. */
  #settled = false;
  /** The client may have missed something, and is told so when its upstream can be heard. */
  #gap = false;
  /** The upstream is held back until the client has read what it was sent. */
  #held = false;
  #closed = false;

  constructor(options: UpstreamChannelOptions) {
    this.#options = options;
    const { upstream, link, headers, live } = options;
    const answer = (text: string) => postMessage(upstream.transport, [...link.identity, ...headers], text);
    this.#refusals = new Refusals(answer);
    this.#questions = new UpstreamServerRequests({
      live: () => live,
      send: (text) => void this.#notify(text),
      deliver: answer,
    });
    live.join(this);
    this.listening(live.listening);
  }

  /** True once the link is given up. */
  get closed(): boolean {
    return this.#closed;
  }

  get pinned(): boolean {
    return this.#options.live.listening;
  }

  listening(on: boolean): void {
    if (on) this.#stream ??= this.#openStream();
    else this.#stop();
  }

  onMessage(text: string, value: JsonObject): boolean {
    const { upstream, calls, live } = this.#options;
    const { method } = value;
    // The answer to a question of ours: there are none on this stream. Or nothing that JSON-RPC knows.
    if (typeof method !== 'string') return true;
    if ('id' in value) {
      if (!live.listening || !this.#questions.ask(text)) this.#refusals.refuse(text, method);
      return !this.#held;
    }
    switch (method) {
      case 'notifications/cancelled':
        this.#questions.takenBack(text);
        return !this.#held;
      case 'notifications/progress':
        passProgress(calls, upstream, live.id, text, value);
        return true;
      case 'notifications/message':
        return !reachesLevel(value.params, this.#options.state()?.logLevel ?? LEAST_LEVEL) || this.#notify(text);
      default:
        if (!LIST_CHANGED_METHODS.has(method)) return this.#notify(text);
        // Our clients are told when the change is here, and they can see it.
        upstream.changed();
        return true;
    }
  }

  /** What may have been missed is told: the client reads anew what it watches. */
  onOpen(gap: boolean): void {
    this.#options.backoff.reset();
    this.#settle(gap || this.#gap);
  }

  onUnavailable(): void {
    const { log, upstream } = this.#options;
    log.debug('upstream offers no notification stream', { upstream: upstream.transport.address });
    this.#settle(this.#gap);
  }

  /** The upstream may have had news while nobody listened to it. Told when it is listened to. */
  missed(): void {
    if (this.#settled) this.#settle(true);
    else this.#gap = true;
  }

  /** From now on the client hears what there is to hear. */
  #settle(gap: boolean): void {
    this.#settled = true;
    // A client that reads slowly is told when it reads on, once, however often there was something.
    this.#gap = gap && this.#held;
    if (!gap || this.#held) return;
    const { upstream, state } = this.#options;
    for (const { uri, forward } of state()?.subscriptions ?? []) {
      if (forward !== upstream.forward) continue;
      this.#notify(legacyResourceUpdated(uri));
    }
  }

  lost(): void {
    this.#options.lost();
  }

  onSessionLost(): void {
    void this.#lookForSession(this.#stream);
  }

  close(): void {
    this.#closed = true;
    this.#stop();
    this.#questions.withdrawAll();
    this.#options.live.leave(this);
  }

  #openStream(): SessionStream {
    const { upstream, link, headers } = this.#options;
    return new SessionStream(upstream.transport, [...link.identity, ...headers], this);
  }

  /**
   * The upstream says that it does not know the session. Some say so of a stream that they do not offer: whether it is
   * the session that is gone, `ping` tells.
   */
  async #lookForSession(stream: SessionStream | undefined): Promise<void> {
    const { link, backoff, lost } = this.#options;
    let gone = false;
    try {
      await link.client?.request('ping');
      if (this.#stream === stream) this.onUnavailable();
      return;
    } catch (error) {
      gone = error instanceof UpstreamError && error.kind === 'session-lost';
    }
    // Nobody knows: asked again later.
    if (!gone) await delay(backoff.next(), undefined, { ref: false });
    // It was given up meanwhile, or the client has stopped listening.
    if (this.#stream !== stream) return;
    if (gone) lost();
    else this.#stream = this.#openStream();
  }

  #stop(): void {
    if (this.#settled) this.#gap = true;
    this.#settled = false;
    this.#held = false;
    this.#stream?.close();
    this.#stream = undefined;
  }

  #notify(text: string): boolean {
    const { live } = this.#options;
    if (live.notify(text)) return true;
    if (this.#held) return false;
    this.#held = true;
    live.onDrain(() => {
      this.#held = false;
      this.#stream?.resume();
      if (this.#gap && this.#settled) this.#settle(true);
    });
    return false;
  }
}

export interface SessionLinksOptions {
  /** All upstreams there are. */
  upstreams(): Iterable<Upstream>;
  /** The one behind a forward. */
  upstream(forward: string): Upstream | undefined;
  readonly sessions: ClientSessions;
  readonly lives: ActiveSessions;
  readonly calls: InFlightCalls<InFlightCall>;
  /** What sessions are subscribed to where the legacy era is not spoken. */
  readonly watches: SessionSubscriptions;
  readonly log: TargetLogger;
}

/** Upstreams are waited for so long to take a log level, by a client that sets it and by one whose session is opened. */
const LEVEL_MS = 5_000;
/** Notifications of a client that are on their way to one upstream at a time; more are lost. */
const MAX_NOTIFYING = 16;
/** Subscriptions that are made anew at a time, of one session at one upstream. */
const SUBSCRIBING = 8;

/**
 * The sessions that are held upstream for clients' sessions: opened with what the client has set and subscribed to, and
 * kept so for as long as it listens (mcp 3 and 4).
 */
export class SessionBindings {
  readonly #options: SessionLinksOptions;
  /** Session and forward of the links that are being opened for a client that listens. */
  readonly #holding = new Set<string>();
  readonly #telling = new Map<UpstreamSession, Promise<void>>();

  constructor(options: SessionLinksOptions) {
    this.#options = options;
  }

  /** The session's link to an upstream, opened when there is none. Rejects with {@link UpstreamError}. */
  link(
    upstream: Upstream,
    session: ClientSession,
    headers: readonly string[],
  ): UpstreamSession | Promise<UpstreamSession> {
    return upstream.links.get(session.id) ?? this.#open(upstream, session, headers, newBackoff());
  }

  /** Has every upstream of the session told of its log level, for as long as a client waits. Never rejects. */
  async setLevel(session: ClientSession): Promise<void> {
    const told = this.#linksOf(session).map(async (link) => this.#toldLevel(session, await link));
    await withTimeout(LEVEL_MS, Promise.allSettled(told));
  }

  /** Sends every upstream of the session a notification of the client's, as text. `headers` besides the link's own. */
  notify(session: ClientSession, headers: readonly string[], text: string): void {
    for (const upstream of this.#options.upstreams()) {
      const link = upstream.links.get(session.id);
      // A client that notifies faster than an upstream listens is not to use up our connections.
      if (!link || link instanceof Promise || link.notifying >= MAX_NOTIFYING) continue;
      link.notifying++;
      postMessage(upstream.transport, [...link.identity, ...headers], text)
        .catch(() => undefined)
        .finally(() => link.notifying--);
    }
  }

  /** Subscribes to a resource, or ends that. Rejects with {@link UpstreamError} when there is no reply. */
  async subscription(
    method: 'resources/subscribe' | 'resources/unsubscribe',
    uri: string,
    upstream: Upstream,
    session: ClientSession,
    headers: readonly string[],
  ): Promise<Reply> {
    const link = await this.link(upstream, session, headers);
    try {
      return await request(link, method, uri, upstream);
    } catch (error) {
      if (!(error instanceof UpstreamError) || error.kind !== 'session-lost') throw error;
      upstream.links.forget(link);
      return await request(await this.link(upstream, session, headers), method, uri, upstream);
    }
  }

  /**
   * The client has begun to listen: what it is subscribed to is held upstream, now and until it stops listening. `gap`:
   * it may have missed what came while it was away.
   */
  hold(session: ClientSession, headers: readonly string[], gap: boolean): void {
    const { sessions, watches } = this.#options;
    const forwards = new Set(sessions.state(session)?.subscriptions.map(({ forward }) => forward));
    for (const forward of forwards) {
      const upstream = this.#options.upstream(forward);
      if (upstream?.modernOnly) {
        watches.hold(upstream, session, headers, gap);
        continue;
      }
      const link = upstream?.links.get(session.id);
      if (gap && link && !(link instanceof Promise)) link.channel?.missed();
      this.#holdOnce(forward, session, headers, newBackoff(), 0);
    }
  }

  /** Those that are open, or are being opened. */
  #linksOf(session: ClientSession): (UpstreamSession | Promise<UpstreamSession>)[] {
    const links = [...this.#options.upstreams()].map((upstream) => upstream.links.get(session.id));
    return links.filter((link) => link !== undefined);
  }

  /** `backoff` goes on over the sessions that the upstream forgets, until one has a stream. */
  #open(
    upstream: Upstream,
    session: ClientSession,
    headers: readonly string[],
    backoff: Backoff,
  ): Promise<UpstreamSession> {
    // A call that outlives its client's session must not open another one upstream: nobody would end it.
    if (this.#options.sessions.ended(session)) {
      const what = 'is not asked: the session has ended';
      return Promise.reject(new UpstreamError('aborted', upstream.transport.address, what));
    }
    // Not a promise of its own: calls that wait for the link go out in the order in which they came.
    return upstream.links.open({
      key: session.id,
      protocolVersion: session.protocolVersion,
      capabilities: session.profile.capabilities,
      clientInfo: session.clientInfo,
      headers,
      opened: (link, client) => this.#opened(upstream, session, headers, backoff, link, client),
    });
  }

  /** Brings a new session upstream to where the client has its own. What the upstream refuses, it is spared. */
  async #opened(
    upstream: Upstream,
    session: ClientSession,
    headers: readonly string[],
    backoff: Backoff,
    link: UpstreamSession,
    client: LegacyClient,
  ): Promise<void> {
    const { sessions, lives, calls, watches, log } = this.#options;
    await withTimeout(LEVEL_MS, this.#tellLevel(session, client));
    const channel = new NotificationBridge({
      upstream,
      link,
      headers,
      live: lives.of(session.id),
      calls,
      log,
      backoff,
      state: () => sessions.state(session),
      lost: () => {
        upstream.links.forget(link);
        const { forward } = upstream;
        if (forward !== undefined) this.#holdOnce(forward, session, headers, backoff, backoff.next());
      },
    });
    link.channel = channel;
    // The upstream has come to speak the legacy era: from now on subscriptions are made here.
    watches.end(upstream, session);
    // Calls need not wait for as many subscriptions as there may be.
    void this.#resubscribe(upstream, session, channel, client);
  }

  /** One request at a time tells a session upstream of the level, which ends with the one that is set then. */
  #toldLevel(session: ClientSession, link: UpstreamSession): Promise<void> {
    const underWay = this.#telling.get(link);
    if (underWay) return underWay;
    const telling = this.#tellLevel(session, link.client).finally(() => this.#telling.delete(link));
    this.#telling.set(link, telling);
    return telling;
  }

  /** Tells a new session upstream of the log level, and of another one that the client has set meanwhile. */
  async #tellLevel(session: ClientSession, client: LegacyClient | undefined): Promise<void> {
    let told: string | undefined;
    for (;;) {
      const level = this.#options.sessions.state(session)?.logLevel;
      if (level === undefined || level === told) return;
      await setLevel(client, level).catch(() => undefined);
      told = level;
    }
  }

  /** Makes the session's subscriptions in a new session upstream, and ends those that the client has ended meanwhile. */
  async #resubscribe(
    { forward }: Upstream,
    session: ClientSession,
    channel: NotificationBridge,
    client: LegacyClient,
  ): Promise<void> {
    const made = () => this.#options.sessions.state(session)?.subscriptions ?? [];
    const wanted = (uri: string) => made().some((one) => one.uri === uri && one.forward === forward);
    const uris = made().flatMap((one) => (one.forward === forward ? [one.uri] : []));
    if (uris.length === 0) return;
    const left = uris.values();
    const subscribe = async (): Promise<void> => {
      for (const uri of left) {
        if (channel.closed || !wanted(uri)) continue;
        await client.request('resources/subscribe', { uri }).catch(() => undefined);
        if (!wanted(uri)) await client.request('resources/unsubscribe', { uri }).catch(() => undefined);
      }
    };
    await Promise.all(Array.from({ length: SUBSCRIBING }, subscribe));
    // It was subscribed before this session: news may have been missed in between.
    channel.missed();
  }

  /** However often a client begins to listen, one attempt at a time is made for it. */
  #holdOnce(
    forward: string,
    session: ClientSession,
    headers: readonly string[],
    backoff: Backoff,
    firstMs: number,
  ): void {
    const key = JSON.stringify([session.id, forward]);
    if (this.#holding.has(key)) return;
    this.#holding.add(key);
    void this.#hold(forward, session, headers, backoff, firstMs).finally(() => this.#holding.delete(key));
  }

  /**
   * Opens the session's link again and again until it is there, for as long as the client listens to what comes on it;
   * for the first time after `firstMs`.
   */
  async #hold(
    forward: string,
    session: ClientSession,
    headers: readonly string[],
    backoff: Backoff,
    firstMs: number,
  ): Promise<void> {
    const { lives, sessions, watches } = this.#options;
    for (let waitMs = firstMs; ; waitMs = backoff.next()) {
      if (waitMs > 0) await delay(waitMs, undefined, { ref: false });
      const upstream = this.#options.upstream(forward);
      const subscribed = sessions
        .state(session)
        ?.subscriptions.some((subscription) => subscription.forward === forward);
      if (!upstream || !subscribed || !lives.find(session.id)?.listening) return;
      const link = upstream.links.get(session.id);
      // What it speaks may have been found out meanwhile, or have changed.
      if (!link && upstream.modernOnly) return watches.hold(upstream, session, headers, false);
      try {
        // Where a call is opening it, that may fail: then nobody else would try again.
        await (link ?? this.#open(upstream, session, headers, backoff));
        return;
      } catch {
        // Asked again after a while.
      }
    }
  }
}

function newBackoff(): Backoff {
  return new Backoff(Math.random, () => performance.now());
}

async function setLevel(client: LegacyClient | undefined, level: string): Promise<void> {
  if (client?.serverCapabilities.logging !== undefined) await client.request('logging/setLevel', { level });
}

async function request({ client }: UpstreamSession, method: string, uri: string, upstream: Upstream): Promise<Reply> {
  if (!client) throw new UpstreamError('invalid', upstream.transport.address, `cannot be asked for ${method}`);
  return await client.request(method, { uri });
}
