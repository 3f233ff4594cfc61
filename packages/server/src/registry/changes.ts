import { type Entry, type Forward, isEnabled } from './entries.ts';
import type { DraftIndex } from './entry-index.ts';
import type { RecordedPut, Section } from './store/store.ts';

// A discovery can add 100,000 entries in one operation, so these are small objects rather than closures.

/** How records of one kind are stored. */
export interface RecordForm<Stored> {
  readonly section: (stored: Stored) => Section;
  /** Serializes the record as in `registry.json`. Called once the draft has been finished. */
  readonly text: (stored: Stored) => string;
  /** Identifies the record within its section. */
  readonly id: (stored: Stored) => string;
}

/**
 * A record to be stored. Its text is created when the store reads it, a slice at a time; the record is immutable.
 */
export class PutChange<Stored> implements RecordedPut {
  readonly #stored: Stored;
  readonly #form: RecordForm<Stored>;

  constructor(stored: Stored, form: RecordForm<Stored>) {
    this.#stored = stored;
    this.#form = form;
  }

  get section(): Section {
    return this.#form.section(this.#stored);
  }

  get json(): string {
    return this.#form.text(this.#stored);
  }

  get id(): string {
    return this.#form.id(this.#stored);
  }
}

/** Restores the entries of one key. */
export class UndoStep {
  readonly #index: DraftIndex;
  readonly #key: string;
  /** All entries with the key before the change, the holder first. */
  readonly before: readonly Entry[];

  /** To be created before the change. */
  constructor(index: DraftIndex, key: string) {
    this.#index = index;
    this.#key = key;
    this.before = index.candidates(key);
  }

  run(): void {
    this.#index.set(this.#key, this.before);
  }

  /** All entries with the key now. */
  get after(): readonly Entry[] {
    return this.#index.candidates(this.#key);
  }
}

/** Returns a function that restores a map's current value of a key. */
export function restoreFunction<K, V>(map: Map<K, V>, key: K): () => void {
  const before = map.get(key);
  return () => {
    if (before === undefined) map.delete(key);
    else map.set(key, before);
  };
}

/** True when other uris of the forward may be requested although no entry changes. */
export function accessDiffers(before: Forward, after: Forward): boolean {
  const access = ({ expose, detachedOverrides: detached = [] }: Forward): string => {
    const hidden = detached.filter((entry) => entry.kind === 'resource' && !isEnabled(entry));
    return JSON.stringify([expose?.resources, hidden.map(({ key }) => key)]);
  };
  return access(before) !== access(after);
}

/** True when lists or their caching hints may change although no entry did. */
export function listsDiffer(before: Forward, after: Forward): boolean {
  const visible = ({ catalogs }: Forward): string =>
    JSON.stringify(catalogs.map(({ key, era, capabilities, cache }) => [key, era, capabilities, cache]));
  return visible(before) !== visible(after);
}

/** Returns the keys that only one of two maps has, or that have other values; `part` selects what is compared. */
export function changedKeys<Key extends string, Value>(
  before: ReadonlyMap<Key, Value>,
  after: ReadonlyMap<Key, Value>,
  part: (value: Value) => unknown = (value) => value,
): Set<Key> {
  const changed = new Set<Key>();
  for (const [key, value] of after) {
    const known = before.get(key);
    if (known === undefined || part(known) !== part(value)) changed.add(key);
  }
  for (const key of before.keys()) if (!after.has(key)) changed.add(key);
  return changed;
}
