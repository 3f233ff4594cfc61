import { withTimeout } from '@sluice/protocol/timing';
import { Turns } from '@sluice/protocol/turns';
import { type ChangedLists, changesTo, Draft } from './draft.ts';
import { DEFAULT_NAMESPACE, type Entry, KINDS, type Kind, SECTION } from './entries.ts';
import { type SharedMembers, sharedMembers } from './serialize.ts';
import { Snapshot } from './snapshot.ts';
import { forEachInSteps, type Steps, singleStep } from './steps.ts';
import { isDiskFull } from './store/files.ts';
import { snapshotSlices } from './store/registry-file.ts';
import {
  type Change,
  type Commit,
  type Loaded,
  type Newer,
  noEntries,
  SECTIONS,
  type Section,
  type SharedStore,
  type Store,
  UnavailableStoreError,
} from './store/store.ts';
import {
  type ForwardOfEntry,
  MAX_REGISTRATION_ID,
  readEntry,
  readForward,
  readNamespace,
  readService,
  snapshotEntry,
  storedForward,
  storedNamespace,
  storedService,
} from './stored.ts';

/** Time for which a request for something unknown waits for what other replicas have committed. */
const RECHECK_MS = 250;

/** Records that cannot be used and are reported one by one. */
const MAX_PROBLEMS = 100;

/**
 * Restores stored records: the entries of `registry.json` and the commits of the journal (decisions 1.5), or the commits of
 * other replicas.
 */
class StateRestorer {
  readonly #loaded: Loaded;
  readonly #draft: Draft;
  readonly #problems: string[] = [];
  #moreProblems = 0;
  /** Shadowed entries: the first entry of a key is the served one, so these are added last. */
  readonly #shadowed: Entry[] = [];
  #hasReservedIds = false;
  /** By address of the forward. */
  readonly #members = new Map<string, SharedMembers>();

  /** `base`: the state to which the records are added. */
  constructor(loaded: Loaded, base = Snapshot.empty()) {
    this.#loaded = loaded;
    this.#draft = new Draft(base, false);
  }

  /**
   * Returns the state, the lists that may have changed, and a text for each record that cannot be used. Such records are
   * written back unchanged, except entries whose forward no longer exists.
   */
  *run(): Steps<{ snapshot: Snapshot; changed: ChangedLists[]; problems: string[] }> {
    const { entries, ids, journal } = this.#loaded;
    for (const section of SECTIONS) {
      let at = 0;
      for (const json of entries[section]) {
        this.#put(section, json, ids?.[section][at++]);
        // A single one may be large.
        yield;
      }
    }
    yield* forEachInSteps(this.#shadowed, (entry) => this.#draft.put(entry));
    for (const commit of journal) {
      for (const change of commit) {
        if (change.op === 'put') this.#put(change.section, change.json, change.id);
        else this.#remove(change);
        yield;
      }
    }
    const finished = yield* this.#draft.finishInSteps();
    if (this.#moreProblems > 0) {
      this.#problems.push(`${this.#moreProblems} more entries of registry.json cannot be used or were dropped`);
    }
    return { ...finished, problems: this.#problems };
  }

  #put(section: Section, json: string, id: string | undefined): void {
    let problem: string | undefined;
    try {
      if (section === 'namespaces') problem = this.#putNamespace(json);
      else if (section === 'forwards') problem = this.#putForward(json);
      else if (section === 'services') problem = this.#putService(json);
      else problem = this.#putEntry(section, kindOf(section), json);
    } catch (error) {
      problem = error instanceof Error ? error.message : String(error);
    }
    if (problem !== undefined) this.#preserve(section, json, id, problem);
    else if (id !== undefined) this.#draft.removeUnusable(section, id);
  }

  /** Returns why the record cannot be used; so do the next ones. */
  #putNamespace(json: string): string | undefined {
    const namespace = readNamespace(json);
    if (typeof namespace === 'string') return namespace;
    this.#draft.putNamespace(namespace.name, namespace.labels, namespace.unknown);
    return undefined;
  }

  #putForward(json: string): string | undefined {
    const forward = readForward(json, () => this.#nextId());
    if (typeof forward === 'string') return forward;
    this.#draft.reserveRegistrationId(forward.registrationId);
    this.#draft.putForward(forward);
    return undefined;
  }

  #putService(json: string): string | undefined {
    const service = readService(json, () => this.#nextId());
    if (typeof service === 'string') return service;
    this.#draft.reserveRegistrationId(service.registrationId);
    this.#draft.putService(service);
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
      if (name && name !== DEFAULT_NAMESPACE) this.#draft.removeNamespace(name);
      return;
    }
    if (section === 'forwards') return this.#draft.removeForward(id);
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
      for (const json of SECTIONS.flatMap((section) => [...this.#loaded.entries[section]])) {
        // Any member of this name: reserving too many ids is harmless, using one twice is not.
        for (const [, digits] of json.matchAll(/"source":\s*(\d{1,16})/g)) {
          if (Number(digits) < MAX_REGISTRATION_ID) this.#draft.reserveRegistrationId(Number(digits));
        }
      }
    }
    return this.#draft.nextRegistrationId();
  }
}

function kindOf(section: Section): Kind {
  return KINDS.find((kind) => SECTION[kind] === section) ?? 'tool';
}

/** An operation on the registry. When it throws, its changes are discarded. */
export type Mutation<T> = (draft: Draft) => T;

/** An operation in steps, for long ones: other work of the event loop runs between them. */
export type LongMutation<T> = (draft: Draft) => Steps<T>;

/** Receives the lists that a commit may have changed, and whether another replica made it. */
export type ChangeListener = (touched: readonly ChangedLists[], isForeign: boolean) => void;

interface Pending {
  run(draft: Draft): Steps<void>;
  /** `failure`: the store's error; undefined when the batch was committed. */
  settle(failure: unknown): void;
}

/** The result of a batch of operations. */
interface MadeCommit extends Commit<Section> {
  /** The state that the operations were made on. */
  readonly base: Snapshot;
  readonly changed: readonly ChangedLists[];
}

/**
 * The registry of namespaces, entries, forwards and services (specification, "Capabilities" 2).
 *
 * Readers use {@link current}, an immutable snapshot. Writers call {@link commit}: queued operations share one store
 * commit, and a state becomes visible only once it is durable (decisions 1.5).
 */
export class Registry {
  /** The committed state. */
  current = Snapshot.empty();
  /** Slices of long work on catalogs, here and in discoveries. */
  readonly turns = new Turns();
  readonly #store: Store;
  readonly #shared: SharedStore | undefined;
  readonly #listeners = new Set<ChangeListener>();
  #queue: Pending[] = [];
  #writing: Promise<void> | undefined;

  constructor(store: Store | SharedStore) {
    this.#store = store;
    this.#shared = 'follow' in store ? store : undefined;
    this.#shared?.follow((newer) => this.#apply(newer));
  }

  /**
   * Loads the stored state and creates the namespace `default` if it is missing. Returns a text for each record that
   * cannot be used. Throws the store's error when the file is corrupt.
   */
  async load(): Promise<string[]> {
    let problems: string[] = [];
    const restore = (snapshot: Snapshot) => {
      this.current = snapshot;
    };
    await this.#store.load(function* (loaded) {
      const restored = yield* new StateRestorer(loaded).run();
      restore(restored.snapshot);
      problems = restored.problems;
    });
    if (this.current.namespaces.has(DEFAULT_NAMESPACE)) return problems;
    try {
      await this.commit((draft) => draft.ensureNamespace(DEFAULT_NAMESPACE));
    } catch (error) {
      if (!isDiskFull(error)) throw error;
      // The next snapshot contains it.
      const draft = new Draft(this.current);
      draft.ensureNamespace(DEFAULT_NAMESPACE);
      this.current = draft.finish().snapshot;
      problems.push('the namespace default could not be stored: the disk is full');
    }
    return problems;
  }

  /** Runs an operation and resolves with its result once its changes are durable and visible. */
  commit<T>(mutation: Mutation<T>): Promise<T> {
    return this.commitInSteps((draft) => singleStep(() => mutation(draft)));
  }

  /** As {@link commit}, of an operation in steps. Later ones wait until it has ended. */
  commitInSteps<T>(mutation: LongMutation<T>): Promise<T> {
    return new Promise<T>((resolve, reject) => {
      let outcome: { value: T } | { error: unknown } | undefined;
      let isFirst = true;
      this.#queue.push({
        run: function* (draft) {
          isFirst = draft.changes.length === 0;
          try {
            outcome = { value: yield* draft.attemptInSteps(mutation) };
          } catch (error) {
            outcome = { error };
          }
        },
        settle: (failure) => {
          // Not reported if other changes of a failed batch, or of other replicas, may be the cause.
          const isCertain = failure === undefined || (isFirst && !(failure instanceof UnavailableStoreError));
          if (outcome && 'error' in outcome && isCertain) reject(outcome.error);
          else if (outcome && 'value' in outcome && failure === undefined) resolve(outcome.value);
          else reject(failure);
        },
      });
      this.#writing ??= this.#write();
    });
  }

  /**
   * Calls the listener after each commit with the lists that may have changed. Returns a function that removes it. An
   * error thrown by a listener is an uncaught exception and affects neither writers nor other listeners.
   */
  onChange(listener: ChangeListener): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** Whether other replicas change the registry too. */
  get isShared(): boolean {
    return this.#shared !== undefined;
  }

  /**
   * Resolves once {@link current} has every commit that was acknowledged before the call, by whatever replica; undefined if it
   * always has. Rejects with the store's error if that cannot be known.
   */
  refresh(): Promise<void> | undefined {
    return this.#shared?.refresh();
  }

  /** See {@link SharedStore.confirm}. */
  async confirm(): Promise<readonly string[]> {
    return (await this.#shared?.confirm()) ?? [];
  }

  /** As {@link refresh}, but for requests that miss something: in bounded time, and without an error. */
  recheck(): Promise<void> | undefined {
    const refreshed = this.#shared?.refresh();
    return refreshed && withTimeout(RECHECK_MS, refreshed).catch(() => undefined);
  }

  /**
   * Returns a function that yields the text of `registry.json` with the current state, in slices. The text is the one that the
   * store writes for this state.
   */
  snapshotFile(): () => Iterable<string> {
    const { current } = this;
    const { extras, generation } = this.#store.fileMembers ?? { extras: [], generation: 1 };
    return () => snapshotSlices(snapshotEntries(current), extras, generation);
  }

  /** Waits for pending commits and closes the store. */
  async close(): Promise<void> {
    await this.#writing;
    await this.#store.close();
  }

  async #write(): Promise<void> {
    while (this.#queue.length > 0) {
      const batch = this.#queue;
      this.#queue = [];
      const failure = await this.#commitBatch(batch);
      for (const pending of batch) pending.settle(failure);
    }
    this.#writing = undefined;
  }

  /** Runs one step at once, which is all of most operations, and others in slices. */
  #run<T>(steps: Steps<T>): T | Promise<T> {
    const { done, value } = steps.next();
    return done ? value : this.turns.run(steps);
  }

  /** Makes the results of the operations the current state once they are durable. Returns the store's error when it failed. */
  async #commitBatch(batch: readonly Pending[]): Promise<unknown> {
    const making = this.#run(this.#make(batch));
    let made = making instanceof Promise ? await making : making;
    try {
      while (made.changes.length === 0) {
        // That nothing has to be changed, or cannot be, may be wrong by now.
        await this.#shared?.refresh();
        if (this.current === made.base) return undefined;
        made = await this.#run(this.#make(batch));
      }
    } catch (error) {
      return error;
    }
    const isOutdated = () => this.current !== made.base;
    const remake = async () => {
      made = await this.#run(this.#make(batch));
      return made;
    };
    try {
      await this.#store.commit(made.changes, made.publish, { isOutdated, remake });
    } catch (error) {
      return error ?? new Error('the registry could not be written');
    }
    this.#notify(made.changed, false);
    return undefined;
  }

  /** Runs the operations on the current state. */
  *#make(batch: readonly Pending[]): Steps<MadeCommit> {
    const base = this.current;
    const draft = new Draft(base);
    for (const pending of batch) yield* pending.run(draft);
    const { changes } = draft;
    if (changes.length === 0) return { base, changes, changed: [], publish: () => undefined };
    const { snapshot, changed } = yield* draft.finishInSteps();
    const publish = () => {
      this.current = snapshot;
    };
    return { base, changes, changed, publish };
  }

  /** Makes commits of other replicas visible. */
  async #apply(newer: Newer): Promise<void> {
    const before = this.current;
    const changes = newer.kind === 'state' ? await this.turns.run(changesTo(newer.records, before)) : newer.changes;
    const loaded = { entries: noEntries(), journal: [changes] };
    const { snapshot, changed } = await this.turns.run(new StateRestorer(loaded, before).run());
    this.current = snapshot;
    this.#notify(changed, true);
  }

  #notify(changed: readonly ChangedLists[], isForeign: boolean): void {
    for (const listener of this.#listeners) {
      try {
        listener(changed, isForeign);
      } catch (error) {
        queueMicrotask(() => {
          throw error;
        });
      }
    }
  }
}

/** The texts of `registry.json`, each created when it is read. */
export function snapshotEntries(snapshot: Snapshot): Record<Section, Iterable<string>> {
  function* entries(kind: Kind): Generator<string> {
    for (const entry of snapshot.entries(kind, { shadowed: true }))
      yield snapshotEntry(entry, !snapshot.isServed(entry));
    yield* unusable(SECTION[kind]);
  }
  function* texts<T>(
    section: Section,
    values: Iterable<T>,
    text: (value: T, lines: true) => string,
  ): Generator<string> {
    for (const value of values) yield text(value, true);
    yield* unusable(section);
  }
  const unusable = (section: Section) => snapshot.unusable.get(section)?.values() ?? [];
  return {
    namespaces: texts('namespaces', snapshot.namespaces.values(), storedNamespace),
    forwards: texts('forwards', snapshot.forwards.values(), storedForward),
    tools: entries('tool'),
    resources: entries('resource'),
    prompts: entries('prompt'),
    services: texts('services', snapshot.services.all, storedService),
  };
}
