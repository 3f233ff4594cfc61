import { join } from 'node:path';
import { type Files, reason } from '../../registry/store/files.ts';
import { replaceFile } from '../../registry/store/replace.ts';
import { StoreError, type StoreLog } from '../../registry/store/store.ts';
import type { KeptSessions, SessionState } from '../kept-sessions.ts';
import { removeGenerations, SessionJournal } from './journal.ts';
import { type Kept, keptAfter } from './kept.ts';
import { recordOf, type SessionRecord } from './record.ts';
import { type Found, readKept } from './recovery.ts';
import { SNAPSHOT_NAME, snapshotSlices } from './snapshot.ts';
import { SessionTable } from './table.ts';

/** A journal shorter than this is not worth a fold. */
const FOLD_FROM_BYTES = 256 * 1024;

/** What a {@link FolderKeeper} is told. */
export interface FolderOptions {
  readonly folder: string;
  readonly files: Files;
  readonly log: StoreLog;
  /** Epoch milliseconds. */
  readonly now: () => number;
  /** The least length of a journal that is folded before the end. Default: 256 KiB. */
  readonly foldFromBytes?: number;
}

interface Pending {
  readonly id: string;
  readonly expires: number;
  readonly change: 'end' | ((before: SessionState) => SessionState);
  readonly resolve: () => void;
  readonly reject: (error: unknown) => void;
}

/** What a fold puts into the snapshot, and the generation that follows on it. */
interface Page {
  readonly ended: SessionJournal | undefined;
  readonly sessions: [string, Kept][];
  readonly generation: number;
}

/**
 * Sessions kept in `sessions.json` and a journal beside it, in which an end or a change is durable at once: a line for
 * all who wait, with only what differs, so that a change costs the same however many sessions are kept.
 *
 * The journal comes in generations, as the registry's does, and is folded into `sessions.json` at start, at the end and
 * whenever it has become as long as that file: what folding costs stays in proportion to the changes, and what is on
 * disk in proportion to what is alive. A fold lets changes go on in the next generation and takes its picture in the
 * same instant; older generations are removed once the picture is in place.
 */
export class FolderKeeper implements KeptSessions {
  readonly #folder: string;
  readonly #files: Files;
  readonly #log: StoreLog;
  readonly #now: () => number;
  readonly #foldFromBytes: number;
  readonly #table: SessionTable;
  #journal: SessionJournal;
  #snapshotBytes: number;
  #open = true;
  #queue: Pending[] = [];
  #writing: Promise<void> | undefined;
  /** True when journals hold something that `sessions.json` does not, or are not gone although it does. */
  #unfolded: boolean;
  #folding: Promise<void> | undefined;

  /** Reads the folder. Throws {@link StoreError}. */
  static async open(options: FolderOptions): Promise<FolderKeeper> {
    const { folder, files, log } = options;
    const keeper = new FolderKeeper(options, await readKept(files, folder, log));
    // Each run begins a generation: without this, a service that is killed again and again would gather them.
    if (keeper.#unfolded) await keeper.#foldNow();
    return keeper;
  }

  private constructor(options: FolderOptions, found: Found) {
    this.#folder = options.folder;
    this.#files = options.files;
    this.#log = options.log;
    this.#now = options.now;
    this.#foldFromBytes = options.foldFromBytes ?? FOLD_FROM_BYTES;
    this.#table = new SessionTable(found.kept);
    this.#table.forgetExpired(this.#now());
    this.#journal = new SessionJournal(this.#files, this.#folder, found.nextGeneration);
    this.#snapshotBytes = found.snapshotBytes;
    this.#unfolded = found.unfolded;
  }

  ended(id: string): boolean {
    return this.#table.ended(id);
  }

  state(id: string): SessionState | undefined {
    return this.#table.state(id);
  }

  end(id: string, expires: number): Promise<void> {
    return this.#put(id, expires, 'end');
  }

  change(id: string, expires: number, change: (before: SessionState) => SessionState): Promise<void> {
    return this.#put(id, expires, change);
  }

  async close(): Promise<void> {
    if (!this.#open) return;
    this.#open = false;
    await this.#writing;
    await this.#folding;
    try {
      await this.#journal.mend();
      if (this.#unfolded) await this.#fold(this.#turnPage());
    } catch (error) {
      // Nothing is lost: the journal holds it, and the next start replays it.
      throw new StoreError(`${this.#snapshotPath()} could not be written: ${reason(error)}`, { cause: error });
    } finally {
      await this.#journal.close();
    }
  }

  #put(id: string, expires: number, change: Pending['change']): Promise<void> {
    if (!this.#open) return Promise.reject(new StoreError(`the sessions in ${this.#folder} are not kept any more`));
    return new Promise((resolve, reject) => {
      this.#queue.push({ id, expires, change, resolve, reject });
      this.#writing ??= this.#write();
    });
  }

  /** The one place where records are written and folds begun, one step after the other. */
  async #write(): Promise<void> {
    // All who come in this turn of the event loop share the first write.
    await Promise.resolve();
    while (this.#queue.length > 0) {
      await this.#writeQueue();
      if (!this.#folding && this.#worthFolding()) this.#foldInBackground();
    }
    this.#writing = undefined;
  }

  #worthFolding(): boolean {
    // What was refused and could not be cut off yet would come back with a restart during the fold.
    return this.#journal.clean && this.#journal.length >= Math.max(this.#foldFromBytes, this.#snapshotBytes);
  }

  async #writeQueue(): Promise<void> {
    const { records, after, waiting } = this.#draft(this.#queue.splice(0));
    try {
      if (records.length > 0) {
        await this.#journal.append(records);
        this.#unfolded = true;
      }
    } catch (error) {
      const refusal = new StoreError(`${this.#journal.path} could not be written: ${reason(error)}`, { cause: error });
      for (const { reject } of waiting) reject(refusal);
      return;
    }
    for (const [id, kept] of after) this.#table.set(id, kept);
    for (const { resolve } of waiting) resolve();
  }

  /** Carries out what waits, each on what those before it left, without showing it to anybody yet. */
  #draft(batch: readonly Pending[]): {
    records: SessionRecord[];
    after: Map<string, Kept | undefined>;
    waiting: Pending[];
  } {
    const records: SessionRecord[] = [];
    const after = new Map<string, Kept | undefined>();
    const waiting: Pending[] = [];
    for (const pending of batch) {
      const { id, expires, change } = pending;
      const before = after.has(id) ? after.get(id) : this.#table.get(id);
      try {
        const kept = keptAfter(before, expires, change);
        this.#table.checkRoom(before, kept);
        const record = recordOf(id, expires, before, kept);
        if (record) {
          records.push(record);
          after.set(id, kept);
        }
        waiting.push(pending);
      } catch (error) {
        pending.reject(error);
      }
    }
    return { records, after, waiting };
  }

  #foldInBackground(): void {
    this.#folding = this.#foldNow().finally(() => {
      this.#folding = undefined;
    });
  }

  /** Folds; a failure costs nothing but room: the journals stay, and the next fold takes them too. */
  async #foldNow(): Promise<void> {
    try {
      await this.#fold(this.#turnPage());
    } catch (error) {
      this.#unfolded = true;
      this.#log.error(`${this.#snapshotPath()} could not be written; changes stay in the journal`, { error });
    }
  }

  /**
   * Ends the journal's generation and takes the picture of all that it and those before it hold. Only called while the
   * journal is clean and no write is under way.
   */
  #turnPage(): Page {
    this.#table.forgetExpired(this.#now());
    const ended = this.#journal.length > 0 ? this.#journal : undefined;
    if (ended) this.#journal = new SessionJournal(this.#files, this.#folder, ended.generation + 1);
    this.#unfolded = false;
    return { ended, sessions: this.#table.entries(), generation: this.#journal.generation };
  }

  async #fold({ ended, sessions, generation }: Page): Promise<void> {
    await ended?.close();
    let written = 0;
    const counted = function* (): Generator<string> {
      for (const slice of snapshotSlices(sessions, generation)) {
        written += slice.length;
        yield slice;
      }
    };
    await replaceFile(this.#files, this.#snapshotPath(), counted());
    this.#snapshotBytes = written;
    await removeGenerations(this.#files, this.#folder, generation);
  }

  #snapshotPath(): string {
    return join(this.#folder, SNAPSHOT_NAME);
  }
}
