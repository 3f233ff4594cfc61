import { type Entry, entryId, type Forward, KINDS, type Kind, type Labels } from './entries.ts';
import { storedEntry } from './json.ts';
import { DEFAULT_NAMESPACE, type Namespace, parseNamespace } from './names.ts';
import type { DraftShelf, Shelf } from './shelf.ts';
import { emptyNamespace, type NamespaceState, Snapshot } from './snapshot.ts';
import type { Change, Section } from './store/store.ts';
import { storedForward, storedNamespace } from './stored.ts';

/** The section of `registry.json` that entries of a kind are kept in. */
export const SECTION: Readonly<Record<Kind, Section>> = { tool: 'tools', resource: 'resources', prompt: 'prompts' };

/** What a published state changed, for those who tell clients of it. */
export interface Touched {
  readonly namespace: Namespace;
  readonly kind: Kind;
}

/**
 * The registry under change: a copy of a snapshot in which only what is touched is copied. Operations check first and
 * change afterwards, so that one that throws has changed nothing.
 */
export class Draft {
  readonly #namespaces: Map<Namespace, NamespaceState>;
  readonly #forwards: Map<string, Forward>;
  readonly #shelves = new Map<Namespace, Partial<Record<Kind, DraftShelf>>>();
  #next: number;
  readonly #recording: boolean;
  /** What to write so that the state survives. */
  readonly changes: Change[] = [];

  /** `recording` off: for putting back what is stored already. */
  constructor(base: Snapshot, recording = true) {
    this.#recording = recording;
    this.#namespaces = new Map(base.namespaces);
    this.#forwards = new Map(base.forwards);
    this.#next = base.next;
  }

  get namespaces(): ReadonlyMap<Namespace, { readonly name: Namespace; readonly labels: Labels }> {
    return this.#namespaces;
  }

  get forwards(): ReadonlyMap<string, Forward> {
    return this.#forwards;
  }

  /** A registration number for a new forward or hand-made entry. */
  nextSource(): number {
    return this.#next++;
  }

  /** Keeps numbers given later above one that was read from disk. */
  reserveSource(source: number): void {
    this.#next = Math.max(this.#next, source + 1);
  }

  /** Creates the namespace, or gives the existing one these labels. */
  putNamespace(name: Namespace, labels: Labels = {}): void {
    const state = this.#namespaces.get(name);
    this.#namespaces.set(name, state ? { ...state, labels } : emptyNamespace(name, labels));
    this.#record(() => ({ op: 'put', section: 'namespaces', json: storedNamespace({ name, labels }) }));
  }

  /** Creates the namespace when it is missing (decisions 2.2: an entry that names one creates it). */
  ensureNamespace(name: Namespace): void {
    if (!this.#namespaces.has(name)) this.putNamespace(name);
  }

  /** Removes the namespace with whatever it still holds. `default` stays: callers refuse that. */
  removeNamespace(name: Namespace): void {
    if (name === DEFAULT_NAMESPACE) throw new Error('the default namespace cannot be removed');
    for (const kind of KINDS) for (const entry of [...this.entries(kind, name)]) this.remove(entry);
    this.#namespaces.delete(name);
    this.#shelves.delete(name);
    this.#record(() => ({ op: 'remove', section: 'namespaces', id: name }));
  }

  putForward(forward: Forward): void {
    this.ensureNamespace(forward.namespace);
    this.#forwards.set(forward.name, forward);
    this.#record(() => ({ op: 'put', section: 'forwards', json: storedForward(forward) }));
  }

  /** Removes the forward and all that it discovered, in whatever namespace (decisions 4.3). */
  removeForward(name: string): void {
    for (const entry of this.entriesOf(name)) this.remove(entry);
    this.#forwards.delete(name);
    this.#record(() => ({ op: 'remove', section: 'forwards', id: name }));
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

  /** Everything that a forward discovered. */
  entriesOf(forward: string): Entry[] {
    const found: Entry[] = [];
    for (const namespace of this.#namespaces.keys()) {
      for (const kind of KINDS) {
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
    this.#write(entry.namespace, entry.kind).put(entry);
    this.#record(() => ({ op: 'put', section: SECTION[entry.kind], json: storedEntry(entry) }));
  }

  remove(entry: Entry): void {
    this.#write(entry.namespace, entry.kind).remove(entry);
    this.#record(() => ({ op: 'remove', section: SECTION[entry.kind], id: entryId(entry) }));
  }

  /** Ends the draft: the state it describes, and which lists differ from the base's. */
  finish(): { snapshot: Snapshot; touched: Touched[] } {
    const touched: Touched[] = [];
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
    return { snapshot: new Snapshot(this.#namespaces, this.#forwards, this.#next), touched };
  }

  #record(change: () => Change): void {
    if (this.#recording) this.changes.push(change());
  }

  #read(namespace: Namespace, kind: Kind): DraftShelf | Shelf | undefined {
    return this.#shelves.get(namespace)?.[kind] ?? this.#namespaces.get(namespace)?.shelves[kind];
  }

  #write(namespace: Namespace, kind: Kind): DraftShelf {
    const drafts = this.#shelves.get(namespace) ?? {};
    this.#shelves.set(namespace, drafts);
    drafts[kind] ??= this.#shelf(namespace, kind).copy();
    return drafts[kind];
  }

  #shelf(namespace: Namespace, kind: Kind): Shelf {
    return (this.#namespaces.get(namespace) ?? emptyNamespace(namespace)).shelves[kind];
  }
}
