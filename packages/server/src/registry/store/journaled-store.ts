import type { Steps } from '../steps.ts';
import type { ByteRange } from './byte-range.ts';
import { errorReason, type Files } from './files.ts';
import { CorruptFileError, JournaledFile, jsonArray } from './journaled-file.ts';
import { StoreError, type StoreLog, toStoreError } from './store.ts';

/** Journals shorter than this are not compacted while the store is open. */
const COMPACT_FROM_BYTES = 256 * 1024;

/** Options of a {@link JournaledStore}. */
export interface JournaledStoreOptions {
  /** An existing folder, used by this process only. */
  readonly folder: string;
  readonly files: Files;
  readonly log: StoreLog;
  /** Minimum length of a journal that is compacted while the store is open. Default: 256 KiB. */
  readonly compactFromBytes?: number | undefined;
}

/** The promise of a change that is not stored yet. */
export interface Pending {
  readonly resolve: () => void;
  readonly reject: (error: unknown) => void;
}

/** Changes that are stored together. */
export interface JournaledBatch {
  /** One for each difference; nothing is written without any. */
  readonly records: readonly unknown[];
  /** They are durable: makes them visible and settles their promises. */
  apply(): void;
  /** They could not be stored. */
  fail(error: StoreError): void;
}

/** The state in a {@link JournaledStore}. */
export interface JournaledState<Change> {
  /** Singular name of an item: `task` for the files `tasks.json` and `tasks.journal`. */
  readonly kind: string;
  /** What the service starts without if a corrupt file is removed, for the error. */
  readonly lost: string;
  /** Reads the snapshot file, if there is one. Returns the first generation of the journal that it lacks. */
  read(snapshot: Buffer | undefined): number | undefined;
  /** Applies a line of the journal. */
  replay(line: ByteRange, file: string, offset: number): Steps<void>;
  batch(changes: readonly (Change & Pending)[]): JournaledBatch;
  /** Text of the snapshot file with the state at the time of the call, in slices. */
  snapshot(generation: number): Iterable<string>;
}

/**
 * A state in memory that is stored in a snapshot file and a journal, in which a change is durable at once: one line for all
 * changes that wait. The journal is compacted at start, at the end and whenever it has become as long as the snapshot: the cost of
 * compaction stays proportional to the changes, and the size on disk to the state.
 */
export class JournaledStore<Change extends object> {
  readonly #state: JournaledState<Change>;
  readonly #folder: string;
  readonly #log: StoreLog;
  readonly #compactFromBytes: number;
  readonly #file: JournaledFile;
  #snapshotBytes = 0;
  #queue: (Change & Pending)[] = [];
  #writing: Promise<void> | undefined = undefined;
  #compacting: Promise<void> | undefined = undefined;
  /** True when journals exist whose records the snapshot file may not contain. */
  #needsCompaction = false;
  #isOpen = true;

  constructor(
    state: JournaledState<Change>,
    { folder, files, log, compactFromBytes = COMPACT_FROM_BYTES }: JournaledStoreOptions,
  ) {
    this.#state = state;
    this.#folder = folder;
    this.#log = log;
    this.#compactFromBytes = compactFromBytes;
    const names = { snapshotName: `${state.kind}s.json`, journalName: `${state.kind}s.journal` };
    this.#file = new JournaledFile({ files, folder, ...names, allowGaps: true, log });
  }

  /** Reads the files without writing to them. Throws {@link StoreError} when one is corrupt or cannot be read. */
  async load(): Promise<void> {
    const { kind, lost } = this.#state;
    try {
      const bytes = await this.#file.readSnapshot();
      const generation = this.#state.read(bytes?.read());
      this.#snapshotBytes = bytes?.length ?? 0;
      this.#needsCompaction = await this.#file.replay(generation, (...line) => this.#state.replay(...line));
    } catch (error) {
      if (error instanceof StoreError) throw error;
      const problem =
        error instanceof CorruptFileError
          ? `${this.#folder}/${error.file} ${error.message}; repair it, or remove it to start without the ${lost} in it`
          : `${kind}s in ${this.#folder} cannot be read: ${errorReason(error)}`;
      throw new StoreError(problem, { cause: error });
    }
  }

  /**
   * Compacts the journals of earlier runs: a service that is killed repeatedly would accumulate them. To be called once the
   * owner has built its state from what was read, since a snapshot is taken of that.
   */
  async compactLoaded(): Promise<void> {
    if (this.#needsCompaction) await this.#compactNow();
  }

  /** Resolves once the change is durable and visible. Rejects with {@link StoreError}, or as its batch does. */
  put(change: Change): Promise<void> {
    if (!this.#isOpen) {
      return Promise.reject(new StoreError(`the ${this.#state.kind} store in ${this.#folder} is closed`));
    }
    return new Promise((resolve, reject) => {
      this.#queue.push({ ...change, resolve, reject });
      this.#writing ??= this.#write();
    });
  }

  /** Finishes pending writes and compacts the journal. Later changes are rejected. Throws {@link StoreError}. */
  async close(): Promise<void> {
    if (!this.#isOpen) return;
    this.#isOpen = false;
    await this.#writing;
    await this.#compacting;
    try {
      await this.#file.journal.repairTail();
      if (this.#needsCompaction) await this.#compact();
    } catch (error) {
      // The journal still has every change, and the next start replays it.
      throw new StoreError(`${this.#file.snapshotPath} could not be written: ${errorReason(error)}`, { cause: error });
    } finally {
      await this.#file.journal.close();
    }
  }

  /** The only place that appends records and starts compactions, one step after the other. */
  async #write(): Promise<void> {
    // All changes of this turn of the event loop share the first write.
    await Promise.resolve();
    while (this.#queue.length > 0) {
      await this.#writeQueue();
      if (this.#compacting || !this.#isWorthCompacting()) continue;
      this.#compacting = this.#compactNow().finally(() => {
        this.#compacting = undefined;
      });
    }
    this.#writing = undefined;
  }

  async #writeQueue(): Promise<void> {
    const batch = this.#state.batch(this.#queue.splice(0));
    try {
      if (batch.records.length > 0) {
        await this.#file.journal.append(jsonArray(batch.records.map((record) => JSON.stringify(record))));
        this.#needsCompaction = true;
      }
    } catch (error) {
      return batch.fail(toStoreError(`${this.#file.journal.path} could not be written`, error));
    }
    batch.apply();
  }

  #isWorthCompacting(): boolean {
    // A rejected change at the end of the old generation would come back if the process restarted during a compaction.
    if (this.#file.journal.hasTornTail) return false;
    return this.#file.journal.length >= Math.max(this.#compactFromBytes, this.#snapshotBytes);
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
    const checkpoint = this.#file.rotateJournal();
    const slices = this.#state.snapshot(checkpoint.generation);
    this.#needsCompaction = false;
    let written = 0;
    const counted = function* (): Generator<string> {
      for (const slice of slices) {
        written += slice.length;
        yield slice;
      }
    };
    await this.#file.compact(checkpoint, counted());
    this.#snapshotBytes = written;
  }
}
