import type { ServiceType } from '@sluice/contract';
import type { JsonObject } from '@sluice/protocol/json/parse';
import type { Section } from './store/store.ts';

/** What a namespace offers: each kind has keys, lists and clashes of its own. Templates are resources. */
export type Kind = 'tool' | 'resource' | 'prompt';

/** Every {@link Kind}. */
export const KINDS: readonly Kind[] = ['tool', 'resource', 'prompt'];

/** The section of `registry.json` that entries of a kind are kept in. */
export const SECTION: Readonly<Record<Kind, Section>> = { tool: 'tools', resource: 'resources', prompt: 'prompts' };

/** Free string map of an operator or, with the prefix `service.`, of the service. */
export type Labels = Readonly<Record<string, string>>;

/**
 * An MCP object as it is served, and to whom: `catalogues` are the keys of those catalogues of its forward that list
 * it (an upstream may list other things to a client that can be elicited, and in its other era); undefined means all.
 */
export interface Offer {
  readonly json: string;
  readonly catalogues: readonly string[] | undefined;
}

/** An entry that discovery found. `offers` are the upstream's exact objects, `overrides` what an operator changed. */
export interface Discovered {
  readonly forward: string;
  /** The upstream's own name (tools, prompts) or uri (resources): what calls are made with. */
  readonly upstreamKey: string;
  readonly offers: readonly Offer[];
  /** By member name of the MCP object; null takes a member away. Empty when nothing was changed. */
  readonly overrides: JsonObject;
  /**
   * True for a copy that an action made (decisions 2.11). It is renewed with what discovery finds and goes when that is
   * gone, but discovery never makes it: once removed it stays so.
   */
  readonly copied?: true | undefined;
}

/** One tool, resource or prompt. Immutable: a change makes a new one. */
export interface Entry {
  readonly kind: Kind;
  readonly namespace: Namespace;
  /** Unique among the entries served in (namespace, kind): the name of a tool or prompt, the location of a resource. */
  readonly key: string;
  /** The name it is addressed by over REST. */
  readonly name: string;
  /**
   * Registration number of its forward, or its own when hand-made or copied, then place in the upstream's list: the order
   * of lists.
   */
  readonly source: number;
  readonly position: number;
  readonly labels: Labels;
  /**
   * Members of the registry's own that the management API shows and that never appear on MCP (decisions 2.5 to 2.7):
   * `uri`, `toolType`, `type`, `configurationURI`, `secretsURI`, `id`, `params`.
   */
  readonly members: JsonObject;
  /** Undefined for a hand-made entry. */
  readonly discovered: Discovered | undefined;
  /** Members of a hand-made entry that belong to its MCP object, in MCP's spelling; empty for a discovered one. */
  readonly definition: JsonObject;
  /** What MCP serves, ready: for a discovered entry each offer with name and overrides applied. */
  readonly served: readonly Offer[];
}

/** Label that marks a resource as a template (decisions 2.6). */
export const TEMPLATE_LABEL = 'service.is_template';
/** Label that names further client headers to copy to the upstream (decisions 4.7). */
export const FORWARD_HEADERS_LABEL = 'service.forward_headers';
/** `toolType` and resource `type` of what a forward brought. */
export const FORWARD_TYPE = 'mcp-forward';

/** True for a resource template. */
export function isTemplate(entry: Pick<Entry, 'kind' | 'labels'>): boolean {
  return entry.kind === 'resource' && entry.labels[TEMPLATE_LABEL] === 'true';
}

/**
 * Order of lists: by registration of the source, then as the upstream lists them (decisions 4.1). Templates are an
 * upstream's second list of resources and follow on the first.
 */
export function byOrder(a: Entry, b: Entry): number {
  return a.source - b.source || Number(isTemplate(a)) - Number(isTemplate(b)) || a.position - b.position;
}

/** True for two states of one record under one key: a hand-made entry, one find of one forward, or a copy of that. */
export function sameRecord({ discovered: a }: Entry, { discovered: b }: Entry): boolean {
  return a?.forward === b?.forward && a?.upstreamKey === b?.upstreamKey && a?.copied === b?.copied;
}

/** Tells records of one section apart, clashing ones included: what a removal names in the journal. */
export function entryId({ namespace, key, discovered }: Pick<Entry, 'namespace' | 'key' | 'discovered'>): string {
  const { forward = null, upstreamKey = null, copied } = discovered ?? {};
  return JSON.stringify([namespace, key, forward, upstreamKey, ...(copied ? ['copied'] : [])]);
}

/** A registered upstream MCP server, as the operator registered it and as it last described itself (decisions 2.4). */
export interface Forward {
  readonly name: string;
  readonly address: string;
  readonly namespace: Namespace;
  readonly labels: Labels;
  /** Put in front of discovered tool and prompt names; empty for none. */
  readonly prefix: string;
  /** Registration number: forwards, hand-made entries and services share one sequence. */
  readonly source: number;
  /** What discovery last found, one per (era, capability set); empty before the first success. */
  readonly catalogues: readonly KnownCatalogue[];
  /**
   * Entries that an operator changed and that discovery did not find of late, as they were. When the upstream offers
   * one again, the changes are there again, until the forward is deleted (decisions 2.5).
   */
  readonly absent?: readonly Entry[] | undefined;
  readonly unknown?: UnknownMembers | undefined;
}

/**
 * Where a capability service is reached over gRPC, and what it does (decisions 2.8). It belongs to no namespace. How it
 * is doing is not part of it.
 */
export interface ServiceEntry {
  readonly name: string;
  /** A host name or IP address; IPv6 without brackets. */
  readonly host: string;
  readonly port: number;
  readonly serviceType: ServiceType;
  /** Of a code-execution engine: its type. */
  readonly serviceSubType: string | undefined;
  /** Of a code-execution engine: its language. */
  readonly languageName: string | undefined;
  readonly labels: Labels;
  readonly id: string | undefined;
  /** Registration number: the order of lists. One that replaces another has its number. */
  readonly source: number;
  readonly unknown: UnknownMembers | undefined;
}

/** Members of a stored record that this version does not know: exact text by name, written again as it was found. */
export type UnknownMembers = ReadonlyMap<string, string>;

/** What is kept of one discovered catalogue besides its entries. */
export interface KnownCatalogue {
  /** Names the catalogue among its forward's: era and canonical capability set. */
  readonly key: string;
  readonly era: 'legacy' | 'modern';
  /** The client capabilities that discovery declared. */
  readonly capabilities: Readonly<JsonObject>;
  /** Exact JSON of the upstream's InitializeResult or DiscoverResult. */
  readonly identity: string;
  /** Caching hints of its lists by method (modern era; empty otherwise). */
  readonly cache: Readonly<Record<string, CacheHint>>;
}

/** How long a modern list may be kept, and whether it is the same for every client. */
export interface CacheHint {
  readonly ttlMs: number;
  readonly cacheScope: 'public' | 'private';
}

declare const brand: unique symbol;

/** A valid namespace name (specification, "Namespace"). Made only by {@link parseNamespace}. */
export type Namespace = string & { readonly [brand]: 'Namespace' };

const NAMESPACE = /^[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?$/;

/** The name as a namespace, or undefined when it breaks the rule: 1 to 63 of `a-z 0-9 -`, a letter or digit at both ends. */
export function parseNamespace(name: string): Namespace | undefined {
  return NAMESPACE.test(name) ? (name as Namespace) : undefined;
}

/** The namespace that always exists, and that entries go to when they name none. */
export const DEFAULT_NAMESPACE = 'default' as Namespace;
