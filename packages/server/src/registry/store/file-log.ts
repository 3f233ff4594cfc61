import { join } from 'node:path';
import { TimeSlicer } from '@sluice/protocol/time-slicer';
import type { DataFolder } from './data-folder.ts';
import { type Clock, errorReason, type Files, systemClock } from './files.ts';
import { JournalWriter } from './journal-writer.ts';
import { CorruptFileError, JournaledFile } from './journaled-file.ts';
import { type LogFormat, RECORDS_FORMAT, type ReadRecords } from './record-file.ts';
import { type LogConsumer, memoryLog, type RecordLog } from './record-log.ts';
import { type Commit, type RecordedChange, StoreError, type StoreLog, toStoreError } from './store.ts';

/** Journals shorter than this are not compacted while the log is open. */
const COMPACT_FROM_BYTES = 256 * 1024;

/** Options of {@link FileLog}. */
export interface FileLogOptions {
  /** An existing folder, used by this process only. */
  readonly folder: string;
  readonly files: Files;
  readonly log: StoreLog;
  /** Default: that of all records but those of the registry. */
  readonly format?: LogFormat;
  /** The lock of the folder, without which nothing is written. Default: the caller has locked it. */
  readonly lock?: Pick<DataFolder, 'isLocked' | 'checkWritable'>;
  /** True with SERVICE_PERSIST_RECOVER=rename: corrupt files are set aside instead of aborting the start. */
  readonly recover?: boolean;
  /** Sections whose records are never set aside, not even with others in a corrupt file. */
  readonly required?: readonly string[];
  /** Minimum length of a journal that is compacted while the log is open. Default: 256 KiB. */
  readonly compactFromBytes?: number | undefined;
  /** Defaults to the system clock. */
  readonly clock?: Clock;
}

/**
 * Records in a snapshot file and a journal, in which a commit is durable at once. The journal of the registry is compacted within a
 * second; any other at the start, at the end and whenever it has become as long as the snapshot: the size on disk stays
 * proportional to the records.
 */
export class FileLog implements RecordLog {
  readonly isDurable = true;
  readonly isShared = false;
  readonly #options: FileLogOptions;
  readonly #format: LogFormat;
  readonly #clock: Clock;
  readonly #file: JournaledFile;
  readonly #writer: JournalWriter;
  /** Records that no consumer has. */
  #unclaimed: ReadRecords;
  readonly #consumers: LogConsumer[] = [];
  #found = { hasJournal: false, snapshotBytes: 0 };

  /** Reads the folder. Throws {@link StoreError} when a file is corrupt or cannot be read. */
  static async open(options: FileLogOptions): Promise<FileLog> {
    const log = new FileLog(options);
    await log.#load();
    // A journal of the registry has to wait for its consumer.
    if (!log.#format.hasOneConsumer) {
      log.#writer.open(log.#found);
      await log.#writer.compact();
    }
    return log;
  }

  /** Reads the records of a folder without writing to it. Throws {@link CorruptFileError}, {@link StoreError} or the system error. */
  static async read(options: Omit<FileLogOptions, 'recover'>): Promise<RecordLog> {
    const log = new FileLog(options);
    await log.#read();
    return { ...memoryLog(), add: (consumer) => log.#unclaimed.load(consumer) };
  }

  private constructor(options: FileLogOptions) {
    const { folder, files, log, lock, format = RECORDS_FORMAT, clock = systemClock() } = options;
    const { compactFromBytes: fromBytes = COMPACT_FROM_BYTES } = options;
    this.#options = options;
    this.#format = format;
    this.#clock = clock;
    this.#unclaimed = format.createReader();
    this.#file = new JournaledFile({ files, folder, log, ...format });
    this.#writer = new JournalWriter({
      file: this.#file,
      publish: (commit) => this.#publish(commit),
      snapshot: (generation) => {
        const own = this.#consumers.map((consumer) => consumer.records());
        return format.write([this.#unclaimed.puts(), ...own], generation);
      },
      checkWritable: async (now) => lock?.checkWritable(now),
      closed: `the record log in ${folder} is closed`,
      log,
      compaction: format.hasOneConsumer ? { clock } : { fromBytes },
    });
  }

  get nextGeneration(): number {
    return this.#file.nextGeneration;
  }

  async add(consumer: LogConsumer): Promise<void> {
    const { sections, isRequired = false } = consumer;
    try {
      await this.#unclaimed.load(consumer);
    } catch (error) {
      await this.#startWithout({ sections, isRequired }, error);
      return this.add(consumer);
    }
    for (const section of sections) this.#unclaimed.delete(section);
    this.#consumers.push(consumer);
    if (this.#format.hasOneConsumer) this.#writer.open(this.#found);
  }

  commit(commit: Commit): Promise<void> {
    return this.#writer.put(commit);
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
    return this.#writer.close(() => this.#options.lock?.isLocked ?? true);
  }

  #publish({ changes, publish }: Commit): void {
    const isUnclaimed = ({ section }: RecordedChange) =>
      !this.#consumers.some(({ sections }) => sections.includes(section));
    this.#unclaimed.apply(changes.filter(isUnclaimed));
    publish();
  }

  async #load(): Promise<void> {
    try {
      await this.#read();
    } catch (error) {
      const { folder } = this.#options;
      if (!(error instanceof CorruptFileError)) {
        throw toStoreError(`SERVICE_PERSIST_PATH ${folder} cannot be read`, error);
      }
      await this.#setAside(error);
      await this.#load();
    }
  }

  async #read(): Promise<void> {
    const records = this.#format.createReader();
    this.#unclaimed = records;
    const bytes = await this.#file.readSnapshot();
    if (bytes) await new TimeSlicer().run(records.readSnapshot(bytes));
    const hasJournal = await this.#file.replay(records.generation, (...line) => records.readLine(...line));
    this.#found = { hasJournal, snapshotBytes: bytes?.length ?? 0 };
  }

  /** Renames files that are corrupt. Throws {@link StoreError} unless that is allowed, and helps. */
  async #setAside(error: CorruptFileError): Promise<void> {
    const { folder, recover, log, required = [] } = this.#options;
    if (!recover) throw startError(folder, error);
    const problem = `${folder}/${error.file} ${error.message}`;
    log.error(problem);
    const texts = required.map((section) => JSON.stringify(section));
    const renamed = await this.#file.setAside(error.file, this.#clock.now(), texts);
    if (renamed === undefined) throw error.asStoreError(folder, `restore a backup: ${required} are never set aside`);
    if (renamed === 0) throw new StoreError(problem, { cause: error });
  }

  /** Removes records that their consumer cannot use, and copies or renames the file with them. Throws as {@link #setAside}. */
  async #startWithout(
    { sections, isRequired }: Required<Pick<LogConsumer, 'sections' | 'isRequired'>>,
    cause: unknown,
  ): Promise<void> {
    const { folder, recover, files, log } = this.#options;
    const { snapshotName, hasOneConsumer } = this.#format;
    if (hasOneConsumer) {
      const problem = `cannot be used: ${errorReason(cause)}`;
      await this.#setAside(
        cause instanceof CorruptFileError ? cause : new CorruptFileError(snapshotName, problem, { cause }),
      );
      return this.#load();
    }
    const problem = `has ${sections.join(', ')} that cannot be used: ${errorReason(cause)}`;
    const corrupt = new CorruptFileError(snapshotName, problem, { cause });
    if (isRequired) throw corrupt.asStoreError(folder, 'restore a backup, or start the release that has written them');
    if (!recover) throw startError(folder, corrupt);
    const copy = `${snapshotName}.corrupt-${this.#clock.now()}`;
    try {
      // The start has compacted the journal into it.
      await files.link(join(folder, snapshotName), join(folder, copy));
      await files.syncFolder(folder);
    } catch (error) {
      throw toStoreError(`${folder}/${snapshotName} ${problem}; it could not be copied`, error);
    }
    log.error(`${folder}/${snapshotName} ${problem}`);
    log.error(`copied corrupt file ${snapshotName} to ${copy}; starting without them`, { folder });
    const changes = this.#unclaimed.puts(sections).map(({ section, id }) => ({ section, id, json: null }) as const);
    await this.commit({ changes, publish: () => undefined });
  }
}

function startError(folder: string, error: CorruptFileError): StoreError {
  return error.asStoreError(folder, 'set SERVICE_PERSIST_RECOVER=rename to start without it');
}
