import { setTimeout as delay } from 'node:timers/promises';
import type { LiveSessions } from '../sessions/live-sessions.ts';
import type { ClientSession, ClientSessions } from '../sessions/sessions.ts';
import { Backoff } from './backoff.ts';
import type { CallsUnderWay } from './calls-under-way.ts';
import { deliver } from './deliver.ts';
import type { LegacyClient } from './legacy-client.ts';
import type { LinkOwner, UpstreamLink } from './links.ts';
import type { RelayedCall } from './relayed-call.ts';
import { UpstreamChannel } from './session-channel.ts';
import type { Upstream } from './upstream.ts';
import type { Reply } from './upstream-client.ts';
import { UpstreamError } from './upstream-error.ts';
import { within } from './within.ts';

export interface SessionLinksOptions {
  /** All upstreams there are. */
  upstreams(): Iterable<Upstream>;
  /** The one behind a forward. */
  upstream(forward: string): Upstream | undefined;
  readonly sessions: ClientSessions;
  readonly lives: LiveSessions;
  readonly calls: CallsUnderWay<RelayedCall>;
}

/** A client that sets its log level waits so long for the upstreams to take it. */
const LEVEL_MS = 5_000;

/**
 * The sessions that are held upstream for clients' sessions: opened with what the client has set and subscribed to, and
 * kept so for as long as it listens (mcp 3 and 4).
 */
export class SessionLinks {
  readonly #options: SessionLinksOptions;

  constructor(options: SessionLinksOptions) {
    this.#options = options;
  }

  /** The session's link to an upstream, opened when there is none. Rejects with {@link UpstreamError}. */
  link(upstream: Upstream, session: ClientSession, headers: readonly string[]): UpstreamLink | Promise<UpstreamLink> {
    return upstream.links.get(session.id) ?? upstream.links.open(this.#owner(upstream, session, headers));
  }

  /** Has every upstream of the session told of its log level, for as long as a client waits. Never rejects. */
  async setLevel(session: ClientSession, level: string): Promise<void> {
    const told = this.#linksOf(session).map((link) => setLevel(link.client, level));
    await within(LEVEL_MS, Promise.allSettled(told));
  }

  /** Sends every upstream of the session a notification of the client's, as text. */
  notify(session: ClientSession, text: string): void {
    for (const upstream of this.#options.upstreams()) {
      const link = upstream.links.get(session.id);
      if (link && !(link instanceof Promise)) deliver(upstream.transport, link.identity, text).catch(() => undefined);
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

  /** The client has begun to listen: what it is subscribed to is held upstream, now and until it stops listening. */
  hold(session: ClientSession, headers: readonly string[]): void {
    const { sessions } = this.#options;
    const forwards = new Set(sessions.state(session)?.subscriptions.map(({ forward }) => forward));
    for (const forward of forwards) void this.#hold(forward, session, headers);
  }

  /** Those that are open; one that is being opened gets the client's state when it is. */
  #linksOf(session: ClientSession): UpstreamLink[] {
    const links = [...this.#options.upstreams()].map((upstream) => upstream.links.get(session.id));
    return links.flatMap((link) => (link === undefined || link instanceof Promise ? [] : [link]));
  }

  #owner(upstream: Upstream, session: ClientSession, headers: readonly string[]): LinkOwner {
    return {
      key: session.id,
      protocolVersion: session.protocolVersion,
      capabilities: session.profile.capabilities,
      clientInfo: session.clientInfo,
      headers,
      opened: (link, client) => this.#opened(upstream, session, headers, link, client),
    };
  }

  /** Brings a new session upstream to where the client has its own. What the upstream refuses, it is spared. */
  async #opened(
    upstream: Upstream,
    session: ClientSession,
    headers: readonly string[],
    link: UpstreamLink,
    client: LegacyClient,
  ): Promise<void> {
    const { sessions, lives, calls } = this.#options;
    const { logLevel, subscriptions = [] } = sessions.state(session) ?? {};
    const asked = subscriptions.filter(({ forward }) => forward === upstream.forward);
    if (logLevel !== undefined) await setLevel(client, logLevel).catch(() => undefined);
    await Promise.allSettled(asked.map(({ uri }) => client.request('resources/subscribe', { uri })));
    link.channel = new UpstreamChannel({
      upstream,
      link,
      headers,
      live: lives.of(session.id),
      calls,
      state: () => sessions.state(session),
      lost: () => {
        upstream.links.forget(link);
        if (upstream.forward !== undefined) void this.#hold(upstream.forward, session, headers);
      },
    });
  }

  /**
   * Opens the session's link again and again until it is there, for as long as the client listens to what comes on it.
   * What it is subscribed to may have changed before that.
   */
  async #hold(forward: string, session: ClientSession, headers: readonly string[]): Promise<void> {
    const { lives, sessions } = this.#options;
    const backoff = new Backoff(Math.random, () => performance.now());
    for (;;) {
      const upstream = this.#options.upstream(forward);
      const subscribed = sessions
        .state(session)
        ?.subscriptions.some((subscription) => subscription.forward === forward);
      if (!upstream || !subscribed || !lives.find(session.id)?.listening) return;
      if (upstream.links.get(session.id)) return;
      try {
        const link = await this.link(upstream, session, headers);
        link.channel?.missed();
        return;
      } catch {
        await delay(backoff.next(), undefined, { ref: false });
      }
    }
  }
}

async function setLevel(client: LegacyClient | undefined, level: string): Promise<void> {
  if (client?.serverCapabilities.logging !== undefined) await client.request('logging/setLevel', { level });
}

async function request({ client }: UpstreamLink, method: string, uri: string, upstream: Upstream): Promise<Reply> {
  if (!client) throw new UpstreamError('invalid', upstream.transport.address, `cannot be asked for ${method}`);
  return await client.request(method, { uri });
}
