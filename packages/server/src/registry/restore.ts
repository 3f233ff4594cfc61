import { type ChangedLists, Draft } from './draft.ts';
import { DEFAULT_NAMESPACE, type Entry, KINDS, type Kind, SECTION } from './entries.ts';
import { type SharedMembers, sharedMembers } from './serialize.ts';
import { Snapshot } from './snapshot.ts';
import { forEachInSteps, runSteps, type Steps } from './steps.ts';
import { type Change, type Loaded, SECTIONS, type Section } from './store/store.ts';
import {
  type AddressCheck,
  type ForwardOfEntry,
  MAX_REGISTRATION_ID,
  readEntry,
  readForward,
  readNamespace,
  readService,
} from './stored.ts';

/** Records that cannot be used and are reported one by one. */
const MAX_PROBLEMS = 100;

/**
 * Restores stored records: the entries of `registry.json` and the commits of the journal, or the commits of
 * other replicas.
 */
export class StateRestorer {
  readonly #loaded: Loaded;
  readonly #addressProblem: AddressCheck;
  readonly #draft: Draft;
  readonly #problems: string[] = [];
  #moreProblems = 0;
  /** Shadowed entries: the first entry of a key is the served one, so these are added last. */
  readonly #shadowed: Entry[] = [];
  #hasReservedIds = false;
  /** By address of the forward. */
  readonly #members = new Map<string, SharedMembers>();
  /** Whether clients may have used the state before. */
  readonly #tracksAccess: boolean;

  /** `base`: the state to which the records are added. */
  constructor(loaded: Loaded, addressProblem: AddressCheck, base?: Snapshot) {
    this.#loaded = loaded;
    this.#addressProblem = addressProblem;
    this.#draft = new Draft(base ?? Snapshot.empty(), false);
    this.#tracksAccess = base !== undefined;
  }

  /**
   * Returns the state, the lists that may have changed, and a text for each record that cannot be used. Such records are
   * written back unchanged, except entries whose forward no longer exists.
   */
  *run(): Steps<{ snapshot: Snapshot; changed: ChangedLists[]; revokesAccess: boolean; problems: string[] }> {
    const { entries, journal } = this.#loaded;
    for (const section of SECTIONS) {
      for (const json of entries[section]) {
        this.#put(section, json, undefined);
        // A single one may be large.
        yield;
      }
    }
    yield* forEachInSteps(this.#shadowed, (entry) => this.#draft.put(entry));
    let revokesAccess = false;
    for (const commit of journal) {
      if (this.#tracksAccess) {
        yield* this.#draft.attempt(() => this.#apply(commit));
        revokesAccess ||= this.#draft.effect === 'revocation';
      } else {
        yield* this.#apply(commit);
      }
    }
    const finished = yield* this.#draft.finishInSteps();
    if (this.#moreProblems > 0) {
      this.#problems.push(`${this.#moreProblems} more entries of registry.json cannot be used or were dropped`);
    }
    return { ...finished, revokesAccess, problems: this.#problems };
  }

  *#apply(commit: Iterable<Change>): Steps<void> {
    for (const change of commit) {
      if (change.op === 'put') this.#put(change.section, change.json, change.id);
      else this.#remove(change);
      yield;
    }
  }

  #put(section: Section, json: string, id: string | undefined): void {
    const draft = this.#draft;
    let problem: string | undefined;
    try {
      if (section === 'namespaces') {
        const read = readNamespace(json);
        if (typeof read === 'string') problem = read;
        else draft.putNamespace(read.name, read.labels, read.unknown);
      } else if (section === 'forwards') {
        const read = readForward(json, () => this.#nextId(), this.#addressProblem);
        problem = this.#use(read, (forward) => draft.putForward(forward));
      } else if (section === 'services') {
        problem = this.#use(
          readService(json, () => this.#nextId()),
          (service) => draft.putService(service),
        );
      } else problem = this.#putEntry(section, kindOf(section), json);
    } catch (error) {
      problem = error instanceof Error ? error.message : String(error);
    }
    if (problem !== undefined) this.#preserve(section, json, id, problem);
    else if (id !== undefined) draft.removeUnusable(section, id);
  }

  /** Puts a record that could be read; else returns the problem. */
  #use<T extends { readonly registrationId: number }>(read: T | string, put: (record: T) => void): string | undefined {
    if (typeof read === 'string') return read;
    this.#draft.reserveRegistrationId(read.registrationId);
    put(read);
    return undefined;
  }

  #putEntry(section: Section, kind: Kind, json: string): string | undefined {
    let orphaned = false;
    const findForward = (name: string): ForwardOfEntry | undefined => {
      const forward = this.#draft.forwards.get(name);
      orphaned = forward === undefined;
      return forward && { ...forward, members: this.#members.getOrInsertComputed(forward.address, sharedMembers) };
    };
    const read = readEntry(kind, json, findForward, () => this.#nextId());
    if (typeof read === 'string') {
      if (!orphaned) return read;
      this.#report(`an entry of ${section} in registry.json was dropped: ${read}`);
      return undefined;
    }
    this.#draft.reserveRegistrationId(read.entry.registrationId);
    if (read.shadowed) this.#shadowed.push(read.entry);
    else this.#draft.put(read.entry);
    return undefined;
  }

  #remove({ section, id }: Pick<Change & { op: 'remove' }, 'section' | 'id'>): void {
    this.#draft.removeUnusable(section, id);
    if (section === 'namespaces') {
      const name = [...this.#draft.namespaces.keys()].find((candidate) => candidate === id);
      if (name && name !== DEFAULT_NAMESPACE) runSteps(this.#draft.removeNamespaceInSteps(name));
      return;
    }
    if (section === 'forwards') return runSteps(this.#draft.removeForwardInSteps(id));
    if (section === 'services') {
      const service = this.#draft.serviceById(id);
      if (service) this.#draft.removeServices(service.name, [service]);
      return;
    }
    const entry = this.#draft.byId(kindOf(section), id);
    if (entry) this.#draft.remove(entry);
  }

  #preserve(section: Section, json: string, id: string | undefined, problem: string): void {
    // What it replaces is out of date.
    if (id !== undefined && section !== 'namespaces' && section !== 'forwards') this.#remove({ section, id });
    this.#draft.putUnusable(section, json, id);
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
    const { entries, journal } = this.#loaded;
    for (const section of SECTIONS) yield* entries[section];
    for (const commit of journal) for (const change of commit) if (change.op === 'put') yield change.json;
  }
}

function kindOf(section: Section): Kind {
  return KINDS.find((kind) => SECTION[kind] === section) ?? 'tool';
}
