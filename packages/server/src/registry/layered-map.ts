import { forEachInSteps, type Steps } from './steps.ts';

/** Number of changes at which they are merged into the base: each copy includes them. */
const MERGE_FROM = 1024;

type Layer<V> = ReadonlyMap<string, V | undefined>;

/** A base and the differences from it, in which undefined marks a removed key. */
abstract class Layers<V extends object> {
  protected readonly base: Layer<V>;
  protected readonly changes: Layer<V>;

  constructor(base: Layer<V>, changes: Layer<V>) {
    this.base = base;
    this.changes = changes;
  }

  get(key: string): V | undefined {
    // Every call looks up its tool here, usually in a map without recent changes.
    if (this.changes.size === 0) return this.base.get(key);
    return this.changes.has(key) ? this.changes.get(key) : this.base.get(key);
  }

  /** The values, in no order. */
  *values(): Generator<V> {
    for (const [key, value] of this.base) if (value !== undefined && !this.changes.has(key)) yield value;
    for (const value of this.changes.values()) if (value !== undefined) yield value;
  }
}

/**
 * An immutable map. The cost of a copy depends on the recent changes, not on the size: ten thousand commits to a map of
 * ten thousand entries would otherwise copy a hundred million. {@link LayeredMap.copy} creates a draft.
 */
export class LayeredMap<V extends object> extends Layers<V> {
  constructor(base: Layer<V> = new Map(), changes: Layer<V> = new Map()) {
    super(base, changes);
  }

  copy(): DraftMap<V> {
    return new DraftMap(this.base, new Map(this.changes));
  }
}

/** A mutable copy of a {@link LayeredMap}. */
export class DraftMap<V extends object> extends Layers<V> {
  readonly #changes: Map<string, V | undefined>;

  constructor(base: Layer<V>, changes: Map<string, V | undefined>) {
    super(base, changes);
    this.#changes = changes;
  }

  /** Sets the value; undefined removes it. */
  set(key: string, value: V | undefined): void {
    this.#changes.set(key, value);
  }

  /** Whether so much has changed that the layers are merged. */
  get isMerged(): boolean {
    return this.#changes.size >= MERGE_FROM;
  }

  /** Ends the draft and returns its state. */
  *publishInSteps(): Steps<LayeredMap<V>> {
    if (!this.isMerged) return new LayeredMap(this.base, this.#changes);
    const merged = this.base.size === 0 ? this.#changes : new Map<string, V | undefined>();
    yield* forEachInSteps(this.base, ([key, value]) => merged.set(key, value));
    yield* forEachInSteps(this.#changes, ([key, value]) => {
      if (value === undefined) merged.delete(key);
      else merged.set(key, value);
    });
    return new LayeredMap(merged);
  }
}
