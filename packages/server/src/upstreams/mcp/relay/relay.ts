import type { IncomingHttpHeaders } from 'node:http';
import type { ToolCallErrorCategory } from '@sluice/contract';
import type { Edit } from '@sluice/protocol/json/edit';
import type { JsonObject, JsonValue } from '@sluice/protocol/json/parse';
import {
  askedCapabilities,
  capabilityKey,
  lowerLevel,
  requestedLevel,
  supportsServerRequests,
} from '@sluice/protocol/mcp/capabilities';
import { type Era, HEADER_HOPS, INTERNAL_ERROR, LATEST_LEGACY, NAME_PARAM } from '@sluice/protocol/mcp/constants';
import { readsJson, readsStreams } from '@sluice/protocol/mcp/era';
import type { RequestMessage } from '@sluice/protocol/mcp/message';
import type { MirroredParams } from '@sluice/protocol/mcp/param-headers';
import { type ErrorOutcome, type Outcome, rpcError } from '../../../http/context.ts';
import type { DeclaredParams } from '../../../mcp/client-profile.ts';
import type { Implementation } from '../../../mcp/server-info.ts';
import type { ActiveSessions } from '../../../mcp/sessions/live-sessions.ts';
import type { ClientSession, ClientSessions } from '../../../mcp/sessions/sessions.ts';
import { type Discovered, type Entry, FORWARD_HEADERS_LABEL } from '../../../registry/entries.ts';
import type { NamespaceState } from '../../../registry/snapshot.ts';
import type { Correlation } from '../../../telemetry/correlation.ts';
import type { TargetLogger } from '../../../telemetry/log.ts';
import type { OutgoingCall, RequestObservation, UpstreamRequestInfo } from '../../../telemetry/request-telemetry.ts';
import type { ToolCallSink } from '../../../telemetry/tool-calls/events.ts';
import { type ToolCallReporter, toolCallIdentity } from '../../../telemetry/tool-calls/report.ts';
import type { TraceContext } from '../../../telemetry/tracing/trace-context.ts';
import { withoutRetry } from '../era-translation/messages.ts';
import { type CrossedCallsOptions, EraTranslator } from '../era-translation/translate.ts';
import type { Forwards } from '../forwards.ts';
import type { CallSessionPool } from '../sessions/call-sessions.ts';
import type { SessionBindings } from '../sessions/session-bindings.ts';
import type { Upstream, UpstreamSession } from '../upstream.ts';
import { withTimeout } from '../with-timeout.ts';
import { type CallObserver, TelemetryObserver, ToolCallWatch } from './call-observer.ts';
import type { InFlightCall, InFlightCalls } from './in-flight.ts';
import type { ResourceLinkCache } from './linked-resources.ts';
import { RelayedCall } from './relayed-call.ts';
import {
  calledName,
  copiedHeaders,
  ModernErrors,
  modernHeaders,
  nextHop,
  requestEdits,
  traceEdits,
  withTrace,
} from './request-rewrite.ts';
import type { ServerRequestSink, ServerRequests } from './server-requests.ts';

export interface CallLinksOptions {
  readonly sessionLinks: SessionBindings;
  readonly callSessions: CallSessionPool;
  /** Who we are, told to upstreams by clients that open no session. */
  readonly serverInfo: Implementation;
}

/** Whose call it is, as far as the upstream's session is concerned. */
export interface LinkCaller {
  readonly namespace: { readonly name: string } | undefined;
  readonly session: ClientSession | undefined;
  readonly user: string | undefined;
  /** What the upstream is told that the client can do. */
  readonly capabilities: JsonObject;
  /** Headers besides the protocol's own that go upstream. */
  readonly headers: readonly string[];
  /** The level of log messages that this request asks for; undefined where that is not said with requests. */
  readonly logLevel: string | undefined;
}

/** An upstream that does not take a log level in this time, in milliseconds, is asked without. */
const LEVEL_MS = 5_000;

/** Finds the session that a call to a legacy upstream goes out in. */
export class SessionSelector {
  readonly #options: CallLinksOptions;

  constructor(options: CallLinksOptions) {
    this.#options = options;
  }

  /**
   * Whose session a call to a legacy upstream goes out in, asked for when it is sent: a legacy client's own, one per upstream; for a modern
   * client that can be asked something one that it has for itself; for others one that is shared by those who look the
   * same to the upstream (mcp 4). Rejects with `UpstreamError`.
   */
  of(upstream: Upstream, caller: LinkCaller): () => UpstreamSession | Promise<UpstreamSession> {
    const { links } = upstream;
    const { sessionLinks, callSessions, serverInfo } = this.#options;
    const { session, user, namespace, capabilities, headers, logLevel } = caller;
    if (session) return () => sessionLinks.link(upstream, session, headers);
    const key = JSON.stringify([namespace?.name, capabilityKey(capabilities), user, headers]);
    const owner = { key, protocolVersion: LATEST_LEGACY, capabilities, clientInfo: { ...serverInfo }, headers };
    const link = supportsServerRequests(capabilities)
      ? () => callSessions.take(upstream, owner)
      : () => links.get(key) ?? links.open(owner);
    return logLevel === undefined ? link : async () => levelled(await link(), logLevel);
  }
}

/** Has the upstream send what this level lets through, if it sends less: what other calls do not want, they leave out. */
async function levelled(link: UpstreamSession, level: string): Promise<UpstreamSession> {
  const { client, logLevel } = link;
  if (client?.serverCapabilities.logging === undefined || !lowerLevel(level, logLevel)) return link;
  link.logLevel = level;
  await withTimeout(
    LEVEL_MS,
    client.request('logging/setLevel', { level }).catch(() => undefined),
  );
  return link;
}

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
  readonly correlation: Correlation;
  /** Undefined where nobody looks. */
  readonly observation: RequestObservation | undefined;
}

/** What the relay works with. */
export interface CallRelayOptions extends CallLinksOptions, CrossedCallsOptions {
  readonly forwards: Forwards;
  readonly declaredParams: DeclaredParams;
  /** Who we are, told to upstreams by clients that open no session. */
  readonly serverInfo: Implementation;
  /** Lower-case names of client headers that every upstream gets (SERVICE_FORWARD_HEADERS). */
  readonly forwardHeaders: readonly string[];
  /** Reads the same list from an entry's label; names that are never copied are left out. */
  readonly parseHeaderNames: (text: string) => readonly string[];
  readonly toolCalls: ToolCallSink;
}

/** What a failed call is called, by method (decisions 4.7). */
const FAILURE: ReadonlyMap<string, string> = new Map([
  ['tools/call', 'forwarded tool call failed'],
  ['resources/read', 'forwarded resource read failed'],
  ['prompts/get', 'forwarded prompt get failed'],
  ['completion/complete', 'forwarded completion failed'],
]);

/** What a request is answered that has crossed too many gateways (decisions 4.3). */
export const FORWARDING_LOOP: ErrorOutcome = rpcError(INTERNAL_ERROR, 'forwarding loop');

/** Plans calls to upstream MCP servers: which one, under which name, with which headers, in whose session. */
export class CallRouter {
  readonly #options: CallRelayOptions;
  readonly #links: SessionSelector;
  readonly #crossed: EraTranslator;

  constructor(options: CallRelayOptions) {
    this.#options = options;
    this.#links = new SessionSelector(options);
    this.#crossed = new EraTranslator(options);
  }

  /** The outcome that carries the call out. */
  call(caller: Caller, message: RequestMessage, target: CallTarget): Outcome {
    const { forwards, parked } = this.#options;
    const failure = FAILURE.get(message.method) ?? 'forwarded request failed';
    const label = 'entry' in target ? target.entry.labels[FORWARD_HEADERS_LABEL] : undefined;
    const tool = calledTool(message, target);
    const hop = nextHop(caller.headers);
    if (hop === undefined) return this.#refused(caller, tool, 'UNKNOWN', FORWARDING_LOOP);
    const copied = this.#copiedHeaders(caller.headers, label);
    const headers = [HEADER_HOPS, String(hop), ...copied];
    const { accept } = caller.headers;
    const retry = retries(caller, message);
    const attempt = {
      message,
      capabilities: retry ? askedCapabilities(caller.capabilities) : caller.capabilities,
      headers,
      streams: readsStreams(accept),
      json: readsJson(accept),
    };
    // By what the client says, not by the upstream's era: that may have changed since.
    const resumption = retry ? parked.resume(caller, attempt) : undefined;
    if (resumption?.kind === 'answer') {
      caller.observation?.continues();
      return resumption.outcome;
    }

    const upstream = upstreamOf(forwards, target);
    if (!upstream) {
      const gone = rpcError(INTERNAL_ERROR, `${failure}: its forward is no longer registered; list again`);
      return this.#refused(caller, tool, 'SERVICE_UNAVAILABLE', gone);
    }
    const name = upstreamName(message, target);
    const era = eraTowards(upstream, caller.era);
    if (era === 'modern') headers.push(...modernHeaders(message, name, caller.headers, this.#params(caller, target)));
    const crosses = era !== caller.era;
    const capabilities = crosses && era === 'legacy' ? askedOf(caller, message) : caller.capabilities;
    const anew = resumption?.kind === 'anew';
    const foreign = crosses ? this.#crossed.refusal(caller.era, message, anew) : undefined;
    if (foreign) return foreign;
    const { edits, progressToken } = requestEdits(message, name);
    const outgoing = caller.observation?.ask(describeUpstreamRequest(message, target, name, upstream));
    const trace = outgoing?.trace;
    // What crosses the eras has its metadata written anew, and the trace with it.
    if (trace && !crosses) edits.push(...traceEdits(message, trace));
    // Written out: spreading one object into another costs more than all the rest of this.
    const plan: CallPlan = {
      message,
      capabilities,
      headers: trace ? withTrace(headers, trace) : headers,
      trace,
      streams: attempt.streams,
      json: attempt.json,
      upstream,
      edits,
      progressToken,
      rewriting: caller.era === 'modern' ? new ModernErrors(message.method, capabilities) : undefined,
      crosses,
      questions: undefined,
      link:
        era === 'modern'
          ? () => upstream.links.modern
          : this.#links.of(upstream, linkCaller(caller, capabilities, message, headers)),
      watch: observed(outgoing, this.#watch(caller, tool, upstream, message, copied)),
      failure,
      forward: forwardOf(target),
      namespace: caller.namespace?.name,
      era: caller.era,
      session: caller.session,
    };
    if (crosses) return this.#crossed.call(caller, plan);
    // The state is ours: an upstream that has come to speak the client's era does not know it.
    const own = anew ? { ...plan, edits: [...plan.edits, ...withoutRetry(message)] } : plan;
    return { kind: 'stream', start: (client) => new RelayedCall(this.#options, own, client).start() };
  }

  /** Tells of a tool call that is not sent anywhere. */
  #refused(caller: Caller, tool: Entry | undefined, category: ToolCallErrorCategory, answer: ErrorOutcome): Outcome {
    if (tool) this.#report(caller, tool, undefined).failed(category, answer.error.message);
    return answer;
  }

  /** What tells of a tool call; undefined for other calls. `copied`: the headers that the client's request brings along. */
  #watch(
    caller: Caller,
    tool: Entry | undefined,
    upstream: Upstream,
    { params }: RequestMessage,
    copied: readonly string[],
  ): ToolCallWatch | undefined {
    return tool && new ToolCallWatch(this.#report(caller, tool, upstream), params.arguments, copied);
  }

  #report(caller: Caller, tool: Entry, upstream: Upstream | undefined): ToolCallReporter {
    const by = { transport: 'mcp', serviceAddress: upstream?.origin } as const;
    return this.#options.toolCalls.of(toolCallIdentity(caller, tool, by));
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
   * The headers of a client's request that go upstream with what it asks for: how many gateways it has crossed, and
   * those that the operator lets through. Undefined when it goes in a circle: see {@link FORWARDING_LOOP}.
   */
  upstreamHeaders(headers: IncomingHttpHeaders): string[] | undefined {
    const hop = nextHop(headers);
    return hop === undefined ? undefined : [HEADER_HOPS, String(hop), ...this.#copiedHeaders(headers, undefined)];
  }

  #copiedHeaders(headers: IncomingHttpHeaders, label: string | undefined): string[] {
    const { forwardHeaders, parseHeaderNames } = this.#options;
    if (label === undefined && forwardHeaders.length === 0) return [];
    const names = label === undefined ? forwardHeaders : new Set([...forwardHeaders, ...parseHeaderNames(label)]);
    return copiedHeaders(headers, names);
  }
}

/** What is asked of the upstream, for metrics and traces. */
function describeUpstreamRequest(
  message: RequestMessage,
  target: CallTarget,
  name: string,
  { server }: Upstream,
): UpstreamRequestInfo {
  const { method } = message;
  const kind = 'entry' in target ? target.entry.kind : undefined;
  const subject = kind === 'tool' || kind === 'prompt' ? { kind, name } : undefined;
  return { method, protocol: 'mcp', subject, server };
}

/** The watch of a call, with what metrics and traces are told in front. */
function observed(outgoing: OutgoingCall | undefined, watch: CallObserver | undefined): CallObserver | undefined {
  return outgoing ? new TelemetryObserver(outgoing, watch) : watch;
}

/** The tool that is called; undefined where something else is asked for. */
function calledTool({ method }: RequestMessage, target: CallTarget): Entry | undefined {
  return method === 'tools/call' && 'entry' in target ? target.entry : undefined;
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

/** True for a request that may go on with a call that was parked. */
function retries({ era }: Caller, { method, params }: RequestMessage): boolean {
  return era === 'modern' && params.requestState !== undefined && NAME_PARAM.has(method);
}

/**
 * What a legacy upstream is told that a modern client can do: it can be asked only during calls that can be parked, and
 * over no session that others have too.
 */
function askedOf({ capabilities }: Caller, { method }: RequestMessage): JsonObject {
  return NAME_PARAM.has(method) ? askedCapabilities(capabilities) : {};
}

function linkCaller(
  { namespace, session, user, era }: Caller,
  capabilities: JsonObject,
  message: RequestMessage,
  headers: readonly string[],
): LinkCaller {
  // A legacy client has said once for its session from where on it wants log messages.
  const logLevel = era === 'modern' ? requestedLevel(message) : undefined;
  return { namespace, session, user, headers, capabilities, logLevel };
}

/** What the upstream calls it: its own name for a tool or prompt, the very uri that was asked for otherwise. */
function upstreamName(message: RequestMessage, target: CallTarget): string {
  const renameable = target.kind === 'discovered' && target.entry.kind !== 'resource';
  return renameable ? target.discovered.upstreamKey : calledName(message);
}

/** What all calls share. */
export interface CallParts {
  readonly calls: InFlightCalls<InFlightCall>;
  readonly lives: ActiveSessions;
  readonly sessions: ClientSessions;
  readonly linkedResources: ResourceLinkCache;
  /** Bound on an answer that must be held whole, in bytes. */
  readonly maxResponseBytes: number;
  readonly log: TargetLogger;
}

/** A client's request, as far as a retry of it may differ. */
export interface CallAttempt {
  readonly message: RequestMessage;
  /** What the client can do. */
  readonly capabilities: JsonObject;
  /** Headers besides the link's own. */
  readonly headers: readonly string[];
  /** Whether the client said that it reads event streams, and whether it said so of JSON. */
  readonly streams: boolean;
  readonly json: boolean;
}

/** A response as text and parsed. */
export interface Rewritten {
  readonly text: string;
  readonly value: JsonObject;
}

/** Changes answers for their client. */
export interface AnswerRewriting {
  /** The upstream was told that the client cannot be asked this. */
  refused(method: string, params: JsonValue | undefined): void;
  /**
   * A response with the client's id, as text and parsed, in the form in which the client is to have it. Undefined when that
   * is the one it has.
   */
  rewrite(text: string, value: JsonObject): Rewritten | undefined;
}

/** Everything about one call that is known before it is sent. */
export interface CallPlan extends CallAttempt {
  readonly upstream: Upstream;
  /** Where the call stands in a trace; undefined where no traces are exported. */
  readonly trace: TraceContext | undefined;
  /** Replacements in the message's text besides id and progress token: the upstream's own name for what is called. */
  readonly edits: readonly Edit[];
  /** Undefined where answers are passed on as they are. */
  readonly rewriting: AnswerRewriting | undefined;
  /** True where client and upstream are of different eras. */
  readonly crosses: boolean;
  /** How a client can be asked something that has no session: its call is parked. */
  readonly questions: ((sink: ServerRequestSink) => ServerRequests) | undefined;
  /** Where the client's progress token stands in the text; undefined when it wants no progress. */
  readonly progressToken: Edit | undefined;
  /** The link to send on, asked for again after the upstream has forgotten its session. */
  link(): UpstreamSession | Promise<UpstreamSession>;
  /** Is told how it goes; undefined where nobody is to be. */
  readonly watch: CallObserver | undefined;
  /** What failures are called: `forwarded tool call failed`. */
  readonly failure: string;
  /** The client's; its leaving ends a modern call and not a legacy one (mcp 1). */
  readonly era: Era;
  /** The client's session, when it has one. */
  readonly session: ClientSession | undefined;
  /** The forward that answers; undefined for an upstream that is none. */
  readonly forward: string | undefined;
  readonly namespace: string | undefined;
}
