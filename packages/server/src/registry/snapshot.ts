import { decodeUnreserved, matchTemplate } from '@sluice/protocol/mcp/uri-template';
import { comparableUri } from './comparable-uri.ts';
import {
  byOrder,
  type Entry,
  type EntryIdentity,
  type Forward,
  isEnabled,
  isTemplate,
  KINDS,
  type Kind,
  type Labels,
  type Namespace,
  type ServiceEntry,
  sameRecord,
  type UnknownMembers,
} from './entries.ts';
import { Exposure } from './exposure.ts';
import { type DraftMap, EntryIndex, LayeredMap } from './index.ts';
import { ResourceAccess } from './resource-access.ts';
import type { Section } from './store/store.ts';

/**
 * The registered capability services (decisions 2.8). Found by name, under which there may be several: one per type,
 * engine and language. Immutable.
 */
export class Services {
  readonly #named: LayeredMap<readonly ServiceEntry[]>;
  #ordered: readonly ServiceEntry[] | undefined;

  /** `named`: the services by name, in order of registration. */
  constructor(named = new LayeredMap<readonly ServiceEntry[]>()) {
    this.#named = named;
  }

  /** The services of this name, in order of registration. */
  named(name: string): readonly ServiceEntry[] {
    return this.#named.get(name) ?? [];
  }

  /** Every entry, in order of registration. */
  get all(): readonly ServiceEntry[] {
    this.#ordered ??= [...this.#named.values()].flat().sort(byRegistration);
    return this.#ordered;
  }

  /** Creates a draft of the services by name. */
  copy(): DraftMap<readonly ServiceEntry[]> {
    return this.#named.copy();
  }
}

/** Order of services and forwards. */
export function byRegistration(
  a: Pick<ServiceEntry, 'registrationId'>,
  b: Pick<ServiceEntry, 'registrationId'>,
): number {
  return a.registrationId - b.registrationId;
}

/** A namespace and its entries. */
export interface NamespaceState {
  readonly name: Namespace;
  /** Identity of the namespace: another object after it was deleted and created again. */
  readonly identity: object;
  readonly labels: Labels;
  readonly indexes: Readonly<Record<Kind, EntryIndex>>;
  readonly unknown?: UnknownMembers | undefined;
}

/** Number of discovered entries of a forward by kind, shadowed ones included, without copies. */
export interface Counts {
  readonly tool: number;
  readonly resource: number;
  readonly prompt: number;
}

/**
 * The immutable state of the registry after a commit. A request, or the writer of `registry.json`, sees one
 * consistent state in it without locking.
 */
export class Snapshot {
  readonly namespaces: ReadonlyMap<Namespace, NamespaceState>;
  readonly forwards: ReadonlyMap<string, Forward>;
  readonly services: Services;
  /** The next registration id. */
  readonly next: number;
  /**
   * Records of `registry.json` that could not be read, by section and id, as exact text. They are written back unchanged, so that
   * neither a typing error nor an older release loses them.
   */
  readonly unusable: ReadonlyMap<Section, ReadonlyMap<string, string>>;
  #shadowed: Map<string, Entry[]> | undefined;
  readonly #exposures = new Map<string, Exposure>();
  readonly #resourceAccess = new Map<string, ResourceAccess>();

  constructor(
    namespaces: ReadonlyMap<Namespace, NamespaceState>,
    forwards: ReadonlyMap<string, Forward>,
    next: number,
    unusable: ReadonlyMap<Section, ReadonlyMap<string, string>> = new Map(),
    services = new Services(),
  ) {
    this.namespaces = namespaces;
    this.forwards = forwards;
    this.next = next;
    this.unusable = unusable;
    this.services = services;
  }

  static empty(): Snapshot {
    return new Snapshot(new Map(), new Map(), 1);
  }

  /** The namespace of this name; the argument may be any text. */
  namespace(name: string): NamespaceState | undefined {
    return this.namespaces.get(name as Namespace);
  }

  /** The state of a namespace here; undefined if it was deleted, even if it was created again. */
  stateOf({ name, identity }: Pick<NamespaceState, 'name' | 'identity'>): NamespaceState | undefined {
    const state = this.namespaces.get(name);
    return state?.identity === identity ? state : undefined;
  }

  /** Entries of one kind over all namespaces or in one, in the order of lists; shadowed ones on request, or only them. */
  entries(kind: Kind, options: { namespace?: string; shadowed?: boolean | 'only' } = {}): Entry[] {
    const states = [...this.namespaces.values()].filter(
      (state) => options.namespace === undefined || state.name === options.namespace,
    );
    return states
      .flatMap(({ indexes }) => [
        ...(options.shadowed === 'only' ? [] : indexes[kind].registeredEntries),
        ...(options.shadowed ? indexes[kind].shadowed : []),
      ])
      .sort(byOrder);
  }

  /** Whether an entry holds its key, not shadowed by another one. */
  isServed(entry: Entry): boolean {
    return this.namespaces.get(entry.namespace)?.indexes[entry.kind].registered(entry.key) === entry;
  }

  /** Number of entries of one kind in all namespaces, without shadowed ones. */
  servedCount(kind: Kind): number {
    return this.namespaces.values().reduce((sum, { indexes }) => sum + indexes[kind].registeredEntries.length, 0);
  }

  /** Number of a forward's discovered entries (decisions 2.4, `tools_discovered` and so on). */
  counts(forward: string): Counts {
    const counts = { tool: 0, resource: 0, prompt: 0 };
    for (const { indexes } of this.namespaces.values()) {
      for (const kind of KINDS) counts[kind] += indexes[kind].counts.get(forward) ?? 0;
    }
    return counts;
  }

  /**
   * The string that an entry of a forward has of an object's text, so that equal ones are stored once; undefined if there is
   * none. Only entries that were neither moved nor renamed are found.
   */
  textOf(forwardName: string, kind: Kind, upstreamKey: string, json: string): string | undefined {
    const forward = this.forwards.get(forwardName);
    if (!forward) return undefined;
    const key = kind === 'resource' ? upstreamKey : forward.prefix + upstreamKey;
    for (const { discovered } of this.namespaces.get(forward.namespace)?.indexes[kind].claims(key) ?? []) {
      if (discovered?.forward !== forwardName) continue;
      const variant = discovered.variants.find((candidate) => candidate.json === json);
      if (variant) return variant.json;
    }
    return undefined;
  }

  /** The entries of a forward that are not served, because another entry is served under their key (decisions 2.2). */
  shadowed(forward: string): readonly Entry[] {
    this.#shadowed ??= this.#findShadowed();
    return this.#shadowed.get(forward) ?? [];
  }

  /**
   * Whether requests and notifications about a uri may pass between clients and a forward, in whatever list it is
   * (decisions 10.1).
   */
  allowsResource(forward: string, uri: string): boolean {
    const registered = this.forwards.get(forward);
    if (!registered) return true;
    const access = this.#resourceAccess.getOrInsertComputed(forward, () => {
      const indexes = this.namespaces.values().map((state) => state.indexes.resource);
      return new ResourceAccess(registered, this.#exposure(registered), [...indexes]);
    });
    return access.allows(uri);
  }

  /**
   * Whether an operator has hidden an entry that was served before: disabled it, or its object wherever it is now, or
   * changed its forward to not expose it (decisions 10.1).
   */
  isHidden(entry: EntryIdentity): boolean {
    const { kind, namespace, key, discovered } = entry;
    const current = this.namespaces
      .get(namespace)
      ?.indexes[kind].claims(key)
      .find((claim) => sameRecord(claim, entry));
    if (current && !isEnabled(current)) return true;
    const forward = discovered && this.forwards.get(discovered.forward);
    if (!forward) return false;
    if (!this.#exposure(forward).exposes(kind, discovered.upstreamKey)) return true;
    if (current) return false;
    const disabled = this.namespaces.values().flatMap(({ indexes }) => indexes[kind].disabled);
    const orphans = (forward.orphanedOverrides ?? []).filter((orphan) => orphan.kind === kind && !isEnabled(orphan));
    return [...disabled, ...orphans].some(
      (other) => other.discovered?.forward === forward.name && other.discovered.upstreamKey === discovered.upstreamKey,
    );
  }

  #exposure(forward: Forward): Exposure {
    return this.#exposures.getOrInsertComputed(forward.name, () => new Exposure(forward));
  }

  #findShadowed(): Map<string, Entry[]> {
    const found = new Map<string, Entry[]>();
    for (const { indexes } of this.namespaces.values()) {
      for (const index of Object.values(indexes)) {
        for (const entry of index.shadowed) {
          const forward = entry.discovered?.forward;
          if (forward === undefined) continue;
          found.getOrInsertComputed(forward, () => []).push(entry);
        }
      }
    }
    return found;
  }
}

/** A namespace without entries. */
export function emptyNamespace(name: Namespace, labels: Labels = {}): NamespaceState {
  return {
    name,
    identity: {},
    labels,
    indexes: { tool: new EntryIndex(), resource: new EntryIndex(), prompt: new EntryIndex() },
  };
}

/** Where a request about a resource goes: to a forward, or to the executor of a manual entry. */
export interface ResourceRoute {
  /** Undefined for a uri that is in no list. */
  readonly entry: Entry | undefined;
  /** Undefined for a manual entry. */
  readonly forward: string | undefined;
}

/**
 * The route of a request about a uri: to the entry that serves it, else to the forward that `findUnlisted` returns.
 * Undefined when there is none, or when the uri is disabled or denied there (decisions 10.1).
 */
export function routeResource(
  snapshot: Snapshot,
  index: EntryIndex,
  uri: string,
  findUnlisted: () => string | undefined,
  find: (index: EntryIndex, uri: string) => Entry | undefined = findResource,
): ResourceRoute | undefined {
  if (isHeld(index, uri)) return undefined;
  const entry = find(index, uri);
  const forward = entry ? entry.discovered?.forward : findUnlisted();
  if (forward === undefined) return entry && allowsManual(index, uri) ? { entry, forward } : undefined;
  return snapshot.allowsResource(forward, uri) ? { entry, forward } : undefined;
}

/** Whether a disabled entry holds a form of the uri: nothing else is served under it. */
function isHeld({ heldUris }: EntryIndex, uri: string): boolean {
  if (heldUris.isEmpty) return false;
  const comparable = comparableUri(uri);
  return !comparable || heldUris.has(comparable);
}

/** Whether no disabled template of a manual entry hides the uri; it does not hide resources that are registered by themselves. */
function allowsManual(index: EntryIndex, uri: string): boolean {
  const disabled = index.disabledUris.get(undefined);
  if (!disabled || exactResource(index, uri)) return true;
  const comparable = comparableUri(uri);
  return comparable !== undefined && disabled.isComplete && !disabled.matchesTemplate(comparable);
}

/** The entry that serves a uri: the uri exactly, then the templates in order of registration (decisions 4.7). */
export function findResource(index: EntryIndex, uri: string): Entry | undefined {
  return exactResource(index, uri) ?? templateFor(index.templates, uri);
}

/**
 * Looks up entries of the same uris repeatedly, as {@link findResource} does. Templates, which are the expensive part,
 * are matched again only after they changed.
 */
export class ResourceFinder {
  #templates: readonly Entry[] = [];
  readonly #matched = new Map<string, Entry | undefined>();

  /** The entry that serves a uri; of a template perhaps an earlier state, of the same key and forward. */
  find(index: EntryIndex, uri: string): Entry | undefined {
    return exactResource(index, uri) ?? this.#matching(index.templates, uri);
  }

  #matching(templates: readonly Entry[], uri: string): Entry | undefined {
    if (templates !== this.#templates) {
      if (!areSameTemplates(templates, this.#templates)) this.#matched.clear();
      this.#templates = templates;
    }
    return this.#matched.getOrInsertComputed(uri, () => templateFor(templates, uri));
  }
}

function exactResource(index: EntryIndex, uri: string): Entry | undefined {
  const exact = index.get(uri);
  return exact && !isTemplate(exact) ? exact : undefined;
}

function templateFor(templates: readonly Entry[], uri: string): Entry | undefined {
  if (templates.length === 0) return undefined;
  const decoded = decodeUnreserved(uri);
  return templates.find((template) => matchTemplate(template.key, decoded));
}

function areSameTemplates(some: readonly Entry[], others: readonly Entry[]): boolean {
  return some.length === others.length && some.every((template, at) => isSameTemplate(template, others[at]));
}

function isSameTemplate({ key, discovered }: Entry, other: Entry | undefined): boolean {
  return key === other?.key && discovered?.forward === other.discovered?.forward;
}
