import { LIST_CHANGED } from '@sluice/protocol/mcp/constants';
import { EvaluatorSet } from '../policy/evaluator-set.ts';
import { type Entry, isTemplate, KINDS, type Kind, type Namespace, type Offer } from '../registry/entries.ts';
import type { Registry } from '../registry/registry.ts';
import type { Snapshot } from '../registry/snapshot.ts';
import type { ActiveSession, SessionChannel } from './sessions/live-sessions.ts';

/**
 * True when a client may see another list of this kind in a namespace than before. It may, for a client of some era and
 * capabilities, when an entry's text or place differs, or when a forward has other catalogues, of which that client may
 * now get another one. Caching hints are no part of a list.
 */
export function mayLookDifferent(before: Snapshot, after: Snapshot, namespace: Namespace, kind: Kind): boolean {
  const former = before.namespaces.get(namespace)?.shelves[kind];
  const shelf = after.namespaces.get(namespace)?.shelves[kind];
  const entries = shelf?.entries ?? [];
  const formerEntries = former?.entries ?? [];
  if (entries.length !== formerEntries.length) return true;
  if (entries.some((entry, at) => !looksSame(entry, formerEntries[at]))) return true;
  const forwards = shelf?.counts.keys() ?? [];
  return [...forwards].some((forward) => catalogueKeys(before, forward) !== catalogueKeys(after, forward));
}

function looksSame(a: Entry, b: Entry | undefined): boolean {
  if (a === b) return true;
  return (
    b !== undefined &&
    a.discovered?.forward === b.discovered?.forward &&
    isTemplate(a) === isTemplate(b) &&
    a.served.length === b.served.length &&
    a.served.every((offer, at) => isSameOffer(offer, b.served[at]))
  );
}

function isSameOffer(a: Offer, b: Offer | undefined): boolean {
  return a.json === b?.json && String(a.catalogues) === String(b.catalogues);
}

function catalogueKeys(snapshot: Snapshot, forward: string): string {
  return JSON.stringify(snapshot.forwards.get(forward)?.catalogues.map(({ key }) => key));
}

/** Told of what happens to a namespace's lists. Must not throw. */
export interface NoticeListener {
  /** Clients may see other lists of these kinds now: what to send them is in `LIST_CHANGED`. */
  onChanged(kinds: ReadonlySet<Kind>): void;
  /** Something changed with these kinds, seen by clients or not: whose an entry is, for example. Told ahead of `onChanged`. */
  onTouched?(kinds: ReadonlySet<Kind>): void;
  /** The namespace is gone. Nothing is told after this. */
  onGone(): void;
}

/** The first change is told at once, those that follow on it together after this long. */
const SPACING_MS = 100;

/** Requests that are answered with a list of a kind. */
const LISTING: Readonly<Record<Kind, readonly string[]>> = {
  tool: ['tools/list'],
  resource: ['resources/list', 'resources/templates/list'],
  prompt: ['prompts/list'],
};

/** What lists depend on. */
interface State {
  readonly snapshot: Snapshot;
  readonly evaluators: EvaluatorSet;
}

/**
 * Tells who listens which lists of a namespace have changed (mcp 4: in under one second): because the registry has, or
 * because others judge now what a list shows. Changes that come together are told together, and what clients cannot see,
 * such as a label, or a refresh that found nothing new, is not told. While nobody listens, nothing is done.
 */
export class ListChangeNotifier {
  readonly #registry: Registry;
  readonly #listeners = new Map<Namespace, Set<NoticeListener>>();
  /** The state that was told last; undefined while nobody listens. */
  #told: State | undefined = undefined;
  #evaluators = new EvaluatorSet(0, []);
  #stop: (() => void) | undefined = undefined;
  #timer: NodeJS.Timeout | undefined = undefined;
  #lastAt = Number.NEGATIVE_INFINITY;

  constructor(registry: Registry) {
    this.#registry = registry;
  }

  /** Tells of changes from now on; returns how to stop. Of a namespace that is not there only that it is gone. */
  subscribe(namespace: Namespace, listener: NoticeListener): () => void {
    // What others are still to be told came before this listener's time.
    if (this.#timer) this.#tell();
    if (!this.#told) {
      this.#told = this.#state();
      this.#stop = this.#registry.onChange(() => this.#schedule());
    }
    const listeners = this.#listeners.get(namespace) ?? new Set();
    this.#listeners.set(namespace, listeners.add(listener));
    if (!this.#told.snapshot.namespaces.has(namespace)) this.#schedule();
    return () => this.#leave(namespace, listener);
  }

  /** From now on requests are judged by these. */
  judgedBy(evaluators: EvaluatorSet): void {
    this.#evaluators = evaluators;
    if (this.#told) this.#schedule();
  }

  /** Ends all telling, without a word. */
  close(): void {
    this.#listeners.clear();
    this.#rest();
  }

  #leave(namespace: Namespace, listener: NoticeListener): void {
    const listeners = this.#listeners.get(namespace);
    listeners?.delete(listener);
    if (listeners?.size === 0) this.#listeners.delete(namespace);
    this.#rest();
  }

  /** Lets go of everything when nobody listens any more. */
  #rest(): void {
    if (this.#listeners.size > 0) return;
    this.#stop?.();
    this.#stop = undefined;
    this.#told = undefined;
    clearTimeout(this.#timer);
    this.#timer = undefined;
  }

  #schedule(): void {
    const delay = Math.max(this.#lastAt + SPACING_MS - performance.now(), 0);
    this.#timer ??= setTimeout(() => this.#tell(), delay).unref();
  }

  #tell(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#lastAt = performance.now();
    const before = this.#told;
    const after = this.#state();
    if (!before) return;
    this.#told = after;
    for (const [namespace, listeners] of [...this.#listeners]) {
      if (after.snapshot.namespaces.has(namespace)) tellChanges(before, after, namespace, listeners);
      else this.#tellGone(namespace, listeners);
    }
  }

  #state(): State {
    return { snapshot: this.#registry.current, evaluators: this.#evaluators };
  }

  #tellGone(namespace: Namespace, listeners: ReadonlySet<NoticeListener>): void {
    this.#listeners.delete(namespace);
    for (const listener of [...listeners]) listener.onGone();
    this.#rest();
  }
}

function tellChanges(before: State, after: State, namespace: Namespace, listeners: ReadonlySet<NoticeListener>): void {
  const shelves = after.snapshot.namespaces.get(namespace)?.shelves;
  const former = before.snapshot.namespaces.get(namespace)?.shelves;
  const touched = new Set(KINDS.filter((kind) => shelves?.[kind] !== former?.[kind]));
  const changed = new Set(
    KINDS.filter(
      (kind) =>
        (touched.has(kind) && mayLookDifferent(before.snapshot, after.snapshot, namespace, kind)) ||
        isJudgedDifferently(before, after, namespace, kind),
    ),
  );
  for (const listener of [...listeners]) {
    if (touched.size > 0) listener.onTouched?.(touched);
    if (changed.size > 0) listener.onChanged(changed);
  }
}

function isJudgedDifferently(before: State, after: State, namespace: Namespace, kind: Kind): boolean {
  if (before.evaluators === after.evaluators) return false;
  return LISTING[kind].some((method) => !before.evaluators.judgesLike(after.evaluators, method, namespace));
}

/**
 * Tells a legacy session's notification stream that lists of its namespace have changed, for as long as the client
 * listens. A client that reads slowly is told once of what changed meanwhile.
 */
export class SessionNotices implements SessionChannel, NoticeListener {
  readonly #live: ActiveSession;
  readonly #unsubscribe: () => void;
  readonly #untold = new Set<Kind>();
  #blocked = false;

  constructor(live: ActiveSession, notices: ListChangeNotifier, namespace: Namespace) {
    this.#live = live;
    this.#unsubscribe = notices.subscribe(namespace, this);
    live.join(this);
  }

  listening(on: boolean): void {
    if (on) return;
    this.#unsubscribe();
    this.#live.leave(this);
  }

  onChanged(kinds: ReadonlySet<Kind>): void {
    for (const kind of kinds) this.#untold.add(kind);
    if (!this.#blocked) this.#tell();
  }

  onGone(): void {
    this.#live.end();
  }

  #tell(): void {
    for (const kind of this.#untold) {
      if (!this.#live.notify(`{"jsonrpc":"2.0","method":"${LIST_CHANGED[kind]}"}`)) this.#blocked = true;
    }
    this.#untold.clear();
    if (!this.#blocked) return;
    this.#live.onDrain(() => {
      this.#blocked = false;
      this.#tell();
    });
  }
}
