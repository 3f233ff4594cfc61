import type { Attributes } from '@opentelemetry/api';

/** Beyond it, attributes are made for each span anew: what others send does not make memory grow. */
const MOST = 2_000;

/** Attributes that many spans have in common: made once, and written once by who exports them. */
export class CommonAttributes {
  readonly #known = new Map<string, Attributes>();

  /** Those of this key, which says all that they are made of; with none they are made for this span alone. */
  get(key: string | undefined, make: () => Attributes): Attributes {
    if (key === undefined) return make();
    const known = this.#known.get(key);
    if (known) return known;
    const made = make();
    if (this.#known.size < MOST) this.#known.set(key, made);
    return made;
  }
}
