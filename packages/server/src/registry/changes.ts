import type { Entry } from './entries.ts';
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
