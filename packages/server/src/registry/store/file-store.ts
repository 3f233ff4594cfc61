import { join } from 'node:path';
import { Turns } from '@sluice/protocol/turns';
import type { Steps } from '../steps.ts';
import { type Clock, diskFiles, errorReason, type Files, isDiskFull, systemClock } from './files.ts';
import { type Checkpoint, CorruptFileError, JournaledFile } from './journaled-file.ts';
import { checkUnheld, hostProcesses, type Lock, type LockParts, type Processes, takeLock } from './lock.ts';
import { commitRecord, SNAPSHOT_NAME, snapshotSlices } from './registry-file.ts';
import { readCommitRecord, readSnapshot } from './registry-reader.ts';
import {
  type Change,
  type FileMembers,
  type Loaded,
  noEntries,
  type SnapshotSource,
  type Store,
  StoreError,
  type StoreLog,
  toStoreError,
} from './store.ts';

/** Delay of a compaction after the first commit that it will contain; it must end within a second. */
const COMPACT_AFTER_MS = 500;
/** A failed compaction is retried after the first delay, then after twice the previous one up to the second. */
const RETRY_MS = { first: 1_000, longest: 30_000 };

/** Options of {@link FileStore}. */
export interface FileStoreOptions {
  /** SERVICE_PERSIST_PATH. Created when missing. */
  folder: string;
  /** True with SERVICE_PERSIST_RECOVER=rename: corrupt files are quarantined instead of aborting the start. */
  recover: boolean;
  snapshot: SnapshotSource;
  log: StoreLog;
  /** Defaults to the file system. */
  files?: Files;
  /** Defaults to the system clock. */
  clock?: Clock;
  /** Defaults to the processes of this host. */
  processes?: Processes;
}

interface PendingCommit {
  changes: readonly Change[];
  publish: () => void;
  resolve: () => void;
  reject: (error: unknown) => void;
}

/**
 * The store of `SERVICE_PERSIST_BACKEND=file`: `registry.json`, rewritten within a second of a change, and a journal in which
 * each commit is durable at once.
 *
 * On a full disk, which leaves no room for the lock, it is read without one. The first write that succeeds takes the lock, unless
 * another process has written meanwhile.
 */
export class FileStore implements Store {
  readonly #folder: string;
  readonly #recover: boolean;
  readonly #snapshot: SnapshotSource;
  readonly #log: StoreLog;
  readonly #files: Files;
  readonly #clock: Clock;
  readonly #lockParts: LockParts;
  #file: JournaledFile;
  #isOpen = false;
  /** Undefined while the disk is full since the start: the folder can be read, and is locked before the first write. */
  #lock: Lock | undefined;
  /** The files that were read without a lock. */
  #readFiles = '';
  /** Members of the snapshot file that this version does not know. */
  #extras: readonly string[] = [];
  #queue: PendingCommit[] = [];
  #writing: Promise<void> | undefined;
  /** True when the journal has commits that no snapshot contains. */
  #needsCompaction = false;
  #isCompactionDue = false;
  #compacting: Promise<void> | undefined;
  #failedCompactions = 0;
  #cancelTimer: (() => void) | undefined;

  constructor({ recover, snapshot, ...options }: FileStoreOptions) {
    const { folder, log, files = diskFiles(), clock = systemClock(), processes = hostProcesses() } = options;
    this.#folder = folder;
    this.#recover = recover;
    this.#snapshot = snapshot;
    this.#log = log;
    this.#files = files;
    this.#clock = clock;
    this.#lockParts = { folder, files, processes, clock, log };
    this.#file = registryFile(folder, files, log);
  }

  get fileMembers(): FileMembers {
    return { extras: this.#extras, generation: this.#file.nextGeneration };
  }

  async load(restore: (loaded: Loaded) => Steps<void>): Promise<void> {
    this.#lock = await this.#takeLock().catch((error: unknown) => this.#onDiskFull(error));
    try {
      if (!this.#lock) this.#readFiles = await this.#describeFiles();
      while (!(await this.#read(restore)));
    } catch (error) {
      await this.#lock?.release();
      this.#lock = undefined;
      throw toStoreError(`SERVICE_PERSIST_PATH ${this.#folder} cannot be read`, error);
    }
    this.#isOpen = true;
    if (this.#needsCompaction) this.#scheduleCompaction();
  }

  commit(changes: readonly Change[], publish: () => void): Promise<void> {
    if (!this.#isOpen) return Promise.reject(new StoreError(`the store in ${this.#folder} is not open`));
    return new Promise((resolve, reject) => {
      this.#queue.push({ changes, publish, resolve, reject });
      this.#writing ??= this.#write();
    });
  }

  async close(): Promise<void> {
    if (!this.#isOpen) return;
    this.#isOpen = false;
    this.#cancelTimer?.();
    while (this.#writing || this.#compacting) {
      await this.#writing;
      await this.#compacting;
    }
    try {
      if (this.#needsCompaction && this.#lock) await this.#compact(await this.#takeCheckpoint());
    } catch (error) {
      // The journal still has every commit, and the next start replays it.
      throw new StoreError(`${this.#file.snapshotPath} could not be written: ${errorReason(error)}`, { cause: error });
    } finally {
      await this.#file.journal.close();
      await this.#lock?.release();
    }
  }

  /** Continues without a lock if the disk is full and no other process uses the folder; rethrows any other error. */
  async #onDiskFull(error: unknown): Promise<undefined> {
    if (!isDiskFull(error)) throw error;
    // Without the folder there is nothing to serve.
    await this.#files.list(this.#folder).catch(() => Promise.reject(error));
    await checkUnheld(this.#lockParts);
    this.#log.error('disk full: the registry is served, but cannot be changed until there is space', {
      folder: this.#folder,
      error,
    });
  }

  /** Throws {@link StoreError} unless this process may write to the folder. */
  async #checkLock(now = false): Promise<void> {
    if (!this.#lock) {
      const lock = await this.#takeLock();
      if ((await this.#describeFiles()) !== this.#readFiles) {
        await lock.release();
        throw new StoreError(`another process has changed ${this.#folder} since this one has read it; restart it`);
      }
      this.#lock = lock;
      this.#log.warn('the disk has space again: the registry can be changed', { folder: this.#folder });
    }
    await this.#lock.check({ now });
  }

  /** Names and times of the files of the registry. */
  async #describeFiles(): Promise<string> {
    const names = (await this.#files.list(this.#folder)).filter((name) =>
      /^registry\.(?:json|journal\.\d+)$/.test(name),
    );
    const described = names
      .sort()
      .map(async (name) => `${name} ${await this.#files.modified(join(this.#folder, name))}`);
    return (await Promise.all(described)).join('\n');
  }

  async #takeLock(): Promise<Lock> {
    try {
      await this.#files.makeFolder(this.#folder);
      return await takeLock(this.#lockParts);
    } catch (error) {
      throw toStoreError(`SERVICE_PERSIST_PATH ${this.#folder} is not writable`, error);
    }
  }

  /** Restores the folder's content; false when corrupt files were quarantined and the folder has to be read again. */
  async #read(restore: (loaded: Loaded) => Steps<void>): Promise<boolean> {
    this.#file = registryFile(this.#folder, this.#files, this.#log);
    try {
      const { extras, hasJournal } = await readRegistryFile(this.#file, restore);
      this.#extras = extras;
      this.#needsCompaction = hasJournal;
      return true;
    } catch (error) {
      if (!(error instanceof CorruptFileError)) throw error;
      const problem = `${this.#folder}/${error.file} ${error.message}`;
      if (!this.#recover) {
        throw new StoreError(`${problem}; repair it, or set SERVICE_PERSIST_RECOVER=rename to start without it`, {
          cause: error,
        });
      }
      this.#log.error(problem);
      if ((await this.#file.quarantine(error.file, this.#clock.now())) === 0) {
        throw new StoreError(problem, { cause: error });
      }
      return false;
    }
  }

  /** The only place that appends commits and rotates the journal, one step after the other. */
  async #write(): Promise<void> {
    // All commits of this turn of the event loop share the first write.
    await Promise.resolve();
    while (this.#queue.length > 0 || (this.#isCompactionDue && !this.#compacting)) {
      if (this.#isCompactionDue && !this.#compacting) await this.#startCompaction();
      if (this.#queue.length > 0) await this.#writeQueue();
    }
    this.#writing = undefined;
  }

  async #writeQueue(): Promise<void> {
    const batch = this.#queue.splice(0);
    try {
      await this.#checkLock();
      await this.#file.journal.append(commitRecord(batch.map(({ changes }) => changes)));
    } catch (error) {
      const failure = toStoreError(`${this.#file.journal.path} could not be written`, error);
      for (const { reject } of [...batch, ...this.#queue.splice(0)]) reject(failure);
      // A compaction repairs the journal, even if no further commit comes.
      if (this.#file.journal.hasTornTail) this.#scheduleCompaction();
      return;
    }
    this.#needsCompaction = true;
    this.#scheduleCompaction();
    // All are published before any promise resolves: a snapshot must not miss a commit whose write has succeeded.
    for (const { publish, reject } of batch) {
      try {
        publish();
      } catch (error) {
        reject(error);
      }
    }
    for (const { resolve } of batch) resolve();
  }

  #scheduleCompaction(): void {
    if (this.#cancelTimer || this.#isCompactionDue || !this.#isOpen) return;
    const failures = this.#failedCompactions;
    const delay = failures === 0 ? COMPACT_AFTER_MS : Math.min(RETRY_MS.first * 2 ** (failures - 1), RETRY_MS.longest);
    this.#cancelTimer = this.#clock.after(delay, () => {
      this.#cancelTimer = undefined;
      this.#isCompactionDue = true;
      this.#writing ??= this.#write();
    });
  }

  async #startCompaction(): Promise<void> {
    this.#isCompactionDue = false;
    const checkpoint = await this.#takeCheckpoint().catch((error: unknown) => this.#compactionFailed(error));
    if (!checkpoint) return;
    this.#compacting = this.#compact(checkpoint)
      .catch((error: unknown) => this.#compactionFailed(error))
      .finally(() => {
        this.#compacting = undefined;
        if (this.#isCompactionDue) this.#writing ??= this.#write();
      });
  }

  /** Rotates the journal and takes the snapshot of the same moment. Called only while no commit is being written. */
  async #takeCheckpoint(): Promise<RegistryCheckpoint> {
    await this.#checkLock();
    // A rejected commit at the end of the old generation would come back if the process restarted during a compaction.
    await this.#file.journal.repairTail();
    const source = this.#snapshot();
    const checkpoint = this.#file.rotateJournal();
    this.#needsCompaction = false;
    return { ...checkpoint, source };
  }

  async #compact(checkpoint: RegistryCheckpoint): Promise<void> {
    const slices = snapshotSlices(checkpoint.source, this.#extras, checkpoint.generation);
    await this.#file.compact(checkpoint, slices, () => this.#checkLock(true));
    this.#failedCompactions = 0;
  }

  #compactionFailed(error: unknown): undefined {
    this.#failedCompactions++;
    this.#needsCompaction = true;
    this.#log.error(`${this.#file.snapshotPath} could not be written; commits stay in the journal`, { error });
    this.#scheduleCompaction();
    return undefined;
  }
}

interface RegistryCheckpoint extends Checkpoint {
  readonly source: ReturnType<SnapshotSource>;
}

/** The files of the registry in a folder. */
export function registryFile(folder: string, files: Files, log: StoreLog): JournaledFile {
  return new JournaledFile({ files, folder, snapshotName: SNAPSHOT_NAME, journalName: 'registry.journal', log });
}

/** Reads the registry and passes it to `restore`. Throws {@link CorruptFileError}, {@link StoreError}, or the system error. */
export async function readRegistryFile(
  file: JournaledFile,
  restore: (loaded: Loaded) => Steps<void>,
): Promise<{ readonly extras: readonly string[]; readonly hasJournal: boolean }> {
  const turns = new Turns();
  const bytes = await file.readSnapshot();
  const snapshot = bytes ? await turns.run(readSnapshot(bytes)) : { entries: noEntries(), extras: [], generation: 1 };
  const journal: Iterable<Change>[] = [];
  await file.replay(snapshot.generation, function* (...record) {
    journal.push(...(yield* readCommitRecord(...record)));
  });
  await turns.run(restoreLoaded(restore, { entries: snapshot.entries, journal }));
  return { extras: snapshot.extras, hasJournal: journal.length > 0 };
}

function* restoreLoaded(restore: (loaded: Loaded) => Steps<void>, loaded: Loaded): Steps<void> {
  try {
    yield* restore(loaded);
  } catch (error) {
    if (error instanceof CorruptFileError) throw error;
    throw new CorruptFileError(SNAPSHOT_NAME, `cannot be used: ${errorReason(error)}`, { cause: error });
  }
}
