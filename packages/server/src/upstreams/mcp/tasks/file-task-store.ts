import { z } from 'zod';
import { forEachInSteps } from '../../../registry/steps.ts';
import { CorruptFileError } from '../../../registry/store/journaled-file.ts';
import {
  JournaledStore,
  type JournaledStoreOptions,
  journalLine,
  snapshotSlices,
} from '../../../registry/store/journaled-store.ts';
import { recordSchema, type TaskChange, type TaskRecord, type TaskStore, taskChangeSchema } from './task-record.ts';

/** Version of the file format. */
const VERSION = 3;

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

/** Task records in `tasks.json` and a journal beside it, in which a change is durable at once. */
export class FileTaskStore implements TaskStore {
  readonly isDurable = true;
  readonly #records = new Map<string, TaskRecord>();
  readonly #store: JournaledStore<{ readonly operation: Operation }>;

  constructor(options: JournaledStoreOptions) {
    const apply = (operation: Operation) => this.#apply(operation);
    this.#store = new JournaledStore(
      {
        kind: 'task',
        lost: 'tasks',
        read: (bytes) => {
          const snapshot = bytes && parse(bytes, snapshotSchema, 'tasks.json', 'is not valid');
          for (const record of snapshot?.tasks ?? []) this.#records.set(record.id, record);
          return snapshot?.journal;
        },
        replay: (line, file, offset) =>
          forEachInSteps(parse(line.read(), linesSchema, file, `has an unknown record at byte ${offset}`), apply),
        batch: (changes) => ({
          line: journalLine(changes.map(({ operation }) => operation)),
          apply() {
            for (const { operation } of changes) apply(operation);
          },
        }),
        snapshot: (generation) => {
          const records = [...this.#records.values()].values().map((record) => JSON.stringify(record));
          return snapshotSlices(
            `{\n  "version": ${VERSION},\n  "journal": ${generation},\n  "tasks": [`,
            records,
            ']\n}\n',
          );
        },
      },
      options,
    );
  }

  /** Throws `StoreError` when a file is corrupt or cannot be read. */
  async load(): Promise<readonly TaskRecord[]> {
    await this.#store.load();
    await this.#store.compact();
    return [...this.#records.values()];
  }

  put(record: TaskRecord): Promise<void> {
    return this.#store.put({ operation: ['put', record] });
  }

  change(id: string, change: TaskChange): Promise<void> {
    return this.#store.put({ operation: ['change', id, change] });
  }

  remove(id: string): Promise<void> {
    return this.#store.put({ operation: ['remove', id] });
  }

  close(): Promise<void> {
    return this.#store.close();
  }

  #apply([kind, subject, change]: Operation): void {
    if (kind === 'put') this.#records.set(subject.id, subject);
    else if (kind === 'remove') this.#records.delete(subject);
    else {
      const before = this.#records.get(subject);
      if (before) this.#records.set(subject, { ...before, ...change });
    }
  }
}

function parse<Content>(bytes: Buffer, schema: z.ZodType<Content>, file: string, problem: string): Content {
  try {
    return schema.parse(JSON.parse(bytes.toString()));
  } catch (error) {
    throw new CorruptFileError(file, problem, { cause: error });
  }
}
