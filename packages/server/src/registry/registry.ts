import { Draft, type Touched } from './draft.ts';
import type { Entry, Kind } from './entries.ts';
import { DEFAULT_NAMESPACE } from './names.ts';
import { restore } from './restore.ts';
import { Snapshot } from './snapshot.ts';
import type { Section, Store } from './store/store.ts';
import { storedForward, storedNamespace, storedService } from './stored.ts';
import { picturedEntry } from './stored-entry.ts';

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
  readonly #listeners = new Set<(touched: readonly Touched[]) => void>();
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
export function picture(snapshot: Snapshot): Record<Section, Iterable<string>> {
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
      (entry) => picturedEntry(entry, !holds(entry)),
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
