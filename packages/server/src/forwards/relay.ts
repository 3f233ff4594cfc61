import type { IncomingHttpHeaders } from 'node:http';
import { type Outcome, rpcError } from '../answer/outcome.ts';
import { isJsonObject, type JsonObject } from '../json/lossless.ts';
import { members } from '../json/scan.ts';
import type { Edit } from '../json/splice.ts';
import { capabilityKey } from '../mcp/capabilities.ts';
import type { Implementation } from '../mcp/identity.ts';
import type { RequestMessage } from '../mcp/message.ts';
import { encodeHeaderValue } from '../mcp/param-headers.ts';
import {
  type Era,
  HEADER_HOPS,
  HEADER_METHOD,
  HEADER_NAME,
  HEADER_PARAM_PREFIX,
  INTERNAL_ERROR,
  LATEST_LEGACY,
  NAME_PARAM,
} from '../mcp/protocol.ts';
import { type Discovered, type Entry, FORWARD_HEADERS_LABEL } from '../registry/entries.ts';
import type { NamespaceState } from '../registry/snapshot.ts';
import type { ClientSession } from '../sessions/sessions.ts';
import type { TargetLogger } from '../telemetry/log.ts';
import { crossing } from './crossing.ts';
import type { Deadlines } from './deadlines.ts';
import type { Forwards } from './forwards.ts';
import type { LinkOwner, UpstreamLink } from './links.ts';
import { RelayedCall } from './relayed-call.ts';
import type { Upstream } from './upstream.ts';

/**
 * What a call is for: something that a forward brought, a hand-made tool at the address it names, or a uri that no list
 * names and only this forward can know.
 */
export type CallTarget =
  | { readonly kind: 'discovered'; readonly entry: Entry; readonly discovered: Discovered }
  | { readonly kind: 'addressed'; readonly entry: Entry; readonly address: string }
  | { readonly kind: 'unlisted'; readonly forward: string };

/** What a call needs to know of who makes it. */
export interface Caller {
  readonly namespace: { readonly name: string } | undefined;
  readonly era: Era;
  readonly headers: IncomingHttpHeaders;
  readonly session: ClientSession | undefined;
  readonly user: string | undefined;
  readonly capabilities: JsonObject;
}

/** What the relay works with. */
export interface CallRelayOptions {
  readonly forwards: Forwards;
  readonly deadlines: Deadlines;
  /** Who we are, told to upstreams by clients that open no session. */
  readonly serverInfo: Implementation;
  /** Lower-case names of client headers that every upstream gets (SERVICE_FORWARD_HEADERS). */
  readonly forwardHeaders: readonly string[];
  /** Reads the same list from an entry's label; names that are never copied are left out. */
  readonly parseHeaderNames: (text: string) => readonly string[];
  /** Bound on an upstream's answer, in bytes. */
  readonly maxResponseBytes: number;
  readonly log: TargetLogger;
}

/** What a failed call is called, by method (decisions 4.7). */
const FAILURE: Readonly<Record<string, string>> = {
  'tools/call': 'forwarded tool call failed',
  'resources/read': 'forwarded resource read failed',
  'prompts/get': 'forwarded prompt get failed',
};

/** A request that has crossed this many gateways goes in a circle (decisions 4.3). */
const MAX_HOPS = 8;

/** Plans calls to upstream MCP servers: which one, under which name, with which headers, in whose session. */
export class CallRelay {
  readonly #options: CallRelayOptions;

  constructor(options: CallRelayOptions) {
    this.#options = options;
  }

  /** The outcome that carries the call out. */
  call(caller: Caller, message: RequestMessage, target: CallTarget): Outcome {
    const { forwards, deadlines, maxResponseBytes, serverInfo, log } = this.#options;
    const failure = FAILURE[message.method] ?? 'forwarded request failed';
    const upstream = upstreamOf(forwards, target);
    if (!upstream) return rpcError(INTERNAL_ERROR, `${failure}: its forward is no longer registered; list again`);
    const hops = hopsOf(caller.headers);
    if (hops >= MAX_HOPS) return rpcError(INTERNAL_ERROR, 'forwarding loop');

    const name = upstreamName(message, target);
    const forwarded = this.#forwardedHeaders(caller.headers, target);
    const headers = [HEADER_HOPS, String(hops + 1), ...forwarded];
    const era = eraTowards(upstream, caller.era);
    if (era === 'modern') headers.push(...modernHeaders(message, name, caller.headers));
    const { edits, progressToken } = editsOf(message, name);
    const crossed = era === caller.era ? undefined : crossing(caller.era, message, clientInfoOf(caller, serverInfo));
    const plan = {
      upstream,
      message,
      edits: crossed ? [...edits, ...crossed.edits] : edits,
      crossing: crossed,
      // Across eras the token goes as it is: it stands inside what is written anew.
      progressToken: crossed ? undefined : progressToken,
      headers,
      link: linkOf(upstream, era, caller, forwarded, serverInfo),
      failure,
      streams: readsStreams(caller.headers.accept),
      era: caller.era,
      deadlines,
      maxResponseBytes,
      log,
    };
    return { kind: 'stream', start: (client) => new RelayedCall(plan, client).start() };
  }

  /** The only forward of a namespace that offers resources; undefined when there are several or none. */
  onlyForwardWithResources(namespace: NamespaceState): string | undefined {
    const { counts } = namespace.shelves.resource;
    const [only] = counts.keys();
    return counts.size === 1 ? only : undefined;
  }

  /** The client's headers that this upstream may have: none unless an operator named them. */
  #forwardedHeaders(headers: IncomingHttpHeaders, target: CallTarget): string[] {
    const label = target.kind === 'unlisted' ? undefined : target.entry.labels[FORWARD_HEADERS_LABEL];
    const { forwardHeaders, parseHeaderNames } = this.#options;
    if (label === undefined && forwardHeaders.length === 0) return [];
    const names = label === undefined ? forwardHeaders : new Set([...forwardHeaders, ...parseHeaderNames(label)]);
    const copied: string[] = [];
    for (const name of names) {
      const value = headers[name];
      for (const line of Array.isArray(value) ? value : [value]) if (line !== undefined) copied.push(name, line);
    }
    return copied;
  }
}

function upstreamOf(forwards: Forwards, target: CallTarget): Upstream | undefined {
  switch (target.kind) {
    case 'discovered':
      return forwards.upstream(target.discovered.forward);
    case 'addressed':
      return forwards.upstreamAt(target.address);
    case 'unlisted':
      return forwards.upstream(target.forward);
  }
}

/** The client's own era where the upstream speaks it, or where nothing is known; else the other (mcp 4). */
function eraTowards({ eras }: Upstream, era: Era): Era {
  if (!eras || eras.has(era)) return era;
  return era === 'modern' ? 'legacy' : 'modern';
}

function clientInfoOf({ session }: Caller, serverInfo: Implementation): JsonObject {
  return session?.clientInfo ?? { ...serverInfo };
}

/** What the upstream calls it: its own name for a tool or prompt, the very uri that was asked for otherwise. */
function upstreamName(message: RequestMessage, target: CallTarget): string {
  const asked = message.params[NAME_PARAM.get(message.method) ?? 'name'];
  const renameable = target.kind === 'discovered' && target.entry.kind !== 'resource';
  return renameable ? target.discovered.upstreamKey : String(asked);
}

/** Where the request's text must differ upstream. */
function editsOf(message: RequestMessage, name: string): { edits: Edit[]; progressToken: Edit | undefined } {
  const { text, params, paramsRange, method } = message;
  const member = NAME_PARAM.get(method);
  const renamed = member !== undefined && params[member] !== name;
  const meta = params._meta;
  const wantsProgress = isJsonObject(meta) && meta.progressToken !== undefined;
  const edits: Edit[] = [];
  let progressToken: Edit | undefined;
  if (!paramsRange || (!renamed && !wantsProgress)) return { edits, progressToken };
  for (const { key, start, end } of members(text, paramsRange.start)) {
    if (renamed && key === member) edits.push({ start, end, text: JSON.stringify(name) });
    if (!wantsProgress || key !== '_meta') continue;
    for (const found of members(text, start)) {
      if (found.key === 'progressToken') progressToken = { start: found.start, end: found.end, text: '' };
    }
  }
  return { edits, progressToken };
}

/** The headers that mirror a modern body, and those of the client that mirror parameters of the tool. */
function modernHeaders(message: RequestMessage, name: string, client: IncomingHttpHeaders): string[] {
  const headers = [HEADER_METHOD, message.method];
  if (NAME_PARAM.has(message.method)) headers.push(HEADER_NAME, encodeHeaderValue(name));
  for (const header of Object.keys(client)) {
    const value = header.startsWith(HEADER_PARAM_PREFIX) ? client[header] : undefined;
    if (typeof value === 'string') headers.push(header, value);
  }
  return headers;
}

/**
 * Whose session a call goes out in: a legacy client's own, one per upstream; for clients without a session one that is
 * shared by those who look the same to the upstream (mcp 4).
 */
function linkOf(
  upstream: Upstream,
  era: Era,
  caller: Caller,
  forwarded: readonly string[],
  serverInfo: Implementation,
): () => UpstreamLink | Promise<UpstreamLink> {
  const { links } = upstream;
  if (era === 'modern') return () => links.modern;
  const { session, user } = caller;
  // A modern client cannot be asked over a session that it does not know of.
  const capabilities = caller.era === 'modern' ? {} : caller.capabilities;
  const owner = (): LinkOwner =>
    session
      ? {
          key: session.id,
          protocolVersion: session.protocolVersion,
          capabilities: session.profile.capabilities,
          clientInfo: session.clientInfo,
          headers: forwarded,
        }
      : {
          key: JSON.stringify([caller.namespace?.name, capabilityKey(capabilities), user, forwarded]),
          protocolVersion: LATEST_LEGACY,
          capabilities,
          clientInfo: { ...serverInfo },
          headers: forwarded,
        };
  return () => links.legacy(owner());
}

/** A client that names JSON and not event streams gets its answer alone; one that names neither reads both. */
function readsStreams(accept: string | undefined): boolean {
  return accept === undefined || accept.includes('event-stream') || !accept.includes('application/json');
}

function hopsOf(headers: IncomingHttpHeaders): number {
  const value = headers[HEADER_HOPS];
  return typeof value === 'string' && /^\d+$/.test(value) ? Number(value) : 0;
}
