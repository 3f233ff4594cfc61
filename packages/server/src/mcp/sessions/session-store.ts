import { Emitter } from '@sluice/protocol/emitter';
import { NO_OWNER, type QuotaOwner } from '../../http/shares.ts';
import { forEachInSteps } from '../../registry/steps.ts';
import { errorReason, type Files } from '../../registry/store/files.ts';
import { type Checkpoint, CorruptFileError, JournaledFile, jsonArray } from '../../registry/store/journaled-file.ts';
import { StoreError, type StoreLog } from '../../registry/store/store.ts';
import { EndedSessions } from './ended-sessions.ts';
import { readSnapshot, SNAPSHOT_NAME, snapshotSlices } from './session-snapshot.ts';
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

/** Journals shorter than this are not compacted while the store is open. */
const COMPACT_FROM_BYTES = 256 * 1024;

/** Options of {@link FileSessionStore}. */
export interface FileSessionStoreOptions extends SessionStoreLimits {
  /** An existing folder, used by this process only. */
  readonly folder: string;
  readonly files: Files;
  readonly log: StoreLog;
  /** Epoch milliseconds; defaults to the system clock. */
  readonly now?: () => number;
  /** Minimum length of a journal that is compacted while the store is open. Default: 256 KiB. */
  readonly compactFromBytes?: number;
}

/** A change that is not stored yet. */
export interface PendingChange {
  readonly id: string;
  readonly expires: number;
  readonly holder: QuotaOwner | undefined;
  readonly change: 'end' | ((before: SessionState) => SessionState);
  readonly resolve: () => void;
  readonly reject: (error: unknown) => void;
}

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

/**
 * Sessions in `sessions.json` and a journal in which a change is durable at once: one line for all changes that wait,
 * with their differences only, so that the cost of a change is independent of the number of stored sessions.
 *
 * The journal is compacted at start, at the end and whenever it has become as long as `sessions.json`: the cost of
 * compaction stays proportional to the changes, and the size on disk to the live sessions.
 */
export class FileSessionStore implements SessionStore {
  readonly #folder: string;
  readonly #log: StoreLog;
  readonly #now: () => number;
  readonly #compactFromBytes: number;
  readonly #file: JournaledFile;
  readonly #limits: SessionStoreLimits;
  readonly subscriptionEvicted = new Emitter<EvictedSubscription>();
  sessions: SessionTable;
  /** Bytes of `sessions.json`. */
  #snapshotBytes = 0;
  #isOpen = true;
  #queue: PendingChange[] = [];
  #writing: Promise<void> | undefined;
  /** True when journals exist whose records `sessions.json` may not contain. */
  #needsCompaction = false;
  #compacting: Promise<void> | undefined;

  /** Reads the folder. Throws `StoreError` when a file is corrupt or cannot be read. */
  static async open(options: FileSessionStoreOptions): Promise<FileSessionStore> {
    const store = new FileSessionStore(options);
    await store.#load();
    // Each run starts a generation: without this, a service that is killed repeatedly would accumulate them.
    if (store.#needsCompaction) await store.#compactNow();
    return store;
  }

  /** Reads the sessions of a folder without writing to it. Throws `StoreError` like {@link open}. */
  static async read(options: FileSessionStoreOptions): Promise<SessionTable> {
    const store = new FileSessionStore(options);
    await store.#load();
    return store.sessions;
  }

  private constructor({ folder, files, log, now, compactFromBytes, ...limits }: FileSessionStoreOptions) {
    this.#folder = folder;
    this.#log = log;
    this.#now = now ?? Date.now;
    this.#limits = limits;
    this.sessions = new SessionTable();
    this.#compactFromBytes = compactFromBytes ?? COMPACT_FROM_BYTES;
    this.#file = new JournaledFile({
      files,
      folder,
      snapshotName: SNAPSHOT_NAME,
      journalName: 'sessions.journal',
      allowGaps: true,
      log,
    });
  }

  end(id: string, expires: number, holder?: QuotaOwner): Promise<void> {
    return this.#put({ id, expires, change: 'end', holder });
  }

  change(
    id: string,
    expires: number,
    change: (before: SessionState) => SessionState,
    holder?: QuotaOwner,
  ): Promise<void> {
    return this.#put({ id, expires, change, holder });
  }

  async close(): Promise<void> {
    if (!this.#isOpen) return;
    this.#isOpen = false;
    await this.#writing;
    await this.#compacting;
    try {
      await this.#file.repairTail();
      if (this.#needsCompaction) await this.#compact();
    } catch (error) {
      // The journal still has every change, and the next start replays it.
      throw new StoreError(`${this.#file.snapshotPath} could not be written: ${errorReason(error)}`, { cause: error });
    } finally {
      await this.#file.close();
    }
  }

  async #load(): Promise<void> {
    try {
      const bytes = await this.#file.readSnapshot();
      const snapshot = bytes
        ? readSnapshot(bytes.read())
        : { sessions: new Map(), forgotten: [], generation: undefined };
      const replay = new SessionReplay(snapshot.sessions);
      this.#needsCompaction = await this.#file.replay(snapshot.generation, function* (line, ...place) {
        yield* forEachInSteps(parseRecords(line.toString(), ...place), (record) => replay.apply(record));
      });
      const { subscriptions, maxEnded } = this.#limits;
      const ended = new EndedSessions(maxEnded, snapshot.forgotten);
      this.sessions = new SessionTable({ sessions: replay.finish(), subscriptions, ended, maxLevels: maxEnded });
      this.sessions.subscriptionEvicted.subscribe((evicted) => void endEvicted(this, this.sessions, evicted));
      this.sessions.removeExpired(this.#now());
      this.#snapshotBytes = bytes?.length ?? 0;
    } catch (error) {
      if (error instanceof StoreError) throw error;
      if (!(error instanceof CorruptFileError)) {
        throw new StoreError(`sessions in ${this.#folder} cannot be read: ${errorReason(error)}`, { cause: error });
      }
      throw new StoreError(
        `${this.#folder}/${error.file} ${error.message}; repair it, or remove it to start without the session changes in it`,
        { cause: error },
      );
    }
  }

  #put(change: Omit<PendingChange, 'resolve' | 'reject'>): Promise<void> {
    if (!this.#isOpen) return Promise.reject(new StoreError(`the session store in ${this.#folder} is closed`));
    return new Promise((resolve, reject) => {
      this.#queue.push({ ...change, resolve, reject });
      this.#writing ??= this.#write();
    });
  }

  /** The only place that appends records and starts compactions, one step after the other. */
  async #write(): Promise<void> {
    // All changes of this turn of the event loop share the first write.
    await Promise.resolve();
    while (this.#queue.length > 0) {
      await this.#writeQueue();
      if (!this.#compacting && this.#isWorthCompacting()) this.#compactInBackground();
    }
    this.#writing = undefined;
  }

  #isWorthCompacting(): boolean {
    // A rejected change at the end of the old generation would come back if the process restarted during a compaction.
    if (this.#file.hasTornTail) return false;
    return this.#file.length >= Math.max(this.#compactFromBytes, this.#snapshotBytes);
  }

  async #writeQueue(): Promise<void> {
    const batch = new ChangeBatch(this.sessions, this.#queue.splice(0));
    try {
      if (batch.records.length > 0) {
        await this.#file.append(jsonArray(batch.records.map((record) => JSON.stringify(record))));
        this.#needsCompaction = true;
      }
    } catch (error) {
      return batch.fail(
        new StoreError(`${this.#file.journalPath} could not be written: ${errorReason(error)}`, { cause: error }),
      );
    }
    batch.apply();
    batch.settle();
  }

  #compactInBackground(): void {
    this.#compacting = this.#compactNow().finally(() => {
      this.#compacting = undefined;
    });
  }

  /** Compacts. A failure costs disk space only: the journals stay, and the next compaction includes them. */
  async #compactNow(): Promise<void> {
    try {
      await this.#compact();
    } catch (error) {
      this.#needsCompaction = true;
      this.#log.error(`${this.#file.snapshotPath} could not be written; changes stay in the journal`, { error });
    }
  }

  /** Called only while nothing is being written and the journal has no torn tail. */
  async #compact(): Promise<void> {
    this.sessions.removeExpired(this.#now());
    const checkpoint: Checkpoint = this.#file.rotateJournal();
    const entries = this.sessions.entries();
    const forgotten = this.sessions.forgotten();
    this.#needsCompaction = false;
    let written = 0;
    const counted = function* (): Generator<string> {
      for (const slice of snapshotSlices(entries, forgotten, checkpoint.generation)) {
        written += slice.length;
        yield slice;
      }
    };
    await this.#file.compact(checkpoint, counted());
    this.#snapshotBytes = written;
  }
}

function parseRecords(text: string, file: string, offset: number): SessionRecord[] {
  try {
    return recordsSchema.parse(JSON.parse(text));
  } catch (error) {
    throw new CorruptFileError(file, `has an unknown record at byte ${offset}`, { cause: error });
  }
}
