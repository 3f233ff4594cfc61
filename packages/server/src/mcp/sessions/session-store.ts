import { Emitter } from '@sluice/protocol/emitter';
import type { QuotaOwner } from '../../http/shares.ts';
import { forEachInSteps } from '../../registry/steps.ts';
import { ExpiryScan } from '../../registry/store/expiry-scan.ts';
import type { JournaledBatch, Pending } from '../../registry/store/journal-writer.ts';
import { CorruptFileError } from '../../registry/store/journaled-file.ts';
import { JournaledStore, type JournaledStoreOptions, journalLine } from '../../registry/store/journaled-store.ts';
import { readSnapshot, sessionSlices } from './session-snapshot.ts';
import {
  applyChange,
  applyRecords,
  recordOf,
  recordsSchema,
  type SessionRecord,
  type SessionState,
  type StoredSession,
  type Subscription,
} from './session-state.ts';
import { type SessionStoreLimits, type SessionSubscription, SessionTable } from './session-table.ts';

/** A session and its subscription that has ended. */
export interface EvictedSubscription {
  readonly session: { readonly id: string; readonly holder: QuotaOwner };
  readonly subscription: Subscription;
}

/** A change of a session. */
export interface SessionChange {
  readonly id: string;
  readonly expires: number;
  readonly holder: QuotaOwner | undefined;
  readonly change: 'end' | ((before: SessionState) => SessionState);
}

/**
 * The part of sessions that their ids do not contain: ended sessions, and the state of the others.
 * Stored until the session expires; `expires` is that time in epoch milliseconds, the same in every call for a session.
 * `holder` is whom the session counts for.
 */
export abstract class SessionStore {
  /** A subscription has ended to make room for those of others. */
  readonly subscriptionEvicted = new Emitter<EvictedSubscription>();
  /** The session with this id has ended, here or at another replica. */
  readonly ended = new Emitter<string>();
  /** The stored sessions, as of the latest durable change. */
  readonly sessions: SessionTable;

  constructor(limits: SessionStoreLimits) {
    this.sessions = new SessionTable(limits);
    this.sessions.subscriptionEvicted.subscribe((evicted) => void this.#endEvicted(evicted));
  }

  /**
   * Replaces the state by the result of `change`, or ends the session and drops its state; resolves once that is durable and visible in {@link
   * SessionStore.sessions}. Changes of one session are applied in the order of the calls, each to the result of the
   * previous one: `change` is called once, asynchronously.
   *
   * Rejects and leaves the state unchanged: with `SessionStateError` when the session has ended or a limit is exceeded,
   * with `StoreError` when it could not be stored, with the error of `change` otherwise.
   */
  async change(id: string, expires: number, change: SessionChange['change'], holder?: QuotaOwner): Promise<void> {
    await this.put({ id, expires, change, holder });
    if (change === 'end') this.ended.emit(id);
  }

  /** Finishes pending writes and compacts the journal. Later changes are rejected. Throws `StoreError`. */
  abstract close(): Promise<void>;

  protected abstract put(change: SessionChange): Promise<void>;

  /** Ends a subscription that makes room for others. A failure to store that costs only room after the next start. */
  async #endEvicted({ id, uri }: SessionSubscription): Promise<void> {
    const stored = this.sessions.get(id);
    if (stored?.kind !== 'changed') return;
    let ended: Subscription | undefined;
    const without = (before: SessionState): SessionState => {
      ended = before.subscriptions.find((subscription) => subscription.uri === uri);
      return { ...before, subscriptions: before.subscriptions.filter((subscription) => subscription !== ended) };
    };
    await this.change(id, stored.expires, without).catch(() => undefined);
    if (ended) this.subscriptionEvicted.emit({ session: { id, holder: stored.holder }, subscription: ended });
  }
}

/** A session store without persistence. */
export class MemorySessionStore extends SessionStore {
  readonly #expiry: ExpiryScan;

  constructor(now: () => number = Date.now, limits: SessionStoreLimits = {}) {
    super(limits);
    this.#expiry = new ExpiryScan(() => this.sessions.removeExpired(now()));
  }

  async close(): Promise<void> {}

  protected put(change: SessionChange): Promise<void> {
    return new Promise((resolve, reject) => {
      const batch = new ChangeBatch(this.sessions, [{ ...change, resolve, reject }]);
      batch.apply();
      batch.settle();
      this.#expiry.onChanges(1);
    });
  }
}

/** Options of {@link FileSessionStore}. */
export interface FileSessionStoreOptions extends SessionStoreLimits, JournaledStoreOptions {
  /** Epoch milliseconds; defaults to the system clock. */
  readonly now?: () => number;
}

/** A change that is not stored yet. */
export type PendingChange = SessionChange & Pending;

/** A session before and after the changes of a {@link ChangeBatch}. */
interface ChangedSession {
  readonly before: StoredSession | undefined;
  readonly after: StoredSession | undefined;
}

/** Changes that are stored together, each made to the result of the previous one, and not visible yet. */
export class ChangeBatch implements JournaledBatch {
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

  get line(): Iterable<string> | undefined {
    return journalLine(this.records);
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
export class FileSessionStore extends SessionStore {
  readonly #store: JournaledStore<SessionChange>;
  /** Records of the journal by session: a thousand of one must not copy its state a thousand times. */
  readonly #replayed = new Map<string, SessionRecord[]>();

  /** Reads the folder. Throws `StoreError` when a file is corrupt or cannot be read. */
  static async open(options: FileSessionStoreOptions): Promise<FileSessionStore> {
    const store = await FileSessionStore.#load(options);
    await store.#store.compact();
    return store;
  }

  /** Reads the sessions of a folder without writing to it. Throws `StoreError` like {@link open}. */
  static async read(options: FileSessionStoreOptions): Promise<SessionTable> {
    return (await FileSessionStore.#load(options)).sessions;
  }

  static async #load(options: FileSessionStoreOptions): Promise<FileSessionStore> {
    const store = new FileSessionStore(options);
    await store.#store.load();
    for (const [id, records] of store.#replayed) store.sessions.set(id, applyRecords(store.sessions.get(id), records));
    store.#replayed.clear();
    store.sessions.removeExpired((options.now ?? Date.now)());
    return store;
  }

  private constructor({ now = Date.now, ...options }: FileSessionStoreOptions) {
    super(options);
    const { sessions } = this;
    this.#store = new JournaledStore<SessionChange>(
      {
        kind: 'session',
        lost: 'session changes',
        read: (bytes) => {
          if (!bytes) return undefined;
          const snapshot = readSnapshot(bytes);
          for (const forgotten of snapshot.forgotten) sessions.ended.addForgotten(forgotten);
          for (const [id, stored] of Object.entries(snapshot.sessions)) sessions.set(id, stored);
          return snapshot.journal;
        },
        replay: (line, ...place) =>
          forEachInSteps(parseRecords(line.toString(), ...place), (record) => {
            this.#replayed.getOrInsertComputed(record.id, () => []).push(record);
          }),
        batch: (changes) => new ChangeBatch(sessions, changes),
        snapshot: (generation) => {
          sessions.removeExpired(now());
          return sessionSlices(sessions.entries(), sessions.ended.forgotten(), generation);
        },
      },
      options,
    );
  }

  close(): Promise<void> {
    return this.#store.close();
  }

  protected put(change: SessionChange): Promise<void> {
    return this.#store.put(change);
  }
}

function parseRecords(text: string, file: string, offset: number): SessionRecord[] {
  try {
    return recordsSchema.parse(JSON.parse(text));
  } catch (error) {
    throw new CorruptFileError(file, `has an unknown record at byte ${offset}`, { cause: error });
  }
}
