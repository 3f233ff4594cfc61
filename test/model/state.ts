import type { JsonObject } from '@sluice/protocol/json/parse';

/** Tools, resources and prompts: the entries of a namespace. */
export type Kind = 'tool' | 'resource' | 'prompt';

/** Every {@link Kind}. */
export const KINDS: readonly Kind[] = ['tool', 'resource', 'prompt'];

export type Labels = Readonly<Record<string, string>>;

/** Position in lists: the registration id, or that of its forward, then the upstream's order. */
export interface ListPosition {
  readonly registered: number;
  /** The upstream's lists in sequence: templates follow resources. */
  readonly list: number;
  readonly position: number;
}

/** An entry of an upstream. `key` is its own name or uri, `object` the sent object. */
export interface Discovered {
  readonly forward: string;
  readonly key: string;
  readonly object: JsonObject;
  /** Overrides, under MCP names; null removes a member. */
  readonly overrides: JsonObject;
}

/** One tool, resource or prompt. Entries are never changed, but replaced. */
export interface Entry {
  readonly kind: Kind;
  readonly namespace: string;
  /** Unique in namespace and kind: name, or location of a resource. */
  readonly key: string;
  /** Identification in paths. */
  readonly name: string;
  readonly listPosition: ListPosition;
  readonly shadowed: boolean;
  /** False: holds its key, but MCP does not know it. */
  readonly enabled: boolean;
  readonly labels: Labels;
  /**
   * Members under REST names, besides name, location, namespace and labels: of a manual entry all given ones, of a
   * discovered one the registry's own.
   */
  readonly members: JsonObject;
  /** Undefined for a manual entry. */
  readonly discovered: Discovered | undefined;
}

/** A registered upstream. */
export interface Forward {
  readonly name: string;
  readonly address: string;
  readonly namespace: string;
  readonly labels: Labels;
  readonly prefix: string;
  readonly registered: number;
  readonly available: boolean;
  /** True once it was discovered. */
  readonly known: boolean;
  /** Number of entries that the last discovery omitted, without a name or as duplicates. */
  readonly skipped: number;
  /** Discovered entries that the upstream no longer lists, or that were deleted, in their last state. */
  readonly removedEntries: readonly Entry[];
}

/** A capability service. */
export interface Service {
  readonly name: string;
  readonly serviceType: string;
  readonly serviceSubType: string | undefined;
  readonly languageName: string | undefined;
  /** In the API's form, without `health`. */
  readonly view: JsonObject;
}

/** Lists of an upstream, in order. A name or uri may be missing or duplicated. */
export interface Catalog {
  readonly tools: readonly JsonObject[];
  readonly resources: readonly JsonObject[];
  readonly templates: readonly JsonObject[];
  readonly prompts: readonly JsonObject[];
}

/** An empty catalog. */
export const EMPTY_CATALOG: Catalog = { tools: [], resources: [], templates: [], prompts: [] };

/**
 * The same objects in another order: each list reversed, or its first object moved to the end, or removed; or the
 * previous catalog.
 */
export type CatalogChange = 'reversed' | 'rotated' | 'shorter' | 'previous';

/** The catalog after a turn. */
export function changeCatalog(catalog: Catalog, previous: Catalog, change: CatalogChange): Catalog {
  if (change === 'previous') return previous;
  const { tools, resources, templates, prompts } = catalog;
  const each = (list: readonly JsonObject[]): readonly JsonObject[] => {
    if (change === 'reversed') return list.toReversed();
    return change === 'rotated' ? [...list.slice(1), ...list.slice(0, 1)] : list.slice(1);
  };
  return { tools: each(tools), resources: each(resources), templates: each(templates), prompts: each(prompts) };
}

/** An upstream that responds, responds to every list with an error, or does not listen. */
export type Mode = 'up' | 'failing' | 'down';

/** Current state of an upstream MCP server. */
export interface UpstreamState {
  readonly address: string;
  readonly mode: Mode;
  readonly catalog: Catalog;
}

/** The state of the model. */
export interface State {
  namespaces: { readonly name: string; readonly labels: Labels }[];
  forwards: Forward[];
  entries: Entry[];
  services: Service[];
  upstreams: UpstreamState[];
  /** Forwards and manual entries are numbered in order. */
  next: number;
}

/** A state that can be changed without changing this one. */
export function copyOf(state: State): State {
  return {
    namespaces: [...state.namespaces],
    forwards: [...state.forwards],
    entries: [...state.entries],
    services: [...state.services],
    upstreams: [...state.upstreams],
    next: state.next,
  };
}

/** An empty registry: `default` exists. */
export function emptyState(upstreams: readonly UpstreamState[]): State {
  return {
    namespaces: [{ name: 'default', labels: {} }],
    forwards: [],
    entries: [],
    services: [],
    upstreams: [...upstreams],
    next: 1,
  };
}

/** Order of lists. */
export function byListPosition({ listPosition: a }: Entry, { listPosition: b }: Entry): number {
  return a.registered - b.registered || a.list - b.list || a.position - b.position;
}

/** A tool, resource, prompt or forward that names a namespace which does not exist creates it. */
export function ensureNamespace(state: State, name: string): void {
  if (!state.namespaces.some((namespace) => namespace.name === name)) state.namespaces.push({ name, labels: {} });
}
