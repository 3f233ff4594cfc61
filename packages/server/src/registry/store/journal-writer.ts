import { type Clock, errorReason } from './files.ts';
import { changesLine } from './journal-line.ts';
import type { Checkpoint, JournaledFile } from './journaled-file.ts';
import { type Commit, StoreError, type StoreLog, toStoreError } from './store.ts';

/** Delay of a compaction after the first change that it will contain; it must end within a second. */
const COMPACT_AFTER_MS = 500;
/** A failed compaction is retried after the first delay, then after twice the previous one up to the second. */
const RETRY_MS = { first: 1_000, longest: 30_000 };

interface PendingCommit {
  readonly commit: Commit;
  readonly resolve: () => void;
  readonly reject: (error: unknown) => void;
}

/** Options of a {@link JournalWriter}. */
export interface JournalWriterOptions {
  readonly file: JournaledFile;
  /** Makes a commit visible that is durable. */
  readonly publish: (commit: Commit) => void;
  /** Text of the snapshot file with the state in memory at the time of the call, in slices. */
  readonly snapshot: (generation: number) => Iterable<string>;
  /** Throws {@link StoreError} unless this process may write; `now`: a recent answer does not suffice. */
  readonly checkWritable: (now: boolean) => Promise<void>;
  /** The error of a commit while the writer is not open. */
  readonly closed: string;
  readonly log: StoreLog;
  /**
   * When the journal is compacted while the store is open: half a second after a change by this clock, or whenever it has this many
   * bytes and is as long as the snapshot. Then the cost of compaction is proportional to the changes.
   */
  readonly compaction: { readonly clock: Clock } | { readonly fromBytes: number };
}

/** Stores commits in the files of a {@link JournaledFile}. One is durable at once: a line of the journal has all that wait. */
export class JournalWriter {
  readonly #file: JournaledFile;
  readonly #options: JournalWriterOptions;
  #queue: PendingCommit[] = [];
  #writing: Promise<void> | undefined;
  /** True when journals exist whose records the snapshot file may not contain. */
  #needsCompaction = false;
  #isCompactionDue = false;
  #compacting: Promise<void> | undefined;
  #failedCompactions = 0;
  #cancelTimer: (() => void) | undefined;
  #snapshotBytes = 0;
  #isOpen = false;

  constructor(options: JournalWriterOptions) {
    this.#file = options.file;
    this.#options = options;
  }

  /** Opens the log with what was read: whether there was a journal, and the length of the snapshot file. */
  open({ hasJournal, snapshotBytes }: { readonly hasJournal: boolean; readonly snapshotBytes: number }): void {
    this.#isOpen = true;
    this.#needsCompaction = hasJournal;
    this.#snapshotBytes = snapshotBytes;
    if (hasJournal && 'clock' in this.#options.compaction) this.#scheduleCompaction();
  }

  /** Resolves once the commit is durable and visible. Rejects with {@link StoreError}. */
  put(commit: Commit): Promise<void> {
    if (!this.#isOpen) return Promise.reject(new StoreError(this.#options.closed));
    return new Promise((resolve, reject) => {
      this.#queue.push({ commit, resolve, reject });
      this.#writing ??= this.#write();
    });
  }

  /**
   * Compacts the journals of earlier runs: a service that is killed repeatedly would accumulate them. Called before changes.
   * Failures are logged.
   */
  async compact(): Promise<void> {
    if (this.#needsCompaction) await this.#startCompaction();
    await this.#compacting;
  }

  /**
   * Finishes pending writes and compacts the journal, unless `mayCompact` forbids that. Later changes are rejected. Throws
   * {@link StoreError}.
   */
  async close(mayCompact = () => true): Promise<void> {
    if (!this.#isOpen) return;
    this.#isOpen = false;
    this.#cancelTimer?.();
    while (this.#writing || this.#compacting) {
      await this.#writing;
      await this.#compacting;
    }
    try {
      // A rejected change at the end of the journal would come back with the next start.
      await this.#file.journal.repairTail();
      if (this.#needsCompaction && mayCompact()) await this.#compact(await this.#takeCheckpoint());
    } catch (error) {
      // The journal still has every change, and the next start replays it.
      throw new StoreError(`${this.#file.snapshotPath} could not be written: ${errorReason(error)}`, { cause: error });
    } finally {
      await this.#file.journal.close();
    }
  }

  /** The only place that appends records and rotates the journal, one step after the other. */
  async #write(): Promise<void> {
    // All changes of this turn of the event loop share the first write.
    await Promise.resolve();
    while (this.#queue.length > 0 || (this.#isCompactionDue && !this.#compacting)) {
      if (this.#isCompactionDue && !this.#compacting) await this.#startCompaction();
      if (this.#queue.length > 0) await this.#writeQueue();
    }
    this.#writing = undefined;
  }

  async #writeQueue(): Promise<void> {
    const pending = this.#queue.splice(0);
    const { journal } = this.#file;
    try {
      const line = changesLine(pending.flatMap(({ commit }) => commit.changes));
      if (line) {
        await this.#options.checkWritable(false);
        await journal.append(line);
        this.#needsCompaction = true;
      }
    } catch (error) {
      const failure = toStoreError(`${journal.path} could not be written`, error);
      for (const { reject } of pending) reject(failure);
      // A compaction repairs the journal, even if no further commit comes.
      if (journal.hasTornTail) this.#scheduleCompaction();
      return;
    }
    for (const { commit, resolve, reject } of pending) {
      try {
        this.#options.publish(commit);
        resolve();
      } catch (error) {
        // It is stored; the next ones must not wait for it.
        reject(error);
      }
    }
    this.#scheduleCompaction();
  }

  #scheduleCompaction(): void {
    if (this.#cancelTimer || this.#isCompactionDue || !this.#isOpen) return;
    const { compaction } = this.#options;
    if ('fromBytes' in compaction) {
      const { length, hasTornTail } = this.#file.journal;
      const isLong = length >= Math.max(compaction.fromBytes, this.#snapshotBytes);
      this.#isCompactionDue = isLong && !hasTornTail && !this.#compacting;
      return;
    }
    const failures = this.#failedCompactions;
    const delay = failures === 0 ? COMPACT_AFTER_MS : Math.min(RETRY_MS.first * 2 ** (failures - 1), RETRY_MS.longest);
    this.#cancelTimer = compaction.clock.after(delay, () => {
      this.#cancelTimer = undefined;
      this.#isCompactionDue = true;
      this.#writing ??= this.#write();
    });
  }

  async #startCompaction(): Promise<void> {
    this.#isCompactionDue = false;
    const checkpoint = await this.#takeCheckpoint().catch((error: unknown) => this.#onFailedCompaction(error));
    if (!checkpoint) return;
    this.#compacting = this.#compact(checkpoint)
      .catch((error: unknown) => this.#onFailedCompaction(error))
      .finally(() => {
        this.#compacting = undefined;
        if (this.#isCompactionDue) this.#writing ??= this.#write();
      });
  }

  /** Rotates the journal and takes the snapshot of the same moment. Called only while nothing is being written. */
  async #takeCheckpoint(): Promise<SnapshotCheckpoint> {
    await this.#options.checkWritable(false);
    // A rejected change at the end of the old generation would come back if the process restarted during a compaction.
    await this.#file.journal.repairTail();
    const checkpoint = this.#file.rotateJournal();
    const slices = this.#options.snapshot(checkpoint.generation);
    this.#needsCompaction = false;
    return { ...checkpoint, slices };
  }

  async #compact(checkpoint: SnapshotCheckpoint): Promise<void> {
    const { slices } = checkpoint;
    this.#snapshotBytes = await this.#file.compact(checkpoint, slices, () => this.#options.checkWritable(true));
    this.#failedCompactions = 0;
  }

  /** A failure costs disk space only: the journals stay, and the next compaction includes them. */
  #onFailedCompaction(error: unknown): undefined {
    this.#failedCompactions++;
    this.#needsCompaction = true;
    this.#options.log.error(`${this.#file.snapshotPath} could not be written; changes stay in the journal`, { error });
    // One that depends on the length of the journal is due again after the next commit: at once, it would fail for the same reason.
    if ('clock' in this.#options.compaction) this.#scheduleCompaction();
    return undefined;
  }
}

interface SnapshotCheckpoint extends Checkpoint {
  readonly slices: Iterable<string>;
}
