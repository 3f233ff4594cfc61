/** The arrays of `registry.json`, in the order in which they are written (decisions 1.5). */
export const SECTIONS = ['namespaces', 'forwards', 'tools', 'resources', 'prompts', 'services'] as const;

/** One array of `registry.json`. */
export type Section = (typeof SECTIONS)[number];

/** No entries in any section. */
export function noEntries(): Record<Section, string[]> {
  return { namespaces: [], forwards: [], tools: [], resources: [], prompts: [], services: [] };
}

/**
 * One change of the registry. `json` is the text of one entry exactly as it is to be kept: the store never parses it
 * to write it anew, so that big numbers and spellings survive. `id` is the registry's own name for the entry that
 * goes away; the store hands it back on load and knows nothing of its meaning.
 */
export type Change = { op: 'put'; section: Section; json: string } | { op: 'remove'; section: Section; id: string };

/** What was on disk: the snapshot's entries as the picture gave them, then the commits that came after it, in order. */
export interface Loaded {
  /** The exact text of each entry, in file order. Every text is known to be valid JSON of an object. */
  entries: Record<Section, string[]>;
  /** Commits that the snapshot does not hold yet. To be applied on the entries, in order. */
  journal: Change[][];
}

/**
 * The committed state as texts, one per entry: pretty-printed as if the entry stood alone (the store indents it).
 *
 * Called synchronously when no commit is between its write and its `publish`. What it returns is read later, a slice
 * at a time, and must go on describing the moment of the call: build the iterables over immutable state.
 */
export type SnapshotSource = () => Record<Section, Iterable<string>>;

/** Keeps the registry over restarts (decisions 1.5). */
export interface Store {
  /**
   * Reads what is kept and gives it to `restore`, which takes it in synchronously: from then on the picture holds it
   * and folding may begin. Called once, before any commit.
   *
   * When `restore` throws, what is kept counts as damaged: `load` throws, or with recovery on the files are set aside
   * and `restore` is called once more, with nothing in its hands. Throws {@link StoreError}.
   */
  load(restore: (loaded: Loaded) => void): Promise<void>;

  /**
   * Makes the changes durable, all of them or none. Concurrent callers share one write. As soon as they are durable,
   * and before anything else can happen in the store, `publish` is called: it makes the state that holds the changes
   * the one that the picture shows (and that readers see), synchronously and without throwing. Then the promise
   * resolves.
   *
   * Rejects with {@link StoreError} when the disk refused: then nothing of the changes is kept, now or after a
   * restart, and `publish` was not called. A refusal takes with it every commit that waits behind it, because those
   * may build on the refused one.
   */
  commit(changes: readonly Change[], publish: () => void): Promise<void>;

  /** Waits for commits under way, folds the journal into `registry.json` and lets the folder go. Later commits are refused. */
  close(): Promise<void>;
}

/** The store cannot read, write or hold its folder. The message is one line that names the file and what to do. */
export class StoreError extends Error {
  override readonly name = 'StoreError';
}

/** Where the store reports what nobody waits for: recovery, takeover of a lock, folds that failed. */
export interface StoreLog {
  warn(message: string, fields?: Record<string, unknown>): void;
  error(message: string, fields?: Record<string, unknown>): void;
}

/** The store of `SERVICE_PERSIST_BACKEND=none`: keeps nothing, and every commit is at once as durable as it gets. */
export function memoryStore(): Store {
  return {
    async load(restore) {
      restore({ entries: noEntries(), journal: [] });
    },
    async commit(_changes, publish) {
      publish();
    },
    async close() {},
  };
}
