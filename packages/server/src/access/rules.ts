import { comparableUri } from '../registry/comparable-uri.ts';
import { DisabledUris } from '../registry/disabled-entries.ts';
import { type EntryIdentity, type Forward, isEnabled, type Namespace, sameRecord } from '../registry/entries.ts';
import type { EntryIndex } from '../registry/entry-index.ts';
import { Exposure } from '../registry/exposure.ts';
import type { Snapshot } from '../registry/snapshot.ts';
import { exactResource } from './find-resource.ts';
import type { Target } from './target.ts';

/** Where a request about a resource goes: to a forward, or to the executor of an entry registered by hand. */
export type ResourceRoute = Pick<Target, 'entry' | 'forward'>;

/** What the rules of one forward are made of. */
interface ForwardRules {
  readonly forward: Forward;
  readonly exposure: Exposure;
  /** Disabled resources, wherever their entries are, and those that are not listed at present. */
  readonly disabled: readonly DisabledUris[];
  /** Which uris are allowed, as far as that was decided. */
  readonly decided: Map<string, boolean>;
  /** Characters of these uris. */
  characters: number;
}

/** Characters of the uris of one forward whose decisions are cached: those of some large subscriptions. */
const MAX_DECIDED_CHARACTERS = 256 * 1024;

/** What operators hide in one state of the registry: disabled entries, blocked forwards, and what forwards do not expose. Caches by forward. */
export class AccessRules {
  readonly snapshot: Snapshot;
  readonly #forwards = new Map<string, ForwardRules>();
  readonly #resources: readonly EntryIndex[];

  /** `earlier`: the rules of another state, of which those of forwards are taken over whose resources are the same. */
  constructor(snapshot: Snapshot, earlier?: AccessRules) {
    this.snapshot = snapshot;
    this.#resources = Array.from(snapshot.namespaces.values(), ({ indexes }) => indexes.resource);
    if (!earlier || earlier.#resources.length !== this.#resources.length) return;
    if (!this.#resources.every((index, at) => index === earlier.#resources[at])) return;
    for (const [name, rules] of earlier.#forwards) {
      if (snapshot.forwards.get(name) === rules.forward) this.#forwards.set(name, rules);
    }
  }

  /**
   * Whether requests and notifications about a uri may pass between clients and a forward. A resource that is in no list can still
   * be requested: by a template, by a link or because its forward is the only one with resources. So each uri is checked where a
   * request leaves, in every form in which an upstream may read it.
   */
  allowsUri(forward: string, uri: string): boolean {
    const registered = this.snapshot.forwards.get(forward);
    if (this.snapshot.hidden.has(forward)) return false;
    if (!registered) return true;
    const rules = this.#of(registered);
    if (rules.disabled.length === 0 && rules.exposure.exposesAll('resource')) return true;
    const decided = rules.decided.get(uri);
    if (decided !== undefined) return decided;
    const isAllowed = this.#decide(rules, uri);
    rules.characters += uri.length;
    if (rules.characters > MAX_DECIDED_CHARACTERS) {
      rules.decided.clear();
      rules.characters = uri.length;
    }
    rules.decided.set(uri, isAllowed);
    return isAllowed;
  }

  #decide({ forward, exposure, disabled }: ForwardRules, uri: string): boolean {
    const comparable = comparableUri(uri);
    if (!comparable) return false;
    if (!exposure.exposesAll('resource') && !exposure.exposesUri(comparable)) return false;
    if (disabled.some((uris) => uris.has(comparable))) return false;
    const isDenied = disabled.some((uris) => !uris.isComplete || uris.matchesTemplate(comparable));
    return !isDenied || this.#isListed(forward.name, uri);
  }

  /** Whether clients of a namespace may know of a forward: of one that is in another namespace only by what this one has of it. */
  servesForward(namespace: Namespace, forward: string): boolean {
    if (this.snapshot.hidden.has(forward)) return false;
    const registered = this.snapshot.forwards.get(forward);
    // What is only gone may return.
    if (!registered || registered.namespace === namespace) return true;
    const indexes = Object.values(this.snapshot.namespaces.get(namespace)?.indexes ?? {});
    return indexes.some(({ counts }) => counts.has(forward));
  }

  /** Whether a request about a uri may take this route. Not if there is no entry and no forward. */
  allowsRoute(index: EntryIndex, uri: string, { entry, forward }: ResourceRoute): boolean {
    if (isOwnedByDisabled(index, uri)) return false;
    if (forward === undefined) return entry !== undefined && allowsManual(index, uri);
    return this.allowsUri(forward, uri);
  }

  /**
   * Whether an operator has hidden an entry that was served before: disabled it, or its object wherever it is now, or changed
   * its forward to not expose it, or blocked that.
   */
  isHidden(entry: EntryIdentity): boolean {
    const { kind, namespace, key, discovered } = entry;
    const { namespaces, forwards, hidden } = this.snapshot;
    if (discovered && hidden.has(discovered.forward)) return true;
    const candidates = namespaces.get(namespace)?.indexes[kind].candidates(key);
    const current = candidates?.find((candidate) => sameRecord(candidate, entry));
    if (current && !isEnabled(current)) return true;
    const forward = discovered && forwards.get(discovered.forward);
    if (!forward) return false;
    if (!this.#of(forward).exposure.exposes(kind, discovered.upstreamKey)) return true;
    if (current) return false;
    const disabled = namespaces.values().flatMap(({ indexes }) => indexes[kind].disabled.all);
    const detached = (forward.detachedOverrides ?? []).filter((entry) => entry.kind === kind && !isEnabled(entry));
    return [...disabled, ...detached].some(
      (other) => other.discovered?.forward === forward.name && other.discovered.upstreamKey === discovered.upstreamKey,
    );
  }

  #of(forward: Forward): ForwardRules {
    return this.#forwards.getOrInsertComputed(forward.name, () => {
      const marked = (forward.detachedOverrides ?? []).filter(({ kind }) => kind === 'resource');
      const detached = marked.filter((entry) => !isEnabled(entry));
      // An operator can move an entry to any namespace.
      const disabled = this.#resources.flatMap((index) => index.disabled.uris.get(forward.name) ?? []);
      if (detached.length > 0) disabled.push(new DisabledUris(detached));
      return { forward, exposure: new Exposure(forward), disabled, decided: new Map(), characters: 0 };
    });
  }

  /** A disabled template does not hide resources that the upstream lists by themselves. */
  #isListed(forward: string, uri: string): boolean {
    return this.#resources.some((index) => index.served(uri)?.discovered?.forward === forward);
  }
}

/** Whether a disabled entry owns a form of the uri: nothing else is served under it. */
function isOwnedByDisabled({ disabled: { ownedUris } }: EntryIndex, uri: string): boolean {
  if (ownedUris.isEmpty) return false;
  const comparable = comparableUri(uri);
  return !comparable || ownedUris.has(comparable);
}

/** Whether no disabled template of an operator hides the uri; it does not hide resources that are registered by themselves. */
function allowsManual(index: EntryIndex, uri: string): boolean {
  const disabled = index.disabled.uris.get(undefined);
  if (!disabled || exactResource(index, uri)) return true;
  const comparable = comparableUri(uri);
  return comparable !== undefined && disabled.isComplete && !disabled.matchesTemplate(comparable);
}
