import { join } from 'node:path';
import { type Clock, systemClock } from './clock.ts';
import { Damage } from './damage.ts';
import { diskFiles, type Files, reason } from './files.ts';
import { Journal, journalName } from './journal.ts';
import { type Lock, takeLock } from './lock.ts';
import { hostProcesses, type Processes } from './processes.ts';
import { readFolder, removeJournals, setAside } from './recovery.ts';
import { replaceFile } from './replace.ts';
import { SNAPSHOT_NAME, snapshotSlices } from './snapshot.ts';
import { type Change, type Loaded, type Picture, type Store, StoreError, type StoreLog } from './store.ts';

/** So long after the first unfolded commit folding begins; it has the rest of the second to end (decisions 1.5). */
const FOLD_AFTER_MS = 500;
/** A fold that failed is tried again after the first time, then twice as long each time up to the second. */
const RETRY_MS = { first: 1_000, longest: 30_000 };

/** What {@link fileStore} is told; files, clock and processes are the real ones unless given. */
export interface FileStoreOptions {
  /** SERVICE_PERSIST_PATH. Made when missing. */
  folder: string;
  /** True with SERVICE_PERSIST_RECOVER=rename: damaged files are set aside instead of stopping the start. */
  recover: boolean;
  picture: Picture;
  log: StoreLog;
  files?: Files;
  clock?: Clock;
  processes?: Processes;
}

/**
 * The store of `SERVICE_PERSIST_BACKEND=file`: `registry.json`, written anew within a second of a change, and beside it
 * a journal in which a commit is durable at once (decisions 1.5).
 *
 * The journal comes in numbered generations. A fold first lets commits go on in the next generation and takes the
 * picture in the same instant, while none is under way, so that the picture holds exactly what the generations before
 * hold; the snapshot says which generation follows on it; and only when it lies safely in place are the older ones
 * removed. Whenever the process dies, snapshot and following generations together are every commit that was answered.
 */
export function fileStore(options: FileStoreOptions): Store {
  return new FileStore(options);
}

interface Pending {
  changes: readonly Change[];
  publish: () => void;
  resolve: () => void;
  reject: (error: unknown) => void;
}

type Phase = 'new' | 'open' | 'closed';

class FileStore implements Store {
  readonly #folder: string;
  readonly #recover: boolean;
  readonly #picture: Picture;
  readonly #log: StoreLog;
  readonly #files: Files;
  readonly #clock: Clock;
  readonly #processes: Processes;
  #phase: Phase = 'new';
  #lock: Lock | undefined;
  #journal: Journal;
  #extras: readonly string[] = [];
  #queue: Pending[] = [];
  #writing: Promise<void> | undefined;
  /** True when the journal holds commits of which no picture was taken. */
  #unfolded = false;
  #foldDue = false;
  #folding: Promise<void> | undefined;
  #failedFolds = 0;
  #foldTimer: (() => void) | undefined;

  constructor(options: FileStoreOptions) {
    this.#folder = options.folder;
    this.#recover = options.recover;
    this.#picture = options.picture;
    this.#log = options.log;
    this.#files = options.files ?? diskFiles();
    this.#clock = options.clock ?? systemClock();
    this.#processes = options.processes ?? hostProcesses();
    this.#journal = new Journal(this.#files, this.#folder, 1);
  }

  async load(restore: (loaded: Loaded) => void): Promise<void> {
    this.#lock = await this.#take();
    try {
      while (!(await this.#read(restore)));
    } catch (error) {
      await this.#lock.release();
      this.#lock = undefined;
      if (error instanceof StoreError) throw error;
      throw new StoreError(`SERVICE_PERSIST_PATH ${this.#folder} cannot be read: ${reason(error)}`, { cause: error });
    }
    this.#phase = 'open';
    if (this.#unfolded) this.#scheduleFold();
  }

  commit(changes: readonly Change[], publish: () => void): Promise<void> {
    if (this.#phase !== 'open') return Promise.reject(new StoreError(`the store in ${this.#folder} is not open`));
    return new Promise((resolve, reject) => {
      this.#queue.push({ changes, publish, resolve, reject });
      this.#work();
    });
  }

  async close(): Promise<void> {
    const lock = this.#lock;
    if (this.#phase !== 'open' || !lock) return;
    this.#phase = 'closed';
    this.#foldTimer?.();
    while (this.#writing || this.#folding) {
      await this.#writing;
      await this.#folding;
    }
    try {
      if (this.#unfolded) await this.#fold(await this.#turnPage());
    } catch (error) {
      // Nothing is lost: the journal holds it, and the next start replays it.
      throw new StoreError(`${join(this.#folder, SNAPSHOT_NAME)} could not be written: ${reason(error)}`, {
        cause: error,
      });
    } finally {
      await this.#journal.close();
      await lock.release();
    }
  }

  async #take(): Promise<Lock> {
    try {
      await this.#files.makeFolder(this.#folder);
      return await takeLock({
        folder: this.#folder,
        files: this.#files,
        processes: this.#processes,
        clock: this.#clock,
        log: this.#log,
      });
    } catch (error) {
      if (error instanceof StoreError) throw error;
      throw new StoreError(`SERVICE_PERSIST_PATH ${this.#folder} is not writable: ${reason(error)}`, { cause: error });
    }
  }

  /** Reads the folder into the registry; false when damaged files were set aside and it has to be read anew. */
  async #read(restore: (loaded: Loaded) => void): Promise<boolean> {
    try {
      const { snapshot, journal, nextGeneration } = await readFolder(this.#files, this.#folder, this.#log);
      this.#hand(restore, { entries: snapshot.entries, journal });
      this.#extras = snapshot.extras;
      this.#journal = new Journal(this.#files, this.#folder, nextGeneration);
      this.#unfolded = journal.length > 0;
      return true;
    } catch (error) {
      if (!(error instanceof Damage)) throw error;
      const path = join(this.#folder, error.file);
      if (!this.#recover) {
        throw new StoreError(
          `${path} ${error.message}; repair it, or set SERVICE_PERSIST_RECOVER=rename to start without it`,
          { cause: error },
        );
      }
      this.#log.error(`${path} ${error.message}`);
      if ((await setAside(this.#files, this.#folder, error.file, this.#clock.now(), this.#log)) === 0) {
        throw new StoreError(`${path} ${error.message}`, { cause: error });
      }
      return false;
    }
  }

  #hand(restore: (loaded: Loaded) => void, loaded: Loaded): void {
    try {
      restore(loaded);
    } catch (error) {
      throw new Damage(SNAPSHOT_NAME, `cannot be used: ${reason(error)}`, { cause: error });
    }
  }

  #work(): void {
    this.#writing ??= this.#write();
  }

  /** The one place where commits are written and generations turned, one step after the other. */
  async #write(): Promise<void> {
    // All who commit in this turn of the event loop share the first write.
    await Promise.resolve();
    while (this.#queue.length > 0 || (this.#foldDue && !this.#folding)) {
      if (this.#foldDue && !this.#folding) await this.#beginFold();
      if (this.#queue.length > 0) await this.#writeQueue();
    }
    this.#writing = undefined;
  }

  async #writeQueue(): Promise<void> {
    const batch = this.#queue;
    this.#queue = [];
    try {
      await this.#lock?.check();
      await this.#journal.append(batch.map(({ changes }) => changes));
    } catch (error) {
      const refusal =
        error instanceof StoreError
          ? error
          : new StoreError(
              `${join(this.#folder, journalName(this.#journal.generation))} could not be written: ${reason(error)}`,
              { cause: error },
            );
      const refused = [...batch, ...this.#queue];
      this.#queue = [];
      for (const { reject } of refused) reject(refusal);
      // Turning the page mends the journal, also when nobody commits any more.
      if (!this.#journal.clean) this.#scheduleFold();
      return;
    }
    this.#unfolded = true;
    this.#scheduleFold();
    // The whole batch first: the picture must not miss one of them because another's promise had a listener.
    for (const { publish, reject } of batch) {
      try {
        publish();
      } catch (error) {
        reject(error);
      }
    }
    for (const { resolve } of batch) resolve();
  }

  #scheduleFold(): void {
    if (this.#foldTimer || this.#foldDue || this.#phase === 'closed') return;
    const delay =
      this.#failedFolds === 0
        ? FOLD_AFTER_MS
        : Math.min(RETRY_MS.first * 2 ** (this.#failedFolds - 1), RETRY_MS.longest);
    this.#foldTimer = this.#clock.after(delay, () => {
      this.#foldTimer = undefined;
      this.#foldDue = true;
      this.#work();
    });
  }

  async #beginFold(): Promise<void> {
    this.#foldDue = false;
    const page = await this.#turnPage().catch((error: unknown) => this.#foldFailed(error));
    if (!page) return;
    this.#folding = this.#fold(page)
      .catch((error: unknown) => this.#foldFailed(error))
      .finally(() => {
        this.#folding = undefined;
        if (this.#foldDue) this.#work();
      });
  }

  /**
   * Ends the journal's generation and takes the picture of all that it and those before it hold. Only called while no
   * commit is under way, and nothing is awaited between the two.
   */
  async #turnPage(): Promise<Page> {
    // Left as it is, a refused commit at the end of the old generation would come back with a restart during the fold.
    await this.#journal.mend();
    const picture = this.#picture();
    const ended = this.#journal.used ? this.#journal : undefined;
    if (ended) this.#journal = new Journal(this.#files, this.#folder, ended.generation + 1);
    this.#unfolded = false;
    return { ended, generation: this.#journal.generation, picture };
  }

  async #fold({ ended, generation, picture }: Page): Promise<void> {
    await ended?.close();
    await replaceFile(
      this.#files,
      join(this.#folder, SNAPSHOT_NAME),
      snapshotSlices(picture, this.#extras, generation),
      async () => this.#lock?.check({ now: true }),
    );
    this.#failedFolds = 0;
    await removeJournals(this.#files, this.#folder, generation);
  }

  #foldFailed(error: unknown): undefined {
    this.#failedFolds++;
    this.#unfolded = true;
    this.#log.error(`${join(this.#folder, SNAPSHOT_NAME)} could not be written; commits stay in the journal`, {
      error,
    });
    this.#scheduleFold();
    return undefined;
  }
}

interface Page {
  ended: Journal | undefined;
  generation: number;
  picture: ReturnType<Picture>;
}
