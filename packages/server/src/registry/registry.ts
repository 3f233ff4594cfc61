import { Draft, SECTION, type Touched } from './draft.ts';
import { type Entry, KINDS, type Kind } from './entries.ts';
import { isStoredShadowed, picturedEntry, readEntry } from './json.ts';
import { DEFAULT_NAMESPACE } from './names.ts';
import { Snapshot } from './snapshot.ts';
import type { Change, Loaded, Section, Store } from './store/store.ts';
import { readForward, readNamespace, storedForward, storedNamespace } from './stored.ts';

/** An operation on the registry. Checks, then changes the draft, then returns; or throws having changed nothing. */
export type Mutation<T> = (draft: Draft) => T;

interface Pending {
  run(draft: Draft): void;
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
  readonly #listeners = new Set<(touched: readonly Touched[]) => void>();
  #queue: Pending[] = [];
  #writing: Promise<void> | undefined;

  constructor(store: Store) {
    this.#store = store;
  }

  /**
   * Reads the stored state and makes sure that `default` exists. Entries that cannot be read are reported as text and
   * left out. Throws the store's error when the file is damaged.
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
      this.#queue.push({
        run: (draft) => {
          try {
            outcome = { value: mutation(draft) };
          } catch (error) {
            outcome = { error };
          }
        },
        settle: (failure) => {
          if (outcome && 'error' in outcome) reject(outcome.error);
          else if (failure !== undefined || !outcome) reject(failure);
          else resolve(outcome.value);
        },
      });
      this.#writing ??= this.#write();
    });
  }

  /** Calls back after each published change with the lists it may have altered; returns how to stop. */
  onChange(listener: (touched: readonly Touched[]) => void): () => void {
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
    for (const listener of this.#listeners) listener(touched);
    return undefined;
  }
}

/** The committed state as the store writes it to `registry.json`: each entry's text, made when it is asked for. */
export function picture(snapshot: Snapshot): Record<Section, Iterable<string>> {
  const holds = (entry: Entry) => snapshot.namespaces.get(entry.namespace)?.shelves[entry.kind].get(entry.key) === entry;
  const entries = (kind: Kind) =>
    lazily(snapshot.entries(kind, { shadowed: true }), (entry) => picturedEntry(entry, !holds(entry)));
  return {
    namespaces: lazily(snapshot.namespaces.values(), (namespace) => storedNamespace(namespace, 2)),
    forwards: lazily(snapshot.forwards.values(), (forward) => storedForward(forward, 2)),
    tools: entries('tool'),
    resources: entries('resource'),
    prompts: entries('prompt'),
    services: [],
  };
}

function* lazily<T>(values: Iterable<T>, text: (value: T) => string): Generator<string> {
  for (const value of values) yield text(value);
}

function restore(loaded: Loaded): { snapshot: Snapshot; problems: string[] } {
  const draft = new Draft(Snapshot.empty(), false);
  const problems: string[] = [];
  const put = (section: Section, json: string): void => {
    const problem = restoreOne(draft, section, json);
    if (problem) problems.push(`an entry of ${section} in registry.json was left out: ${problem}`);
  };
  for (const section of ['namespaces', 'forwards'] as const) {
    for (const json of loaded.entries[section]) put(section, json);
  }
  for (const section of ['tools', 'resources', 'prompts'] as const) {
    // Those who hold their keys come first, wherever they stand in the file: who is put first holds.
    const shadowed: string[] = [];
    for (const json of loaded.entries[section]) {
      if (isStoredShadowed(json)) shadowed.push(json);
      else put(section, json);
    }
    for (const json of shadowed) put(section, json);
  }
  for (const change of loaded.journal.flat()) {
    if (change.op === 'put') put(change.section, change.json);
    else removeOne(draft, change);
  }
  return { snapshot: draft.finish().snapshot, problems };
}

/** Puts one stored record back; a text saying why not when it cannot be read. */
function restoreOne(draft: Draft, section: Section, json: string): string | undefined {
  if (section === 'services') return undefined;
  if (section === 'namespaces') {
    const namespace = readNamespace(json);
    if (typeof namespace === 'string') return namespace;
    draft.putNamespace(namespace.name, namespace.labels);
    return undefined;
  }
  if (section === 'forwards') {
    const forward = readForward(json, () => draft.nextSource());
    if (typeof forward === 'string') return forward;
    draft.reserveSource(forward.source);
    draft.putForward(forward);
    return undefined;
  }
  const kind = KINDS.find((candidate) => SECTION[candidate] === section) ?? 'tool';
  const entry = readEntry(
    kind,
    json,
    (name) => draft.forwards.get(name)?.source,
    () => draft.nextSource(),
  );
  if (typeof entry === 'string') return entry;
  draft.reserveSource(entry.source);
  draft.put(entry);
  return undefined;
}

function removeOne(draft: Draft, change: Extract<Change, { op: 'remove' }>): void {
  const { section, id } = change;
  if (section === 'services') return;
  if (section === 'namespaces') {
    const name = [...draft.namespaces.keys()].find((candidate) => candidate === id);
    if (name && name !== DEFAULT_NAMESPACE) draft.removeNamespace(name);
    return;
  }
  if (section === 'forwards') return draft.removeForward(id);
  const kind = KINDS.find((candidate) => SECTION[candidate] === section) ?? 'tool';
  const entry = draft.byId(kind, id);
  if (entry) draft.remove(entry);
}
