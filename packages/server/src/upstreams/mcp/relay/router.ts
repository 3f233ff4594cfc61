import type { IncomingHttpHeaders } from 'node:http';
import type { ToolCallErrorCategory } from '@sluice/contract';
import { isJsonObject, type JsonObject } from '@sluice/protocol/json/parse';
import { insertEdit } from '@sluice/protocol/json/text';
import {
  capabilityKey,
  isLowerLevel,
  legacyCapabilities,
  supportsServerRequests,
} from '@sluice/protocol/mcp/capabilities';
import {
  type Era,
  HEADER_HOPS,
  INTERNAL_ERROR,
  LATEST_LEGACY,
  MISSING_CAPABILITY,
  NAME_PARAM,
} from '@sluice/protocol/mcp/constants';
import { membersOf, type RequestMessage, requestedLevel } from '@sluice/protocol/mcp/message';
import { TASKS_EXTENSION } from '@sluice/protocol/mcp/methods';
import type { MirroredParams } from '@sluice/protocol/mcp/param-headers';
import { declaresTasks } from '@sluice/protocol/mcp/tasks';
import { withTimeout } from '@sluice/protocol/timing';
import { type Permit, requirePermit } from '../../../access/access.ts';
import { type ErrorOutcome, rpcError } from '../../../http/outcome.ts';
import { type Entry, FORWARD_HEADERS_LABEL } from '../../../registry/entries.ts';
import type { CallObserver } from '../../../telemetry/call-observer.ts';
import { toolCallIdentity, toolSummary } from '../../../telemetry/tool-calls/event.ts';
import type { ToolCallSink } from '../../../telemetry/tool-calls/events.ts';
import { type ClientFacts, type ClientRequest, clientFacts } from '../../client-facts.ts';
import type { RequestOutcome } from '../../deferred-outcome.ts';
import { ObservedSink } from '../../observed-sink.ts';
import { EraTranslator, type EraTranslatorOptions } from '../era-translation/era-translator.ts';
import type { Resumption } from '../era-translation/suspended-calls.ts';
import type { CallSessionPool } from '../sessions/call-session-pool.ts';
import type { SessionBindings } from '../sessions/session-bindings.ts';
import type { TaskSupport } from '../tasks/task-support.ts';
import type { Upstream, UpstreamSession } from '../upstream.ts';
import type { CallPlan, TaskHandler } from './call-plan.ts';
import { RelayedCall } from './relayed-call.ts';
import { calledName, declareTasks, modernHeaders, requestEdits, traceEdits, withTrace } from './request-rewrite.ts';

/** Finds upstreams. */
export interface UpstreamLookup {
  /** Returns the upstream of a forward. */
  upstream(forward: string): Upstream | undefined;
  /** Returns the upstream at the address that a manually registered tool names. */
  upstreamAt(address: string): Upstream;
}

export interface CallRouterOptions extends EraTranslatorOptions {
  readonly forwards: UpstreamLookup;
  readonly sessionBindings: SessionBindings;
  readonly callSessionPool: CallSessionPool;
  /** Lower-case names of client headers that every upstream gets (SERVICE_FORWARD_HEADERS). */
  readonly forwardHeaders: readonly string[];
  /** Parses the same list in the label of an entry, without the names that are never copied. */
  readonly parseHeaderNames: (text: string) => readonly string[];
  readonly toolCalls: ToolCallSink;
  readonly tasks: TaskHandler;
  readonly taskSupport: TaskSupport;
}

/** Returns the session that a request is sent in; opening rejects with `UpstreamError`. */
type SessionOpener = () => UpstreamSession | Promise<UpstreamSession>;

/** Message prefixes of failed calls, by method. */
const FAILURES: ReadonlyMap<string, string> = new Map([
  ['tools/call', 'forwarded tool call failed'],
  ['resources/read', 'forwarded resource read failed'],
  ['prompts/get', 'forwarded prompt get failed'],
  ['completion/complete', 'forwarded completion failed'],
]);

/** A request that passed through this many gateways is in a forwarding loop. */
const MAX_HOPS = 8;

/** Outcome of a request that passed through too many gateways. */
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

  /** Returns the facts of the client of a request that executes this entry, and sets them. */
  clientOf(request: ClientRequest, entry?: Entry): ClientFacts {
    const client = clientFacts(request, this.upstreamHeaders(request.headers, entry?.labels[FORWARD_HEADERS_LABEL]));
    request.client = client;
    return client;
  }

  /**
   * Returns the outcome that starts the call. `mirrored`: parameters of the called tool that a modern upstream expects in
   * headers.
   */
  call(client: ClientFacts, permit: Permit, mirrored?: MirroredParams): RequestOutcome {
    requirePermit(permit);
    const { forwards } = this.#options;
    const { entry, forward, address = '', message: received } = permit.target;
    const failure = FAILURES.get(received.method) ?? 'forwarded request failed';
    const tool = received.method === 'tools/call' ? entry : undefined;
    const { copiedHeaders } = client;
    if (!copiedHeaders) return this.#reject(client, tool, 'UNKNOWN', FORWARDING_LOOP);
    // The hop count comes first.
    const copiedNames = copiedHeaders.length > 2 ? copiedHeaders.filter((_, at) => at > 1 && at % 2 === 0) : [];
    // Determined by the request, not by the upstream's era, which may have changed since.
    const isRetry = client.era === 'modern' && received.params.requestState !== undefined;
    const resumption = isRetry ? this.#resume(client, received) : undefined;
    if (resumption?.kind === 'handled') return resumption.outcome;
    // The state of a restart is ours: no upstream knows it.
    const { message } =
      resumption?.kind === 'restart' ? permit.as({ inputResponses: null, requestState: null }) : permit;
    const task = resumption?.kind === 'task' ? resumption.task : undefined;
    const upstream = forward === undefined ? forwards.upstreamAt(address) : forwards.upstream(forward);
    if (!upstream) {
      const unregistered = rpcError(INTERNAL_ERROR, `${failure}: forward "${forward}" is no longer registered`);
      return this.#reject(client, tool, 'SERVICE_UNAVAILABLE', unregistered);
    }
    const called = calledName(message);
    const name = (entry?.kind === 'resource' ? undefined : entry?.discovered?.upstreamKey) ?? called;
    const era = upstream.eraFor(client.era);
    const headers =
      era === 'modern'
        ? [...copiedHeaders, ...modernHeaders(message, name, client.mcpHeaders, mirrored)]
        : copiedHeaders;
    const needsTranslation = era !== client.era;
    const capabilities =
      needsTranslation && era === 'legacy' ? advertisedCapabilities(client, message) : client.capabilities;
    const rejection = needsTranslation
      ? this.#translator.rejection(client.era, message, task !== undefined)
      : undefined;
    if (rejection) return rejection;
    const { edits, progressToken } = requestEdits(message, name === called ? undefined : name);
    const kind = entry?.kind;
    const observer = this.#observe(client, tool, upstream);
    const trace = observer.send({
      method: message.method,
      protocol: 'mcp',
      subject: kind === 'tool' || kind === 'prompt' ? { kind, name } : undefined,
      server: upstream.server,
    });
    const declaresForClient =
      tool !== undefined && upstream.taskEras.size > 0 && this.#declaresTasks(client, message, tool, upstream, era);
    if (declaresForClient === 'rejected') {
      const missing = missingTasks();
      observer.failed('UNKNOWN', missing.error.message);
      return missing;
    }
    if (upstream.taskEras.size > 0 && era === 'legacy' && !needsTranslation) {
      edits.push(...this.#options.tasks.relatedTaskEdits(message, client, upstream.transport.address));
    }
    // The translator rewrites the metadata, including the trace, and removes the parameters of a retry.
    if (!needsTranslation) {
      if (declaresForClient && era === 'modern') edits.push(...declareTasks(message));
      if (trace) edits.push(...traceEdits(message, trace));
    }
    if (declaresForClient && era === 'legacy' && message.paramsRange) {
      edits.push(insertEdit(message.text, message.paramsRange.start, '"task":{}'));
    }
    const openSession =
      era === 'modern' ? () => upstream.sessions.modern : this.legacySession(upstream, client, capabilities, headers);
    if (tool) {
      const argumentNames = membersOf(message.paramMembers, 'arguments').map(({ key }) => key);
      observer.begin(toolSummary(argumentNames, copiedNames));
    }
    // Written out: spreading one object into another costs more than the rest of this function.
    const plan: CallPlan = {
      message,
      capabilities,
      headers: trace ? withTrace(headers, trace) : headers,
      trace,
      upstream,
      edits,
      progressToken,
      rewriter: undefined,
      needsTranslation,
      serverRequests: undefined,
      openSession: needsTranslation && era === 'legacy' ? withRequestedLevel(openSession, message) : openSession,
      failure,
      forward,
      entry,
      tasks: tool && this.#options.tasks,
      acceptsTask: tool !== undefined && acceptsTask(client, message),
      declaresTasks: declaresForClient,
    };
    if (task !== undefined) {
      return {
        kind: 'deferred',
        start: (sink) => this.#options.tasks.resume(plan, task, new ObservedSink(sink, observer)),
      };
    }
    if (needsTranslation) return this.#translator.call(client, plan, observer);
    return {
      kind: 'deferred',
      start: (sink) => new RelayedCall(this.#options, plan, new ObservedSink(sink, observer)).start(),
    };
  }

  /**
   * Returns the headers that accompany a client's request upstream, names and values alternating: the hop count, and those
   * of the client that the operator forwards, by the setting or the `label` of the called entry. Undefined in a forwarding
   * loop: see {@link FORWARDING_LOOP}.
   */
  upstreamHeaders(received: IncomingHttpHeaders, label?: string): string[] | undefined {
    const { forwardHeaders, parseHeaderNames } = this.#options;
    const hops = received[HEADER_HOPS];
    const count = typeof hops === 'string' && /^\d+$/.test(hops) ? Number(hops) : 0;
    if (count >= MAX_HOPS) return undefined;
    const headers = [HEADER_HOPS, String(count + 1)];
    const names = label === undefined ? forwardHeaders : new Set([...forwardHeaders, ...parseHeaderNames(label)]);
    for (const name of names) {
      const value = received[name];
      for (const line of Array.isArray(value) ? value : [value]) if (line !== undefined) headers.push(name, line);
    }
    return headers;
  }

  /**
   * Whether a call is sent as one of a client that supports tasks in the era of the upstream, which its client does not: where
   * the upstream may respond with a task, or the tool requires one, or the client supports tasks in its own era. `rejected` if
   * that is disabled, and only a task would be possible.
   */
  #declaresTasks(
    client: ClientFacts,
    message: RequestMessage,
    tool: Entry,
    upstream: Upstream,
    era: Era,
  ): boolean | 'rejected' {
    const { taskSupport } = this.#options;
    const { era: own } = client;
    const { params } = message;
    if (era === 'modern') {
      if (acceptsTask(client, message)) return own === 'legacy' && upstream.taskEras.has('modern');
      return taskSupport.isDeclaredTo(upstream);
    }
    if (own === 'modern' && acceptsTask(client, message)) {
      return taskSupport.allowsTask(tool, upstream) && params.task === undefined;
    }
    if (!taskSupport.requiresTask(tool, upstream) || (own === 'legacy' && params.task !== undefined)) return false;
    if (taskSupport.isEnabled) return params.task === undefined;
    return own === 'modern' && 'rejected';
  }

  /** Resumes the suspended call that a retry of a modern client belongs to, if there is one. */
  #resume(client: ClientFacts, message: RequestMessage): Resumption | undefined {
    if (!NAME_PARAM.has(message.method)) return undefined;
    const resumption = this.#options.suspendedCalls.resume(client, message);
    if (resumption.kind === 'handled' && client.facts) client.facts.resumesCall = true;
    return resumption;
  }

  /** Reports a tool call that is not sent. */
  #reject(
    client: ClientFacts,
    tool: Entry | undefined,
    category: ToolCallErrorCategory,
    outcome: ErrorOutcome,
  ): RequestOutcome {
    this.#observe(client, tool, undefined).failed(category, outcome.error.message);
    return outcome;
  }

  /** Returns the observer of a call; `tool` for tool calls. */
  #observe(client: ClientFacts, tool: Entry | undefined, upstream: Upstream | undefined): CallObserver {
    if (!tool) return this.#options.toolCalls.request(client.facts);
    const target = { transport: 'mcp', serviceAddress: upstream?.origin } as const;
    return this.#options.toolCalls.of(toolCallIdentity(client, tool, target), client.facts);
  }

  /**
   * Selects the session of a call to a legacy upstream, which is opened when the call is sent: the upstream session that is bound
   * to a legacy client's session; an exclusive one for a modern client that supports server requests; one shared by clients that
   * look the same to the upstream otherwise. Opening rejects with `UpstreamError`.
   */
  legacySession(
    upstream: Upstream,
    { session, namespace, principal }: ClientFacts,
    capabilities: JsonObject,
    headers: readonly string[],
  ): SessionOpener {
    const { sessions } = upstream;
    const { sessionBindings, callSessionPool, serverInfo } = this.#options;
    if (session) return () => sessions.use(session.id, () => sessionBindings.open(upstream, session, headers));
    const key = JSON.stringify([namespace, capabilityKey(capabilities), principal.key, headers]);
    const owner = { key, protocolVersion: LATEST_LEGACY, capabilities, clientInfo: { ...serverInfo }, headers };
    return supportsServerRequests(capabilities)
      ? () => callSessionPool.acquire(upstream, owner)
      : () => sessions.use(key, () => sessions.open(owner));
  }
}

/** A legacy client sets the level of log messages for its session, a modern one with each request. */
function withRequestedLevel(open: SessionOpener, message: RequestMessage): SessionOpener {
  const level = requestedLevel(message);
  return level === undefined ? open : async () => withLogLevel(await open(), level);
}

/** True for a client that gets a task for its call: one that declares the extension, or has requested a task. */
function acceptsTask({ era, capabilities }: ClientFacts, { params }: RequestMessage): boolean {
  return era === 'modern' ? declaresTasks(capabilities) : isJsonObject(params.task);
}

/** The error for a modern client whose request requires that it declares the tasks extension. */
export function missingTasks(): ErrorOutcome {
  const requiredCapabilities = { extensions: { [TASKS_EXTENSION]: {} } };
  return rpcError(MISSING_CAPABILITY, `the client must declare the extension ${TASKS_EXTENSION}`, 400, {
    requiredCapabilities,
  });
}

/** Lowers the log level of a session to this one. Messages below the level of other calls are filtered on arrival. */
async function withLogLevel(session: UpstreamSession, level: string): Promise<UpstreamSession> {
  const { client, logLevel } = session;
  if (client?.serverCapabilities.logging === undefined || !isLowerLevel(level, logLevel)) return session;
  session.logLevel = level;
  await withTimeout(
    LOG_LEVEL_MS,
    client.request('logging/setLevel', { level }).catch(() => undefined),
  );
  return session;
}

/**
 * Returns the capabilities of a modern client that are declared to a legacy upstream: server requests only for calls that
 * can be suspended, so that sessions without them can be shared.
 */
function advertisedCapabilities({ capabilities }: ClientFacts, { method }: RequestMessage): JsonObject {
  return NAME_PARAM.has(method) ? legacyCapabilities(capabilities) : {};
}
