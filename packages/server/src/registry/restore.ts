import { type ChangedLists, Draft } from './draft.ts';
import { DEFAULT_NAMESPACE, type Entry, KINDS, type Kind, parseNamespace, SECTION } from './entries.ts';
import { type InternedFields, internedFields } from './serialize.ts';
import { Snapshot } from './snapshot.ts';
import { forEachInSteps, type Steps } from './steps.ts';
import {
  SECTIONS,
  STORED_SECTIONS,
  type StoredChange,
  type StoredRecord,
  type StoredRecords,
  type StoredSection,
  UNKNOWN_MEMBERS,
} from './store/store.ts';
import {
  type AddressCheck,
  type ForwardOfEntry,
  MAX_REGISTRATION_ID,
  MissingForwardError,
  readEntry,
  readForward,
  readNamespace,
  readService,
} from './stored.ts';

/** Records that cannot be used and are reported one by one. */
const MAX_PROBLEMS = 100;

/** What a {@link StateRestorer} restores: records, then changes in order. */
export interface StoredState {
  readonly records: StoredRecords;
  readonly changes: Iterable<StoredChange>;
}

/** Restores stored records, or applies the commits of other replicas. */
export class StateRestorer {
  readonly #stored: StoredState;
  readonly #addressProblem: AddressCheck;
  readonly #draft: Draft;
  readonly #problems: string[] = [];
  #moreProblems = 0;
  /** Shadowed entries: the first entry of a key is the served one, so these are added last. */
  #shadowed: Entry[] | undefined = [];
  #hasReservedIds = false;
  /** By address of the forward. */
  readonly #members = new Map<string, InternedFields>();
  /** Whether clients may have used the state before. */
  readonly #tracksAccess: boolean;

  /** `base`: the state to which the records are added. */
  constructor(stored: StoredState, addressProblem: AddressCheck, base?: Snapshot) {
    this.#stored = stored;
    this.#addressProblem = addressProblem;
    this.#draft = new Draft(base ?? Snapshot.empty(), false);
    this.#tracksAccess = base !== undefined;
  }

  /**
   * Returns the state, the lists that may have changed, and a text for each record that cannot be used. Such records are
   * written back unchanged, except entries whose forward no longer exists.
   */
  *run(): Steps<{ snapshot: Snapshot; changed: ChangedLists[]; revokesAccess: boolean; problems: string[] }> {
    const { records, changes } = this.#stored;
    // It always exists, stored or not.
    this.#draft.ensureNamespace(DEFAULT_NAMESPACE);
    for (const section of STORED_SECTIONS) {
      for (const record of records.get(section) ?? []) {
        this.#put(section, record);
        // A single one may be large.
        yield;
      }
    }
    yield* forEachInSteps(this.#shadowed ?? [], (entry) => this.#draft.put(entry));
    // In the order of changes, the served one is there already.
    this.#shadowed = undefined;
    let revokesAccess = false;
    if (this.#tracksAccess) {
      const { effect } = yield* this.#draft.attempt(() => this.#apply(changes));
      revokesAccess = effect === 'revocation';
    } else yield* this.#apply(changes);
    const finished = yield* this.#draft.finishInSteps();
    if (this.#moreProblems > 0) {
      this.#problems.push(`${this.#moreProblems} more entries of registry.json cannot be used or were dropped`);
    }
    return { ...finished, revokesAccess, problems: this.#problems };
  }

  *#apply(changes: Iterable<StoredChange>): Steps<void> {
    for (const { section: name, id, json } of changes) {
      const section = STORED_SECTIONS.find((known) => known === name);
      if (section && json === null) yield* this.#remove(section, id);
      else if (section && json !== null) this.#put(section, { id, json });
      yield;
    }
  }

  #put(section: StoredSection, record: StoredRecord): void {
    const { id, json } = record;
    if (section === UNKNOWN_MEMBERS) return this.#draft.keepUnreadable(section, json, id);
    try {
      this.#read(section, record);
    } catch (error) {
      const problem = error instanceof Error ? error.message : String(error);
      if (!(error instanceof MissingForwardError)) return this.#preserve(section, record, problem);
      this.#report(`an entry of ${section} in registry.json was dropped: ${problem}`);
    }
    this.#draft.removeUnusable(section, id);
  }

  /** Puts a record into the draft; throws an error with what is wrong with it. */
  #read(section: StoredSection, { json }: StoredRecord): void {
    const draft = this.#draft;
    const next = () => this.#nextId();
    if (section === 'namespaces') {
      const { name, labels, unknown } = readNamespace(json);
      draft.putNamespace(name, labels, unknown);
    } else if (section === 'forwards') draft.putForward(this.#reserved(readForward(json, next, this.#addressProblem)));
    else if (section === 'services') draft.putService(this.#reserved(readService(json, next)));
    else {
      const { entry, shadowed } = readEntry(kindOf(section), json, (name) => this.#forwardOf(name), next);
      this.#reserved(entry);
      if (shadowed && this.#shadowed) this.#shadowed.push(entry);
      else draft.put(entry);
    }
  }

  #forwardOf(name: string): ForwardOfEntry | undefined {
    const forward = this.#draft.forwards.get(name);
    return forward && { ...forward, members: this.#members.getOrInsertComputed(forward.address, internedFields) };
  }

  /** Reserves the id of a record that could be read. */
  #reserved<T extends { readonly registrationId: number }>(record: T): T {
    this.#draft.reserveRegistrationId(record.registrationId);
    return record;
  }

  *#remove(section: StoredSection, id: string): Steps<void> {
    const draft = this.#draft;
    draft.removeUnusable(section, id);
    if (section === 'namespaces') {
      const name = parseNamespace(id);
      if (name && name !== DEFAULT_NAMESPACE && draft.namespaces.has(name)) yield* draft.removeNamespaceInSteps(name);
    } else if (section === 'forwards') yield* draft.removeForwardInSteps(id);
    else this.#removeOne(section, id);
  }

  /** Removes a service or an entry. */
  #removeOne(section: StoredSection, id: string): void {
    const service = section === 'services' && this.#draft.services.get(id);
    if (service) this.#draft.removeService(service);
    const kind = KINDS.find((each) => SECTION[each] === section);
    const entry = kind && this.#draft.byId(kind, id);
    if (entry) this.#draft.remove(entry);
  }

  #preserve(section: StoredSection, { id, json }: StoredRecord, problem: string): void {
    // What it replaces is out of date.
    this.#removeOne(section, id);
    this.#draft.keepUnreadable(section, json, id);
    this.#report(`an entry of ${section} in registry.json cannot be used: ${problem}`);
  }

  #report(problem: string): void {
    if (this.#problems.length < MAX_PROBLEMS) this.#problems.push(problem);
    else this.#moreProblems++;
  }

  /** A registration id for a record without one, as in a file written by hand: after all existing ids. */
  #nextId(): number {
    if (!this.#hasReservedIds) {
      this.#hasReservedIds = true;
      for (const json of this.#texts()) {
        // Any member of this name: reserving too many ids is harmless, using one twice is not.
        for (const [, digits] of json.matchAll(/"source":\s*(\d{1,16})/g)) {
          if (Number(digits) < MAX_REGISTRATION_ID) this.#draft.reserveRegistrationId(Number(digits));
        }
      }
    }
    return this.#draft.nextRegistrationId();
  }

  *#texts(): Generator<string> {
    const { records, changes } = this.#stored;
    for (const section of SECTIONS) for (const { json } of records.get(section) ?? []) yield json;
    for (const { json } of changes) if (json !== null) yield json;
  }
}

function kindOf(section: StoredSection): Kind {
  return KINDS.find((kind) => SECTION[kind] === section) ?? 'tool';
}
