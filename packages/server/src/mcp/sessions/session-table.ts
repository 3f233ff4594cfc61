import { Emitter } from '@sluice/protocol/emitter';
import { Quota, type QuotaOwner } from '../../http/quota.ts';
import type { RecordTable } from '../../registry/store/collection.ts';
import { EndedSessions, MAX_ENDED_SESSIONS } from './ended-sessions.ts';
import { type SessionState, SessionStateError, type StoredSession, stateOf, toStored } from './session-state.ts';
import { NO_SUBSCRIPTIONS, SubscriptionQuota } from './subscription-quota.ts';

/** Limits of stored sessions. */
export interface SessionStoreLimits {
  /** Subscriptions of all clients. */
  readonly subscriptions?: SubscriptionQuota | undefined;
  /** Maximum number of ended sessions, and of those with a log level. */
  readonly maxEnded?: number | undefined;
}

/** Stored sessions by id. Counts their subscriptions and ends. */
export class SessionTable implements RecordTable<StoredSession> {
  /** The end or the log level of the session with this id is forgotten, since there are too many. */
  readonly sessionForgotten = new Emitter<string>();
  /** Ended sessions, also those whose ends are forgotten. */
  readonly ended: EndedSessions;
  readonly #sessions = new Map<string, StoredSession>();
  readonly #subscriptions: SubscriptionQuota;
  /** Sessions with a log level. */
  readonly #levels: Quota<string>;

  constructor({ subscriptions, maxEnded = MAX_ENDED_SESSIONS }: SessionStoreLimits = {}) {
    this.#subscriptions = subscriptions ?? new SubscriptionQuota();
    this.ended = new EndedSessions(maxEnded);
    this.#levels = new Quota(maxEnded);
  }

  get(id: string): StoredSession | undefined {
    return this.#sessions.get(id);
  }

  /** True for a session that has ended. `session`: in case that its end is forgotten. */
  hasEnded(id: string, session?: { readonly holder: QuotaOwner; readonly expires: number }): boolean {
    if (this.#sessions.get(id)?.kind === 'ended') return true;
    return session !== undefined && this.ended.covers(session.holder, session.expires);
  }

  /** The session's state; undefined when nothing was changed. */
  state(id: string): SessionState | undefined {
    const stored = this.#sessions.get(id);
    return stored?.kind === 'changed' ? stored.state : undefined;
  }

  /**
   * Counts the subscriptions that a session will have, before they are stored. Throws {@link SessionStateError} if they
   * are too many; {@link restore} must follow then, or if they cannot be stored.
   */
  admit(id: string, stored: StoredSession | undefined): void {
    const uris = urisOf(stored);
    if (!stored || uris.length === 0) this.#subscriptions.delete(id);
    else if (!this.#subscriptions.add(id, stored.holder, uris))
      throw new SessionStateError('too_large', NO_SUBSCRIPTIONS);
  }

  /** Counts exactly the subscriptions of this session, allowed or not. */
  restore(id: string, stored: StoredSession | undefined): void {
    const uris = urisOf(stored);
    if (!stored || uris.length === 0) this.#subscriptions.delete(id);
    else this.#subscriptions.restore(id, stored.holder, uris);
  }

  /** Replaces a session; undefined removes it. Forgets others if there are too many. */
  set(id: string, stored: StoredSession | undefined): void {
    const forgotten = stored?.kind === 'ended' ? this.ended.add(id, stored.holder, stored.expires) : [];
    const hasLevel = stored?.kind === 'changed' && stored.state.logLevel !== undefined;
    const isAllowed = !hasLevel || this.#levels.has(id) || this.#makeRoomForLevel(stored.holder);
    this.follow(id, forgotten.includes(id) ? undefined : stored);
    if (!isAllowed) this.#forgetLevel(id);
    for (const each of forgotten) {
      this.#sessions.delete(each);
      this.sessionForgotten.emit(each);
    }
  }

  /** As {@link set}, for what another replica has stored: it also decides what is forgotten for it. */
  follow(id: string, stored: StoredSession | undefined): void {
    if (stored) this.#sessions.set(id, stored);
    else this.#sessions.delete(id);
    this.restore(id, stored);
    if (stored?.kind === 'ended') this.ended.restore(id, stored.holder, stored.expires);
    else this.ended.delete(id);
    if (stored?.kind !== 'changed' || stored.state.logLevel === undefined) this.#levels.delete(id);
    else if (!this.#levels.has(id)) this.#levels.set(id, stored.holder, 1);
  }

  /** Removes expired sessions. `now` in epoch milliseconds. Returns the number of those that remain. */
  removeExpired(now: number): number {
    for (const [id, { expires }] of this.#sessions) if (expires <= now) this.set(id, undefined);
    this.ended.removeExpired(now);
    return this.#sessions.size;
  }

  /** A copy of all entries. */
  entries(): [string, StoredSession][] {
    return [...this.#sessions];
  }

  /** Clients without a level get messages of all levels, so that levels can be forgotten without being stored. */
  #makeRoomForLevel(holder: QuotaOwner): boolean {
    return this.#levels.evict(holder, 1, (victim) => this.#forgetLevel(victim));
  }

  #forgetLevel(id: string): void {
    this.#levels.delete(id);
    const stored = this.#sessions.get(id);
    if (stored?.kind !== 'changed') return;
    const rest = toStored(stored.expires, { subscriptions: stored.state.subscriptions }, stored.holder);
    if (rest) this.#sessions.set(id, rest);
    else this.#sessions.delete(id);
    this.sessionForgotten.emit(id);
  }
}

/** The subscribed uris of a session. */
function urisOf(stored: StoredSession | undefined): string[] {
  return stateOf(stored).subscriptions.map(({ uri }) => uri);
}
