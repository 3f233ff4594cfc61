import { z } from 'zod';
import { errorReason, type Files } from '../../../registry/store/files.ts';
import { CorruptFileError, JournaledFile, jsonArray } from '../../../registry/store/journaled-file.ts';
import { StoreError, type StoreLog } from '../../../registry/store/store.ts';
import { recordSchema, type TaskChange, type TaskRecord, taskChangeSchema } from './task-record.ts';
import type { TaskStore } from './task-store.ts';

/** The snapshot file, beside `registry.json`. */
const SNAPSHOT_NAME = 'tasks.json';
/** Version of the file format. */
const VERSION = 1;
/** Journals shorter than this are not compacted while the store is open. */
const COMPACT_FROM_BYTES = 256 * 1024;
/** Characters of one slice of a snapshot; the event loop turns between slices. */
const SLICE_CHARACTERS = 128 * 1024;

const snapshotSchema = z.object({
  version: z.literal(VERSION),
  tasks: z.array(recordSchema),
  /** First journal generation that the snapshot lacks. */
  journal: z.int().positive().optional(),
});

/** One line of the journal: all changes that were waiting. */
const linesSchema = z.array(
  z.union([
    z.tuple([z.literal('put'), recordSchema]),
    z.tuple([z.literal('change'), z.string(), taskChangeSchema]),
    z.tuple([z.literal('remove'), z.string()]),
  ]),
);

type Operation = z.output<typeof linesSchema>[number];

interface PendingOperation {
  readonly operation: Operation;
  readonly resolve: () => void;
  readonly reject: (error: StoreError) => void;
}

/** Options of {@link FileTaskStore}. */
export interface FileTaskStoreOptions {
  /** An existing folder, used by this process only. */
  readonly folder: string;
  readonly files: Files;
  readonly log: StoreLog;
}

/**
 * Task records in `tasks.json` and a journal beside it, in which a change is durable at once: one line for all changes that
 * wait. The journal is compacted at start, at the end, and when it has become longer than `tasks.json`.
 */
export class FileTaskStore implements TaskStore {
  readonly isDurable = true;
  readonly #folder: string;
  readonly #log: StoreLog;
  readonly #file: JournaledFile;
  #records = new Map<string, TaskRecord>();
  #snapshotBytes = 0;
  #queue: PendingOperation[] = [];
  #writing: Promise<void> | undefined = undefined;
  #compacting: Promise<void> | undefined = undefined;
  /** True when journals exist whose records `tasks.json` may not contain. */
  #needsCompaction = false;
  #isOpen = true;

  constructor({ folder, files, log }: FileTaskStoreOptions) {
    this.#folder = folder;
    this.#log = log;
    this.#file = new JournaledFile({
      files,
      folder,
      snapshotName: SNAPSHOT_NAME,
      journalName: 'tasks.journal',
      allowGaps: true,
      log,
    });
  }

  /** Throws {@link StoreError} when a file is corrupt or cannot be read. */
  async load(): Promise<readonly TaskRecord[]> {
    try {
      const bytes = await this.#file.readSnapshot();
      const snapshot = bytes && readSnapshot(bytes.read());
      this.#records = new Map(snapshot?.tasks.map((record) => [record.id, record]));
      this.#snapshotBytes = bytes?.length ?? 0;
      const apply = (operation: Operation) => this.#apply(operation);
      this.#needsCompaction = await this.#file.replay(snapshot?.journal, function* (line, file, offset) {
        for (const operation of readLine(line.read(), file, offset)) {
          apply(operation);
          yield;
        }
      });
    } catch (error) {
      if (!(error instanceof CorruptFileError)) {
        throw new StoreError(`tasks in ${this.#folder} cannot be read: ${errorReason(error)}`, { cause: error });
      }
      throw new StoreError(
        `${this.#folder}/${error.file} ${error.message}; repair it, or remove it to start without the tasks in it`,
        { cause: error },
      );
    }
    // Each run starts a generation: without this, a service that is killed repeatedly would accumulate them.
    if (this.#needsCompaction) await this.#compactNow();
    return [...this.#records.values()];
  }

  put(record: TaskRecord): Promise<void> {
    return this.#enqueue(['put', record]);
  }

  change(id: string, change: TaskChange): Promise<void> {
    return this.#enqueue(['change', id, change]);
  }

  remove(id: string): Promise<void> {
    return this.#enqueue(['remove', id]);
  }

  async close(): Promise<void> {
    if (!this.#isOpen) return;
    this.#isOpen = false;
    await this.#writing;
    await this.#compacting;
    try {
      await this.#file.repairTail();
      if (this.#needsCompaction) await this.#compact();
    } catch (error) {
      // The journal still has every change, and the next start replays it.
      throw new StoreError(`${this.#file.snapshotPath} could not be written: ${errorReason(error)}`, { cause: error });
    } finally {
      await this.#file.close();
    }
  }

  #enqueue(operation: Operation): Promise<void> {
    if (!this.#isOpen) return Promise.reject(new StoreError(`the task store in ${this.#folder} is closed`));
    return new Promise((resolve, reject) => {
      this.#queue.push({ operation, resolve, reject });
      this.#writing ??= this.#write();
    });
  }

  async #write(): Promise<void> {
    // All changes of this turn of the event loop share the first write.
    await Promise.resolve();
    while (this.#queue.length > 0) {
      const pending = this.#queue.splice(0);
      try {
        await this.#file.append(jsonArray(pending.map(({ operation }) => JSON.stringify(operation))));
        this.#needsCompaction = true;
        for (const { operation } of pending) this.#apply(operation);
        for (const { resolve } of pending) resolve();
      } catch (error) {
        const what = `${this.#file.journalPath} could not be written: ${errorReason(error)}`;
        for (const { reject } of pending) reject(new StoreError(what, { cause: error }));
      }
      const isLong = this.#file.length >= Math.max(COMPACT_FROM_BYTES, this.#snapshotBytes);
      if (isLong && !this.#file.hasTornTail && !this.#compacting) {
        this.#compacting = this.#compactNow().finally(() => {
          this.#compacting = undefined;
        });
      }
    }
    this.#writing = undefined;
  }

  #apply(operation: Operation): void {
    switch (operation[0]) {
      case 'put':
        this.#records.set(operation[1].id, operation[1]);
        break;
      case 'change': {
        const before = this.#records.get(operation[1]);
        if (before) this.#records.set(before.id, { ...before, ...operation[2] });
        break;
      }
      case 'remove':
        this.#records.delete(operation[1]);
    }
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

  async #compact(): Promise<void> {
    const checkpoint = this.#file.rotateJournal();
    const records = [...this.#records.values()];
    this.#needsCompaction = false;
    let written = 0;
    const counted = function* (): Generator<string> {
      for (const slice of snapshotSlices(records, checkpoint.generation)) {
        written += slice.length;
        yield slice;
      }
    };
    await this.#file.compact(checkpoint, counted());
    this.#snapshotBytes = written;
  }
}

function* snapshotSlices(records: readonly TaskRecord[], generation: number): Generator<string> {
  let slice = `{\n  "version": ${VERSION},\n  "tasks": [`;
  let separator = '\n    ';
  for (const record of records) {
    slice += `${separator}${JSON.stringify(record)}`;
    separator = ',\n    ';
    if (slice.length < SLICE_CHARACTERS) continue;
    yield slice;
    slice = '';
  }
  yield `${slice}${records.length > 0 ? '\n  ' : ''}],\n  "journal": ${generation}\n}\n`;
}

function readSnapshot(bytes: Buffer): z.output<typeof snapshotSchema> {
  return parse(bytes, snapshotSchema, SNAPSHOT_NAME, 'is not valid');
}

function readLine(line: Buffer, file: string, offset: number): Operation[] {
  return parse(line, linesSchema, file, `has an unknown record at byte ${offset}`);
}

function parse<Content>(bytes: Buffer, schema: z.ZodType<Content>, file: string, problem: string): Content {
  try {
    return schema.parse(JSON.parse(bytes.toString()));
  } catch (error) {
    throw new CorruptFileError(file, problem, { cause: error });
  }
}
