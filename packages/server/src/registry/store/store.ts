import { errorReason } from './files.ts';

/** The sections of the registry: the arrays of `registry.json`, in the order in which they are written. */
export const SECTIONS = ['namespaces', 'forwards', 'tools', 'resources', 'prompts', 'services'] as const;

/** Section of the members of `registry.json` that this version does not know: an object with one member each. */
export const UNKNOWN_MEMBERS = 'registry_members';

/** One array of `registry.json`. */
export type Section = (typeof SECTIONS)[number];

/** The sections that the registry stores. */
export const STORED_SECTIONS = [...SECTIONS, UNKNOWN_MEMBERS] as const;

/** A section that the registry stores. */
export type StoredSection = (typeof STORED_SECTIONS)[number];

/** A record that is stored. `json` is its exact text, which no log rewrites, so that large numbers and formatting survive. */
export interface StoredRecord {
  /** Identifies the record within its section, as in its removal; empty in a file that does not name it. */
  readonly id: string;
  readonly json: string;
}

/** Records by section. Their texts may be created when they are read. */
export type StoredRecords = ReadonlyMap<string, Iterable<StoredRecord>>;

/** A change of a record that is stored; `json` is null for a removal. */
export interface StoredChange {
  readonly section: string;
  readonly id: string;
  readonly json: string | null;
}

/** A change, as it is passed to a log. */
export interface RecordedChange extends StoredChange {
  /** When the record may be removed, in milliseconds since the epoch; undefined for never. */
  readonly expires?: number | undefined;
  /** The JSON Merge Patch that makes it from the stored record; undefined if there is none. */
  readonly patch?: () => object | undefined;
  /** Of a removal: the shadowed record that is served from now on. */
  readonly promoted?: RecordedPut | undefined;
}

/** A record, as it is passed to a log. */
export interface RecordedPut extends RecordedChange {
  readonly json: string;
}

/** Changes that become durable together. */
export interface Commit {
  readonly changes: readonly RecordedChange[];
  /** Makes the new state visible to readers and to the snapshot source, synchronously and without throwing. */
  publish(): void;
}

/** What a log does when other replicas have committed. It calls these once the consumers have all commits. */
export interface Conflict {
  /** Whether the changes were made on an earlier state. */
  readonly isOutdated: () => boolean;
  /** Makes the changes again on the current state. */
  readonly remake: () => Promise<Commit>;
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
