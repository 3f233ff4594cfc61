import { createHash } from 'node:crypto';
import type { JsonObject } from '@sluice/protocol/json/parse';
import { applyEdits, type Edit, members, memberText, removeEdits } from '@sluice/protocol/json/text';
import { capabilityKey, catalogKey, chooseVariant } from '@sluice/protocol/mcp/capabilities';
import { type Era, META_SERVER_INFO } from '@sluice/protocol/mcp/constants';
import type { Implementation } from '@sluice/protocol/mcp/message';
import type { CacheHint, KnownCatalog } from '../registry/entries.ts';
import type { CatalogView } from '../registry/list.ts';
import type { Registry } from '../registry/registry.ts';
import { ServerIdentities } from './server-identity.ts';

/** Equivalent schemas of true and false, by their first letter. */
const BOOLEAN_SCHEMAS: Readonly<Record<string, string>> = { t: '{}', f: '{"not":{}}' };

/** Keys with escapes are rare, and may be any key. */
const UNICODE_ESCAPE = '\\u';

/**
 * Matches every tool with a member of `properties` that is true or false, and few others: the first member, or one after
 * an object. Searches 100,000 tools in 40 ms; checking their members takes 160 ms.
 */
const BOOLEAN_PROPERTY = /\\u|(?:"properties"\s*:\s*\{|\}\s*,)\s*"[^"\\]*(?:\\|"\s*:\s*[tf])/;

/**
 * Adapts a tool to legacy clients, which reject a whole list for one tool whose schemas 2025-11-25 does not allow: removes an
 * `outputSchema` whose `type` is not "object", and replaces a property schema of true or false by an equivalent object.
 * Everything else is unchanged. `json` must be valid JSON.
 */
export function legacyTool(json: string): string {
  const output =
    json.includes('"outputSchema"') || json.includes(UNICODE_ESCAPE) ? memberText(json, 'outputSchema') : undefined;
  const removesOutput = output !== undefined && !describesObject(output);
  const edits = removesOutput ? removeEdits(json, 0, (key) => key === 'outputSchema') : [];
  if (BOOLEAN_PROPERTY.test(json)) {
    for (const { key, start } of members(json)) {
      if (key === 'inputSchema' || (key === 'outputSchema' && !removesOutput))
        edits.push(...objectsForBooleans(json, start));
    }
  }
  return edits.length === 0 ? json : applyEdits(json, edits);
}

function describesObject(schema: string): boolean {
  const type = memberText(schema, 'type');
  return type !== undefined && JSON.parse(type) === 'object';
}

/** Edits of the properties of the schema at `start`; clients do not check nested ones. */
function objectsForBooleans(json: string, start: number): Edit[] {
  const edits: Edit[] = [];
  for (const schema of members(json, start)) {
    if (schema.key !== 'properties') continue;
    for (const property of members(json, schema.start)) {
      const text = BOOLEAN_SCHEMAS[json.charAt(property.start)];
      if (text !== undefined) edits.push({ start: property.start, end: property.end, text });
    }
  }
  return edits;
}

/** Era and capabilities of a client, and its view of the catalogs. */
export interface ClientProfile {
  readonly era: Era;
  readonly capabilities: JsonObject;
  /** Canonical form of the capabilities. */
  readonly capabilityKey: string;
  readonly view: CatalogView;
  /** The same view with the lists of servers with this server info, which is JSON text. Legacy lists have none. */
  viewOf(serverInfo: string): CatalogView;
}

/** Limits of the cache: clients choose their capabilities. Creating a profile takes microseconds. */
const MAX_PROFILES = 256;
const MAX_SERVERS = 64;
const MAX_KEY_CHARACTERS = 4096;

/** Methods of lists. */
export const LIST_METHODS = {
  tool: ['tools/list'],
  resource: ['resources/list', 'resources/templates/list'],
  prompt: ['prompts/list'],
} as const;

/** Result member with the items of a list, by method. */
const LIST_MEMBER: Readonly<Record<string, string>> = {
  'tools/list': 'tools',
  'resources/list': 'resources',
  'resources/templates/list': 'resourceTemplates',
  'prompts/list': 'prompts',
};

/** Creates and caches client profiles. */
export class ClientProfiles {
  /** Server info of namespaces. */
  readonly identities: ServerIdentities;
  readonly #registry: Registry;
  readonly #profiles = new Map<string, ClientProfile>();

  constructor(registry: Registry, serverInfo: Implementation) {
    this.#registry = registry;
    this.identities = new ServerIdentities(registry, serverInfo);
  }

  /** The profile of a client of this era that declares these capabilities. */
  of(era: Era, capabilities: JsonObject): ClientProfile {
    // Keyed by the client's own text: the canonical form costs more and is computed once per text.
    const text = era + JSON.stringify(capabilities);
    let profile = this.#profiles.get(text);
    if (!profile) {
      if (this.#profiles.size >= MAX_PROFILES) this.#profiles.clear();
      const view = this.#view(era, capabilities);
      profile = {
        era,
        capabilities,
        capabilityKey: capabilityKey(capabilities),
        view,
        viewOf: era === 'legacy' ? () => view : viewsByServer(view),
      };
      if (text.length <= MAX_KEY_CHARACTERS) this.#profiles.set(text, profile);
    }
    return profile;
  }

  #view(era: Era, capabilities: JsonObject): CatalogView {
    return {
      key: shortened(catalogKey(era, capabilities)),
      choose: (forward) => {
        const known = this.#registry.current.forwards.get(forward)?.catalogs ?? [];
        return chooseCatalog(known, era, capabilities);
      },
      item: (method, json) => (era === 'legacy' && method === 'tools/list' ? legacyTool(json) : json),
      wrap: (method, items, cache) => {
        const list = `{"${LIST_MEMBER[method]}":${items}`;
        return era === 'legacy' ? `${list}}` : `${list},${modernMembers(cache)}}`;
      },
    };
  }
}

/** Members of every modern list result besides its items. */
function modernMembers({ ttlMs, cacheScope }: CacheHint): string {
  return JSON.stringify({ resultType: 'complete', ttlMs, cacheScope }).slice(1, -1);
}

/** Adds server info to the lists of a view, and to its key: a namespace gets another one with its forwards. */
function viewsByServer(view: CatalogView): ClientProfile['viewOf'] {
  const views = new Map<string, CatalogView>();
  const withServer = (serverInfo: string): CatalogView => ({
    ...view,
    key: shortened(`${view.key} ${serverInfo}`),
    wrap: (method, items, cache) =>
      `${view.wrap(method, items, cache).slice(0, -1)},"_meta":{"${META_SERVER_INFO}":${serverInfo}}}`,
  });
  return (serverInfo) => {
    const known = views.get(serverInfo);
    if (known) return known;
    if (views.size >= MAX_SERVERS) views.clear();
    const created = withServer(serverInfo);
    views.set(serverInfo, created);
    return created;
  };
}

/** Limits a cache key: declared capabilities can be as long as a request body. */
function shortened(key: string): string {
  return key.length <= MAX_KEY_CHARACTERS ? key : createHash('sha256').update(key).digest('hex');
}

/** Chooses the best variant, in the client's own era if the upstream supports it. */
function chooseCatalog(known: readonly KnownCatalog[], era: Era, capabilities: JsonObject): KnownCatalog | undefined {
  const own = known.filter((catalog) => catalog.era === era);
  return chooseVariant(own.length > 0 ? own : known, capabilities);
}
