import { serviceKey } from '@sluice/contract';
import { tryParseJson } from '@sluice/protocol/json/parse';
import { accessDiffers, listsDiffer, PutChange, type RecordForm, restoreFunction, UndoStep } from './changes.ts';
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
import type { DraftIndex, EntryIndex } from './entry-index.ts';
import { DraftOperation, type OperationEffect, revokesAccess } from './revoked-access.ts';
import { emptyNamespace, type NamespaceState, Services, Snapshot } from './snapshot.ts';
import { forEachInSteps, isSteps, PER_STEP, type Steps } from './steps.ts';
import {
  type RecordedChange,
  type RecordedPut,
  type Section,
  STORED_SECTIONS,
  type StoredChange,
  type StoredRecords,
  type StoredSection,
  UNKNOWN_MEMBERS,
} from './store/store.ts';
import { isShadowed, storedEntry, storedForward, storedNamespace, storedService } from './stored.ts';

/** A list that a commit may have changed. */
export interface ChangedLists {
  readonly namespace: Namespace;
  readonly kind: Kind;
}

const NAMESPACE_FORM: RecordForm<NamespaceState> = {
  section: () => 'namespaces',
  text: storedNamespace,
  id: ({ name }) => name,
};
const FORWARD_FORM: RecordForm<Forward> = {
  section: () => 'forwards',
  text: storedForward,
  id: ({ name }) => name,
};
const SERVICE_FORM: RecordForm<ServiceEntry> = {
  section: () => 'services',
  text: storedService,
  id: serviceKey,
};

function entryForm(isShadowed: (entry: Entry) => boolean): RecordForm<Entry> {
  const text = (entry: Entry) => storedEntry(entry, isShadowed(entry));
  return { section: ({ kind }) => SECTION[kind], text, id: entryId };
}

/** A copy-on-write copy of a snapshot, to which operations are applied. */
export class Draft {
  #namespaces: Map<Namespace, NamespaceState>;
  #forwards: Map<string, Forward>;
  readonly #unusable: Map<StoredSection, ReadonlyMap<string, string>>;
  /** Those of `#unusable` that belong to this draft. */
  readonly #ownUnusable = new Map<StoredSection, Map<string, string>>();
  readonly #indexes = new Map<Namespace, Partial<Record<Kind, DraftIndex>>>();
  readonly #services: Services;
  readonly #hidden: ReadonlySet<string>;
  /** Once they have changed. */
  #ownServices: Map<string, ServiceEntry> | undefined;
  #next: number;
  readonly #recording: boolean;
  #operation: DraftOperation | undefined;
  /** Changes for the store to write. */
  readonly changes: RecordedChange[] = [];
  readonly #entryForm = entryForm((entry) => this.get(entry.kind, entry.namespace, entry.key) !== entry);

  /** `recording`: false while restoring stored records. */
  constructor(base: Snapshot, recording = true) {
    this.#recording = recording;
    this.#namespaces = new Map(base.namespaces);
    this.#forwards = new Map(base.forwards);
    this.#unusable = new Map(base.unusable);
    this.#services = base.services;
    this.#hidden = base.hidden;
    this.#next = base.next;
  }

  /**
   * Runs an operation, before the end of which no other one may run. When it throws, its changes are undone and the error is
   * rethrown. `effect`: `other` if it has changed nothing.
   */
  *attempt<T>(operation: (draft: Draft) => T | Steps<T>): Steps<{ value: T; effect: OperationEffect }> {
    const current = new DraftOperation();
    const changes = this.changes.length;
    const next = this.#next;
    this.#operation = current;
    try {
      const returned = operation(this);
      const value = isSteps(returned) ? yield* returned : returned;
      if (yield* revokesAccess(current, this)) return { value, effect: 'revocation' };
      return { value, effect: this.changes.length > changes && current.isAddition ? 'addition' : 'other' };
    } catch (error) {
      current.undo();
      this.changes.length = changes;
      this.#next = next;
      throw error;
    } finally {
      this.#operation = undefined;
    }
  }

  get namespaces(): ReadonlyMap<Namespace, Pick<NamespaceState, 'name' | 'identity' | 'labels'>> {
    return this.#namespaces;
  }

  get forwards(): ReadonlyMap<string, Forward> {
    return this.#forwards;
  }

  /** Returns a registration id for a new forward, manual entry or service. */
  nextRegistrationId(): number {
    return this.#next++;
  }

  /** Makes later ids greater than one that was read from disk. */
  reserveRegistrationId(id: number): void {
    this.#next = Math.max(this.#next, id + 1);
  }

  /** Creates the namespace, or replaces the labels of an existing one. */
  putNamespace(name: Namespace, labels: Labels = {}, unknown?: UnknownMembers): void {
    const state = this.#namespaces.get(name) ?? emptyNamespace(name);
    const changed = { ...state, labels, unknown: unknown ?? state.unknown };
    this.#operation?.others.push(restoreFunction(this.#namespaces, name));
    this.#namespaces.set(name, changed);
    this.#record(changed, NAMESPACE_FORM);
  }

  /** Creates the namespace when it is missing: an entry that names one creates it. */
  ensureNamespace(name: Namespace): void {
    if (!this.#namespaces.has(name)) this.putNamespace(name);
  }

  /** Removes the namespace and its entries. Callers reject `default`. */
  *removeNamespaceInSteps(name: Namespace): Steps<void> {
    if (name === DEFAULT_NAMESPACE) throw new Error('the default namespace cannot be removed');
    for (const kind of KINDS) yield* forEachInSteps([...this.entries(kind, name)], (entry) => this.remove(entry));
    this.#copyForRemoval();
    const removed = this.#namespaces.get(name);
    if (removed) this.#operation?.removedNamespaces.push(removed);
    this.#operation?.others.push(restoreFunction(this.#indexes, name));
    this.#namespaces.delete(name);
    this.#indexes.delete(name);
    this.#recordRemoval('namespaces', name);
  }

  /** `mayChangeLists`: false if its entries are listed as before. */
  putForward(forward: Forward, mayChangeLists = true): void {
    this.ensureNamespace(forward.namespace);
    const before = this.#forwards.get(forward.name);
    if (before && mayChangeLists && listsDiffer(before, forward)) this.#invalidateLists(forward.name);
    if (before && accessDiffers(before, forward)) this.#invalidateResources(forward.name);
    if (before) this.#operation?.recordForward(before);
    this.#operation?.others.push(restoreFunction(this.#forwards, forward.name));
    this.#forwards.set(forward.name, forward);
    this.#record(forward, FORWARD_FORM);
  }

  /** Removes the forward and its discovered entries in all namespaces, copies included. */
  *removeForwardInSteps(name: string): Steps<void> {
    yield* forEachInSteps(yield* this.entriesInSteps(name), (entry) => this.remove(entry));
    this.#copyForRemoval();
    const removed = this.#forwards.get(name);
    if (removed) this.#operation?.recordForward(removed);
    this.#forwards.delete(name);
    this.#recordRemoval('forwards', name);
  }

  /** Copies the maps for the first removal of an operation: an undo that inserted a key again would move it to the end. */
  #copyForRemoval(): void {
    const [operation, namespaces, forwards] = [this.#operation, this.#namespaces, this.#forwards];
    if (!operation || operation.hasCopies) return;
    operation.hasCopies = true;
    operation.others.push(() => {
      this.#namespaces = namespaces;
      this.#forwards = forwards;
    });
    this.#namespaces = new Map(namespaces);
    this.#forwards = new Map(forwards);
  }

  /** The services by `serviceKey`, in no order. */
  get services(): ReadonlyMap<string, ServiceEntry> {
    return this.#ownServices ?? this.#services.byKey;
  }

  /** Adds a service, or replaces the one of the same key. */
  putService(entry: ServiceEntry): void {
    const id = serviceKey(entry);
    this.#servicesForChange(id).set(id, entry);
    this.#record(entry, SERVICE_FORM);
  }

  removeService(entry: ServiceEntry): void {
    const id = serviceKey(entry);
    this.#servicesForChange(id).delete(id);
    this.#recordRemoval('services', id);
  }

  /** Retains a stored record that this version cannot use. `id`: empty for one of a file. */
  keepUnreadable(section: StoredSection, json: string, id: string): void {
    const own = this.#unusableIn(section);
    // No record has an id that begins with a line feed.
    own.set(id || `\n${own.size}`, json);
  }

  /** Removes such a record: it was replaced by one that can be used, or removed by a replica that can use it. */
  removeUnusable(section: StoredSection, id: string): void {
    if (this.#unusable.get(section)?.has(id)) this.#unusableIn(section).delete(id);
  }

  /** The entry that owns a key, disabled or not. */
  get(kind: Kind, namespace: Namespace, key: string): Entry | undefined {
    return this.#read(namespace, kind)?.owner(key);
  }

  /** All entries of a kind in a namespace, shadowed ones included, in no order. */
  entries(kind: Kind, namespace: Namespace): Iterable<Entry> {
    return this.#read(namespace, kind)?.all() ?? [];
  }

  /** The entry with the id of a removal in the journal. */
  byId(kind: Kind, id: string): Entry | undefined {
    const [name, key] = partsOf(id);
    const namespace = typeof name === 'string' ? parseNamespace(name) : undefined;
    if (!namespace || typeof key !== 'string') return undefined;
    return this.#read(namespace, kind)
      ?.candidates(key)
      .find((entry) => entryId(entry) === id);
  }

  /** All entries discovered by a forward, and their copies. */
  *entriesInSteps(forward: string): Steps<Entry[]> {
    const found: Entry[] = [];
    for (const [at, namespace] of this.#namespaces.keys().toArray().entries()) {
      if (at % PER_STEP === 0) yield;
      for (const kind of KINDS) {
        if (!this.#mayHaveEntriesOf(namespace, kind, forward)) continue;
        yield* forEachInSteps(this.entries(kind, namespace), (entry) => {
          if (entry.discovered?.forward === forward) found.push(entry);
        });
      }
    }
    return found;
  }

  /** Adds an entry, or replaces the earlier state of the same record. */
  put(entry: Entry): void {
    this.ensureNamespace(entry.namespace);
    this.#indexForChange(entry).put(entry);
    this.#record(entry, this.#entryForm);
  }

  /** Removes an entry. Returns the one that owns its key from now on and was shadowed by it, if there is one. */
  remove(entry: Entry): Entry | undefined {
    const index = this.#indexForChange(entry);
    const owner = index.owner(entry.key);
    index.remove(entry);
    const next = index.owner(entry.key);
    const promoted = next === owner ? undefined : next;
    this.#recordRemoval(SECTION[entry.kind], entryId(entry), promoted);
    return promoted;
  }

  /** Ends the draft: returns its state and the lists that may differ from the base. */
  *finishInSteps(): Steps<{ snapshot: Snapshot; changed: ChangedLists[] }> {
    const changed: ChangedLists[] = [];
    for (const [namespace, drafts] of this.#indexes) {
      const state = this.#namespaces.get(namespace);
      if (!state) continue;
      const indexes = { ...state.indexes };
      for (const kind of KINDS) {
        const draft = drafts[kind];
        if (!draft) continue;
        indexes[kind] = yield* draft.publishInSteps();
        changed.push({ namespace, kind });
      }
      this.#namespaces.set(namespace, { ...state, indexes });
    }
    const services = this.#ownServices ? new Services(this.#ownServices) : this.#services;
    const contents = [this.#namespaces, this.#forwards, this.#next, this.#unusable] as const;
    return { snapshot: new Snapshot(...contents, services, this.#hidden), changed };
  }

  #unusableIn(section: StoredSection): Map<string, string> {
    // Once: there may be a million in a damaged file.
    const own = this.#ownUnusable.getOrInsertComputed(section, () => new Map(this.#unusable.get(section)));
    this.#unusable.set(section, own);
    return own;
  }

  #record<Stored>(stored: Stored, form: RecordForm<Stored>): void {
    if (this.#recording) this.changes.push(new PutChange(stored, form));
  }

  /** `promoted`: the entry that is served under the key from now on. */
  #recordRemoval(section: Section, id: string, promoted?: Entry): void {
    if (!this.#recording) return;
    this.changes.push({ section, id, json: null, promoted: promoted && new PutChange(promoted, this.#entryForm) });
  }

  /** Copies the indexes, because prebuilt lists belong to an index. */
  #invalidateLists(forward: string): void {
    for (const namespace of this.#namespaces.keys()) {
      for (const kind of KINDS) if (this.#mayHaveEntriesOf(namespace, kind, forward)) this.#write(namespace, kind);
    }
  }

  /** Marks the resources as changed where uris can lead to the forward: perhaps in no list, such as a tool's links. */
  #invalidateResources(forward: string): void {
    for (const namespace of this.#namespaces.keys()) {
      if (KINDS.some((kind) => this.#mayHaveEntriesOf(namespace, kind, forward))) this.#write(namespace, 'resource');
    }
  }

  /** False only when the forward has no entries there. */
  #mayHaveEntriesOf(namespace: Namespace, kind: Kind, forward: string): boolean {
    if (this.#indexes.get(namespace)?.[kind]) return true;
    return this.#namespaces.get(namespace)?.indexes[kind].counts.has(forward) ?? false;
  }

  #read(namespace: Namespace, kind: Kind): DraftIndex | EntryIndex | undefined {
    return this.#indexes.get(namespace)?.[kind] ?? this.#namespaces.get(namespace)?.indexes[kind];
  }

  #indexForChange({ namespace, kind, key }: Entry): DraftIndex {
    const index = this.#write(namespace, kind);
    this.#operation?.entries.push(new UndoStep(index, key));
    return index;
  }

  #servicesForChange(id: string): Map<string, ServiceEntry> {
    this.#ownServices ??= new Map(this.#services.byKey);
    const before = this.#ownServices.get(id);
    if (before) this.#operation?.services.getOrInsert(id, before);
    this.#operation?.others.push(restoreFunction(this.#ownServices, id));
    return this.#ownServices;
  }

  #write(namespace: Namespace, kind: Kind): DraftIndex {
    const drafts = this.#indexes.getOrInsertComputed(namespace, () => ({}));
    drafts[kind] ??= (this.#namespaces.get(namespace) ?? emptyNamespace(namespace)).indexes[kind].copy();
    return drafts[kind];
  }
}

/** The records of a snapshot, section by section. */
export function* recordsOf(snapshot: Snapshot): Generator<RecordedPut> {
  function* puts<Stored>(records: Iterable<Stored>, form: RecordForm<Stored>) {
    for (const record of records) yield new PutChange(record, form);
  }
  const form = entryForm((entry) => !snapshot.isServed(entry));
  const entries = (kind: Kind) => puts(snapshot.entries(kind, { shadowed: true }), form);
  const sources: Record<Section, () => Iterable<RecordedPut>> = {
    namespaces: () => puts(snapshot.namespaces.values(), NAMESPACE_FORM),
    forwards: () => puts(snapshot.forwards.values(), FORWARD_FORM),
    tools: () => entries('tool'),
    resources: () => entries('resource'),
    prompts: () => entries('prompt'),
    services: () => puts(snapshot.services.all, SERVICE_FORM),
  };
  for (const section of STORED_SECTIONS) {
    if (section !== UNKNOWN_MEMBERS) yield* sources[section]();
    for (const [id, json] of snapshot.unusable.get(section) ?? []) yield { section, id, json };
  }
}

/** The parts of the id of an entry; none for that of another release. */
function partsOf(id: string): unknown[] {
  const parts = tryParseJson(id);
  return Array.isArray(parts) ? parts : [];
}

/** The changes that make a state the one of these records. What is equal stays as it is, such as the identity of namespaces. */
export function* changesTo(records: StoredRecords, snapshot: Snapshot): Steps<StoredChange[]> {
  const missing = new Map<string, Map<string, string>>(
    STORED_SECTIONS.map((section) => {
      return [section, new Map(Array.from(records.get(section) ?? [], ({ id, json }) => [id, json]))];
    }),
  );
  const changes: StoredChange[] = [];
  for (const { section, id, json } of recordsOf(snapshot)) {
    const stored = missing.get(section)?.get(id);
    if (stored === json) missing.get(section)?.delete(id);
    // An entry is added again, since another one of its key may be served.
    else if (stored === undefined || KINDS.some((kind) => SECTION[kind] === section))
      changes.push({ section, id, json: null });
    yield;
  }
  for (const [section, added] of missing) {
    // The first entry of a key is served.
    const shadowed: StoredChange[] = [];
    yield* forEachInSteps(added, ([id, json]) => (isShadowed(json) ? shadowed : changes).push({ section, id, json }));
    for (const change of shadowed) changes.push(change);
  }
  return changes;
}
