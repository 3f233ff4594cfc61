import {
  byOrder,
  type Entry,
  type Forward,
  KINDS,
  type Kind,
  type Labels,
  type Namespace,
  type ServiceEntry,
  type UnknownMembers,
} from './entries.ts';
import { EntryIndex } from './entry-index.ts';
import type { StoredSection } from './store/store.ts';

/** The registered capability services. There may be several of a name: one per type, engine and language. Immutable. */
export class Services {
  /** By `serviceKey`. */
  readonly byKey: ReadonlyMap<string, ServiceEntry>;
  #ordered: readonly ServiceEntry[] | undefined;
  #named: ReadonlyMap<string, readonly ServiceEntry[]> | undefined;

  constructor(byKey: ReadonlyMap<string, ServiceEntry> = new Map()) {
    this.byKey = byKey;
  }

  /** Every entry, in order of registration. */
  get all(): readonly ServiceEntry[] {
    this.#ordered ??= [...this.byKey.values()].sort(byRegistration);
    return this.#ordered;
  }

  /** The services of this name, in order of registration. */
  named(name: string): readonly ServiceEntry[] {
    this.#named ??= Map.groupBy(this.all, (entry) => entry.name);
    return this.#named.get(name) ?? [];
  }
}

const NONE: ReadonlySet<string> = new Set();

/** Order of services and forwards. */
export function byRegistration(
  a: Pick<ServiceEntry, 'registrationId'>,
  b: Pick<ServiceEntry, 'registrationId'>,
): number {
  return a.registrationId - b.registrationId;
}

/** A namespace and its entries. */
export interface NamespaceState {
  readonly name: Namespace;
  /** Identity of the namespace: another object after it was deleted and created again. */
  readonly identity: object;
  readonly labels: Labels;
  readonly indexes: Readonly<Record<Kind, EntryIndex>>;
  readonly unknown?: UnknownMembers | undefined;
  /** Forwards whose entries no client sees, whatever is stored; see {@link Snapshot.hidden}. */
  readonly hidden?: ReadonlySet<string> | undefined;
}

/** Number of discovered entries of a forward by kind, shadowed ones included, without copies. */
export type Counts = Readonly<Record<Kind, number>>;

/**
 * The immutable state of the registry after a commit. A request, or the writer of `registry.json`, sees one
 * consistent state in it without locking.
 */
export class Snapshot {
  readonly namespaces: ReadonlyMap<Namespace, NamespaceState>;
  readonly forwards: ReadonlyMap<string, Forward>;
  readonly services: Services;
  /** The next registration id. */
  readonly next: number;
  /**
   * Records of `registry.json` that could not be read, by section and id, as exact text. They are written back unchanged, so that
   * neither a typing error nor an older release loses them.
   */
  readonly unusable: ReadonlyMap<StoredSection, ReadonlyMap<string, string>>;
  /** Forwards that are unknown to clients although they are stored: blocked ones. */
  readonly hidden: ReadonlySet<string>;
  #shadowed: ReadonlyMap<string | undefined, readonly Entry[]> | undefined;

  constructor(
    namespaces: ReadonlyMap<Namespace, NamespaceState>,
    forwards: ReadonlyMap<string, Forward>,
    next: number,
    unusable: ReadonlyMap<StoredSection, ReadonlyMap<string, string>> = new Map(),
    services = new Services(),
    hidden: ReadonlySet<string> = NONE,
  ) {
    this.namespaces = namespaces;
    this.forwards = forwards;
    this.next = next;
    this.unusable = unusable;
    this.services = services;
    this.hidden = hidden;
  }

  static empty(): Snapshot {
    return new Snapshot(new Map(), new Map(), 1);
  }

  /** The same state in which these forwards are unknown to clients. */
  hiding(hidden: ReadonlySet<string>): Snapshot {
    const { namespaces, forwards, next, unusable, services } = this;
    const states = Array.from(namespaces, ([name, state]) => {
      return [name, state.hidden === hidden ? state : { ...state, hidden }] as const;
    });
    return new Snapshot(new Map(states), forwards, next, unusable, services, hidden);
  }

  /** The namespace of this name; the argument may be any text. */
  namespace(name: string): NamespaceState | undefined {
    return this.namespaces.get(name as Namespace);
  }

  /** The state of a namespace here; undefined if it was deleted, even if it was created again. */
  stateOf({ name, identity }: Pick<NamespaceState, 'name' | 'identity'>): NamespaceState | undefined {
    const state = this.namespaces.get(name);
    return state?.identity === identity ? state : undefined;
  }

  /** Entries of one kind over all namespaces or in one, in the order of lists; shadowed ones on request, or only them. */
  entries(kind: Kind, options: { namespace?: string; shadowed?: boolean | 'only' } = {}): Entry[] {
    const states = [...this.namespaces.values()].filter(
      (state) => options.namespace === undefined || state.name === options.namespace,
    );
    return states
      .flatMap(({ indexes }) => [
        ...(options.shadowed === 'only' ? [] : indexes[kind].owners),
        ...(options.shadowed ? indexes[kind].shadowed : []),
      ])
      .sort(byOrder);
  }

  /** Whether an entry owns its key, not shadowed by another one. */
  isServed(entry: Entry): boolean {
    return this.namespaces.get(entry.namespace)?.indexes[entry.kind].owner(entry.key) === entry;
  }

  /** Number of entries of one kind in all namespaces, without shadowed ones. */
  servedCount(kind: Kind): number {
    return this.namespaces.values().reduce((sum, { indexes }) => sum + indexes[kind].owners.length, 0);
  }

  /** Number of a forward's discovered entries (`tools_discovered` and so on). */
  counts(forward: string): Counts {
    const counts = { tool: 0, resource: 0, prompt: 0 };
    for (const { indexes } of this.namespaces.values()) {
      for (const kind of KINDS) counts[kind] += indexes[kind].counts.get(forward) ?? 0;
    }
    return counts;
  }

  /** The entries of a forward that are not served, because another entry is served under their key. */
  shadowed(forward: string): readonly Entry[] {
    const indexes = this.namespaces.values().flatMap((state) => Object.values(state.indexes));
    this.#shadowed ??= Map.groupBy(
      indexes.flatMap(({ shadowed }) => shadowed),
      ({ discovered }) => discovered?.forward,
    );
    return this.#shadowed.get(forward) ?? [];
  }
}

/**
 * Returns a function that returns the string that an entry of a forward has of an object's text, so that equal ones are stored
 * once; undefined if there is none. Only entries that were neither moved nor renamed are found.
 */
export function storedTexts({ forwards, namespaces }: Snapshot, forwardName: string) {
  const forward = forwards.get(forwardName);
  const indexes = forward && namespaces.get(forward.namespace)?.indexes;
  return (kind: Kind, upstreamKey: string, json: string): string | undefined => {
    if (!indexes) return undefined;
    const key = kind === 'resource' ? upstreamKey : forward.prefix + upstreamKey;
    for (const { discovered } of indexes[kind].candidates(key)) {
      if (discovered?.forward !== forwardName) continue;
      const variant = discovered.variants.find((candidate) => candidate.json === json);
      if (variant) return variant.json;
    }
    return undefined;
  };
}

/** A namespace without entries. */
export function emptyNamespace(name: Namespace, labels: Labels = {}): NamespaceState {
  return {
    name,
    identity: {},
    labels,
    indexes: { tool: new EntryIndex(), resource: new EntryIndex(), prompt: new EntryIndex() },
  };
}
