import { randomUUID } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import type { LogConsumer, RecordLog } from '../record-log.ts';
import {
  type Commit,
  type Conflict,
  ReadOnlyStoreError,
  type StoredChange,
  type StoredRecord,
  StoreError,
  type StoreLog,
  UnavailableStoreError,
} from '../store.ts';
import type { Database, Transaction } from './database.ts';
import { Membership } from './membership.ts';
import {
  hasCommit,
  lockRevision,
  type NewerChanges,
  pruneChanges,
  readChanges,
  readNewer,
  readRecords,
  readRevision,
  removeExpired,
  writeCommit,
} from './records.ts';
import { MIGRATIONS, migrate, readOnlyReplica } from './schema.ts';

/** Changes that are read together with the revision. */
const MAX_AT_ONCE = 500;
/** Commits of one replica at a time: all of them wait for the same lock, and what is read needs connections too. */
const MAX_COMMITS = 2;
/** Changes that a replica follows one by one; after more it loads the whole state. */
const MAX_FOLLOWED = 200_000;
/** Time for which changes are kept: a replica that was away for longer loads the whole state. */
const KEEP_CHANGES = '1 hour';
/** Commits between two removals of old changes. */
const PRUNE_EVERY = 1_000;
const UNREACHABLE = 'PostgreSQL cannot be reached';
/** Attempts to be live again before a request is answered. */
const REJOIN_ATTEMPTS = 5;
/** Time in which PostgreSQL must return the revision. */
const CHECK_MS = 2_000;
/** Time to find out the outcome of a commit whose response was lost, and interval of the attempts. */
const RESOLVE_MS = 10_000;
const RESOLVE_INTERVAL_MS = 100;

/** A consumer, as far as this log needs it: the database has its records. */
export type CommitConsumer = Omit<LogConsumer, 'records'>;

/** Options of {@link ReplicatedLog}. */
export interface SharedLogOptions {
  readonly database: Database;
  readonly log: StoreLog;
  /** Version of this replica. */
  readonly version: string;
}

/**
 * The records that replicas share in PostgreSQL, and their changes in the order of commits (docs/replicas.md).
 *
 * A commit locks the one row with the revision. If other replicas have committed since its changes were made, their changes
 * are applied and its own are made again, while it holds the lock. Replicas follow each other through the table of changes,
 * which a notification tells them to read.
 */
export class ReplicatedLog implements RecordLog {
  readonly isDurable = true;
  readonly isShared = true;
  readonly nextGeneration = 1;
  readonly members: Membership;
  /** Commits, and those that were made again because other replicas had committed meanwhile. */
  readonly counts = { commits: 0, conflicts: 0 };
  readonly database: Database;
  readonly #log: StoreLog;
  readonly #consumers: CommitConsumer[] = [];
  /** Revision of the consumers' state, and the latest one that is in effect. */
  #revision = 0;
  #effective = 0;
  /** What changes the consumers' state, one after the other. */
  #turn: Promise<unknown> = Promise.resolve();
  #isOpen = false;
  /** Why the database cannot be used; undefined while it can. */
  #failure: Error | undefined;
  #confirmation: Promise<readonly string[]> = Promise.resolve([]);
  #nextConfirmation: Promise<readonly string[]> | undefined;
  #checking: Promise<void> | undefined;
  #nextCheck: Promise<void> | undefined;
  #committing = 0;
  /** Commits that wait for others to end. */
  readonly #waitingCommits: (() => void)[] = [];

  constructor({ database, log, version }: SharedLogOptions) {
    this.database = database;
    this.#log = log;
    this.members = new Membership({
      database,
      version,
      applied: () => this.#effective,
      catchUp: async () => {
        await this.#check();
        await this.#settled();
      },
      // Notifications may have been lost, or the database could not be reached.
      onRevision: (revision) => {
        if (revision !== this.#revision || !this.isConnected) this.#check().catch(() => undefined);
      },
    });
  }

  /** False while PostgreSQL cannot be reached: the state may be out of date. */
  get isConnected(): boolean {
    return this.#failure === undefined;
  }

  /** Creates or upgrades the schema, and joins the replicas. Throws {@link StoreError}. */
  async open(): Promise<void> {
    const step = await migrate(this.database);
    if (step > MIGRATIONS.length) this.#log.error(readOnlyReplica(step));
    this.#revision = await this.members.register(this.database);
    this.#effective = this.#revision;
    this.#isOpen = true;
  }

  /** Loads the records of a consumer with its `reload`, and keeps it up to date from then on. */
  async add(consumer: CommitConsumer): Promise<void> {
    await this.#serialize(async () => {
      const [catchUp, records] = await this.#readOnly(async (transaction) => [
        await this.#newer(transaction, await readRevision(transaction)),
        await readSections(transaction, consumer.sections),
      ]);
      await catchUp();
      await consumer.reload(records);
      this.#consumers.push(consumer);
    });
  }

  /**
   * Reads a record of a consumer. One that cannot be read, perhaps of a later release, is ignored: this replica keeps the last state
   * of the record that it could read, and follows the others.
   */
  readRecord<Content>(section: string, json: string, read: (json: string) => Content): Content | undefined {
    try {
      return read(json);
    } catch (error) {
      this.#log.error('a record of another replica cannot be read', { section, error });
      return undefined;
    }
  }

  /** Begins to follow other replicas. */
  start(): void {
    this.members.start(() => void this.#check().catch(() => undefined));
    this.database.listen((message) => {
      const [kind, revision] = message.split(' ');
      const work =
        kind === 'left'
          ? this.members.renewAfterDeparture()
          : kind === 'confirm'
            ? this.#announce(Number(revision))
            : this.#check();
      work.catch(() => undefined);
    });
  }

  /**
   * Waits until all live replicas have this replica's state. Returns the ids of those that are no longer live instead: they
   * ask the database before their next answer. A failure is logged: the commits that are to be confirmed are stored.
   */
  confirm(): Promise<readonly string[]> {
    // One at a time serves all callers.
    this.#nextConfirmation ??= this.#confirmation
      .then(() => {
        this.#nextConfirmation = undefined;
        return this.members.confirm(this.#revision);
      })
      .catch((error: unknown) => {
        this.#log.warn('a change was not confirmed by the other replicas', { error });
        return [...this.members.others.keys()];
      });
    this.#confirmation = this.#nextConfirmation;
    return this.#nextConfirmation;
  }

  /** Resolves once this replica is live again and has the latest state. Rejects with {@link UnavailableStoreError}. */
  async rejoin(): Promise<void> {
    // Again if catching up took longer than the lease.
    for (let attempt = 0; attempt < REJOIN_ATTEMPTS && !this.members.isLive; attempt++) {
      if (this.#failure) break;
      await this.members.renew();
    }
    if (!this.members.isLive) throw this.#unavailable();
  }

  /**
   * Commits changes and publishes them; see {@link RecordLog.commit}. Without changes after `remake`, nothing is stored and `publish`
   * is not called. Concurrent commits wait for each other. Rejects with
   * {@link UnavailableStoreError} if PostgreSQL cannot be reached.
   */
  async commit(first: Commit, conflict?: Conflict): Promise<void> {
    if (this.#committing < MAX_COMMITS) this.#committing++;
    else await new Promise<void>((resolve) => this.#waitingCommits.push(resolve));
    try {
      await this.#commit(first, conflict);
    } finally {
      const next = this.#waitingCommits.shift();
      if (next) next();
      else this.#committing--;
    }
  }

  async #commit(first: Commit, conflict: Conflict | undefined): Promise<void> {
    if (!this.#isOpen) throw new StoreError('the connection to the database is closed');
    if (this.#failure) throw this.#unavailable();
    const id = randomUUID();
    let made = first;
    let revision = 0;
    let isSent = false;
    const publish = () => {
      this.counts.commits++;
      made.publish();
      this.#advance(revision);
    };
    try {
      await this.database.transaction(
        '',
        async (transaction) => {
          const current = await lockRevision(transaction, this.members.id);
          if (current.step > MIGRATIONS.length) throw new ReadOnlyStoreError(readOnlyReplica(current.step));
          await this.#serialize(async () => (await this.#newer(transaction, current.revision))());
          if (!current.isLive) await this.members.register(transaction);
          // Of a replica that was stopped meanwhile, the changes may rest on a lease that it no longer has.
          if (conflict && (!current.isLive || conflict.isOutdated())) {
            this.counts.conflicts++;
            made = await conflict.remake();
          }
          revision = current.revision + 1;
          if (made.changes.length > 0) await writeCommit(transaction, revision, id, made.changes);
        },
        (transaction) =>
          // Otherwise a refresh could apply this commit, and later ones, before it is published.
          this.#serialize(async () => {
            if (made.changes.length === 0) return transaction.query('ROLLBACK');
            isSent = true;
            await transaction.query('COMMIT');
            return publish();
          }),
      );
    } catch (error) {
      if (!isSent) throw error;
      await this.#resolveOutcome(id, revision, publish, error);
    }
    if (revision % PRUNE_EVERY === 0) this.#prune();
  }

  /**
   * Resolves once the consumers have every commit that was durable at the time of the call. Rejects with
   * {@link UnavailableStoreError}.
   */
  async refresh(): Promise<void> {
    // Checks continue in the background.
    if (this.#failure) throw this.#unavailable();
    await this.#check();
  }

  async close(): Promise<void> {
    this.#isOpen = false;
    await this.#turn;
    if (!this.#failure) await this.members.leave().catch(() => undefined);
    await this.database.close();
  }

  /** One query at a time serves all callers; those that come while it runs need a later one. */
  #check(): Promise<void> {
    if (!this.#checking) {
      this.#checking = this.#checkNow().finally(() => {
        this.#checking = undefined;
      });
      return this.#checking;
    }
    this.#nextCheck ??= this.#checking
      .catch(() => undefined)
      .then(() => {
        this.#nextCheck = undefined;
        return this.#check();
      });
    return this.#nextCheck;
  }

  async #checkNow(): Promise<void> {
    try {
      const after = this.#revision;
      const read = () => readNewer(this.database, after, MAX_AT_ONCE, CHECK_MS);
      // A connection may have been broken since it was used last.
      const newer = await (this.#failure ? read() : read().catch(read));
      if (newer.revision !== this.#revision) await this.#serialize(() => this.#follow(after, newer));
    } catch (error) {
      this.#onFailure(error);
      throw error;
    }
    if (this.#failure) this.#log.warn('database available again');
    this.#failure = undefined;
  }

  #unavailable(): UnavailableStoreError {
    return this.#failure instanceof ReadOnlyStoreError ? this.#failure : new UnavailableStoreError(UNREACHABLE);
  }

  #onFailure(error: unknown): void {
    if (!this.#failure && this.#isOpen) {
      const reason = error instanceof UnavailableStoreError ? 'database unavailable' : 'changes cannot be applied';
      this.#log.error(`${reason}; serving the last known state read-only`, { error });
    }
    this.#failure = error instanceof Error ? error : new Error(String(error));
  }

  /** Tells the others that this replica has applied this revision, as soon as it has. */
  async #announce(revision: number): Promise<void> {
    // The notification of the commit came just before.
    if (this.#revision < revision) await this.#checking?.catch(() => undefined);
    if (this.#revision < revision) await this.#check();
    const current = this.#revision;
    await this.#settled();
    this.#effective = Math.max(this.#effective, current);
    await this.members.announce(revision);
  }

  /** Applies what was read after a revision; in parts, if that is much or if a commit of this replica was published meanwhile. */
  async #follow(after: number, { revision, changes }: NewerChanges): Promise<void> {
    if (changes && this.#revision === after) return this.#apply(changes, revision);
    const catchUp = await this.#readOnly(async (transaction) =>
      this.#newer(transaction, await readRevision(transaction)),
    );
    // After the transaction, whose connection PostgreSQL closes when it is idle for long.
    await catchUp();
  }

  #readOnly<T>(read: (transaction: Transaction) => Promise<T>): Promise<T> {
    return this.database.transaction('ISOLATION LEVEL REPEATABLE READ READ ONLY', read);
  }

  /** Waits for the previous change of the consumers' state. */
  #serialize<T>(work: () => Promise<T>): Promise<T> {
    const result = this.#turn.then(work);
    this.#turn = result.catch(() => undefined);
    return result;
  }

  /** Reads the commits up to `revision`, which is that of the transaction, and returns a function that applies them. */
  async #newer(transaction: Transaction, revision: number): Promise<() => Promise<void>> {
    if (revision === this.#revision) return async () => undefined;
    this.#requireNewer(revision);
    const changes = await readChanges(transaction, this.#revision, MAX_FOLLOWED);
    if (changes) return () => this.#apply(changes, revision);
    const reloads: (() => Promise<void>)[] = [];
    for (const consumer of this.#consumers) {
      const records = await readSections(transaction, consumer.sections);
      reloads.push(() => consumer.reload(records));
    }
    return async () => {
      for (const reload of reloads) await reload();
      this.#advance(revision);
    };
  }

  async #apply(changes: readonly StoredChange[], revision: number): Promise<void> {
    this.#requireNewer(revision);
    for (const consumer of this.#consumers) {
      const own = changes.filter(({ section }) => consumer.sections.includes(section));
      if (own.length > 0) await consumer.apply(own);
    }
    this.#advance(revision);
  }

  #requireNewer(revision: number): void {
    if (revision >= this.#revision) return;
    throw new ReadOnlyStoreError(
      `the database has revision ${revision}, and this replica ${this.#revision}: it was restored from a backup; restart all replicas`,
    );
  }

  /** The consumers have the state of this revision; it is in effect once they have settled. */
  #advance(revision: number): void {
    this.#revision = revision;
    void this.#settled().then(() => {
      this.#effective = Math.max(this.#effective, revision);
    });
  }

  async #settled(): Promise<void> {
    for (const consumer of this.#consumers) await consumer.settled?.();
  }

  /** Finds out whether a commit whose response was lost is stored, and throws if it is not. */
  async #resolveOutcome(id: string, revision: number, publish: () => void, cause: unknown): Promise<void> {
    const deadline = performance.now() + RESOLVE_MS;
    while (performance.now() < deadline) {
      try {
        if (await this.#findCommit(id, revision, publish)) return;
        throw cause;
      } catch (error) {
        if (error === cause || !(error instanceof UnavailableStoreError)) throw error;
        await delay(RESOLVE_INTERVAL_MS);
      }
    }
    throw new UnavailableStoreError('PostgreSQL: the connection was lost during COMMIT: the outcome is not known', {
      cause,
      unknownCommit: id,
    });
  }

  /** Whether a commit is stored; then the consumers have it. */
  #findCommit(id: string, revision: number, publish: () => void): Promise<boolean> {
    return this.database.transaction('', async (transaction) => {
      // Waits for the end of the lost transaction, which may still be in progress.
      const current = await lockRevision(transaction, this.members.id);
      if (!(await hasCommit(transaction, id))) return false;
      // In this order, as in a commit: another one that has the lock may wait for its turn.
      await this.#serialize(async () => {
        if (this.#revision === revision - 1) publish();
        await (await this.#newer(transaction, current.revision))();
      });
      return true;
    });
  }

  /** A failure delays it to the next time. */
  #prune(): void {
    this.database
      .transaction('', async (transaction) => {
        await pruneChanges(transaction, KEEP_CHANGES);
        await removeExpired(transaction);
      })
      .catch((error: unknown) => this.#log.warn('old changes were not removed from the database', { error }));
  }
}

async function readSections(
  transaction: Transaction,
  sections: readonly string[],
): Promise<Map<string, StoredRecord[]>> {
  const found = new Map<string, StoredRecord[]>();
  for (const section of sections) {
    const records: StoredRecord[] = [];
    for await (const page of readRecords(transaction, section)) records.push(...page);
    found.set(section, records);
  }
  return found;
}
