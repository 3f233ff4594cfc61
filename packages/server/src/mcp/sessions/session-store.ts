import { Emitter } from '@sluice/protocol/emitter';
import { NO_OWNER, type QuotaOwner } from '../../http/shares.ts';
import { forEachInSteps } from '../../registry/steps.ts';
import { CorruptFileError } from '../../registry/store/journaled-file.ts';
import { JournaledStore, type JournaledStoreOptions, type Pending } from '../../registry/store/journaled-store.ts';
import { EndedSessions, type ForgottenSessions } from './ended-sessions.ts';
import { readSnapshot, snapshotSlices } from './session-snapshot.ts';
import {
  applyChange,
  recordOf,
  recordsSchema,
  type SessionRecord,
  SessionReplay,
  type SessionState,
  type StoredSession,
  type Subscription,
} from './session-state.ts';
import { type SessionSubscription, SessionTable } from './session-table.ts';
import type { SubscriptionShares } from './subscription-shares.ts';

/**
 * The part of sessions that their ids do not contain: ended sessions, and the state of the others.
 * Stored until the session expires; `expires` is that time in epoch milliseconds, the same in every call for a session.
 * `holder` is whom the session counts for.
 */
export interface SessionStore {
  /** A subscription has ended to make room for those of others. */
  readonly subscriptionEvicted: Emitter<EvictedSubscription>;
  /** Another replica has ended the session with this id; undefined without other replicas. */
  readonly ended?: Emitter<string>;

  /** The stored sessions, as of the latest durable change. */
  readonly sessions: Pick<SessionTable, 'hasEnded' | 'state' | 'entries' | 'forgotten'>;

  /**
   * Ends a session and drops its state; resolves once that is durable. Rejects with `StoreError` when it could not be
   * stored: the session then continues unchanged.
   */
  end(id: string, expires: number, holder?: QuotaOwner): Promise<void>;

  /**
   * Replaces the state by the result of `change`; resolves once that is durable and visible in {@link
   * SessionStore.sessions}. Changes of one session are applied in the order of the calls, each to the result of the
   * previous one: `change` is called once, asynchronously.
   *
   * Rejects and leaves the state unchanged: with `SessionStateError` when the session has ended or a limit is exceeded,
   * with `StoreError` when it could not be stored, with the error of `change` otherwise.
   */
  change(
    id: string,
    expires: number,
    change: (before: SessionState) => SessionState,
    holder?: QuotaOwner,
  ): Promise<void>;

  /** Finishes pending writes and compacts the journal. Later changes are rejected. Throws `StoreError`. */
  close(): Promise<void>;
}

/** A session and its subscription that has ended. */
export interface EvictedSubscription {
  readonly session: { readonly id: string; readonly holder: QuotaOwner };
  readonly subscription: Subscription;
}

/** Limits of a store. */
export interface SessionStoreLimits {
  /** Subscriptions of all clients. */
  readonly subscriptions?: SubscriptionShares;
  /** Maximum number of ended sessions, and of those with a log level. */
  readonly maxEnded?: number;
}

/** A session store without persistence. */
export function memorySessionStore(
  now: () => number = Date.now,
  { subscriptions, maxEnded }: SessionStoreLimits = {},
): SessionStore {
  const sessions = new SessionTable({ subscriptions, ended: new EndedSessions(maxEnded), maxLevels: maxEnded });
  /** Writes until expired sessions are removed again: the scan then costs no more than the writes before it. */
  let writesUntilScan = 0;
  const set = (id: string, stored: StoredSession | undefined): void => {
    sessions.set(id, stored);
    if (--writesUntilScan > 0) return;
    sessions.removeExpired(now());
    writesUntilScan = sessions.size;
  };
  const store: SessionStore = {
    subscriptionEvicted: new Emitter(),
    sessions,
    async end(id, expires, holder) {
      set(id, applyChange(sessions.get(id), expires, 'end', holder));
    },
    async change(id, expires, change, holder) {
      const before = sessions.get(id);
      const stored = applyChange(before, expires, change, holder);
      try {
        sessions.admit(id, stored);
      } catch (error) {
        sessions.restore(id, before);
        throw error;
      }
      set(id, stored);
    },
    async close() {},
  };
  sessions.subscriptionEvicted.subscribe((evicted) => void endEvicted(store, sessions, evicted));
  return store;
}

/** Ends a subscription that makes room for others. A failure to store that costs only room after the next start. */
export async function endEvicted(
  store: SessionStore,
  sessions: SessionTable,
  { id, uri }: SessionSubscription,
): Promise<void> {
  const stored = sessions.get(id);
  if (stored?.kind !== 'changed') return;
  let ended: Subscription | undefined;
  const without = (before: SessionState): SessionState => {
    ended = before.subscriptions.find((subscription) => subscription.uri === uri);
    return { ...before, subscriptions: before.subscriptions.filter((subscription) => subscription !== ended) };
  };
  await store.change(id, stored.expires, without).catch(() => undefined);
  if (!ended) return;
  store.subscriptionEvicted.emit({ session: { id, holder: stored.holder ?? NO_OWNER }, subscription: ended });
}

/** Options of {@link FileSessionStore}. */
export interface FileSessionStoreOptions extends SessionStoreLimits, JournaledStoreOptions {
  /** Epoch milliseconds; defaults to the system clock. */
  readonly now?: () => number;
}

/** A change of a session. */
interface SessionChange {
  readonly id: string;
  readonly expires: number;
  readonly holder: QuotaOwner | undefined;
  readonly change: 'end' | ((before: SessionState) => SessionState);
}

/** A change that is not stored yet. */
export type PendingChange = SessionChange & Pending;

/** A session before and after the changes of a {@link ChangeBatch}. */
interface ChangedSession {
  readonly before: StoredSession | undefined;
  readonly after: StoredSession | undefined;
}

/** Changes that are stored together, each made to the result of the previous one, and not visible yet. */
export class ChangeBatch {
  readonly changed = new Map<string, ChangedSession>();
  /** The differences that the changes made. */
  readonly records: SessionRecord[] = [];
  readonly #sessions: SessionTable;
  readonly #pending: readonly PendingChange[];
  /** Changes that the limits or the session's end forbid. */
  readonly #failed = new Map<PendingChange, unknown>();

  constructor(sessions: SessionTable, pending: readonly PendingChange[]) {
    this.#sessions = sessions;
    this.#pending = pending;
    for (const each of pending) this.#make(each);
  }

  /** Makes the changes visible. */
  apply(): void {
    for (const [id, { after }] of this.changed) this.#sessions.set(id, after);
  }

  /** Resolves the promises of the changes. */
  settle(): void {
    for (const each of this.#pending) {
      if (this.#failed.has(each)) each.reject(this.#failed.get(each));
      else each.resolve();
    }
  }

  /** Takes the changes back. */
  revert(): void {
    for (const id of this.changed.keys()) this.#sessions.restore(id, this.#sessions.get(id));
  }

  /** Takes the changes back, because they could not be stored, and rejects their promises. */
  fail(error: unknown): void {
    this.revert();
    for (const each of this.#pending) each.reject(this.#failed.get(each) ?? error);
  }

  #make(pending: PendingChange): void {
    const { id, expires, change, holder } = pending;
    const known = this.changed.get(id);
    const before = known ? known.after : this.#sessions.get(id);
    try {
      const after = applyChange(before, expires, change, holder);
      this.#sessions.admit(id, after);
      const record = recordOf(id, expires, before, after);
      if (!record) return;
      this.records.push(record);
      this.changed.set(id, { before: known ? known.before : before, after });
    } catch (error) {
      this.#sessions.restore(id, before);
      this.#failed.set(pending, error);
    }
  }
}

/** Sessions in `sessions.json` and a journal of differences: a change costs the same with any number of stored sessions. */
export class FileSessionStore implements SessionStore {
  readonly subscriptionEvicted = new Emitter<EvictedSubscription>();
  sessions = new SessionTable();
  readonly #store: JournaledStore<SessionChange>;
  readonly #now: () => number;
  readonly #limits: SessionStoreLimits;
  /** What was read of the files, until it is loaded. */
  #replay = new SessionReplay(new Map());
  #forgotten: readonly ForgottenSessions[] = [];

  /** Reads the folder. Throws `StoreError` when a file is corrupt or cannot be read. */
  static async open(options: FileSessionStoreOptions): Promise<FileSessionStore> {
    const store = new FileSessionStore(options);
    await store.#load();
    await store.#store.compactLoaded();
    return store;
  }

  /** Reads the sessions of a folder without writing to it. Throws `StoreError` like {@link open}. */
  static async read(options: FileSessionStoreOptions): Promise<SessionTable> {
    const store = new FileSessionStore(options);
    await store.#load();
    return store.sessions;
  }

  private constructor({ now = Date.now, subscriptions, maxEnded, ...options }: FileSessionStoreOptions) {
    this.#now = now;
    this.#limits = { subscriptions, maxEnded };
    this.#store = new JournaledStore<SessionChange>(
      {
        kind: 'session',
        lost: 'session changes',
        read: (bytes) => {
          if (!bytes) return undefined;
          const { sessions, forgotten, generation } = readSnapshot(bytes);
          this.#replay = new SessionReplay(sessions);
          this.#forgotten = forgotten;
          return generation;
        },
        replay: (line, ...place) =>
          forEachInSteps(parseRecords(line.toString(), ...place), (record) => this.#replay.apply(record)),
        batch: (changes) => {
          const batch = new ChangeBatch(this.sessions, changes);
          const apply = () => {
            batch.apply();
            batch.settle();
          };
          return { records: batch.records, apply, fail: (error) => batch.fail(error) };
        },
        snapshot: (generation) => {
          this.sessions.removeExpired(this.#now());
          return snapshotSlices(this.sessions.entries(), this.sessions.forgotten(), generation);
        },
      },
      options,
    );
  }

  end(id: string, expires: number, holder?: QuotaOwner): Promise<void> {
    return this.#store.put({ id, expires, change: 'end', holder });
  }

  change(
    id: string,
    expires: number,
    change: (before: SessionState) => SessionState,
    holder?: QuotaOwner,
  ): Promise<void> {
    return this.#store.put({ id, expires, change, holder });
  }

  close(): Promise<void> {
    return this.#store.close();
  }

  async #load(): Promise<void> {
    await this.#store.load();
    const { subscriptions, maxEnded } = this.#limits;
    const ended = new EndedSessions(maxEnded, this.#forgotten);
    this.sessions = new SessionTable({ sessions: this.#replay.finish(), subscriptions, ended, maxLevels: maxEnded });
    this.#replay = new SessionReplay(new Map());
    this.#forgotten = [];
    this.sessions.subscriptionEvicted.subscribe((evicted) => void endEvicted(this, this.sessions, evicted));
    this.sessions.removeExpired(this.#now());
  }
}

function parseRecords(text: string, file: string, offset: number): SessionRecord[] {
  try {
    return recordsSchema.parse(JSON.parse(text));
  } catch (error) {
    throw new CorruptFileError(file, `has an unknown record at byte ${offset}`, { cause: error });
  }
}
