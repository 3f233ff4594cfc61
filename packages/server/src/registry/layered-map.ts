import { forEachInSteps, type Steps } from './steps.ts';

/** Number of changes at which they are merged into the base: each copy includes them. */
const MERGE_FROM = 1024;

/**
 * A base and the differences from it, in which undefined marks a removed key. The cost of a copy depends on the recent changes, not
 * on the size: ten thousand commits to a map of ten thousand entries would otherwise copy a hundred million. Only a copy that has
 * not been published is changed.
 */
export class LayeredMap<V extends object> {
  readonly #base: ReadonlyMap<string, V | undefined>;
  readonly #changes: Map<string, V | undefined>;

  constructor(base: ReadonlyMap<string, V | undefined> = new Map(), changes = new Map<string, V | undefined>()) {
    this.#base = base;
    this.#changes = changes;
  }

  get(key: string): V | undefined {
    // Every call looks up its tool here, usually in a map without recent changes.
    if (this.#changes.size === 0) return this.#base.get(key);
    return this.#changes.has(key) ? this.#changes.get(key) : this.#base.get(key);
  }

  /** The values, in no order. */
  *values(): Generator<V> {
    for (const [key, value] of this.#base) if (value !== undefined && !this.#changes.has(key)) yield value;
    for (const value of this.#changes.values()) if (value !== undefined) yield value;
  }

  /** A copy that can be changed. */
  copy(): LayeredMap<V> {
    return new LayeredMap(this.#base, new Map(this.#changes));
  }

  /** Sets the value; undefined removes it. */
  set(key: string, value: V | undefined): void {
    this.#changes.set(key, value);
  }

  /** Whether so much has changed that the layers are merged. */
  get isMerged(): boolean {
    return this.#changes.size >= MERGE_FROM;
  }

  /** Ends the changes of a copy and returns its state. */
  *publishInSteps(): Steps<LayeredMap<V>> {
    if (!this.isMerged) return this;
    const merged = this.#base.size === 0 ? this.#changes : new Map<string, V | undefined>();
    yield* forEachInSteps(this.#base, ([key, value]) => merged.set(key, value));
    yield* forEachInSteps(this.#changes, ([key, value]) => {
      if (value === undefined) merged.delete(key);
      else merged.set(key, value);
    });
    return new LayeredMap(merged);
  }
}
