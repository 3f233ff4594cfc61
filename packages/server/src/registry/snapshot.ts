import type { Entry, Forward, Kind, Labels } from './entries.ts';
import type { Namespace } from './names.ts';
import { Shelf } from './shelf.ts';

/** A namespace with what it offers. */
export interface NamespaceState {
  readonly name: Namespace;
  readonly labels: Labels;
  readonly shelves: Readonly<Record<Kind, Shelf>>;
}

/** How many entries of each kind a forward has, shadowed ones included. */
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
  /** The next registration number. */
  readonly next: number;
  #counts: Map<string, { tool: number; resource: number; prompt: number }> | undefined;
  #shadowed: Map<string, Entry[]> | undefined;

  constructor(
    namespaces: ReadonlyMap<Namespace, NamespaceState>,
    forwards: ReadonlyMap<string, Forward>,
    next: number,
  ) {
    this.namespaces = namespaces;
    this.forwards = forwards;
    this.next = next;
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
    const found = states.flatMap(({ shelves }) =>
      options.shadowed ? shelves[kind].all() : [...shelves[kind].entries],
    );
    return states.length > 1 ? found.sort((a, b) => a.source - b.source || a.position - b.position) : found;
  }

  /** What a forward brought, in numbers (decisions 2.4, `tools_discovered` and its like). */
  counts(forward: string): Counts {
    this.#counts ??= this.#count();
    return this.#counts.get(forward) ?? { tool: 0, resource: 0, prompt: 0 };
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
        for (const entry of shelf.shadowed()) {
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

  #count(): Map<string, { tool: number; resource: number; prompt: number }> {
    const counts = new Map<string, { tool: number; resource: number; prompt: number }>();
    for (const { shelves } of this.namespaces.values()) {
      for (const shelf of Object.values(shelves)) {
        for (const { kind, discovered } of shelf.all()) {
          if (!discovered) continue;
          const count = counts.get(discovered.forward) ?? { tool: 0, resource: 0, prompt: 0 };
          count[kind]++;
          counts.set(discovered.forward, count);
        }
      }
    }
    return counts;
  }
}

/** A namespace without entries. */
export function emptyNamespace(name: Namespace, labels: Labels = {}): NamespaceState {
  return { name, labels, shelves: { tool: new Shelf(), resource: new Shelf(), prompt: new Shelf() } };
}
