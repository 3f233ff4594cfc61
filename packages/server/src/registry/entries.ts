import type { Expose, ForwardHeaders, ServiceInput } from '@sluice/contract';
import type { JsonObject } from '@sluice/protocol/json/parse';
import type { Section } from './store/store.ts';

/** Kind of an entry: keys, lists and conflicts are per kind. Resource templates are resources. */
export type Kind = 'tool' | 'resource' | 'prompt';

/** Every {@link Kind}. */
export const KINDS: readonly Kind[] = ['tool', 'resource', 'prompt'];

/** Section of `registry.json` with the entries of a kind. */
export const SECTION = {
  tool: 'tools',
  resource: 'resources',
  prompt: 'prompts',
} as const satisfies Readonly<Record<Kind, Section>>;

/** Labels of the operator; the prefix `service.` is reserved for the service. */
export type Labels = Readonly<Record<string, string>>;

/**
 * One form of an MCP object. `catalogs`: keys of the forward's catalogs that list it, undefined for all of them; an
 * upstream may list other objects for other client capabilities and in its other era.
 */
export interface EntryVariant {
  readonly json: string;
  readonly catalogs: readonly string[] | undefined;
}

/**
 * Why an entry is disabled: `operator`, by an operator; `original`, a copy whose original is disabled, reverted when the
 * original is enabled; `new`, it appeared after the first discovery of a forward that disables new entries.
 */
export type DisabledBy = 'operator' | 'original' | 'new';

/** The discovered part of an entry: the upstream's exact objects and the operator's changes. */
export interface Discovered {
  readonly forward: string;
  /** The upstream's own name (tools, prompts) or uri (resources), which calls are sent with. */
  readonly upstreamKey: string;
  readonly variants: readonly EntryVariant[];
  /** New values by member name of the MCP object; null removes a member. */
  readonly overrides: JsonObject;
  /**
   * True for a copy made by an action. Discovery updates it and removes it with its original, but never creates it: once removed,
   * it stays removed.
   */
  readonly copied?: true | undefined;
  /** An operator moved it to another namespace: it does not follow its forward's namespace. */
  readonly moved?: true | undefined;
  /** An operator renamed it (tools, prompts): it does not follow its forward's prefix. */
  readonly renamed?: true | undefined;
  /** An operator enabled it: it is not new when the upstream lists it again. */
  readonly approved?: true | undefined;
}

/** One tool, resource or prompt. Immutable: a change creates a new entry. */
export interface Entry {
  readonly kind: Kind;
  readonly namespace: Namespace;
  /** Unique among the entries served in (namespace, kind): the name of a tool or prompt, the location of a resource. */
  readonly key: string;
  /** Its name in the management API. */
  readonly name: string;
  /**
   * Registration id of its forward, or its own when it is manual or copied. Lists are ordered by it, then by
   * {@link position}.
   */
  readonly registrationId: number;
  /** Place in the upstream's list. */
  readonly position: number;
  readonly labels: Labels;
  /**
   * Members of the management API that never appear on MCP: `uri`, `toolType`, `type`, `configurationURI`, `secretsURI`, `id`,
   * `params`.
   */
  readonly members: JsonObject;
  /** Undefined for a manual entry. */
  readonly discovered: Discovered | undefined;
  /** MCP members of a manual entry, by their MCP names; empty for a discovered entry. */
  readonly definition: JsonObject;
  /** Set while it is disabled: registered and holding its key, but not found by any MCP method. */
  readonly disabledBy?: DisabledBy | undefined;
  /** Served MCP objects: each variant with name and overrides applied. */
  readonly rendered: readonly EntryVariant[];
}

/** What identifies an entry, also after it was removed. */
export interface EntryIdentity extends Pick<Entry, 'kind' | 'namespace' | 'key'> {
  readonly discovered: Pick<Discovered, 'forward' | 'upstreamKey' | 'copied'> | undefined;
}

/** Label that marks a resource as a template. */
export const TEMPLATE_LABEL = 'service.is_template';
/** Label with further client headers to forward to the upstream. */
export const FORWARD_HEADERS_LABEL = 'service.forward_headers';
/** Label of tools whose long calls become tasks: `auto`. */
export const TASK_LABEL = 'service.task';
/** `toolType` and resource `type` of discovered entries. */
export const FORWARD_TYPE = 'mcp-forward';

/** True for an entry that MCP clients can use if it is served under its key. */
export function isEnabled({ disabledBy }: Pick<Entry, 'disabledBy'>): boolean {
  return disabledBy === undefined;
}

/** True for a resource template. */
export function isTemplate(entry: Pick<Entry, 'kind' | 'labels'>): boolean {
  return entry.kind === 'resource' && entry.labels[TEMPLATE_LABEL] === 'true';
}

/**
 * Order of lists: by registration, then as the upstream lists them. The templates of an upstream follow its resources.
 */
export function byOrder(a: Entry, b: Entry): number {
  return (
    a.registrationId - b.registrationId || Number(isTemplate(a)) - Number(isTemplate(b)) || a.position - b.position
  );
}

/** The numbers that {@link byOrder} compares. */
export function entryPlace(entry: Entry): readonly number[] {
  return [entry.registrationId, Number(isTemplate(entry)), entry.position];
}

/** True for two states of one record under one key: a manual entry, one object of one forward, or a copy of it. */
export function sameRecord(
  { discovered: a }: Pick<EntryIdentity, 'discovered'>,
  { discovered: b }: Pick<EntryIdentity, 'discovered'>,
): boolean {
  return a?.forward === b?.forward && a?.upstreamKey === b?.upstreamKey && a?.copied === b?.copied;
}

/** Identifies a record within its section, shadowed ones included; used by removals in the journal. */
export function entryId({ namespace, key, discovered }: Pick<Entry, 'namespace' | 'key' | 'discovered'>): string {
  const { forward = null, upstreamKey = null, copied } = discovered ?? {};
  return JSON.stringify([namespace, key, forward, upstreamKey, ...(copied ? ['copied'] : [])]);
}

/** A registered upstream MCP server: its configuration and the result of the last discovery. */
export interface Forward {
  readonly name: string;
  readonly address: string;
  readonly namespace: Namespace;
  readonly labels: Labels;
  /** Prefix of discovered tool and prompt names; empty for none. */
  readonly prefix: string;
  /** Headers of all requests to it, as written, with references to secrets; undefined for none. */
  readonly headers?: ForwardHeaders | undefined;
  /** Rules that select the entries to register; all if undefined. */
  readonly expose?: Expose | undefined;
  /** URL of the proxy for requests to it, or `none`; that of the environment if undefined. */
  readonly proxy?: string | undefined;
  /** True if it is asked to compress its responses. */
  readonly compression?: true | undefined;
  /** Forwards, manual entries and services share one sequence of ids. */
  readonly registrationId: number;
  /** Result of the last successful discovery, one per (era, capability set); empty before the first. */
  readonly catalogs: readonly KnownCatalog[];
  /**
   * Entries with overrides or a mark that the upstream does not list at present, or has never listed. These apply as soon as it
   * lists them, until the forward is deleted.
   */
  readonly detachedOverrides?: readonly Entry[] | undefined;
  /**
   * Time before which it is not probed for the modern era, in milliseconds since the epoch, because the last probe has broken
   * its connection or ended its process; undefined for most.
   */
  readonly modernProbeAfter?: number | undefined;
  readonly unknown?: UnknownMembers | undefined;
}

/** Address and type of a capability service. It belongs to no namespace; its health is not part of it. */
export interface ServiceEntry extends Readonly<Omit<ServiceInput, 'labels'>> {
  readonly labels: Labels;
  /** Order of lists. A service that replaces another takes over its id. */
  readonly registrationId: number;
  readonly unknown?: UnknownMembers | undefined;
}

/** Members of a stored record that this version does not know, as exact text by name; written back unchanged. */
export type UnknownMembers = ReadonlyMap<string, string>;

/** A discovered catalog without its entries. */
export interface KnownCatalog {
  /** Era and canonical capability set: unique within the forward. */
  readonly key: string;
  readonly era: 'legacy' | 'modern';
  /** The client capabilities that discovery declared. */
  readonly capabilities: Readonly<JsonObject>;
  /** Exact JSON of the upstream's InitializeResult or DiscoverResult. */
  readonly identity: string;
  /** Caching hints of its lists by method (modern era; empty otherwise). */
  readonly cache: Readonly<Record<string, CacheHint>>;
}

/** Time for which a modern list may be cached, and whether it is the same for every client. */
export interface CacheHint {
  readonly ttlMs: number;
  readonly cacheScope: 'public' | 'private';
}

declare const brand: unique symbol;

/** A valid namespace name. Created only by {@link parseNamespace}. */
export type Namespace = string & { readonly [brand]: 'Namespace' };

const NAMESPACE = /^[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?$/;

/** Returns the namespace of this name; undefined unless it is 1 to 63 of `a-z 0-9 -` with a letter or digit at both ends. */
export function parseNamespace(name: string): Namespace | undefined {
  return NAMESPACE.test(name) ? (name as Namespace) : undefined;
}

/** The namespace that always exists, and the default of entries and forwards. */
export const DEFAULT_NAMESPACE = 'default' as Namespace;
