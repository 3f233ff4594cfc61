import type { ReconnectDelayOptions } from '@sluice/protocol/backoff';
import type { LiveSessions } from '../sessions/live-sessions.ts';
import type { ClientSession, ClientSessions } from '../sessions/sessions.ts';
import type { TargetLogger } from '../telemetry/log.ts';
import { SessionWatch } from './session-watch.ts';
import type { Upstream } from './upstream.ts';

export interface SessionWatchesOptions {
  readonly sessions: ClientSessions;
  readonly lives: LiveSessions;
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
export class SessionWatches {
  readonly #options: SessionWatchesOptions;
  readonly #watches = new WeakMap<Upstream, Map<string, SessionWatch>>();

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

  #find(upstream: Upstream, { id }: ClientSession): SessionWatch | undefined {
    return this.#watches.get(upstream)?.get(id);
  }

  #watch(upstream: Upstream, session: ClientSession, headers: readonly string[]): SessionWatch {
    const watch = this.#find(upstream, session) ?? this.#open(upstream, session);
    watch.headers = headers;
    return watch;
  }

  #open(upstream: Upstream, session: ClientSession): SessionWatch {
    const { sessions, lives, log, elsewhere, delays } = this.#options;
    const watches = this.#watches.get(upstream) ?? new Map<string, SessionWatch>();
    this.#watches.set(upstream, watches);
    const kept = () => sessions.state(session)?.subscriptions ?? [];
    const watch = new SessionWatch({
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
