import type { IncomingHttpHeaders } from 'node:http';
import { type Outcome, rpcError } from '../answer/outcome.ts';
import type { JsonObject } from '../json/lossless.ts';
import { readsJson, readsStreams } from '../mcp/accept.ts';
import { capabilityKey } from '../mcp/capabilities.ts';
import type { DeclaredParams } from '../mcp/declared-params.ts';
import type { Implementation } from '../mcp/identity.ts';
import type { RequestMessage } from '../mcp/message.ts';
import type { MirroredParams } from '../mcp/mirrored-params.ts';
import { type Era, HEADER_HOPS, INTERNAL_ERROR, LATEST_LEGACY } from '../mcp/protocol.ts';
import { type Discovered, type Entry, FORWARD_HEADERS_LABEL } from '../registry/entries.ts';
import type { NamespaceState } from '../registry/snapshot.ts';
import type { ClientSession } from '../sessions/sessions.ts';
import type { CallParts } from './call-plan.ts';
import { copiedHeaders, nextHop } from './caller-headers.ts';
import { crossing } from './crossing.ts';
import type { Forwards } from './forwards.ts';
import type { UpstreamLink } from './links.ts';
import { modernHeaders } from './modern-headers.ts';
import { RelayedCall } from './relayed-call.ts';
import { calledName, requestEdits } from './request-edits.ts';
import type { SessionLinks } from './session-links.ts';
import type { Upstream } from './upstream.ts';

/**
 * What a call is for: something that a forward brought, a hand-made tool at the address it names, a uri that no list
 * names and only this forward can know, or a method that only this forward can answer.
 */
export type CallTarget =
  | { readonly kind: 'discovered'; readonly entry: Entry; readonly discovered: Discovered }
  | { readonly kind: 'addressed'; readonly entry: Entry; readonly address: string }
  | { readonly kind: 'unlisted'; readonly forward: string }
  | { readonly kind: 'method'; readonly forward: string };

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
export interface CallRelayOptions extends CallParts {
  readonly forwards: Forwards;
  readonly declaredParams: DeclaredParams;
  readonly sessionLinks: SessionLinks;
  /** Who we are, told to upstreams by clients that open no session. */
  readonly serverInfo: Implementation;
  /** Lower-case names of client headers that every upstream gets (SERVICE_FORWARD_HEADERS). */
  readonly forwardHeaders: readonly string[];
  /** Reads the same list from an entry's label; names that are never copied are left out. */
  readonly parseHeaderNames: (text: string) => readonly string[];
}

/** What a failed call is called, by method (decisions 4.7). */
const FAILURE: ReadonlyMap<string, string> = new Map([
  ['tools/call', 'forwarded tool call failed'],
  ['resources/read', 'forwarded resource read failed'],
  ['prompts/get', 'forwarded prompt get failed'],
  ['completion/complete', 'forwarded completion failed'],
]);

/** What a request is answered that has crossed too many gateways (decisions 4.3). */
export const FORWARDING_LOOP: Outcome = rpcError(INTERNAL_ERROR, 'forwarding loop');

/** Plans calls to upstream MCP servers: which one, under which name, with which headers, in whose session. */
export class CallRelay {
  readonly #options: CallRelayOptions;

  constructor(options: CallRelayOptions) {
    this.#options = options;
  }

  /** The outcome that carries the call out. */
  call(caller: Caller, message: RequestMessage, target: CallTarget): Outcome {
    const { forwards, serverInfo } = this.#options;
    const failure = FAILURE.get(message.method) ?? 'forwarded request failed';
    const upstream = upstreamOf(forwards, target);
    if (!upstream) return rpcError(INTERNAL_ERROR, `${failure}: its forward is no longer registered; list again`);
    const label = 'entry' in target ? target.entry.labels[FORWARD_HEADERS_LABEL] : undefined;
    const own = this.upstreamHeaders(caller.headers, label);
    if (!own) return FORWARDING_LOOP;

    const name = upstreamName(message, target);
    const era = eraTowards(upstream, caller.era);
    if (era === 'modern') own.push(...modernHeaders(message, name, caller.headers, this.#params(caller, target)));
    const { edits, progressToken } = requestEdits(message, name);
    const crossed = era === caller.era ? undefined : crossing(caller.era, message, clientInfoOf(caller, serverInfo));
    const plan = {
      upstream,
      message,
      edits: crossed ? [...edits, ...crossed.edits] : edits,
      crossing: crossed,
      // Across eras the token goes as it is: it stands inside what is written anew.
      progressToken: crossed ? undefined : progressToken,
      headers: own,
      link: this.#link(upstream, era, caller, own),
      failure,
      forward: forwardOf(target),
      namespace: caller.namespace?.name,
      streams: readsStreams(caller.headers.accept),
      json: readsJson(caller.headers.accept),
      era: caller.era,
      session: caller.session,
    };
    return { kind: 'stream', start: (client) => new RelayedCall(this.#options, plan, client).start() };
  }

  /**
   * The forward that is asked for a uri which no list names: the one that sent a link to it, else the only one that
   * offers resources (mcp 6). Undefined when there are several or none.
   */
  forwardOfUnlisted(namespace: NamespaceState, uri: string): string | undefined {
    const sender = this.#options.linkedResources.find(namespace.name, uri);
    if (sender !== undefined) return sender;
    const { counts } = namespace.shelves.resource;
    const [only] = counts.keys();
    return counts.size === 1 ? only : undefined;
  }

  /** What the called tool declares to be mirrored into headers. */
  #params({ capabilities }: Caller, target: CallTarget): MirroredParams | undefined {
    if (!('entry' in target) || target.entry.kind !== 'tool') return undefined;
    return this.#options.declaredParams.expectedOf(capabilities, target.entry);
  }

  /**
   * Whose session a call goes out in: a legacy client's own, one per upstream; for clients without a session one that is
   * shared by those who look the same to the upstream (mcp 4).
   */
  #link(
    upstream: Upstream,
    era: Era,
    caller: Caller,
    headers: readonly string[],
  ): () => UpstreamLink | Promise<UpstreamLink> {
    const { links } = upstream;
    if (era === 'modern') return () => links.modern;
    const { sessionLinks, serverInfo } = this.#options;
    const { session, user, namespace } = caller;
    if (session) return () => sessionLinks.link(upstream, session, headers);
    // A modern client cannot be asked over a session that it does not know of.
    const capabilities = caller.era === 'modern' ? {} : caller.capabilities;
    const key = JSON.stringify([namespace?.name, capabilityKey(capabilities), user, headers]);
    const clientInfo = { ...serverInfo };
    return () =>
      links.get(key) ?? links.open({ key, protocolVersion: LATEST_LEGACY, capabilities, clientInfo, headers });
  }

  /**
   * The headers of a client's request that go upstream with what it asks for: how many gateways it has crossed, and
   * those that the operator lets through, on the entry's `label` too. Undefined when it goes in a circle: see
   * {@link FORWARDING_LOOP}.
   */
  upstreamHeaders(headers: IncomingHttpHeaders, label?: string): string[] | undefined {
    const hop = nextHop(headers);
    return hop === undefined ? undefined : [HEADER_HOPS, String(hop), ...this.#forwardedHeaders(headers, label)];
  }

  #forwardedHeaders(headers: IncomingHttpHeaders, label: string | undefined): string[] {
    const { forwardHeaders, parseHeaderNames } = this.#options;
    if (label === undefined && forwardHeaders.length === 0) return [];
    const names = label === undefined ? forwardHeaders : new Set([...forwardHeaders, ...parseHeaderNames(label)]);
    return copiedHeaders(headers, names);
  }
}

function forwardOf(target: CallTarget): string | undefined {
  if (target.kind === 'addressed') return undefined;
  return target.kind === 'discovered' ? target.discovered.forward : target.forward;
}

function upstreamOf(forwards: Forwards, target: CallTarget): Upstream | undefined {
  if (target.kind === 'addressed') return forwards.upstreamAt(target.address);
  const forward = forwardOf(target);
  return forward === undefined ? undefined : forwards.upstream(forward);
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
  const renameable = target.kind === 'discovered' && target.entry.kind !== 'resource';
  return renameable ? target.discovered.upstreamKey : calledName(message);
}
