/** So many changes are kept beside the entries they change: each copy takes them along, and then folds them in. */
const FOLD_AT = 1024;

/**
 * A map whose copies cost what was changed lately, and not what it holds: ten thousand single commits to a map of ten
 * thousand would otherwise copy a hundred million entries. Immutable; {@link LayeredMap.copy} makes a draft.
 */
export class LayeredMap<V extends object> {
  readonly #base: ReadonlyMap<string, V>;
  /** What differs from the base; undefined where it was removed. */
  readonly #changes: ReadonlyMap<string, V | undefined>;

  constructor(base: ReadonlyMap<string, V> = new Map(), changes: ReadonlyMap<string, V | undefined> = new Map()) {
    this.#base = base;
    this.#changes = changes;
  }

  get(key: string): V | undefined {
    // Calls look their tools up here, most often in a map at rest.
    if (this.#changes.size === 0) return this.#base.get(key);
    return this.#changes.has(key) ? this.#changes.get(key) : this.#base.get(key);
  }

  /** The values, in no order. */
  *values(): Generator<V> {
    for (const [key, value] of this.#base) if (!this.#changes.has(key)) yield value;
    for (const value of this.#changes.values()) if (value !== undefined) yield value;
  }

  copy(): DraftMap<V> {
    return new DraftMap(this.#base, new Map(this.#changes));
  }
}

/** A {@link LayeredMap} under change. */
export class DraftMap<V extends object> {
  readonly #base: ReadonlyMap<string, V>;
  readonly #changes: Map<string, V | undefined>;
  /** The same two layers, read. */
  readonly #view: LayeredMap<V>;

  constructor(base: ReadonlyMap<string, V>, changes: Map<string, V | undefined>) {
    this.#base = base;
    this.#changes = changes;
    this.#view = new LayeredMap(base, changes);
  }

  get(key: string): V | undefined {
    return this.#view.get(key);
  }

  /** The values, in no order. */
  values(): Generator<V> {
    return this.#view.values();
  }

  /** Sets the value; undefined removes it. */
  set(key: string, value: V | undefined): void {
    this.#changes.set(key, value);
  }

  /** The state of the map; the draft must not be changed after that. */
  publish(): LayeredMap<V> {
    if (this.#changes.size < FOLD_AT) return this.#view;
    const folded = new Map(this.#base);
    for (const [key, value] of this.#changes) {
      if (value === undefined) folded.delete(key);
      else folded.set(key, value);
    }
    return new LayeredMap(folded);
  }
}
