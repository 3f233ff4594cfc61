import type { JsonObject } from '@sluice/protocol/json/parse';
import { parseJson } from '@sluice/protocol/json/parse';
import { memberText } from '@sluice/protocol/json/scan';
import { MirroredParams, readParamHeaders } from '@sluice/protocol/mcp/param-headers';
import type { Entry, Offer } from '../registry/entries.ts';
import type { ClientProfiles } from './client-profile.ts';

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
