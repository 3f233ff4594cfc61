import { runSteps, type Steps } from '../steps.ts';

/** The arrays of `registry.json`, in the order in which they are written (decisions 1.5). */
export const SECTIONS = ['namespaces', 'forwards', 'tools', 'resources', 'prompts', 'services'] as const;

/** One array of `registry.json`. */
export type Section = (typeof SECTIONS)[number];

/** Creates empty sections. */
export function noEntries(): Record<Section, string[]> {
  return { namespaces: [], forwards: [], tools: [], resources: [], prompts: [], services: [] };
}

/**
 * One change of the registry. `json`: the exact text of an entry, which the store never parses and rewrites, so that large
 * numbers and formatting survive. `id`: identifies a removed entry; opaque to the store.
 */
export type Change = { op: 'put'; section: Section; json: string } | { op: 'remove'; section: Section; id: string };

/** The stored state: the entries of the snapshot, then the commits after it, in order. Texts may be created when they are read. */
export interface Loaded {
  /** The exact text of each entry, in file order. Every text is known to be valid JSON of an object. */
  readonly entries: Readonly<Record<Section, Iterable<string>>>;
  /** Commits that the snapshot lacks, to be applied in order. */
  readonly journal: Iterable<Iterable<Change>>;
}

/**
 * Returns the committed state as texts, one per entry, pretty-printed without the indentation of `registry.json`.
 *
 * Called synchronously, never between the write of a commit and its `publish`. The iterables are read later, a slice at a
 * time, and must yield the state at the time of the call: build them over immutable state.
 */
export type SnapshotSource = () => Record<Section, Iterable<string>>;

/** Members of `registry.json` that the store itself maintains. */
export interface FileMembers {
  /** Members unknown to this version, as exact text. */
  readonly extras: readonly string[];
  /** First journal generation that the file lacks. */
  readonly generation: number;
}

/** Persistence of the registry (decisions 1.5). */
export interface Store {
  /** Members of `registry.json` beside the entries, if it were written now; undefined without a file. Read after {@link load}. */
  readonly fileMembers?: FileMembers;

  /**
   * Reads the stored state and passes it to `restore`, which runs in slices: after it the snapshot source must include the
   * state. Called once, before any commit.
   *
   * When `restore` throws, the stored state is corrupt: `load` throws, or with recovery enabled the files are quarantined
   * and `restore` is called again with an empty state. Throws {@link StoreError}.
   */
  load(restore: (loaded: Loaded) => Steps<void>): Promise<void>;

  /**
   * Makes the changes durable, all or none. Concurrent callers share one write. Once they are durable, and before any
   * other step of the store, `publish` is called: it makes the new state visible to readers and to the snapshot source,
   * synchronously and without throwing. Then the promise resolves.
   *
   * Rejects with {@link StoreError} when the write failed: then none of the changes is stored, now or after a restart, and
   * `publish` was not called. Queued commits fail too, because they may depend on the failed one.
   */
  commit(changes: readonly Change[], publish: () => void): Promise<void>;

  /** Waits for pending commits, compacts the journal and releases the folder. Later commits are rejected. */
  close(): Promise<void>;
}

/** The store cannot read, write or lock its folder. The message is one line that names the file and the remedy. */
export class StoreError extends Error {
  override readonly name = 'StoreError';
}

/** Log of background events: recovery, takeover of a lock, failed compactions. */
export interface StoreLog {
  warn(message: string, fields?: Record<string, unknown>): void;
  error(message: string, fields?: Record<string, unknown>): void;
}

/** The store of `SERVICE_PERSIST_BACKEND=none`, without persistence. */
export function memoryStore(): Store {
  return {
    async load(restore) {
      runSteps(restore({ entries: noEntries(), journal: [] }));
    },
    async commit(_changes, publish) {
      publish();
    },
    async close() {},
  };
}
