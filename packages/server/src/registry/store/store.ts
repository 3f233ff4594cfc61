import { runSteps, type Steps } from '../steps.ts';
import { errorReason } from './files.ts';

/** The arrays of `registry.json`, in the order in which they are written. */
export const SECTIONS = ['namespaces', 'forwards', 'tools', 'resources', 'prompts', 'services'] as const;

/** One array of `registry.json`. */
export type Section = (typeof SECTIONS)[number];

/** Creates empty sections. */
export function noEntries(): Record<Section, string[]> {
  return { namespaces: [], forwards: [], tools: [], resources: [], prompts: [], services: [] };
}

/**
 * One change of the registry. `json`: the exact text of an entry, which the store never parses and rewrites, so that large
 * numbers and formatting survive. `id`: identifies an entry, and is opaque to the store; puts of a file have none.
 */
export type Change =
  | { op: 'put'; section: Section; json: string; id?: string }
  | { op: 'remove'; section: Section; id: string };

/** A record of a {@link SharedStore}. */
export interface SharedRecord {
  /** Identifies the record within its section, as in its removal. */
  readonly id: string;
  readonly json: string;
  /** Whether another record is served under its key. */
  readonly isShadowed?: boolean;
}

/** The changes that restore records in a section, where the first entry of a key is served. */
export function putsOf(section: Section, records: Iterable<SharedRecord> = []): Change[] {
  const servedFirst = [...records].sort((a, b) => Number(a.isShadowed ?? false) - Number(b.isShadowed ?? false));
  return servedFirst.map(({ id, json }) => ({ op: 'put', section, id, json }));
}

/** A put, as it is passed to a store. */
export interface RecordedPut<In extends string = string> extends SharedRecord {
  readonly op: 'put';
  readonly section: In;
  /** When the record may be removed, in milliseconds since the epoch; undefined for never. */
  readonly expires?: number | undefined;
  /** The JSON Merge Patch that makes it from the stored record; undefined if there is none. */
  readonly patch?: () => object | undefined;
}

/** A removal, as it is passed to a store. */
export interface RecordedRemoval<In extends string = string> {
  readonly op: 'remove';
  readonly section: In;
  readonly id: string;
  /** The shadowed record that is served from now on. */
  readonly promoted?: RecordedPut<In> | undefined;
}

/** A change, as it is passed to a store. */
export type RecordedChange<In extends string = string> = RecordedPut<In> | RecordedRemoval<In>;

/** Changes that become durable together. */
export interface Commit<In extends string = string> {
  readonly changes: readonly RecordedChange<In>[];
  /** Makes the new state visible to readers and to the snapshot source, synchronously and without throwing. */
  publish(): void;
}

/** What a {@link SharedStore} does when other replicas have committed. It calls these once the registry has all commits. */
export interface Conflict<In extends string = string> {
  /** Whether the changes were made on an earlier state. */
  readonly isOutdated: () => boolean;
  /** Makes the changes again on the current state. */
  readonly remake: () => Promise<Commit<In>>;
}

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

/** Persistence of the registry. */
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
   * other step of the store, `publish` is called. Then the promise resolves.
   *
   * Rejects with {@link StoreError} when the write failed: then none of the changes is stored, now or after a restart, and
   * `publish` was not called. Queued commits fail too, because they may depend on the failed one.
   *
   * `conflict` is for a {@link SharedStore}.
   */
  commit(commit: Commit<Section>, conflict?: Conflict<Section>): Promise<void>;

  /** Waits for pending commits, compacts the journal and releases the folder. Later commits are rejected. */
  close(): Promise<void>;
}

/** Commits of other replicas that the registry lacks: their changes in order, or all records by section if they are too many. */
export type Newer =
  | { readonly kind: 'changes'; readonly changes: readonly Change[] }
  | { readonly kind: 'state'; readonly records: ReadonlyMap<string, readonly SharedRecord[]> };

/** A store that several replicas share (docs/replicas.md). */
export interface SharedStore extends Store {
  /**
   * Called once, before {@link load}. `apply` makes commits of other replicas visible; it is never called during another
   * call, or between the write of a commit and its `publish`.
   */
  follow(apply: (newer: Newer) => Promise<void>): void;

  /**
   * Resolves once the registry has every commit that was durable at the time of the call. Rejects with
   * {@link UnavailableStoreError}.
   */
  refresh(): Promise<void>;

  /**
   * Waits until all live replicas have the state that this replica has. Returns the ids of those whose lease expires before
   * that: they ask the database before they answer again. Never rejects.
   */
  confirm(): Promise<readonly string[]>;
}

/** The store cannot read, write or lock its folder. The message is one line that names the file and the remedy. */
export class StoreError extends Error {
  override readonly name: string = 'StoreError';
}

/** A {@link StoreError} with this problem and the reason of an error; the error itself if it is one. */
export function toStoreError(problem: string, error: unknown): StoreError {
  return error instanceof StoreError ? error : new StoreError(`${problem}: ${errorReason(error)}`, { cause: error });
}

/** The database cannot be reached: try again later. */
export class UnavailableStoreError extends StoreError {
  override readonly name = 'UnavailableStoreError';
  /** Id of a commit that may or may not have been stored; undefined if it was not. */
  readonly unknownCommit: string | undefined;

  constructor(message: string, options: ErrorOptions & { readonly unknownCommit?: string } = {}) {
    super(message, options);
    this.unknownCommit = options.unknownCommit;
  }
}

/** The records can be read, but not changed by this process, until the operator does what the message says. */
export class ReadOnlyStoreError extends UnavailableStoreError {}

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
    async commit({ publish }) {
      publish();
    },
    async close() {},
  };
}
