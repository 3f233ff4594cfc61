import { byOrder, type Entry, type Forward, KINDS, type Kind, type Labels, type UnknownMembers } from './entries.ts';
import type { Namespace } from './names.ts';
import { Services } from './services.ts';
import { Shelf } from './shelf.ts';
import type { Section } from './store/store.ts';

/** A namespace with what it offers. */
export interface NamespaceState {
  readonly name: Namespace;
  /** Stays the same whatever changes in it; one of the same name that is made anew has another. */
  readonly identity: object;
  readonly labels: Labels;
  readonly shelves: Readonly<Record<Kind, Shelf>>;
  readonly unknown?: UnknownMembers | undefined;
}

/** How many entries of each kind a forward has, shadowed ones included and copies not: what its upstream offers. */
export interface Counts {
  readonly tool: number;
  readonly resource: number;
  readonly prompt: number;
}

/**
 * The registry as it was committed at one moment. Nothing in it changes any more, so that whoever holds it, a request
 * or the writer of `registry.json`, sees one consistent state without locking.
 */
export class Snapshot {
  readonly namespaces: ReadonlyMap<Namespace, NamespaceState>;
  readonly forwards: ReadonlyMap<string, Forward>;
  readonly services: Services;
  /** The next registration number. */
  readonly next: number;
  /**
   * Records of `registry.json` that this version has no use for, by section, as exact text: they are written again as
   * they were found, so that neither a slip of a hand nor an older release loses them.
   */
  readonly foreign: ReadonlyMap<Section, readonly string[]>;
  #shadowed: Map<string, Entry[]> | undefined;

  constructor(
    namespaces: ReadonlyMap<Namespace, NamespaceState>,
    forwards: ReadonlyMap<string, Forward>,
    next: number,
    foreign: ReadonlyMap<Section, readonly string[]> = new Map(),
    services = new Services(),
  ) {
    this.namespaces = namespaces;
    this.forwards = forwards;
    this.next = next;
    this.foreign = foreign;
    this.services = services;
  }

  static empty(): Snapshot {
    return new Snapshot(new Map(), new Map(), 1);
  }

  /** The namespace of this name; the argument may be any text. */
  namespace(name: string): NamespaceState | undefined {
    return this.namespaces.get(name as Namespace);
  }

  /** Entries of one kind over all namespaces or in one, in the order of lists; shadowed ones only when asked for. */
  entries(kind: Kind, options: { namespace?: string; shadowed?: boolean } = {}): Entry[] {
    const states = [...this.namespaces.values()].filter(
      (state) => options.namespace === undefined || state.name === options.namespace,
    );
    return states
      .flatMap(({ shelves }) => [...shelves[kind].entries, ...(options.shadowed ? shelves[kind].shadowed : [])])
      .sort(byOrder);
  }

  /** What a forward brought, in numbers (decisions 2.4, `tools_discovered` and its like). */
  counts(forward: string): Counts {
    const counts = { tool: 0, resource: 0, prompt: 0 };
    for (const { shelves } of this.namespaces.values()) {
      for (const kind of KINDS) counts[kind] += shelves[kind].counts.get(forward) ?? 0;
    }
    return counts;
  }

  /** The entries of a forward that are not served, because another entry holds their key (decisions 2.2). */
  shadowed(forward: string): readonly Entry[] {
    this.#shadowed ??= this.#findShadowed();
    return this.#shadowed.get(forward) ?? [];
  }

  #findShadowed(): Map<string, Entry[]> {
    const found = new Map<string, Entry[]>();
    for (const { shelves } of this.namespaces.values()) {
      for (const shelf of Object.values(shelves)) {
        for (const entry of shelf.shadowed) {
          const forward = entry.discovered?.forward;
          if (forward === undefined) continue;
          const entries = found.get(forward) ?? [];
          found.set(forward, entries);
          entries.push(entry);
        }
      }
    }
    return found;
  }
}

/** A namespace without entries. */
export function emptyNamespace(name: Namespace, labels: Labels = {}): NamespaceState {
  return { name, identity: {}, labels, shelves: { tool: new Shelf(), resource: new Shelf(), prompt: new Shelf() } };
}
