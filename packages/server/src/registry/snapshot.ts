import { serviceKey } from '@sluice/contract';
import { matchTemplate } from '@sluice/protocol/mcp/uri-template';
import {
  byOrder,
  type Entry,
  type Forward,
  isTemplate,
  KINDS,
  type Kind,
  type Labels,
  type Namespace,
  type ServiceEntry,
  type UnknownMembers,
} from './entries.ts';
import { EntryIndex } from './index.ts';
import type { Section } from './store/store.ts';

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

/** A namespace with what it offers. */
export interface NamespaceState {
  readonly name: Namespace;
  /** Stays the same whatever changes in it; one of the same name that is made anew has another. */
  readonly identity: object;
  readonly labels: Labels;
  readonly shelves: Readonly<Record<Kind, EntryIndex>>;
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
  return {
    name,
    identity: {},
    labels,
    shelves: { tool: new EntryIndex(), resource: new EntryIndex(), prompt: new EntryIndex() },
  };
}

/** The entry that serves a uri: the uri exactly, then the templates in order of registration (decisions 4.7). */
export function findResource(shelf: EntryIndex, uri: string): Entry | undefined {
  return exactResource(shelf, uri) ?? templateFor(shelf.templates, uri);
}

/**
 * Finds the entries of the same uris again and again, as {@link findResource} does. Templates are matched anew only when
 * others are there: that is what costs.
 */
export class ResourceFinder {
  #templates: readonly Entry[] = [];
  readonly #matched = new Map<string, Entry | undefined>();

  /** The entry that serves a uri; of a template perhaps an earlier state, of the same key and forward. */
  find(shelf: EntryIndex, uri: string): Entry | undefined {
    return exactResource(shelf, uri) ?? this.#matching(shelf.templates, uri);
  }

  #matching(templates: readonly Entry[], uri: string): Entry | undefined {
    if (templates !== this.#templates) {
      if (!sameTemplates(templates, this.#templates)) this.#matched.clear();
      this.#templates = templates;
    }
    if (!this.#matched.has(uri)) this.#matched.set(uri, templateFor(templates, uri));
    return this.#matched.get(uri);
  }
}

function exactResource(shelf: EntryIndex, uri: string): Entry | undefined {
  const exact = shelf.get(uri);
  return exact && !isTemplate(exact) ? exact : undefined;
}

function templateFor(templates: readonly Entry[], uri: string): Entry | undefined {
  return templates.find((template) => matchTemplate(template.key, uri));
}

function sameTemplates(some: readonly Entry[], others: readonly Entry[]): boolean {
  return some.length === others.length && some.every((template, at) => sameTemplate(template, others[at]));
}

function sameTemplate({ key, discovered }: Entry, other: Entry | undefined): boolean {
  return key === other?.key && discovered?.forward === other.discovered?.forward;
}
