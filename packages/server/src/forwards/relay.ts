import type { IncomingHttpHeaders } from 'node:http';
import { type Outcome, rpcError } from '../answer/outcome.ts';
import { isJsonObject, type JsonObject } from '../json/lossless.ts';
import { capabilityKey } from '../mcp/capabilities.ts';
import type { DeclaredParams } from '../mcp/declared-params.ts';
import type { Implementation } from '../mcp/identity.ts';
import { isLogLevel } from '../mcp/log-level.ts';
import type { RequestMessage } from '../mcp/message.ts';
import type { MirroredParams } from '../mcp/mirrored-params.ts';
import { type Era, HEADER_HOPS, INTERNAL_ERROR, LATEST_LEGACY, META_LOG_LEVEL } from '../mcp/protocol.ts';
import { readsStreams } from '../mcp/reads-streams.ts';
import { type Discovered, type Entry, FORWARD_HEADERS_LABEL } from '../registry/entries.ts';
import type { NamespaceState } from '../registry/snapshot.ts';
import type { ClientSession, ClientSessions } from '../sessions/sessions.ts';
import { copiedHeaders, nextHop } from './caller-headers.ts';
import { crossing } from './crossing.ts';
import type { Forwards } from './forwards.ts';
import type { LinkedResources } from './linked-resources.ts';
import type { UpstreamLink } from './links.ts';
import { modernHeaders } from './modern-headers.ts';
import { type CallParts, RelayedCall } from './relayed-call.ts';
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
  readonly linkedResources: LinkedResources;
  readonly sessions: ClientSessions;
  readonly sessionLinks: SessionLinks;
  /** Who we are, told to upstreams by clients that open no session. */
  readonly serverInfo: Implementation;
  /** Lower-case names of client headers that every upstream gets (SERVICE_FORWARD_HEADERS). */
  readonly forwardHeaders: readonly string[];
  /** Reads the same list from an entry's label; names that are never copied are left out. */
  readonly parseHeaderNames: (text: string) => readonly string[];
}

/** What a failed call is called, by method (decisions 4.7). */
const FAILURE: Readonly<Record<string, string>> = {
  'tools/call': 'forwarded tool call failed',
  'resources/read': 'forwarded resource read failed',
  'prompts/get': 'forwarded prompt get failed',
  'completion/complete': 'forwarded completion failed',
};

/** Plans calls to upstream MCP servers: which one, under which name, with which headers, in whose session. */
export class CallRelay {
  readonly #options: CallRelayOptions;

  constructor(options: CallRelayOptions) {
    this.#options = options;
  }

  /** The outcome that carries the call out. */
  call(caller: Caller, message: RequestMessage, target: CallTarget): Outcome {
    const { forwards, serverInfo } = this.#options;
    const failure = FAILURE[message.method] ?? 'forwarded request failed';
    const upstream = upstreamOf(forwards, target);
    if (!upstream) return rpcError(INTERNAL_ERROR, `${failure}: its forward is no longer registered; list again`);
    const hop = nextHop(caller.headers);
    if (hop === undefined) return rpcError(INTERNAL_ERROR, 'forwarding loop');

    const name = upstreamName(message, target);
    const label = 'entry' in target ? target.entry.labels[FORWARD_HEADERS_LABEL] : undefined;
    const forwarded = this.forwardedHeaders(caller.headers, label);
    const headers = [HEADER_HOPS, String(hop), ...forwarded];
    const era = eraTowards(upstream, caller.era);
    if (era === 'modern') headers.push(...modernHeaders(message, name, caller.headers, this.#params(caller, target)));
    const { edits, progressToken } = requestEdits(message, name);
    const crossed = era === caller.era ? undefined : crossing(caller.era, message, clientInfoOf(caller, serverInfo));
    const plan = {
      upstream,
      message,
      edits: crossed ? [...edits, ...crossed.edits] : edits,
      crossing: crossed,
      // Across eras the token goes as it is: it stands inside what is written anew.
      progressToken: crossed ? undefined : progressToken,
      headers,
      link: this.#link(upstream, era, caller, headers, forwarded),
      failure,
      learn: this.#learner(caller, target),
      streams: readsStreams(caller.headers.accept),
      era: caller.era,
      session: caller.session,
      logLevel: () => this.#logLevel(caller, message),
    };
    return { kind: 'stream', start: (client) => new RelayedCall(this.#options, plan, client).start() };
  }

  /**
   * The forward that is asked for a uri which no list names: the one that sent a link to it, else the only one that
   * offers resources (mcp 6). Undefined when there are several or none.
   */
  forwardOfUnlisted(namespace: NamespaceState, uri: string): string | undefined {
    const { forwards, linkedResources } = this.#options;
    const sender = linkedResources.find(namespace.name, uri);
    if (sender !== undefined && forwards.upstream(sender)) return sender;
    const { counts } = namespace.shelves.resource;
    const [only] = counts.keys();
    return counts.size === 1 ? only : undefined;
  }

  /** Takes in the links to resources in what a forward answers; undefined where it is no forward. */
  #learner({ namespace }: Caller, target: CallTarget): ((text: string, value: unknown) => void) | undefined {
    const forward = forwardOf(target);
    if (forward === undefined || !namespace) return undefined;
    return (text, value) => this.#options.linkedResources.learn(namespace.name, forward, text, value);
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
    forwarded: readonly string[],
  ): () => UpstreamLink | Promise<UpstreamLink> {
    const { links } = upstream;
    if (era === 'modern') return () => links.modern;
    const { sessionLinks, serverInfo } = this.#options;
    const { session, user, namespace } = caller;
    if (session) return () => sessionLinks.link(upstream, session, headers);
    // A modern client cannot be asked over a session that it does not know of.
    const capabilities = caller.era === 'modern' ? {} : caller.capabilities;
    const key = JSON.stringify([namespace?.name, capabilityKey(capabilities), user, forwarded]);
    const clientInfo = { ...serverInfo };
    return () =>
      links.get(key) ??
      links.open({ key, protocolVersion: LATEST_LEGACY, capabilities, clientInfo, headers: forwarded });
  }

  /** What the client wants to see of the upstream's log: a modern one says so with each request. */
  #logLevel({ era, session }: Caller, { params }: RequestMessage): string | undefined {
    if (era === 'legacy') return (session && this.#options.sessions.state(session)?.logLevel) ?? 'debug';
    const meta = params._meta;
    const level = isJsonObject(meta) ? meta[META_LOG_LEVEL] : undefined;
    return isLogLevel(level) ? level : undefined;
  }

  /** The client's headers that upstreams may have: none unless an operator named them, on the entry's label too. */
  forwardedHeaders(headers: IncomingHttpHeaders, label?: string): string[] {
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
