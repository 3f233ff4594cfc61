import { type ChangedLists, Draft } from './draft.ts';
import { DEFAULT_NAMESPACE, type Entry, KINDS, type Kind, SECTION } from './entries.ts';
import { Snapshot } from './snapshot.ts';
import { type Change, type Loaded, SECTIONS, type Section, type Store } from './store/store.ts';
import {
  LARGEST_SOURCE,
  readEntry,
  readForward,
  readNamespace,
  readService,
  snapshotEntry,
  storedForward,
  storedNamespace,
  storedService,
} from './stored.ts';

/**
 * Builds the state from what was stored (decisions 1.5): the entries of `registry.json`, then the commits that came
 * after. `problems` say, one text each, which records cannot be used; they are kept as they are, except for entries
 * whose forward is gone: those would not come back in any way.
 */
export function restore(loaded: Loaded): { snapshot: Snapshot; problems: string[] } {
  return new Restoration(loaded).run();
}

class Restoration {
  readonly #loaded: Loaded;
  readonly #draft = new Draft(Snapshot.empty(), false);
  readonly #problems: string[] = [];
  /** Entries whose keys others held: who is put first holds, so these are put last, wherever they stand in the file. */
  readonly #shadowed: Entry[] = [];
  #numbered = false;

  constructor(loaded: Loaded) {
    this.#loaded = loaded;
  }

  run(): { snapshot: Snapshot; problems: string[] } {
    const { entries, journal } = this.#loaded;
    for (const section of SECTIONS) for (const json of entries[section]) this.#put(section, json);
    for (const entry of this.#shadowed) this.#draft.put(entry);
    for (const commit of journal) {
      for (const change of commit) {
        if (change.op === 'put') this.#put(change.section, change.json);
        else this.#remove(change);
      }
    }
    return { snapshot: this.#draft.finish().snapshot, problems: this.#problems };
  }

  #put(section: Section, json: string): void {
    try {
      if (section === 'namespaces') this.#putNamespace(json);
      else if (section === 'forwards') this.#putForward(json);
      else if (section === 'services') this.#putService(json);
      else this.#putEntry(section, kindOf(section), json);
    } catch (error) {
      this.#keep(section, json, error instanceof Error ? error.message : String(error));
    }
  }

  #putNamespace(json: string): void {
    const namespace = readNamespace(json);
    if (typeof namespace === 'string') this.#keep('namespaces', json, namespace);
    else this.#draft.putNamespace(namespace.name, namespace.labels, namespace.unknown);
  }

  #putForward(json: string): void {
    const forward = readForward(json, () => this.#number());
    if (typeof forward === 'string') {
      this.#keep('forwards', json, forward);
      return;
    }
    this.#draft.reserveSource(forward.source);
    this.#draft.putForward(forward);
  }

  #putService(json: string): void {
    const service = readService(json, () => this.#number());
    if (typeof service === 'string') {
      this.#keep('services', json, service);
      return;
    }
    this.#draft.reserveSource(service.source);
    this.#draft.putService(service);
  }

  #putEntry(section: Section, kind: Kind, json: string): void {
    let orphaned = false;
    const sourceOf = (forward: string): number | undefined => {
      const source = this.#draft.forwards.get(forward)?.source;
      orphaned = source === undefined;
      return source;
    };
    const read = readEntry(kind, json, sourceOf, () => this.#number());
    if (typeof read !== 'string') {
      this.#draft.reserveSource(read.entry.source);
      if (read.shadowed) this.#shadowed.push(read.entry);
      else this.#draft.put(read.entry);
    } else if (orphaned) {
      this.#problems.push(`an entry of ${section} in registry.json is dropped: ${read}`);
    } else {
      this.#keep(section, json, read);
    }
  }

  #remove({ section, id }: Extract<Change, { op: 'remove' }>): void {
    if (section === 'namespaces') {
      const name = [...this.#draft.namespaces.keys()].find((candidate) => candidate === id);
      if (name && name !== DEFAULT_NAMESPACE) this.#draft.removeNamespace(name);
      return;
    }
    if (section === 'forwards') {
      this.#draft.removeForward(id);
      return;
    }
    if (section === 'services') {
      const service = this.#draft.serviceById(id);
      if (service) this.#draft.removeServices(service.name, [service]);
      return;
    }
    const entry = this.#draft.byId(kindOf(section), id);
    if (entry) this.#draft.remove(entry);
  }

  #keep(section: Section, json: string, problem: string): void {
    this.#draft.putForeign(section, json);
    this.#problems.push(`an entry of ${section} in registry.json cannot be used: ${problem}`);
  }

  /** A registration number for a record that has none, as in a file written by hand: behind all that were given. */
  #number(): number {
    if (!this.#numbered) {
      this.#numbered = true;
      for (const json of Object.values(this.#loaded.entries).flat()) {
        // Whatever is called so: a number too many is harmless, one that is given twice is not.
        for (const [, digits] of json.matchAll(/"source":\s*(\d{1,16})/g)) {
          if (Number(digits) < LARGEST_SOURCE) this.#draft.reserveSource(Number(digits));
        }
      }
    }
    return this.#draft.nextSource();
  }
}

function kindOf(section: Section): Kind {
  return KINDS.find((kind) => SECTION[kind] === section) ?? 'tool';
}

/** An operation on the registry. It changes the draft and returns, or throws, and then nothing of it counts. */
export type Mutation<T> = (draft: Draft) => T;

interface Pending {
  run(draft: Draft): void;
  /** `failure` is the store's refusal of the batch; undefined when it was kept. */
  settle(failure: unknown): void;
}

/**
 * The registry: what the service offers, in memory (specification, "Capabilities" 2).
 *
 * Readers take {@link current}, an immutable snapshot. Writers go through {@link commit}: one queue, one store commit
 * for all that wait, and a state becomes visible only when it is on disk (decisions 1.5).
 */
export class Registry {
  /** The committed state. */
  current = Snapshot.empty();
  readonly #store: Store;
  readonly #listeners = new Set<(touched: readonly ChangedLists[]) => void>();
  #queue: Pending[] = [];
  #writing: Promise<void> | undefined;

  constructor(store: Store) {
    this.#store = store;
  }

  /**
   * Reads the stored state and makes sure that `default` exists. Returns, as text, what of it cannot be used; it stays
   * in the file all the same. Throws the store's error when the file is damaged.
   */
  async load(): Promise<string[]> {
    let problems: string[] = [];
    await this.#store.load((loaded) => {
      const restored = restore(loaded);
      this.current = restored.snapshot;
      problems = restored.problems;
    });
    if (!this.current.namespaces.has(DEFAULT_NAMESPACE))
      await this.commit((draft) => draft.ensureNamespace(DEFAULT_NAMESPACE));
    return problems;
  }

  /** Runs the operation and resolves with its result once the state it made is on disk and visible. */
  commit<T>(mutation: Mutation<T>): Promise<T> {
    return new Promise<T>((resolve, reject) => {
      let outcome: { value: T } | { error: unknown } | undefined;
      let alone = true;
      this.#queue.push({
        run: (draft) => {
          alone = draft.changes.length === 0;
          try {
            outcome = { value: draft.attempt(mutation) };
          } catch (error) {
            outcome = { error };
          }
        },
        settle: (failure) => {
          // An error that others' changes may have caused means nothing when those were not kept.
          if (outcome && 'error' in outcome && (alone || failure === undefined)) reject(outcome.error);
          else if (outcome && 'value' in outcome && failure === undefined) resolve(outcome.value);
          else reject(failure);
        },
      });
      this.#writing ??= this.#write();
    });
  }

  /**
   * Calls back after each published change with the lists it may have altered; returns how to stop. An error that a
   * listener throws is an uncaught exception and holds up neither writers nor other listeners.
   */
  onChange(listener: (touched: readonly ChangedLists[]) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** Waits for writes under way, then folds and closes the store. */
  async close(): Promise<void> {
    await this.#writing;
    await this.#store.close();
  }

  async #write(): Promise<void> {
    while (this.#queue.length > 0) {
      const batch = this.#queue;
      this.#queue = [];
      const draft = new Draft(this.current);
      for (const pending of batch) pending.run(draft);
      const failure = await this.#publish(draft);
      for (const pending of batch) pending.settle(failure);
    }
    this.#writing = undefined;
  }

  /** Makes the draft the current state once it is durable. Returns the store's error when it refused. */
  async #publish(draft: Draft): Promise<unknown> {
    if (draft.changes.length === 0) return undefined;
    const { snapshot, touched } = draft.finish();
    try {
      await this.#store.commit(draft.changes, () => {
        this.current = snapshot;
      });
    } catch (error) {
      return error ?? new Error('the registry could not be written');
    }
    for (const listener of this.#listeners) {
      try {
        listener(touched);
      } catch (error) {
        queueMicrotask(() => {
          throw error;
        });
      }
    }
    return undefined;
  }
}

/** The committed state as the store writes it to `registry.json`: each entry's text, made when it is asked for. */
export function snapshotEntries(snapshot: Snapshot): Record<Section, Iterable<string>> {
  const holds = (entry: Entry) =>
    snapshot.namespaces.get(entry.namespace)?.shelves[entry.kind].get(entry.key) === entry;
  function* texts<T>(section: Section, values: () => Iterable<T>, text: (value: T) => string): Generator<string> {
    for (const value of values()) yield text(value);
    yield* snapshot.foreign.get(section) ?? [];
  }
  const entries = (section: Section, kind: Kind) =>
    texts(
      section,
      () => snapshot.entries(kind, { shadowed: true }),
      (entry) => snapshotEntry(entry, !holds(entry)),
    );
  return {
    namespaces: texts(
      'namespaces',
      () => snapshot.namespaces.values(),
      (namespace) => storedNamespace(namespace, true),
    ),
    forwards: texts(
      'forwards',
      () => snapshot.forwards.values(),
      (forward) => storedForward(forward, true),
    ),
    tools: entries('tools', 'tool'),
    resources: entries('resources', 'resource'),
    prompts: entries('prompts', 'prompt'),
    services: texts(
      'services',
      () => snapshot.services.all,
      (service) => storedService(service, true),
    ),
  };
}
