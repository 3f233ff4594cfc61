import { createHash } from 'node:crypto';
import type { JsonObject } from '@sluice/protocol/json/parse';
import { capabilityKey, catalogueKey, chooseVariant } from '@sluice/protocol/mcp/capabilities';
import { type Era, META_SERVER_INFO } from '@sluice/protocol/mcp/constants';
import type { CacheHint, KnownCatalogue } from '../registry/entries.ts';
import type { Registry } from '../registry/registry.ts';
import type { CatalogueView } from '../registry/shelf.ts';
import type { Implementation } from './identity.ts';
import { legacyTool } from './legacy-tool.ts';

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
