import { join } from 'node:path';
import { Turns } from '@sluice/protocol/turns';
import { errorReason, type Files } from './files.ts';
import { JournalWriter } from './journal-writer.ts';
import { CorruptFileError, JournaledFile, START_WITHOUT } from './journaled-file.ts';
import { changesLine, RECORDS_FILE, ReadRecords, snapshotLines } from './record-file.ts';
import type { LogConsumer, RecordLog } from './record-log.ts';
import {
  type Commit,
  type RecordedChange,
  type RecordedPut,
  StoreError,
  type StoreLog,
  toStoreError,
} from './store.ts';

/** Journals shorter than this are not compacted while the log is open. */
const COMPACT_FROM_BYTES = 256 * 1024;

/** Options of {@link FileLog}. */
export interface FileLogOptions {
  /** An existing folder, used by this process only. */
  readonly folder: string;
  readonly files: Files;
  readonly log: StoreLog;
  /** True with SERVICE_PERSIST_RECOVER=rename: corrupt files are quarantined instead of aborting the start. */
  readonly recover?: boolean;
  /** Minimum length of a journal that is compacted while the log is open. Default: 256 KiB. */
  readonly compactFromBytes?: number | undefined;
  /** Epoch milliseconds; defaults to the system clock. */
  readonly now?: () => number;
}

/**
 * Records in the file `records.snapshot` and a journal, in which a commit is durable at once. The journal is compacted at the start,
 * at the end and whenever it has become as long as the snapshot: the size on disk stays proportional to the records.
 */
export class FileLog implements RecordLog {
  readonly isDurable = true;
  readonly isShared = false;
  readonly #options: FileLogOptions;
  readonly #file: JournaledFile;
  readonly #writer: JournalWriter<{ readonly commit: Commit }>;
  /** Records that no consumer has. */
  #unclaimed = new ReadRecords();
  readonly #consumers: LogConsumer[] = [];

  /** Reads the folder. Throws {@link StoreError} when a file is corrupt or cannot be read. */
  static async open(options: FileLogOptions): Promise<FileLog> {
    const log = new FileLog(options);
    await log.#load();
    await log.#writer.compact();
    return log;
  }

  /** Reads the records of a folder without writing to it, as {@link open}. */
  static async read(options: Omit<FileLogOptions, 'recover'>): Promise<readonly RecordedPut[]> {
    const log = new FileLog(options);
    await log.#load();
    return log.#unclaimed.puts();
  }

  private constructor(options: FileLogOptions) {
    const { folder, files, log, compactFromBytes: fromBytes = COMPACT_FROM_BYTES } = options;
    this.#options = options;
    this.#file = new JournaledFile({ files, folder, snapshotName: RECORDS_FILE, journalName: 'records.journal', log });
    this.#writer = new JournalWriter(
      this.#file,
      {
        batch: (commits) => ({
          line: changesLine(commits.flatMap(({ commit }) => commit.changes)),
          apply: () => {
            for (const { commit } of commits) this.#publish(commit);
          },
        }),
        snapshot: (generation) => {
          const own = this.#consumers.map((consumer) => consumer.records());
          return snapshotLines([this.#unclaimed.puts(), ...own], generation);
        },
      },
      { closed: `the record log in ${folder} is closed`, log, compaction: { fromBytes } },
    );
  }

  async add(consumer: LogConsumer): Promise<void> {
    const { sections } = consumer;
    const load = () => consumer.reload(Map.groupBy(this.#unclaimed.puts(sections), ({ section }) => section));
    try {
      await load();
    } catch (error) {
      await this.#startWithout(sections, error);
      await load();
    }
    for (const section of sections) this.#unclaimed.delete(section);
    this.#consumers.push(consumer);
  }

  commit(commit: Commit): Promise<void> {
    return this.#writer.put({ commit });
  }

  async refresh(): Promise<void> {}

  async confirm(): Promise<readonly string[]> {
    return [];
  }

  readRecord<Content>(_section: string, json: string, read: (json: string) => Content): Content {
    return read(json);
  }

  /** Finishes pending commits and compacts the journal. Later commits are rejected. Throws {@link StoreError}. */
  close(): Promise<void> {
    return this.#writer.close();
  }

  #publish({ changes, publish }: Commit): void {
    const isUnclaimed = ({ section }: RecordedChange) =>
      !this.#consumers.some(({ sections }) => sections.includes(section));
    this.#unclaimed.apply(changes.filter(isUnclaimed));
    publish();
  }

  async #load(): Promise<void> {
    const { folder, recover, log, now = Date.now } = this.#options;
    const records = new ReadRecords();
    this.#unclaimed = records;
    try {
      const bytes = await this.#file.readSnapshot();
      if (bytes) await new Turns().run(records.readSnapshot(bytes));
      const hasJournal = await this.#file.replay(records.generation, (line, file, offset) =>
        records.readLine(file, line, offset),
      );
      this.#writer.open(hasJournal, bytes?.length);
    } catch (error) {
      if (!(error instanceof CorruptFileError)) throw toStoreError(`records in ${folder} cannot be read`, error);
      if (!recover) throw error.asStoreError(folder, START_WITHOUT);
      const problem = `${folder}/${error.file} ${error.message}`;
      log.error(problem);
      if ((await this.#file.quarantine(error.file, now())) === 0) throw new StoreError(problem, { cause: error });
      await this.#load();
    }
  }

  /** Removes records that their consumer cannot use, and copies the file with them. Throws {@link StoreError} unless that is allowed. */
  async #startWithout(sections: readonly string[], cause: unknown): Promise<void> {
    const { folder, recover, files, log, now = Date.now } = this.#options;
    const problem = `has ${sections.join(', ')} that cannot be used: ${errorReason(cause)}`;
    if (!recover) throw new CorruptFileError(RECORDS_FILE, problem, { cause }).asStoreError(folder, START_WITHOUT);
    const copy = `${RECORDS_FILE}.corrupt-${now()}`;
    try {
      // The start has compacted the journal into it.
      await files.link(join(folder, RECORDS_FILE), join(folder, copy));
      await files.syncFolder(folder);
    } catch (error) {
      throw toStoreError(`${folder}/${RECORDS_FILE} ${problem}; it could not be copied`, error);
    }
    log.error(`${folder}/${RECORDS_FILE} ${problem}`);
    log.error(`copied corrupt file ${RECORDS_FILE} to ${copy}; starting without them`, { folder });
    const changes = this.#unclaimed.puts(sections).map(({ section, id }) => ({ op: 'remove', section, id }) as const);
    await this.commit({ changes, publish: () => undefined });
  }
}
