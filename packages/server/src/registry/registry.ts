import { Emitter } from '@sluice/protocol/emitter';
import { TimeSlicer } from '@sluice/protocol/time-slicer';
import { withTimeout } from '@sluice/protocol/timing';
import type { Principal } from '../identity/principal.ts';
import { type ChangedLists, changesTo, Draft, recordsOf } from './draft.ts';
import { KINDS } from './entries.ts';
import { OperationError } from './operation-error.ts';
import { StateRestorer } from './restore.ts';
import type { OperationEffect } from './revoked-access.ts';
import { Snapshot } from './snapshot.ts';
import type { Steps } from './steps.ts';
import type { LogConsumer, RecordLog } from './store/record-log.ts';
import {
  type Commit,
  type RecordedPut,
  STORED_SECTIONS,
  type StoredChange,
  type StoredRecords,
  UnavailableStoreError,
} from './store/store.ts';
import type { AddressCheck } from './stored.ts';

/** Time for which a request for something unknown waits for what other replicas have committed. */
const RECHECK_MS = 250;

/**
 * An operation on the registry; a long one in steps, between which other work of the event loop runs. When it throws, its changes
 * are discarded.
 */
export type Mutation<T> = (draft: Draft) => T | Steps<T>;

/** A part of the service that changes the registry by itself. */
export type ServicePart = 'bootstrap' | 'discovery' | 'action';

/** Who changes the registry, and why. */
export interface ChangeOrigin {
  readonly actor: Principal | ServicePart;
  /** The operation of the API, or what the part of the service does. */
  readonly reason: string;
}

/** The result of an operation that was committed. */
export interface Committed<T> {
  readonly value: T;
  /** Ids of the replicas that may not have applied it yet, if it takes access away; see {@link Registry.commit}. */
  readonly unconfirmed: readonly string[];
}

/** A commit that has become visible. */
export interface RegistryCommit {
  readonly before: Snapshot;
  readonly after: Snapshot;
  /** Lists that may differ. */
  readonly lists: readonly ChangedLists[];
  /** Of each operation that has changed something; empty for commits of other replicas. */
  readonly origins: readonly ChangeOrigin[];
  /** Whether it takes access away from clients, from any source. */
  readonly revokesAccess: boolean;
}

/** Whether the promise of an operation waits for the other replicas. */
function awaitsConfirmation(effect: OperationEffect, { actor }: ChangeOrigin): boolean {
  // The start of a replica must not depend on others.
  if (actor === 'bootstrap') return false;
  // A caller may repeat a withdrawal, without effect, since it has not got the response to the first one.
  return effect === 'revocation' || (effect === 'other' && typeof actor !== 'string');
}

interface Pending {
  readonly origin: ChangeOrigin;
  /** Known after `run`, as is `effect`. */
  hasChanged: boolean;
  effect: OperationEffect;
  run(draft: Draft): Steps<void>;
  /** `failure`: the store's error; undefined when the batch was committed. */
  settle(failure: unknown): void;
}

/** The result of a batch of operations. */
interface MadeCommit extends Commit {
  /** The state that the operations were made on. */
  readonly base: Snapshot;
  readonly changed: readonly ChangedLists[];
}

/**
 * The registry of namespaces, entries, forwards and services.
 *
 * Readers use {@link current}, an immutable snapshot. Writers call {@link commit}: queued operations share one store
 * commit, and a state becomes visible only once it is durable.
 */
export class Registry {
  /** The committed state. */
  current = Snapshot.empty();
  /** Slices of long work on catalogs, here and in discoveries. */
  readonly slicer = new TimeSlicer();
  /** Where its records are stored. */
  readonly log: RecordLog;
  /** A commit has become visible. Subscribers are called before the promises of its operations resolve. */
  readonly committed = new Emitter<RegistryCommit>();
  readonly #addressProblem: AddressCheck;
  /** The log, if other replicas change it too. */
  readonly #shared: RecordLog | undefined;
  /** A text for each stored record that could not be used; undefined before the records are loaded. */
  #problems: string[] | undefined;
  /** How its log reads and changes it. */
  readonly #consumer: LogConsumer = {
    sections: STORED_SECTIONS,
    apply: (changes) => this.#apply(changes),
    reload: (records, later) => this.#reload(records, later),
    records: () => this.records(),
  };
  #hidden: ReadonlySet<string> = new Set();
  #queue: Pending[] = [];
  #writing: Promise<void> | undefined;

  /** `addressProblem`: forwards whose addresses have one are not loaded (default: none has). */
  constructor(log: RecordLog, addressProblem: AddressCheck = () => undefined) {
    this.log = log;
    this.#addressProblem = addressProblem;
    this.#shared = log.isShared ? log : undefined;
  }

  /** Loads the stored state. Returns a text for each record that cannot be used. Throws the log's error when the records cannot be read. */
  async load(): Promise<string[]> {
    await this.log.add(this.#consumer);
    return this.#problems ?? [];
  }

  /**
   * Runs an operation and resolves with its result once its changes are durable and visible. One that takes access away, or with
   * which a caller may repeat that, is confirmed then: its promise, but no later operation, waits for all live replicas. Those that
   * have not applied it are in the result. `onVisible` is called before that wait. Later operations wait until one in steps has
   * ended.
   */
  async commit<T>(mutation: Mutation<T>, origin: ChangeOrigin, onVisible?: (value: T) => void): Promise<Committed<T>> {
    const { value, effect } = await this.#enqueue(mutation, origin).catch(async (error: unknown) => {
      // As for an operation without effect: what a caller removes again is gone already.
      if (error instanceof OperationError && error.code === 'NOT_FOUND' && awaitsConfirmation('other', origin))
        await this.#shared?.confirm();
      throw error;
    });
    onVisible?.(value);
    const unconfirmed = awaitsConfirmation(effect, origin) ? await this.#shared?.confirm() : undefined;
    return { value, unconfirmed: unconfirmed ?? [] };
  }

  /** Hides these forwards, and no others, from clients of this process. Nothing is stored. */
  hide(forwards: ReadonlySet<string>): void {
    const before = this.current;
    const changed = forwards.symmetricDifference(this.#hidden);
    this.#hidden = forwards;
    this.current = before.hiding(forwards);
    const lists = [...before.namespaces.values()].flatMap(({ name, indexes }) =>
      KINDS.filter((kind) => indexes[kind].serves(changed)).map((kind) => {
        return { namespace: name, kind };
      }),
    );
    this.committed.emit({ before, after: this.current, lists, origins: [], revokesAccess: true });
  }

  /** The state as clients see it. */
  #shown(state: Snapshot): Snapshot {
    return this.#hidden.size === 0 && state.hidden.size === 0 ? state : state.hiding(this.#hidden);
  }

  /** Runs an operation on a copy of the state, and resolves with its result. */
  async preview<T>(mutation: Mutation<T>): Promise<T> {
    const { value } = await this.slicer.run(new Draft(this.current).attempt(mutation));
    return value;
  }

  #enqueue<T>(mutation: Mutation<T>, origin: ChangeOrigin): Promise<{ value: T; effect: OperationEffect }> {
    return new Promise((resolve, reject) => {
      let outcome: { value: T; effect: OperationEffect } | { error: unknown } | undefined;
      let isFirst = true;
      const pending: Pending = {
        origin,
        hasChanged: false,
        effect: 'other',
        run: function* (draft) {
          const { length } = draft.changes;
          isFirst = length === 0;
          try {
            outcome = yield* draft.attempt(mutation);
          } catch (error) {
            outcome = { error };
          }
          pending.hasChanged = draft.changes.length > length;
          pending.effect = 'effect' in outcome ? outcome.effect : 'other';
        },
        settle: (failure) => {
          // Not reported if other changes of a failed batch, or of other replicas, may be the cause.
          const isCertain = failure === undefined || (isFirst && !(failure instanceof UnavailableStoreError));
          if (outcome && 'error' in outcome && isCertain) reject(outcome.error);
          else if (outcome && 'value' in outcome && failure === undefined) resolve(outcome);
          else reject(failure);
        },
      };
      this.#queue.push(pending);
      this.#writing ??= this.#write();
    });
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

  /** As {@link refresh}, but for requests that miss something: in bounded time, and without an error. */
  recheck(): Promise<void> | undefined {
    const refreshed = this.#shared?.refresh();
    return refreshed && withTimeout(RECHECK_MS, refreshed).catch(() => undefined);
  }

  /** Waits for pending commits. The log is closed by its owner. */
  async close(): Promise<void> {
    await this.#writing;
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
    return done ? value : this.slicer.run(steps);
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
      await this.log.commit(made, { isOutdated, remake });
    } catch (error) {
      return error ?? new Error('the registry could not be written');
    }
    this.committed.emit({
      before: made.base,
      after: this.current,
      lists: made.changed,
      origins: batch.filter(({ hasChanged }) => hasChanged).map(({ origin }) => origin),
      revokesAccess: batch.some(({ effect }) => effect === 'revocation'),
    });
    return undefined;
  }

  /** Runs the operations on the current state. */
  *#make(batch: readonly Pending[]): Steps<MadeCommit> {
    const base = this.current;
    const draft = new Draft(base);
    for (const pending of batch) yield* pending.run(draft);
    const { changes } = draft;
    const unchanged = { snapshot: base, changed: [] };
    const { snapshot: after, changed } = changes.length > 0 ? yield* draft.finishInSteps() : unchanged;
    const publish = () => {
      this.current = this.#shown(after);
    };
    return { base, changes, changed, publish };
  }

  /** Makes commits of other replicas visible. */
  async #apply(changes: Iterable<StoredChange>): Promise<void> {
    const before = this.current;
    const stored = { records: new Map(), changes };
    const {
      snapshot,
      changed: lists,
      revokesAccess,
    } = await this.slicer.run(new StateRestorer(stored, this.#addressProblem, before).run());
    const after = this.#shown(snapshot);
    this.current = after;
    this.committed.emit({ before, after, lists, origins: [], revokesAccess });
  }

  /** Replaces the state by these records and what the changes make of them, at the start and later. */
  async #reload(records: StoredRecords, changes: Iterable<StoredChange> = []): Promise<void> {
    if (this.#problems) return this.#apply(await this.slicer.run(changesTo(records, this.current)));
    const restored = await this.slicer.run(new StateRestorer({ records, changes }, this.#addressProblem).run());
    this.current = restored.snapshot;
    this.#problems = restored.problems;
  }

  records(): Iterable<RecordedPut> {
    const { current } = this;
    return { [Symbol.iterator]: () => recordsOf(current) };
  }
}
