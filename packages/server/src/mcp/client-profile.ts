import { createHash } from 'node:crypto';
import { applyEdits, type Edit, removeEdits } from '@sluice/protocol/json/edit';
import { type JsonObject, parseJson } from '@sluice/protocol/json/parse';
import { members, memberText } from '@sluice/protocol/json/scan';
import { capabilityKey, catalogueKey, chooseVariant } from '@sluice/protocol/mcp/capabilities';
import { type Era, META_SERVER_INFO } from '@sluice/protocol/mcp/constants';
import { MirroredParams, readParamHeaders } from '@sluice/protocol/mcp/param-headers';
import type { CacheHint, Entry, KnownCatalogue, Offer } from '../registry/entries.ts';
import type { CatalogueView } from '../registry/index.ts';
import type { Registry } from '../registry/registry.ts';
import type { Implementation } from './server-info.ts';

/** By the first letter of true, which allows anything, and of false, which allows nothing. */
const INSTEAD: Readonly<Record<string, string>> = { t: '{}', f: '{"not":{}}' };

/** Keys that are spelled with escapes are rare, and could be any. */
const ESCAPED = '\\u';

/**
 * What is in every tool with a member of `properties` that is true or false, and in few others: the first such member,
 * or one that follows on an object. A list of 100,000 tools is searched with it in 40 ms, member by member in 160 ms.
 */
const BOOLEAN_PROPERTY = /\\u|(?:"properties"\s*:\s*\{|\}\s*,)\s*"[^"\\]*(?:\\|"\s*:\s*[tf])/;

/**
 * A tool as legacy clients take it, who refuse a whole list for one tool whose schemas say more than 2025-11-25 allows
 * (mcp 5): an `outputSchema` whose `type` is not "object" is left out, and a property whose schema is true or false gets
 * an object that means the same. Everything else keeps its text.
 *
 * `json` is the tool's text, accepted by `JSON.parse` before.
 */
export function legacyTool(json: string): string {
  const output =
    json.includes('"outputSchema"') || json.includes(ESCAPED) ? memberText(json, 'outputSchema') : undefined;
  const drops = output !== undefined && !describesObject(output);
  const edits = drops ? removeEdits(json, 0, (key) => key === 'outputSchema') : [];
  if (BOOLEAN_PROPERTY.test(json)) {
    for (const { key, start } of members(json)) {
      if (key === 'inputSchema' || (key === 'outputSchema' && !drops)) edits.push(...objectsForBooleans(json, start));
    }
  }
  return edits.length === 0 ? json : applyEdits(json, edits);
}

function describesObject(schema: string): boolean {
  const type = memberText(schema, 'type');
  return type !== undefined && JSON.parse(type) === 'object';
}

/** The edits for the properties of the schema at `start`. Clients look no deeper than that. */
function objectsForBooleans(json: string, start: number): Edit[] {
  const edits: Edit[] = [];
  for (const schema of members(json, start)) {
    if (schema.key !== 'properties') continue;
    for (const property of members(json, schema.start)) {
      const text = INSTEAD[json.charAt(property.start)];
      if (text !== undefined) edits.push({ start: property.start, end: property.end, text });
    }
  }
  return edits;
}

/** What a client can do, and what it therefore sees (mcp 4, "Catalogues are per set of client capabilities"). */
export interface ClientProfile {
  readonly era: Era;
  readonly capabilities: JsonObject;
  /** Canonical form of the capabilities. */
  readonly capabilityKey: string;
  readonly view: CatalogueView;
}

/** Profiles are input from outside, so only so many are kept, and no long ones; what is made anew costs microseconds. */
const MAX_PROFILES = 256;
const MAX_SPELLING = 4096;

/** The member that carries a list's items, by method. */
const LIST_MEMBER: Readonly<Record<string, string>> = {
  'tools/list': 'tools',
  'resources/list': 'resources',
  'resources/templates/list': 'resourceTemplates',
  'prompts/list': 'prompts',
};

/** Makes and keeps client profiles. */
export class ClientProfiles {
  readonly #registry: Registry;
  readonly #serverInfo: Implementation;
  readonly #profiles = new Map<string, ClientProfile>();

  constructor(registry: Registry, serverInfo: Implementation) {
    this.#registry = registry;
    this.#serverInfo = serverInfo;
  }

  /** The profile of a client of this era that declares these capabilities. */
  of(era: Era, capabilities: JsonObject): ClientProfile {
    // By what the client wrote: bringing it into canonical form costs more, and is done once per spelling.
    const spelling = era + JSON.stringify(capabilities);
    let profile = this.#profiles.get(spelling);
    if (!profile) {
      if (this.#profiles.size >= MAX_PROFILES) this.#profiles.clear();
      profile = {
        era,
        capabilities,
        capabilityKey: capabilityKey(capabilities),
        view: this.#view(era, capabilities),
      };
      if (spelling.length <= MAX_SPELLING) this.#profiles.set(spelling, profile);
    }
    return profile;
  }

  #view(era: Era, capabilities: JsonObject): CatalogueView {
    return {
      key: shortened(catalogueKey(era, capabilities)),
      choose: (forward) => {
        const known = this.#registry.current.forwards.get(forward)?.catalogues ?? [];
        return chooseCatalogue(known, era, capabilities);
      },
      item: (method, json) => (era === 'legacy' && method === 'tools/list' ? legacyTool(json) : json),
      wrap: (method, items, cache) => {
        const list = `{"${LIST_MEMBER[method]}":${items}`;
        return era === 'legacy' ? `${list}}` : `${list},${this.#modernMembers(cache)}}`;
      },
    };
  }

  /** The members that every modern list result has besides its items. */
  #modernMembers({ ttlMs, cacheScope }: CacheHint): string {
    const members = { resultType: 'complete', ttlMs, cacheScope, _meta: { [META_SERVER_INFO]: this.#serverInfo } };
    return JSON.stringify(members).slice(1, -1);
  }
}

/** Lists are kept under these keys, and what a client declares can be as long as a body. */
function shortened(key: string): string {
  return key.length <= MAX_SPELLING ? key : createHash('sha256').update(key).digest('hex');
}

/** The client's own era where the upstream offers it, and in it the variant that fits best. */
function chooseCatalogue(
  known: readonly KnownCatalogue[],
  era: Era,
  capabilities: JsonObject,
): KnownCatalogue | undefined {
  const own = known.filter((catalogue) => catalogue.era === era);
  return chooseVariant(own.length > 0 ? own : known, capabilities);
}

/** What one offer of a tool declares; `params` undefined for nothing, which is what nearly all declare. */
interface Declaration {
  readonly catalogues: Offer['catalogues'];
  readonly params: MirroredParams | undefined;
}

/** What a tool declares, as clients see it and as the upstream offers it: they differ where an operator overrode it. */
interface Declared {
  readonly shown: readonly Declaration[];
  readonly offered: readonly Declaration[];
}

const NOTHING: Declared = { shown: [], offered: [] };

/**
 * The `x-mcp-header` declarations of tools (mcp 4), read once per entry: entries are immutable. For a tool without any,
 * a call costs one look-up.
 */
export class DeclaredParams {
  readonly #profiles: ClientProfiles;
  readonly #declared = new WeakMap<Entry, Declared>();

  constructor(profiles: ClientProfiles) {
    this.#profiles = profiles;
  }

  /** What the tool declares to a modern client with these capabilities; undefined for nothing. */
  shownTo(capabilities: JsonObject, tool: Entry): MirroredParams | undefined {
    const { shown } = this.#of(tool);
    if (shown.length === 0) return undefined;
    const catalogue = this.#catalogue(capabilities, tool);
    return catalogue === undefined ? shown[0]?.params : shown.find((one) => isListed(one, catalogue))?.params;
  }

  /**
   * What the tool's upstream expects of a modern call: its offer of the modern era for a client with these
   * capabilities, else any of that era, else any. Undefined for nothing.
   */
  expectedOf(capabilities: JsonObject, tool: Entry): MirroredParams | undefined {
    const { offered } = this.#of(tool);
    if (offered.length === 0) return undefined;
    const catalogue = this.#catalogue(capabilities, tool);
    const offer =
      offered.find((one) => catalogue !== undefined && isListed(one, catalogue)) ??
      offered.find(isModern) ??
      offered[0];
    return offer?.params;
  }

  #of(tool: Entry): Declared {
    let declared = this.#declared.get(tool);
    if (!declared) {
      declared = read(tool);
      this.#declared.set(tool, declared);
    }
    return declared;
  }

  /** Key of the catalogue of its forward that counts for a modern client. */
  #catalogue(capabilities: JsonObject, { discovered }: Entry): string | undefined {
    return discovered && this.#profiles.of('modern', capabilities).view.choose(discovered.forward)?.key;
  }
}

function isListed({ catalogues }: Declaration, catalogue: string): boolean {
  return !catalogues || catalogues.includes(catalogue);
}

function isModern({ catalogues }: Declaration): boolean {
  return !catalogues || catalogues.some((key) => key.startsWith('modern:'));
}

function read({ served, discovered }: Entry): Declared {
  const shown = served.map(declarationOf);
  const offered = discovered ? discovered.offers.map(declarationOf) : shown;
  return [...shown, ...offered].some(({ params }) => params) ? { shown, offered } : NOTHING;
}

function declarationOf({ json, catalogues }: Offer): Declaration {
  // Members may be written with escapes; few tools have either.
  if (!json.includes('x-mcp-header') && !json.includes('\\u')) return { catalogues, params: undefined };
  const declared = readParamHeaders(parseJson(memberText(json, 'inputSchema') ?? 'null'));
  const none = !declared.valid || declared.headers.length === 0;
  return { catalogues, params: none ? undefined : new MirroredParams(declared.headers) };
}
