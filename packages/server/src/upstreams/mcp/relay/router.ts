import type { IncomingHttpHeaders } from 'node:http';
import type { ToolCallErrorCategory } from '@sluice/contract';
import type { JsonObject } from '@sluice/protocol/json/parse';
import {
  capabilityKey,
  legacyCapabilities,
  lowerLevel,
  supportsServerRequests,
} from '@sluice/protocol/mcp/capabilities';
import { type Era, HEADER_HOPS, INTERNAL_ERROR, LATEST_LEGACY, NAME_PARAM } from '@sluice/protocol/mcp/constants';
import { acceptsEventStream, acceptsJson } from '@sluice/protocol/mcp/era';
import { type RequestMessage, requestedLevel } from '@sluice/protocol/mcp/message';
import type { MirroredParams } from '@sluice/protocol/mcp/param-headers';
import { type ErrorOutcome, rpcError } from '../../../http/outcome.ts';
import { type Discovered, type Entry, FORWARD_HEADERS_LABEL } from '../../../registry/entries.ts';
import type { NamespaceState } from '../../../registry/snapshot.ts';
import { toolCallIdentity } from '../../../telemetry/tool-calls/event.ts';
import type { ToolCallReporter, ToolCallSink } from '../../../telemetry/tool-calls/events.ts';
import type { Caller, CallOutcome } from '../../downstream.ts';
import { withTimeout } from '../../with-timeout.ts';
import { EraTranslator, type EraTranslatorOptions } from '../era-translation/era-translator.ts';
import { removeRetryParams } from '../era-translation/messages.ts';
import type { CallSessionPool } from '../sessions/call-session-pool.ts';
import type { SessionBindings } from '../sessions/session-bindings.ts';
import type { Upstream, UpstreamSession } from '../upstream.ts';
import { observedToolCall, TelemetryObserver } from './call-observer.ts';
import type { CallPlan } from './call-plan.ts';
import { RelayedCall } from './relayed-call.ts';
import {
  calledName,
  copiedHeaders,
  ModernErrors,
  modernHeaders,
  nextHopCount,
  requestEdits,
  traceEdits,
  withTrace,
} from './request-rewrite.ts';

/**
 * Target of a call: an entry that a forward offers, a manually registered tool with the address of its server, a URI that
 * is in no list, or a method that only one forward supports.
 */
export type CallTarget =
  | { readonly kind: 'discovered'; readonly entry: Entry; readonly discovered: Discovered }
  | { readonly kind: 'addressed'; readonly entry: Entry; readonly address: string }
  | { readonly kind: 'unlisted'; readonly forward: string }
  | { readonly kind: 'method'; readonly forward: string };

/** Finds upstreams. */
export interface UpstreamLookup {
  /** Returns the upstream of a forward. */
  upstream(forward: string): Upstream | undefined;
  /** Returns the upstream at the address that a manually registered tool names. */
  upstreamAt(address: string): Upstream;
}

export interface CallRouterOptions extends EraTranslatorOptions {
  readonly forwards: UpstreamLookup;
  /** Returns the parameters of a tool that are mirrored into headers; `capabilities` are those of the client. */
  readonly declaredParams: { expectedOf(capabilities: JsonObject, tool: Entry): MirroredParams | undefined };
  readonly sessionBindings: SessionBindings;
  readonly callSessionPool: CallSessionPool;
  /** Lower-case names of client headers that every upstream gets (SERVICE_FORWARD_HEADERS). */
  readonly forwardHeaders: readonly string[];
  /** Parses the same list in the label of an entry, without the names that are never copied. */
  readonly parseHeaderNames: (text: string) => readonly string[];
  readonly toolCalls: ToolCallSink;
}

/** Message prefixes of failed calls, by method (decisions 4.7). */
const FAILURES: ReadonlyMap<string, string> = new Map([
  ['tools/call', 'forwarded tool call failed'],
  ['resources/read', 'forwarded resource read failed'],
  ['prompts/get', 'forwarded prompt get failed'],
  ['completion/complete', 'forwarded completion failed'],
]);

/** Outcome of a request that passed through too many gateways (decisions 4.3). */
export const FORWARDING_LOOP: ErrorOutcome = rpcError(INTERNAL_ERROR, 'forwarding loop');

/** Maximum time to set the log level of an upstream before a call is sent, in milliseconds. */
const LOG_LEVEL_MS = 5_000;

/** Routes calls to upstream MCP servers: selects the upstream, its name for the target, the headers and the session. */
export class CallRouter {
  readonly #options: CallRouterOptions;
  readonly #translator: EraTranslator;

  constructor(options: CallRouterOptions) {
    this.#options = options;
    this.#translator = new EraTranslator(options);
  }

  /** Returns the outcome that carries the call out. */
  call(caller: Caller, message: RequestMessage, target: CallTarget): CallOutcome {
    const { forwards } = this.#options;
    const failure = FAILURES.get(message.method) ?? 'forwarded request failed';
    const entry = 'entry' in target ? target.entry : undefined;
    const tool = message.method === 'tools/call' ? entry : undefined;
    const hops = nextHopCount(caller.headers);
    if (hops === undefined) return this.#reject(caller, tool, 'UNKNOWN', FORWARDING_LOOP);
    const copied = this.#copiedHeaders(caller.headers, entry?.labels[FORWARD_HEADERS_LABEL]);
    const headers = [HEADER_HOPS, String(hops), ...copied];
    const { accept } = caller.headers;
    const streams = acceptsEventStream(accept);
    const json = acceptsJson(accept);
    let isRestart = false;
    // By what the client sends, not by the upstream's era: that may have changed since.
    if (isRetry(caller, message)) {
      const capabilities = legacyCapabilities(caller.capabilities);
      const request = { message, capabilities, headers, streams, json };
      const resumption = this.#options.suspendedCalls.resume(caller, request);
      if (resumption.kind === 'handled') {
        caller.observation?.continues();
        return resumption.outcome;
      }
      isRestart = resumption.kind === 'restart';
    }

    const forward = forwardOf(target);
    const upstream =
      target.kind === 'addressed' ? forwards.upstreamAt(target.address) : forwards.upstream(forward ?? '');
    if (!upstream) {
      const unregistered = rpcError(INTERNAL_ERROR, `${failure}: forward "${forward}" is no longer registered`);
      return this.#reject(caller, tool, 'SERVICE_UNAVAILABLE', unregistered);
    }
    const name = upstreamName(message, target);
    const era = eraTowards(upstream, caller.era);
    if (era === 'modern') headers.push(...modernHeaders(message, name, caller.headers, this.#params(caller, entry)));
    const needsTranslation = era !== caller.era;
    const capabilities =
      needsTranslation && era === 'legacy' ? advertisedCapabilities(caller, message) : caller.capabilities;
    const rejection = needsTranslation ? this.#translator.rejection(caller.era, message, isRestart) : undefined;
    if (rejection) return rejection;
    const { edits, progressToken } = requestEdits(message, name);
    const kind = entry?.kind;
    const outgoing = caller.observation?.ask({
      method: message.method,
      protocol: 'mcp',
      subject: kind === 'tool' || kind === 'prompt' ? { kind, name } : undefined,
      server: upstream.server,
    });
    const trace = outgoing?.trace;
    // The translator rewrites the metadata, including the trace, and removes what belongs to a retry.
    if (!needsTranslation) {
      if (trace) edits.push(...traceEdits(message, trace));
      // The state is ours: an upstream that now speaks the client's era does not know it.
      if (isRestart) edits.push(...removeRetryParams(message));
    }
    const report = tool && this.#report(caller, tool, upstream);
    // Written out: spreading one object into another costs more than the rest of this function.
    const plan: CallPlan = {
      message,
      capabilities,
      headers: trace ? withTrace(headers, trace) : headers,
      trace,
      streams,
      json,
      upstream,
      edits,
      progressToken,
      rewriter: caller.era === 'modern' ? new ModernErrors(message.method, capabilities) : undefined,
      needsTranslation,
      serverRequests: undefined,
      openSession:
        era === 'modern'
          ? () => upstream.sessions.modern
          : this.#legacySession(upstream, caller, capabilities, message, headers),
      observer:
        outgoing || report
          ? new TelemetryObserver(outgoing, report && observedToolCall(report, message.params.arguments, copied))
          : undefined,
      failure,
      forward,
      namespace: caller.namespace?.name,
      era: caller.era,
      session: caller.session,
    };
    if (needsTranslation) return this.#translator.call(caller, plan);
    return { kind: 'deferred', start: (response) => new RelayedCall(this.#options, plan, response).start() };
  }

  /**
   * Returns the headers that accompany a client's request upstream: the hop count, and those that the operator forwards.
   * Undefined in a forwarding loop: see {@link FORWARDING_LOOP}.
   */
  upstreamHeaders(headers: IncomingHttpHeaders): string[] | undefined {
    const hops = nextHopCount(headers);
    return hops === undefined ? undefined : [HEADER_HOPS, String(hops), ...this.#copiedHeaders(headers, undefined)];
  }

  /**
   * Returns the forward to ask for a URI that is in no list: the one that sent a link to it, else the only one that offers
   * resources (mcp 6). Undefined if there are several or none.
   */
  findUnlistedForward(namespace: NamespaceState, uri: string): string | undefined {
    const sender = this.#options.resourceLinks.find(namespace.name, uri);
    if (sender !== undefined) return sender;
    const { counts } = namespace.indexes.resource;
    const [only] = counts.keys();
    return counts.size === 1 ? only : undefined;
  }

  /** Reports a tool call that is not sent. */
  #reject(
    caller: Caller,
    tool: Entry | undefined,
    category: ToolCallErrorCategory,
    outcome: ErrorOutcome,
  ): CallOutcome {
    if (tool) this.#report(caller, tool, undefined).failed(category, outcome.error.message);
    return outcome;
  }

  #report(caller: Caller, tool: Entry, upstream: Upstream | undefined): ToolCallReporter {
    const target = { transport: 'mcp', serviceAddress: upstream?.origin } as const;
    return this.#options.toolCalls.of(toolCallIdentity(caller, tool, target), caller.observation);
  }

  /** Returns the parameters of the called tool that are mirrored into headers. */
  #params({ capabilities }: Caller, entry: Entry | undefined): MirroredParams | undefined {
    return entry?.kind === 'tool' ? this.#options.declaredParams.expectedOf(capabilities, entry) : undefined;
  }

  #copiedHeaders(headers: IncomingHttpHeaders, label: string | undefined): string[] {
    const { forwardHeaders, parseHeaderNames } = this.#options;
    if (label === undefined && forwardHeaders.length === 0) return [];
    const names = label === undefined ? forwardHeaders : new Set([...forwardHeaders, ...parseHeaderNames(label)]);
    return copiedHeaders(headers, names);
  }

  /**
   * Selects the session of a call to a legacy upstream, which is opened when the call is sent (mcp 4): the upstream session
   * that is bound to a legacy client's session; an exclusive one for a modern client that supports server requests; one
   * shared by clients that look the same to the upstream otherwise. Opening rejects with `UpstreamError`.
   */
  #legacySession(
    upstream: Upstream,
    { session, namespace, user, era }: Caller,
    capabilities: JsonObject,
    message: RequestMessage,
    headers: readonly string[],
  ): () => UpstreamSession | Promise<UpstreamSession> {
    const { sessions } = upstream;
    const { sessionBindings, callSessionPool, serverInfo } = this.#options;
    if (session) return () => sessionBindings.session(upstream, session, headers);
    const key = JSON.stringify([namespace?.name, capabilityKey(capabilities), user, headers]);
    const owner = { key, protocolVersion: LATEST_LEGACY, capabilities, clientInfo: { ...serverInfo }, headers };
    const open = supportsServerRequests(capabilities)
      ? () => callSessionPool.acquire(upstream, owner)
      : () => sessions.get(key) ?? sessions.open(owner);
    // A legacy client sets the level for its session, a modern one with each request.
    const level = era === 'modern' ? requestedLevel(message) : undefined;
    return level === undefined ? open : async () => withLogLevel(await open(), level);
  }
}

/** Lowers the log level of a session to this one. Messages that other calls do not want are filtered on arrival. */
async function withLogLevel(session: UpstreamSession, level: string): Promise<UpstreamSession> {
  const { client, logLevel } = session;
  if (client?.serverCapabilities.logging === undefined || !lowerLevel(level, logLevel)) return session;
  session.logLevel = level;
  await withTimeout(
    LOG_LEVEL_MS,
    client.request('logging/setLevel', { level }).catch(() => undefined),
  );
  return session;
}

function forwardOf(target: CallTarget): string | undefined {
  if (target.kind === 'addressed') return undefined;
  return target.kind === 'discovered' ? target.discovered.forward : target.forward;
}

/** The client's own era if the upstream speaks it or its eras are unknown; else the other (mcp 4). */
function eraTowards({ eras }: Upstream, era: Era): Era {
  if (!eras || eras.has(era)) return era;
  return era === 'modern' ? 'legacy' : 'modern';
}

/** True for a request that may resume a suspended call. */
function isRetry({ era }: Caller, { method, params }: RequestMessage): boolean {
  return era === 'modern' && params.requestState !== undefined && NAME_PARAM.has(method);
}

/**
 * Returns the capabilities of a modern client that a legacy upstream is told: server requests only for calls that can be
 * suspended, so that sessions without them can be shared.
 */
function advertisedCapabilities({ capabilities }: Caller, { method }: RequestMessage): JsonObject {
  return NAME_PARAM.has(method) ? legacyCapabilities(capabilities) : {};
}

/** Returns the upstream's name of the target: its own name of a tool or prompt, otherwise the URI as requested. */
function upstreamName(message: RequestMessage, target: CallTarget): string {
  const renameable = target.kind === 'discovered' && target.entry.kind !== 'resource';
  return renameable ? target.discovered.upstreamKey : calledName(message);
}
