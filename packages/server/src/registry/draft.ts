import { serviceKey } from '@sluice/contract';
import {
  DEFAULT_NAMESPACE,
  type Entry,
  entryId,
  type Forward,
  KINDS,
  type Kind,
  type Labels,
  type Namespace,
  parseNamespace,
  SECTION,
  type ServiceEntry,
  type UnknownMembers,
} from './entries.ts';
import type { DraftIndex, EntryIndex } from './index.ts';
import { type DraftServices, emptyNamespace, type NamespaceState, type Services, Snapshot } from './snapshot.ts';
import type { Change, Section } from './store/store.ts';
import { storedEntry, storedForward, storedNamespace, storedService } from './stored.ts';

/** What a published state changed, for those who tell clients of it. */
export interface ChangedLists {
  readonly namespace: Namespace;
  readonly kind: Kind;
}

/** The registry under change: a copy of a snapshot in which only what is touched is copied. */
export class Draft {
  #namespaces: Map<Namespace, NamespaceState>;
  #forwards: Map<string, Forward>;
  readonly #foreign: Map<Section, readonly string[]>;
  readonly #shelves = new Map<Namespace, Partial<Record<Kind, DraftIndex>>>();
  readonly #services: Services;
  #draftServices: DraftServices | undefined;
  #next: number;
  readonly #recording: boolean;
  /** How to take back what the operation under way did, step by step. */
  #undo: (() => void)[] | undefined;
  /** What to write so that the state survives. */
  readonly changes: Change[] = [];

  /** `recording` off: for putting back what is stored already. */
  constructor(base: Snapshot, recording = true) {
    this.#recording = recording;
    this.#namespaces = new Map(base.namespaces);
    this.#forwards = new Map(base.forwards);
    this.#foreign = new Map(base.foreign);
    this.#services = base.services;
    this.#next = base.next;
  }

  /** Runs an operation. When it throws, the draft is as it was before, and the error comes through. */
  attempt<T>(operation: (draft: Draft) => T): T {
    const undo: (() => void)[] = [];
    const changes = this.changes.length;
    const next = this.#next;
    this.#undo = undo;
    try {
      return operation(this);
    } catch (error) {
      for (const step of undo.reverse()) step();
      this.changes.length = changes;
      this.#next = next;
      throw error;
    } finally {
      this.#undo = undefined;
    }
  }

  get namespaces(): ReadonlyMap<Namespace, Pick<NamespaceState, 'name' | 'identity' | 'labels'>> {
    return this.#namespaces;
  }

  get forwards(): ReadonlyMap<string, Forward> {
    return this.#forwards;
  }

  /** A registration number for a new forward, hand-made entry or service. */
  nextSource(): number {
    return this.#next++;
  }

  /** Keeps numbers given later above one that was read from disk. */
  reserveSource(source: number): void {
    this.#next = Math.max(this.#next, source + 1);
  }

  /** Creates the namespace, or gives the existing one these labels. */
  putNamespace(name: Namespace, labels: Labels = {}, unknown?: UnknownMembers): void {
    const state = this.#namespaces.get(name) ?? emptyNamespace(name);
    const changed = { ...state, labels, unknown: unknown ?? state.unknown };
    this.#undo?.push(takeBack(this.#namespaces, name));
    this.#namespaces.set(name, changed);
    this.#record('namespaces', () => storedNamespace(changed));
  }

  /** Creates the namespace when it is missing (decisions 2.2: an entry that names one creates it). */
  ensureNamespace(name: Namespace): void {
    if (!this.#namespaces.has(name)) this.putNamespace(name);
  }

  /** Removes the namespace with whatever it still holds. `default` stays: callers refuse that. */
  removeNamespace(name: Namespace): void {
    if (name === DEFAULT_NAMESPACE) throw new Error('the default namespace cannot be removed');
    for (const kind of KINDS) for (const entry of [...this.entries(kind, name)]) this.remove(entry);
    const before = this.#namespaces;
    const drafts = this.#shelves.get(name);
    this.#undo?.push(() => {
      this.#namespaces = before;
      if (drafts) this.#shelves.set(name, drafts);
    });
    // A copy, because what is deleted and put back into a map stands at its end.
    this.#namespaces = new Map(before);
    this.#namespaces.delete(name);
    this.#shelves.delete(name);
    this.#recordRemoval('namespaces', name);
  }

  putForward(forward: Forward): void {
    this.ensureNamespace(forward.namespace);
    const before = this.#forwards.get(forward.name);
    if (before && listsDiffer(before, forward)) this.#renewLists(forward.name);
    this.#undo?.push(takeBack(this.#forwards, forward.name));
    this.#forwards.set(forward.name, forward);
    this.#record('forwards', () => storedForward(forward));
  }

  /** Removes the forward and all that it discovered, in whatever namespace, copies included (decisions 4.3). */
  removeForward(name: string): void {
    for (const entry of this.entriesOf(name)) this.remove(entry);
    const before = this.#forwards;
    this.#undo?.push(() => {
      this.#forwards = before;
    });
    this.#forwards = new Map(before);
    this.#forwards.delete(name);
    this.#recordRemoval('forwards', name);
  }

  /** The services of this name, in order of registration. */
  servicesNamed(name: string): readonly ServiceEntry[] {
    return (this.#draftServices ?? this.#services).named(name);
  }

  /** The service that a removal in the journal names. */
  serviceById(id: string): ServiceEntry | undefined {
    const parts: unknown = JSON.parse(id);
    const [name] = Array.isArray(parts) ? parts : [];
    return typeof name === 'string' ? this.servicesNamed(name).find((entry) => serviceKey(entry) === id) : undefined;
  }

  /** Adds a service, or replaces the one of the same key. */
  putService(entry: ServiceEntry): void {
    this.#changeableServices(entry.name).put(entry);
    this.#record('services', () => storedService(entry));
  }

  /** Removes services of this name, all at once: there may be thousands of one. */
  removeServices(name: string, gone: readonly ServiceEntry[]): void {
    this.#changeableServices(name).remove(name, new Set(gone));
    for (const entry of gone) this.#recordRemoval('services', serviceKey(entry));
  }

  /** Keeps a stored record that this version has no use for. */
  putForeign(section: Section, json: string): void {
    this.#foreign.set(section, [...(this.#foreign.get(section) ?? []), json]);
  }

  /** The entry that holds a key. */
  get(kind: Kind, namespace: Namespace, key: string): Entry | undefined {
    return this.#read(namespace, kind)?.get(key);
  }

  /** All entries of a kind in a namespace, shadowed ones included, in no order. */
  entries(kind: Kind, namespace: Namespace): Iterable<Entry> {
    return this.#read(namespace, kind)?.all() ?? [];
  }

  /** The entry that a removal in the journal names. */
  byId(kind: Kind, id: string): Entry | undefined {
    const parts: unknown = JSON.parse(id);
    const [name, key] = Array.isArray(parts) ? parts : [];
    const namespace = typeof name === 'string' ? parseNamespace(name) : undefined;
    if (!namespace || typeof key !== 'string') return undefined;
    return this.#read(namespace, kind)
      ?.claims(key)
      .find((entry) => entryId(entry) === id);
  }

  /** Everything that a forward discovered, and what was copied of it. */
  entriesOf(forward: string): Entry[] {
    const found: Entry[] = [];
    for (const namespace of this.#namespaces.keys()) {
      for (const kind of KINDS) {
        if (!this.#concerns(namespace, kind, forward)) continue;
        for (const entry of this.entries(kind, namespace)) {
          if (entry.discovered?.forward === forward) found.push(entry);
        }
      }
    }
    return found;
  }

  /** Adds an entry, or replaces the earlier state of the same record. */
  put(entry: Entry): void {
    this.ensureNamespace(entry.namespace);
    this.#changeable(entry).put(entry);
    this.#record(SECTION[entry.kind], () => storedEntry(entry));
  }

  remove(entry: Entry): void {
    this.#changeable(entry).remove(entry);
    this.#recordRemoval(SECTION[entry.kind], entryId(entry));
  }

  /** Ends the draft: the state it describes, and which lists differ from the base's. */
  finish(): { snapshot: Snapshot; touched: ChangedLists[] } {
    const touched: ChangedLists[] = [];
    for (const [namespace, drafts] of this.#shelves) {
      const state = this.#namespaces.get(namespace);
      if (!state) continue;
      const shelves = { ...state.shelves };
      for (const kind of KINDS) {
        const draft = drafts[kind];
        if (!draft) continue;
        shelves[kind] = draft.publish();
        touched.push({ namespace, kind });
      }
      this.#namespaces.set(namespace, { ...state, shelves });
    }
    const services = this.#draftServices?.publish() ?? this.#services;
    return { snapshot: new Snapshot(this.#namespaces, this.#forwards, this.#next, this.#foreign, services), touched };
  }

  /**
   * Notes what to write. The text is made when the store asks for it, which it does a slice at a time: a forward may
   * bring ten thousand entries at once, and they never change any more.
   */
  #record(section: Section, text: () => string): void {
    if (!this.#recording) return;
    this.changes.push({
      op: 'put',
      section,
      get json() {
        return text();
      },
    });
  }

  #recordRemoval(section: Section, id: string): void {
    if (this.#recording) this.changes.push({ op: 'remove', section, id });
  }

  /** Lists are kept prebuilt with their shelf: a copy of it has none. */
  #renewLists(forward: string): void {
    for (const namespace of this.#namespaces.keys()) {
      for (const kind of KINDS) if (this.#concerns(namespace, kind, forward)) this.#write(namespace, kind);
    }
  }

  /** False when the forward has surely nothing there. */
  #concerns(namespace: Namespace, kind: Kind, forward: string): boolean {
    if (this.#shelves.get(namespace)?.[kind]) return true;
    return this.#namespaces.get(namespace)?.shelves[kind].counts.has(forward) ?? false;
  }

  #read(namespace: Namespace, kind: Kind): DraftIndex | EntryIndex | undefined {
    return this.#shelves.get(namespace)?.[kind] ?? this.#namespaces.get(namespace)?.shelves[kind];
  }

  #changeable({ namespace, kind, key }: Entry): DraftIndex {
    const shelf = this.#write(namespace, kind);
    const claims = shelf.claims(key);
    this.#undo?.push(() => shelf.set(key, claims));
    return shelf;
  }

  #changeableServices(name: string): DraftServices {
    this.#draftServices ??= this.#services.copy();
    const services = this.#draftServices;
    const before = services.named(name);
    this.#undo?.push(() => services.set(name, before));
    return services;
  }

  #write(namespace: Namespace, kind: Kind): DraftIndex {
    const drafts = this.#shelves.get(namespace) ?? {};
    this.#shelves.set(namespace, drafts);
    drafts[kind] ??= this.#shelf(namespace, kind).copy();
    return drafts[kind];
  }

  #shelf(namespace: Namespace, kind: Kind): EntryIndex {
    return (this.#namespaces.get(namespace) ?? emptyNamespace(namespace)).shelves[kind];
  }
}

/** How to bring a map's member back to what it is now. */
function takeBack<K, V>(map: Map<K, V>, key: K): () => void {
  const before = map.get(key);
  return () => {
    if (before === undefined) map.delete(key);
    else map.set(key, before);
  };
}

/** True when clients may see other lists, or other caching hints with them, though no entry changed. */
function listsDiffer(before: Forward, after: Forward): boolean {
  const seen = ({ catalogues }: Forward): string =>
    JSON.stringify(catalogues.map(({ key, era, capabilities, cache }) => [key, era, capabilities, cache]));
  return seen(before) !== seen(after);
}
