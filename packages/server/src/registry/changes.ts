import { type Entry, type Forward, isEnabled } from './entries.ts';
import type { DraftIndex } from './index.ts';
import type { Section } from './store/store.ts';

// A discovery can add 100,000 entries in one operation, so these are small objects rather than closures.

/**
 * A record to be stored. Its text is created when the store reads it, a slice at a time; the record is immutable.
 */
export class PutChange<Stored> {
  readonly op = 'put';
  readonly section: Section;
  readonly #stored: Stored;
  readonly #text: (stored: Stored) => string;

  /** `text` serializes the record. */
  constructor(section: Section, stored: Stored, text: (stored: Stored) => string) {
    this.section = section;
    this.#stored = stored;
    this.#text = text;
  }

  get json(): string {
    return this.#text(this.#stored);
  }

  toJSON(): object {
    const { op, section, json } = this;
    return { op, section, json };
  }
}

/** Restores the entries of one key. */
export class UndoStep {
  readonly #index: DraftIndex;
  readonly #key: string;
  readonly #claims: readonly Entry[];

  /** `claims`: all entries with the key before the change. */
  constructor(index: DraftIndex, key: string, claims: readonly Entry[]) {
    this.#index = index;
    this.#key = key;
    this.#claims = claims;
  }

  run(): void {
    this.#index.set(this.#key, this.#claims);
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

/** True when other uris of the forward may be requested although no entry changes (decisions 10.1). */
export function accessDiffers(before: Forward, after: Forward): boolean {
  const access = ({ expose, orphanedOverrides: orphans = [] }: Forward): string => {
    const hidden = orphans.filter((entry) => entry.kind === 'resource' && !isEnabled(entry));
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
