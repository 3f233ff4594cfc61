import type { Steps } from '../steps.ts';
import type { ByteRange } from './byte-range.ts';
import type { Files } from './files.ts';
import { type JournaledState, JournalWriter } from './journal-writer.ts';
import { CorruptFileError, JournaledFile, jsonArray } from './journaled-file.ts';
import { type StoreLog, toStoreError } from './store.ts';

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

/** The state in a {@link JournaledStore}. */
export interface StoredState<Change> extends JournaledState<Change> {
  /** Singular name of an item: `task` for the files `tasks.json` and `tasks.journal`. */
  readonly kind: string;
  /** What the service starts without if a corrupt file is removed, for the error. */
  readonly lost: string;
  /** Reads the snapshot file, if there is one. Returns the first generation of the journal that it lacks. */
  read(snapshot: Buffer | undefined): number | undefined;
  /** Applies a line of the journal. */
  replay(line: ByteRange, file: string, offset: number): Steps<void>;
}

/**
 * A state in memory that is stored in a snapshot file and a journal. The journal is compacted at start, at the end and whenever it
 * has become as long as the snapshot: the size on disk stays proportional to the state.
 */
export class JournaledStore<Change extends object> extends JournalWriter<Change> {
  readonly #state: StoredState<Change>;
  readonly #folder: string;

  constructor(
    state: StoredState<Change>,
    { folder, files, log, compactFromBytes: fromBytes = COMPACT_FROM_BYTES }: JournaledStoreOptions,
  ) {
    const { kind } = state;
    const names = { snapshotName: `${kind}s.json`, journalName: `${kind}s.journal` };
    const file = new JournaledFile({ files, folder, ...names, allowGaps: true, log });
    super(file, state, { closed: `the ${kind} store in ${folder} is closed`, log, compaction: { fromBytes } });
    this.#state = state;
    this.#folder = folder;
  }

  /**
   * Reads the files without writing to them; to be followed by {@link compact} once the owner has built its state from what was
   * read. Throws `StoreError` when one is corrupt or cannot be read.
   */
  async load(): Promise<void> {
    const { kind, lost } = this.#state;
    try {
      const bytes = await this.file.readSnapshot();
      const generation = this.#state.read(bytes?.read());
      const hasJournal = await this.file.replay(generation, (...line) => this.#state.replay(...line));
      this.open(hasJournal, bytes?.length);
    } catch (error) {
      throw error instanceof CorruptFileError
        ? error.asStoreError(this.#folder, `remove it to start without the ${lost} in it`)
        : toStoreError(`${kind}s in ${this.#folder} cannot be read`, error);
    }
  }
}

/** Characters of one slice of a snapshot. */
const SLICE_CHARACTERS = 128 * 1024;

/** Text of a snapshot in slices, each small enough for one turn of the event loop: the items, as JSON text, between its other parts. */
export function* snapshotSlices(before: string, items: Iterable<string>, after: string): Generator<string> {
  let slice = before;
  let separator = '\n    ';
  for (const item of items) {
    slice += `${separator}${item}`;
    separator = ',\n    ';
    if (slice.length < SLICE_CHARACTERS) continue;
    yield slice;
    slice = '';
  }
  yield `${slice}\n  ${after}`;
}

/** The line of the journal with these records. */
export function journalLine(records: readonly unknown[]): Iterable<string> | undefined {
  return records.length === 0 ? undefined : jsonArray(records.map((record) => JSON.stringify(record)));
}
