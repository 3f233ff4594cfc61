import type { IncomingHttpHeaders } from 'node:http';
import { type JsonObject, parseJson } from '@sluice/protocol/json/parse';
import { memberText } from '@sluice/protocol/json/text';
import { type Era, HEADER_MISMATCH } from '@sluice/protocol/mcp/constants';
import { MirroredParams, readParamHeaders } from '@sluice/protocol/mcp/param-headers';
import type { Target } from '../access/target.ts';
import type { ExchangeFacts } from '../exchange/facts.ts';
import { type ErrorOutcome, rpcError } from '../http/outcome.ts';
import type { Entry, EntryVariant } from '../registry/entries.ts';
import { boundedSubject } from '../telemetry/redaction.ts';
import type { ClientProfiles } from './client-profile.ts';

interface ToolCaller {
  readonly era: Era;
  readonly capabilities: JsonObject;
  /** Undefined if the call belongs to no request of the client. */
  readonly facts: ExchangeFacts | undefined;
}

/** Declarations of one variant of a tool; `params` is undefined for most tools, which have none. */
interface Declaration {
  readonly catalogs: EntryVariant['catalogs'];
  readonly params: MirroredParams | undefined;
}

/** Declarations of a tool as clients see them and as the upstream lists them, which differ after an override. */
interface ToolDeclarations {
  readonly visible: readonly Declaration[];
  readonly upstream: readonly Declaration[];
}

/** Of most tools. */
const NO_DECLARATIONS: ToolDeclarations = { visible: [], upstream: [] };

/**
 * The `x-mcp-header` declarations of tools, read once per entry: entries are immutable. Those of the variant for the client's
 * capabilities apply.
 */
export class DeclaredParams {
  readonly #profiles: ClientProfiles;
  readonly #declared = new WeakMap<Entry, ToolDeclarations>();

  constructor(profiles: ClientProfiles) {
    this.#profiles = profiles;
  }

  /**
   * Returns the error of a modern client's request whose headers do not mirror the arguments of the tool that it calls. Names the
   * tool in the facts of other requests.
   */
  check(client: ToolCaller, headers: IncomingHttpHeaders, target: Target): ErrorOutcome | undefined {
    const { era, capabilities, facts } = client;
    const { entry: tool, message } = target;
    if (tool?.kind !== 'tool') return undefined;
    const problem = era === 'modern' ? this.#visibleTo(tool, capabilities)?.problem(message, headers) : undefined;
    if (problem !== undefined) {
      return rpcError(HEADER_MISMATCH, `tool ${JSON.stringify(tool.key.slice(0, 100))}: ${problem}`, 400);
    }
    if (facts) facts.subject = boundedSubject({ kind: 'tool', name: tool.name });
    return undefined;
  }

  /** The declarations that a modern client with these capabilities sees, if any. */
  #visibleTo(tool: Entry, capabilities: JsonObject): MirroredParams | undefined {
    const { visible } = this.#declared.getOrInsertComputed(tool, declarationsOf);
    if (visible.length === 0) return undefined;
    const catalog = this.#catalog(tool, capabilities);
    return (catalog === undefined ? visible[0] : visible.find((one) => isListed(one, catalog)))?.params;
  }

  /**
   * The declarations that the upstream expects of a modern call, if any: of its modern variant for these capabilities, else
   * of any modern variant, else of any.
   */
  expectedByUpstream(tool: Entry, capabilities: JsonObject): MirroredParams | undefined {
    const { upstream } = this.#declared.getOrInsertComputed(tool, declarationsOf);
    if (upstream.length === 0) return undefined;
    const catalog = this.#catalog(tool, capabilities);
    const own = catalog === undefined ? undefined : upstream.find((one) => isListed(one, catalog));
    return (own ?? upstream.find(isModern) ?? upstream[0])?.params;
  }

  /** Key of the forward's catalog for a modern client. */
  #catalog({ discovered }: Entry, capabilities: JsonObject): string | undefined {
    return discovered && this.#profiles.of('modern', capabilities).view.choose(discovered.forward)?.key;
  }
}

function isListed({ catalogs }: Declaration, catalog: string): boolean {
  return !catalogs || catalogs.includes(catalog);
}

function isModern({ catalogs }: Declaration): boolean {
  return !catalogs || catalogs.some((key) => key.startsWith('modern:'));
}

function declarationsOf(tool: Entry): ToolDeclarations {
  const visible = tool.rendered.map(declarationOf);
  const upstream = tool.discovered?.variants.map(declarationOf) ?? visible;
  return [...visible, ...upstream].some(({ params }) => params) ? { visible, upstream } : NO_DECLARATIONS;
}

function declarationOf({ json, catalogs }: EntryVariant): Declaration {
  // The key may contain escapes; few tools have either.
  if (!json.includes('x-mcp-header') && !json.includes('\\u')) return { catalogs, params: undefined };
  const declared = readParamHeaders(parseJson(memberText(json, 'inputSchema') ?? 'null'));
  const none = !declared.valid || declared.headers.length === 0;
  return { catalogs, params: none ? undefined : new MirroredParams(declared.headers) };
}
