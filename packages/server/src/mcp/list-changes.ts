import { LIST_CHANGED } from '@sluice/protocol/mcp/constants';
import { type VisibleSet, visibleEntries } from '../access/access.ts';
import { EvaluatorSet } from '../policy/evaluator-set.ts';
import { type Entry, type EntryVariant, isTemplate, KINDS, type Kind, type Namespace } from '../registry/entries.ts';
import type { Registry } from '../registry/registry.ts';
import type { Snapshot } from '../registry/snapshot.ts';
import type { StreamListener } from '../upstreams/downstream.ts';
import { LIST_METHODS } from './client-profile.ts';
import type { ActiveSession } from './sessions/active-sessions.ts';

/**
 * True when the list of this kind in a namespace may differ for some client: when the text or position of an entry changed,
 * or when a forward has other catalogs, so that another one may be chosen for a client. Caching hints are not compared.
 */
function isListChanged(before: Snapshot, after: Snapshot, namespace: Namespace, kind: Kind): boolean {
  const index = visibleIn(after, namespace, kind);
  const entries = index?.entries ?? [];
  const entriesBefore = visibleIn(before, namespace, kind)?.entries ?? [];
  if (entries.length !== entriesBefore.length) return true;
  if (entries.some((entry, at) => !isSameEntry(entry, entriesBefore[at]))) return true;
  const forwards = index?.counts.keys() ?? [];
  return [...forwards].some((forward) => catalogKeys(before, forward) !== catalogKeys(after, forward));
}

function visibleIn({ namespaces }: Snapshot, namespace: Namespace, kind: Kind): VisibleSet | undefined {
  const state = namespaces.get(namespace);
  return state && visibleEntries(state, kind);
}

function isSameEntry(a: Entry, b: Entry | undefined): boolean {
  if (a === b) return true;
  return (
    b !== undefined &&
    a.discovered?.forward === b.discovered?.forward &&
    isTemplate(a) === isTemplate(b) &&
    a.rendered.length === b.rendered.length &&
    a.rendered.every((variant, at) => isSameVariant(variant, b.rendered[at]))
  );
}

function isSameVariant(a: EntryVariant, b: EntryVariant | undefined): boolean {
  return a.json === b?.json && String(a.catalogs) === String(b.catalogs);
}

function catalogKeys(snapshot: Snapshot, forward: string): string {
  return JSON.stringify(snapshot.forwards.get(forward)?.catalogs.map(({ key }) => key));
}

/** Listener for changes of a namespace. Must not throw. */
export interface NamespaceListener {
  /** The lists of these kinds may have changed for clients: `LIST_CHANGED` has the notifications. */
  onChanged(kinds: ReadonlySet<Kind>): void;
  /** Entries of these kinds changed, visibly to clients or not. Called before `onChanged`. */
  onEntriesChanged?(kinds: ReadonlySet<Kind>): void;
  /** The namespace was deleted. The last call. */
  onDeleted(): void;
}

/** Minimum interval between notifications: the first change is reported at once, later ones are combined. */
const MIN_INTERVAL_MS = 100;

/** The state that lists depend on. */
interface State {
  readonly snapshot: Snapshot;
  readonly evaluators: EvaluatorSet;
}

/**
 * Notifies listeners of changed lists of a namespace (in under one second), after changes of the registry or of the evaluators
 * that filter lists. Changes in quick succession are combined. Changes that clients cannot see, such as a label, or a refresh
 * without differences, are not reported. Does nothing while there are no listeners.
 */
export class ListChangeNotifier {
  readonly #registry: Registry;
  readonly #listeners = new Map<Namespace, Set<NamespaceListener>>();
  /** The last reported state; undefined while there are no listeners. */
  #reported: State | undefined = undefined;
  #evaluators = new EvaluatorSet(0, []);
  #unsubscribe: (() => void) | undefined = undefined;
  #timer: NodeJS.Timeout | undefined = undefined;
  #notifiedAt = Number.NEGATIVE_INFINITY;

  constructor(registry: Registry) {
    this.#registry = registry;
  }

  /**
   * Adds a listener for changes from now on; returns a function that removes it. For a namespace that does not exist, only
   * `onDeleted` is called.
   */
  subscribe(namespace: Namespace, listener: NamespaceListener): () => void {
    // Pending changes are older than this listener.
    if (this.#timer) this.#notify();
    if (!this.#reported) {
      this.#reported = this.#state();
      this.#unsubscribe = this.#registry.committed.subscribe(() => this.#schedule());
    }
    const listeners = this.#listeners.get(namespace) ?? new Set();
    this.#listeners.set(namespace, listeners.add(listener));
    if (!this.#reported.snapshot.namespaces.has(namespace)) this.#schedule();
    return () => this.#remove(namespace, listener);
  }

  /** Sets the evaluators that filter lists from now on. */
  setEvaluators(evaluators: EvaluatorSet): void {
    this.#evaluators = evaluators;
    if (this.#reported) this.#schedule();
  }

  /** Removes all listeners without calling them. */
  close(): void {
    this.#listeners.clear();
    this.#releaseIfIdle();
  }

  #remove(namespace: Namespace, listener: NamespaceListener): void {
    const listeners = this.#listeners.get(namespace);
    listeners?.delete(listener);
    if (listeners?.size === 0) this.#listeners.delete(namespace);
    this.#releaseIfIdle();
  }

  #releaseIfIdle(): void {
    if (this.#listeners.size > 0) return;
    this.#unsubscribe?.();
    this.#unsubscribe = undefined;
    this.#reported = undefined;
    clearTimeout(this.#timer);
    this.#timer = undefined;
  }

  #schedule(): void {
    const delay = Math.max(this.#notifiedAt + MIN_INTERVAL_MS - performance.now(), 0);
    this.#timer ??= setTimeout(() => this.#notify(), delay).unref();
  }

  #notify(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#notifiedAt = performance.now();
    const before = this.#reported;
    const after = this.#state();
    if (!before) return;
    this.#reported = after;
    for (const [namespace, listeners] of [...this.#listeners]) {
      if (after.snapshot.namespaces.has(namespace)) notifyChanges(before, after, namespace, listeners);
      else this.#notifyDeletion(namespace, listeners);
    }
  }

  #state(): State {
    return { snapshot: this.#registry.current, evaluators: this.#evaluators };
  }

  #notifyDeletion(namespace: Namespace, listeners: ReadonlySet<NamespaceListener>): void {
    this.#listeners.delete(namespace);
    for (const listener of [...listeners]) listener.onDeleted();
    this.#releaseIfIdle();
  }
}

function notifyChanges(
  before: State,
  after: State,
  namespace: Namespace,
  listeners: ReadonlySet<NamespaceListener>,
): void {
  const visible = ({ snapshot }: State, kind: Kind) => visibleIn(snapshot, namespace, kind);
  const modified = new Set(KINDS.filter((kind) => visible(after, kind) !== visible(before, kind)));
  const changed = new Set(
    KINDS.filter(
      (kind) =>
        (modified.has(kind) && isListChanged(before.snapshot, after.snapshot, namespace, kind)) ||
        isFilteredDifferently(before, after, namespace, kind),
    ),
  );
  for (const listener of [...listeners]) {
    if (modified.size > 0) listener.onEntriesChanged?.(modified);
    if (changed.size > 0) listener.onChanged(changed);
  }
}

function isFilteredDifferently(before: State, after: State, namespace: Namespace, kind: Kind): boolean {
  if (before.evaluators === after.evaluators) return false;
  return LIST_METHODS[kind].some((method) => !before.evaluators.isEquivalent(after.evaluators, method, namespace));
}

/**
 * Sends list-change notifications on the notification stream of a legacy session while the client listens. A client that
 * reads slowly gets each notification once.
 */
export class SessionListChanges implements StreamListener, NamespaceListener {
  readonly #session: ActiveSession;
  readonly #unsubscribe: () => void;
  readonly #pending = new Set<Kind>();
  #blocked = false;

  constructor(session: ActiveSession, notifier: ListChangeNotifier, namespace: Namespace) {
    this.#session = session;
    this.#unsubscribe = notifier.subscribe(namespace, this);
    session.addListener(this);
  }

  onListeningChanged(on: boolean): void {
    if (on) return;
    this.#unsubscribe();
    this.#session.removeListener(this);
  }

  onChanged(kinds: ReadonlySet<Kind>): void {
    for (const kind of kinds) this.#pending.add(kind);
    if (!this.#blocked) this.#notify();
  }

  onDeleted(): void {
    this.#session.end();
  }

  #notify(): void {
    for (const kind of this.#pending) {
      if (!this.#session.send(`{"jsonrpc":"2.0","method":"${LIST_CHANGED[kind]}"}`)) this.#blocked = true;
    }
    this.#pending.clear();
    if (!this.#blocked) return;
    this.#session.onDrain(() => {
      this.#blocked = false;
      this.#notify();
    });
  }
}
