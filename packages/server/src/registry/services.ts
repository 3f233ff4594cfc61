import { serviceKey } from '@sluice/contract';
import type { ServiceEntry } from './entries.ts';

/**
 * The registered capability services (decisions 2.8). Found by name, under which there may be several: one per type,
 * engine and language. Immutable once its snapshot is published.
 */
export class Services {
  readonly #named: ReadonlyMap<string, readonly ServiceEntry[]>;
  #ordered: readonly ServiceEntry[] | undefined;

  constructor(named: ReadonlyMap<string, readonly ServiceEntry[]> = new Map()) {
    this.#named = named;
  }

  /** The entries of this name in order of registration; none where there are none. */
  named(name: string): readonly ServiceEntry[] {
    return this.#named.get(name) ?? [];
  }

  /** Every entry, in order of registration. */
  get all(): readonly ServiceEntry[] {
    this.#ordered ??= [...this.#named.values()].flat().sort(byRegistration);
    return this.#ordered;
  }

  /** A copy that may be changed until it is published. */
  copy(): DraftServices {
    return new DraftServices(new Map(this.#named));
  }
}

/** The services under change. Only a draft holds them; {@link DraftServices.publish} ends it. */
export class DraftServices {
  readonly #named: Map<string, readonly ServiceEntry[]>;

  constructor(named: Map<string, readonly ServiceEntry[]>) {
    this.#named = named;
  }

  named(name: string): readonly ServiceEntry[] {
    return this.#named.get(name) ?? [];
  }

  /** Adds an entry, or replaces the one of the same key. */
  put(entry: ServiceEntry): void {
    const known = this.named(entry.name);
    const id = serviceKey(entry);
    const at = known.findIndex((other) => serviceKey(other) === id);
    this.set(entry.name, (at === -1 ? [...known, entry] : known.with(at, entry)).toSorted(byRegistration));
  }

  /** Removes these entries, all of this name. */
  remove(name: string, gone: ReadonlySet<ServiceEntry>): void {
    this.set(
      name,
      this.named(name).filter((entry) => !gone.has(entry)),
    );
  }

  /** Sets what there is under a name: for taking a change back. */
  set(name: string, entries: readonly ServiceEntry[]): void {
    if (entries.length === 0) this.#named.delete(name);
    else this.#named.set(name, entries);
  }

  publish(): Services {
    return new Services(this.#named);
  }
}

function byRegistration(a: ServiceEntry, b: ServiceEntry): number {
  return a.source - b.source;
}
