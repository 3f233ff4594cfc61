import { join } from 'node:path';
import { Turns } from '@sluice/protocol/turns';
import type { Steps } from '../steps.ts';
import { type Clock, diskFiles, errorReason, type Files, isDiskFull, systemClock } from './files.ts';
import { JournalWriter } from './journal-writer.ts';
import { CorruptFileError, JournaledFile, START_WITHOUT } from './journaled-file.ts';
import { checkUnheld, hostProcesses, type Lock, type Processes, takeLock } from './lock.ts';
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

interface JournaledCommit {
  readonly changes: readonly Change[];
  readonly publish: () => void;
}

/**
 * The store of `SERVICE_PERSIST_BACKEND=file`: `registry.json`, rewritten within a second of a change, and a journal in which
 * each commit is durable at once.
 *
 * On a full disk, which leaves no room for the lock, it is read without one. The first write that succeeds takes the lock, unless
 * another process has written meanwhile.
 */
export class FileStore implements Store {
  readonly #options: Required<FileStoreOptions>;
  readonly #file: JournaledFile;
  readonly #writer: JournalWriter<JournaledCommit>;
  /** Undefined while the disk is full since the start: the folder can be read, and is locked before the first write. */
  #lock: Lock | undefined;
  /** The files that were read without a lock. */
  #readFiles = '';
  /** Members of the snapshot file that this version does not know. */
  #extras: readonly string[] = [];

  constructor(options: FileStoreOptions) {
    this.#options = { files: diskFiles(), clock: systemClock(), processes: hostProcesses(), ...options };
    const { folder, files, log, clock, snapshot } = this.#options;
    this.#file = registryFile(folder, files, log);
    const state = {
      batch: (commits: readonly JournaledCommit[]) => ({
        line: commitRecord(commits.map(({ changes }) => changes)),
        apply() {
          for (const { publish } of commits) publish();
        },
      }),
      snapshot: (generation: number) => snapshotSlices(snapshot(), this.#extras, generation),
      isSequential: true,
      checkWritable: (now: boolean) => this.#checkLock(now),
    };
    this.#writer = new JournalWriter(this.#file, state, {
      closed: `the store in ${folder} is not open`,
      log,
      compaction: { clock },
    });
  }

  get fileMembers(): FileMembers {
    return { extras: this.#extras, generation: this.#file.nextGeneration };
  }

  async load(restore: (loaded: Loaded) => Steps<void>): Promise<void> {
    this.#lock = await this.#takeLock().catch((error: unknown) => this.#onDiskFull(error));
    try {
      if (!this.#lock) this.#readFiles = await this.#describeFiles();
      this.#writer.open(await this.#read(restore));
    } catch (error) {
      await this.#lock?.release();
      this.#lock = undefined;
      throw toStoreError(`SERVICE_PERSIST_PATH ${this.#options.folder} cannot be read`, error);
    }
  }

  commit(commit: JournaledCommit): Promise<void> {
    return this.#writer.put(commit);
  }

  async close(): Promise<void> {
    try {
      await this.#writer.close(() => this.#lock !== undefined);
    } finally {
      await this.#lock?.release();
      this.#lock = undefined;
    }
  }

  /** Continues without a lock if the disk is full and no other process uses the folder; rethrows any other error. */
  async #onDiskFull(error: unknown): Promise<undefined> {
    if (!isDiskFull(error)) throw error;
    // Without the folder there is nothing to serve.
    const { folder, files, log } = this.#options;
    await files.list(folder).catch(() => Promise.reject(error));
    await checkUnheld(this.#options);
    log.error('disk full: the registry is served, but cannot be changed until there is space', { folder, error });
  }

  /** Throws {@link StoreError} unless this process may write to the folder. */
  async #checkLock(now: boolean): Promise<void> {
    if (!this.#lock) {
      const { folder, log } = this.#options;
      const lock = await this.#takeLock();
      if ((await this.#describeFiles()) !== this.#readFiles) {
        await lock.release();
        throw new StoreError(`another process has changed ${folder} since this one has read it; restart it`);
      }
      this.#lock = lock;
      log.warn('the disk has space again: the registry can be changed', { folder });
    }
    await this.#lock.check({ now });
  }

  /** Names and times of the files of the registry. */
  async #describeFiles(): Promise<string> {
    const { folder, files } = this.#options;
    const names = (await files.list(folder)).filter((name) => /^registry\.(?:json|journal\.\d+)$/.test(name));
    const described = names.sort().map(async (name) => `${name} ${await files.modified(join(folder, name))}`);
    return (await Promise.all(described)).join('\n');
  }

  async #takeLock(): Promise<Lock> {
    const { folder, files } = this.#options;
    try {
      await files.makeFolder(folder);
      return await takeLock(this.#options);
    } catch (error) {
      throw toStoreError(`SERVICE_PERSIST_PATH ${folder} is not writable`, error);
    }
  }

  /** Restores the folder's content, again after corrupt files were quarantined. Returns whether there was a journal. */
  async #read(restore: (loaded: Loaded) => Steps<void>): Promise<boolean> {
    const { folder, recover, log, clock } = this.#options;
    try {
      const { extras, hasJournal } = await readRegistryFile(this.#file, restore);
      this.#extras = extras;
      return hasJournal;
    } catch (error) {
      if (!(error instanceof CorruptFileError)) throw error;
      if (!recover) throw error.asStoreError(folder, START_WITHOUT);
      const problem = `${folder}/${error.file} ${error.message}`;
      log.error(problem);
      if ((await this.#file.quarantine(error.file, clock.now())) === 0) throw new StoreError(problem, { cause: error });
      return this.#read(restore);
    }
  }
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
