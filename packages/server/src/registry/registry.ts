import { Turns } from '@sluice/protocol/turns';
import { type ChangedLists, Draft } from './draft.ts';
import { DEFAULT_NAMESPACE, type Entry, KINDS, type Kind, SECTION } from './entries.ts';
import { type SharedMembers, sharedMembers } from './serialize.ts';
import { Snapshot } from './snapshot.ts';
import { forEachInSteps, type Steps, singleStep } from './steps.ts';
import { isDiskFull } from './store/files.ts';
import { snapshotSlices } from './store/registry-file.ts';
import { type Change, type Loaded, SECTIONS, type Section, type Store } from './store/store.ts';
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

/** Records that cannot be used and are reported one by one. */
const MAX_PROBLEMS = 100;

/** Restores the stored state (decisions 1.5): the entries of `registry.json`, then the commits of the journal. */
class StateRestorer {
  readonly #loaded: Loaded;
  readonly #draft = new Draft(Snapshot.empty(), false);
  readonly #problems: string[] = [];
  #moreProblems = 0;
  /** Shadowed entries: the first entry of a key is the served one, so these are added last. */
  readonly #shadowed: Entry[] = [];
  #hasReservedIds = false;
  /** By address of the forward. */
  readonly #members = new Map<string, SharedMembers>();

  constructor(loaded: Loaded) {
    this.#loaded = loaded;
  }

  /**
   * Returns the state, and a text for each record that cannot be used. Such records are written back unchanged, except
   * entries whose forward no longer exists.
   */
  *run(): Steps<{ snapshot: Snapshot; problems: string[] }> {
    const { entries, journal } = this.#loaded;
    for (const section of SECTIONS) {
      for (const json of entries[section]) {
        this.#put(section, json);
        // A single one may be large.
        yield;
      }
    }
    yield* forEachInSteps(this.#shadowed, (entry) => this.#draft.put(entry));
    for (const commit of journal) {
      for (const change of commit) {
        if (change.op === 'put') this.#put(change.section, change.json);
        else this.#remove(change);
        yield;
      }
    }
    const { snapshot } = yield* this.#draft.finishInSteps();
    if (this.#moreProblems > 0) {
      this.#problems.push(`${this.#moreProblems} more entries of registry.json cannot be used or were dropped`);
    }
    return { snapshot, problems: this.#problems };
  }

  #put(section: Section, json: string): void {
    try {
      if (section === 'namespaces') this.#putNamespace(json);
      else if (section === 'forwards') this.#putForward(json);
      else if (section === 'services') this.#putService(json);
      else this.#putEntry(section, kindOf(section), json);
    } catch (error) {
      this.#preserve(section, json, error instanceof Error ? error.message : String(error));
    }
  }

  #putNamespace(json: string): void {
    const namespace = readNamespace(json);
    if (typeof namespace === 'string') this.#preserve('namespaces', json, namespace);
    else this.#draft.putNamespace(namespace.name, namespace.labels, namespace.unknown);
  }

  #putForward(json: string): void {
    const forward = readForward(json, () => this.#nextId());
    if (typeof forward === 'string') return this.#preserve('forwards', json, forward);
    this.#draft.reserveRegistrationId(forward.registrationId);
    this.#draft.putForward(forward);
  }

  #putService(json: string): void {
    const service = readService(json, () => this.#nextId());
    if (typeof service === 'string') return this.#preserve('services', json, service);
    this.#draft.reserveRegistrationId(service.registrationId);
    this.#draft.putService(service);
  }

  #putEntry(section: Section, kind: Kind, json: string): void {
    let orphaned = false;
    const findForward = (name: string): ForwardOfEntry | undefined => {
      const forward = this.#draft.forwards.get(name);
      orphaned = forward === undefined;
      return forward && { ...forward, members: this.#members.getOrInsertComputed(forward.address, sharedMembers) };
    };
    const read = readEntry(kind, json, findForward, () => this.#nextId());
    if (typeof read !== 'string') {
      this.#draft.reserveRegistrationId(read.entry.registrationId);
      if (read.shadowed) this.#shadowed.push(read.entry);
      else this.#draft.put(read.entry);
    } else if (orphaned) {
      this.#report(`an entry of ${section} in registry.json was dropped: ${read}`);
    } else {
      this.#preserve(section, json, read);
    }
  }

  #remove({ section, id }: Extract<Change, { op: 'remove' }>): void {
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

  #preserve(section: Section, json: string, problem: string): void {
    this.#draft.putUnusable(section, json);
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

interface Pending {
  run(draft: Draft): Steps<void>;
  /** `failure`: the store's error; undefined when the batch was committed. */
  settle(failure: unknown): void;
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
  readonly #listeners = new Set<(touched: readonly ChangedLists[]) => void>();
  #queue: Pending[] = [];
  #writing: Promise<void> | undefined;

  constructor(store: Store) {
    this.#store = store;
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
          // Not reported if other changes of a failed batch may be the cause.
          if (outcome && 'error' in outcome && (isFirst || failure === undefined)) reject(outcome.error);
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
  onChange(listener: (touched: readonly ChangedLists[]) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
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
      const draft = new Draft(this.current);
      for (const pending of batch) {
        const running = this.#run(pending.run(draft));
        if (running instanceof Promise) await running;
      }
      const failure = await this.#publish(draft);
      for (const pending of batch) pending.settle(failure);
    }
    this.#writing = undefined;
  }

  /** Runs one step at once, which is all of most operations, and others in slices. */
  #run<T>(steps: Steps<T>): T | Promise<T> {
    const { done, value } = steps.next();
    return done ? value : this.turns.run(steps);
  }

  /** Makes the draft the current state once it is durable. Returns the store's error when it failed. */
  async #publish(draft: Draft): Promise<unknown> {
    if (draft.changes.length === 0) return undefined;
    const finished = this.#run(draft.finishInSteps());
    const { snapshot, changed } = finished instanceof Promise ? await finished : finished;
    try {
      await this.#store.commit(draft.changes, () => {
        this.current = snapshot;
      });
    } catch (error) {
      return error ?? new Error('the registry could not be written');
    }
    for (const listener of this.#listeners) {
      try {
        listener(changed);
      } catch (error) {
        queueMicrotask(() => {
          throw error;
        });
      }
    }
    return undefined;
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
  const unusable = (section: Section) => snapshot.unusable.get(section) ?? [];
  return {
    namespaces: texts('namespaces', snapshot.namespaces.values(), storedNamespace),
    forwards: texts('forwards', snapshot.forwards.values(), storedForward),
    tools: entries('tool'),
    resources: entries('resource'),
    prompts: entries('prompt'),
    services: texts('services', snapshot.services.all, storedService),
  };
}
