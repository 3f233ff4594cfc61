import type { Commit, Conflict, RecordedPut, StoredChange, StoredRecords } from './store.ts';

/** A part of the service whose records are in a log. Its methods are never called at the same time. */
export interface LogConsumer {
  /** The sections of its records. */
  readonly sections: readonly string[];
  /** Whether the service does not run without its records: they are never set aside, not even those that cannot be read. */
  readonly isRequired?: boolean;
  /** Makes commits of other replicas visible, in order. */
  apply(changes: readonly StoredChange[]): Promise<void>;
  /**
   * Replaces its state by these records, then by what `later` makes of them: at the start, and when too much has changed. Throws
   * if it cannot use them. Only the records of the registry in a file are not up to date.
   */
  reload(records: StoredRecords, later?: Iterable<StoredChange>): Promise<void>;
  /** Resolves when what was applied is in effect, if that takes longer. */
  settled?(): Promise<unknown>;
  /** Its records as of the call, to be read any number of times. Their texts may be created when they are read. */
  records(): Iterable<RecordedPut>;
}

/**
 * The records of the service in the order of their commits: in a folder, in a database that replicas share, or in memory only. What
 * they contain is up to its consumers: the registry, and mostly a `Collection`.
 */
export interface RecordLog {
  /** Whether the records outlive the process. */
  readonly isDurable: boolean;
  /** Whether other replicas change the records too. */
  readonly isShared: boolean;
  /** First generation of the journal that a snapshot file of this moment lacks; 1 without files. */
  readonly nextGeneration: number;

  /** Loads the records of a consumer with its `reload`, and keeps it up to date from then on. */
  add(consumer: LogConsumer): Promise<void>;

  /**
   * Makes the changes durable, all or none, and then visible with `publish`, before any other commit. A consumer has one commit in
   * progress at a time; those of several share one write. Rejects with `StoreError` when the write failed: then none of the
   * changes is stored, now or after a restart, and `publish` was not called.
   *
   * `conflict`: for changes that depend on records which other replicas may have changed meanwhile.
   */
  commit(commit: Commit, conflict?: Conflict): Promise<void>;

  /** Resolves once the consumers have every commit that was durable at the time of the call. Rejects with `StoreError`. */
  refresh(): Promise<void>;

  /** Waits until all live replicas have what this one has. Returns the ids of those that may not. Never rejects. */
  confirm(): Promise<readonly string[]>;

  /** Finishes pending commits. Later ones are rejected. Throws `StoreError`. */
  close(): Promise<void>;

  /** Reads a record of a consumer; undefined for one that this process has to ignore. */
  readRecord<Content>(section: string, json: string, read: (json: string) => Content): Content | undefined;
}

/** The changes in a section that replace the records with these ids by others. */
export function replacement(section: string, ids: Iterable<string>, records: StoredRecords): StoredChange[] {
  const stored = new Map(Array.from(records.get(section) ?? [], ({ id, json }) => [id, json]));
  const removed = [...ids].filter((id) => !stored.has(id)).map((id) => ({ section, id, json: null }));
  return [...removed, ...Array.from(stored, ([id, json]) => ({ section, id, json }))];
}

/** A log without persistence, which contains these records at first. */
export function memoryLog(records: readonly RecordedPut[] = []): RecordLog {
  return {
    isDurable: false,
    isShared: false,
    nextGeneration: 1,
    add: (consumer) => consumer.reload(Map.groupBy(records, ({ section }) => section)),
    commit: async ({ publish }) => publish(),
    refresh: async () => undefined,
    confirm: async () => [],
    close: async () => undefined,
    readRecord: (_section, json, read) => read(json),
  };
}
