import { Emitter } from '@sluice/protocol/emitter';
import type { QuotaOwner } from '../../http/quota.ts';
import { Collection } from '../../registry/store/collection.ts';
import type { RecordLog } from '../../registry/store/record-log.ts';
import type { RecordedPut } from '../../registry/store/store.ts';
import type { ForgottenSessions } from './ended-sessions.ts';
import {
  applyChange,
  encodeSession,
  forgottenSchema,
  type SessionState,
  type StoredSession,
  stateOf,
  storedSession,
} from './session-state.ts';
import { type SessionStoreLimits, SessionTable } from './session-table.ts';

/** Sessions that are ended in one commit. */
const ENDED_AT_ONCE = 256;

/** A change of a session: its end, or another state. */
export type SessionChange = 'end' | ((before: SessionState) => SessionState);

/** Options of {@link SessionStore}. */
export interface SessionStoreOptions extends SessionStoreLimits {
  /** Epoch milliseconds; defaults to the system clock. */
  readonly now?: () => number;
}

/**
 * The part of sessions that their ids do not contain: ended sessions, and the state of the others.
 * Stored until the session expires; `expires` is that time in epoch milliseconds, the same in every call for a session.
 * `holder` is whom the session counts for.
 */
export class SessionStore {
  /** The session with this id has ended, here or at another replica. */
  readonly ended = new Emitter<string>();
  /** The stored sessions, as of the latest durable change. */
  readonly sessions: SessionTable;
  readonly #stored: Collection<StoredSession>;
  /** Ends of sessions that are forgotten, by owner. */
  readonly #forgotten: Collection<ForgottenSessions>;
  /** Sessions that were forgotten here, and are still stored. */
  readonly #excess = new Set<string>();

  readonly #now: () => number;

  constructor({ now = Date.now, ...limits }: SessionStoreOptions = {}) {
    this.#now = now;
    this.sessions = new SessionTable(limits);
    const expires = (record: { readonly expires: number }) => record.expires;
    this.#stored = new Collection<StoredSession>({
      name: 'sessions',
      schema: storedSession,
      encode: encodeSession,
      expires,
      table: this.sessions,
      // The next request of the client may arrive at any other replica.
      isConfirmed: true,
      now,
    });
    this.#forgotten = new Collection<ForgottenSessions>({
      name: 'forgotten_sessions',
      schema: forgottenSchema,
      expires,
      now,
    });
    this.#forgotten.changed.subscribe(({ content, isForeign }) => {
      if (isForeign && content) this.sessions.ended.addForgotten(content);
    });
    this.#stored.changed.subscribe(({ id, before, content }) => {
      if (content?.kind === 'ended' && before?.kind !== 'ended') this.ended.emit(id);
    });
    this.sessions.sessionForgotten.subscribe((id) => this.#excess.add(id));
  }

  /** Loads the sessions. Called once, before any change. Rejects with `StoreError`. */
  async open(log: RecordLog): Promise<void> {
    await Promise.all([this.#forgotten.open(log), this.#stored.open(log)]);
    this.sessions.removeExpired(this.#now());
  }

  /**
   * Replaces the state by the result of `change`, or ends the session and drops its state; resolves once that is durable and
   * visible in {@link SessionStore.sessions}. Changes of one session are applied in the order of the calls, each to the result of the
   * previous one: `change` is called asynchronously, and again if another replica has changed the session meanwhile.
   *
   * Rejects and leaves the state unchanged: with `SessionStateError` when the session has ended or a limit is exceeded,
   * with `StoreError` when it could not be stored, with the error of `change` otherwise.
   */
  async change(id: string, expires: number, change: SessionChange, holder?: QuotaOwner): Promise<void> {
    await this.#stored.update(id, (before) => {
      const after = applyChange(before, expires, change, holder);
      if (!after) return before && null;
      return before?.kind === after.kind && isSame(stateOf(before), stateOf(after)) ? undefined : after;
    });
    if (this.#excess.size > 0) await this.#removeExcess();
  }

  /** Ends the sessions of these owners that have a state. Rejects with `StoreError`. */
  async endWhere(test: (holder: QuotaOwner) => boolean): Promise<void> {
    const own = this.sessions.entries().filter(([, { kind, holder }]) => kind === 'changed' && test(holder));
    while (own.length > 0) {
      const some = own.splice(0, ENDED_AT_ONCE);
      await Promise.all(some.map(([id, { expires, holder }]) => this.change(id, expires, 'end', holder)));
    }
  }

  /** What is stored, as of the call; the texts are created when they are read. */
  records(): readonly Iterable<RecordedPut>[] {
    return [this.#forgotten.records(), this.#stored.records()];
  }

  /** Finishes pending changes. */
  async close(): Promise<void> {
    await this.#stored.close();
    await this.#forgotten.close();
  }

  /** Stores what was forgotten, and then removes it. If that fails, it is still stored, and forgotten again after the next start. */
  async #removeExcess(): Promise<void> {
    const ids = [...this.#excess];
    this.#excess.clear();
    const forgotten = new Map(this.sessions.ended.forgotten().map((each) => [ownerId(each), each]));
    const isStored = (id: string, { expires }: ForgottenSessions) => (this.#forgotten.get(id)?.expires ?? 0) >= expires;
    const puts = [...forgotten].filter((each) => !isStored(...each)).map((each) => this.#forgotten.put(...each));
    const covered = Array.from(this.#forgotten.entries(), ([id]) => id).filter((id) => !forgotten.has(id));
    try {
      await Promise.all([...puts, ...covered.map((id) => this.#forgotten.remove(id))]);
      await Promise.all(ids.map((id) => this.#stored.update(id, (rest) => rest ?? null)));
    } catch {}
  }
}

function isSame(one: SessionState, other: SessionState): boolean {
  return JSON.stringify(one) === JSON.stringify(other);
}

function ownerId({ namespace, name }: ForgottenSessions): string {
  return JSON.stringify(name === undefined ? [namespace] : [namespace, name]);
}
