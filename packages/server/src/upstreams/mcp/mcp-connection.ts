import { isJsonObject, type JsonObject } from '@sluice/protocol/json/parse';
import {
  capabilityKey,
  isLowerLevel,
  legacyCapabilities,
  supportsServerRequests,
} from '@sluice/protocol/mcp/capabilities';
import { INVALID_PARAMS, LATEST_LEGACY, MISSING_CAPABILITY, NAME_PARAM } from '@sluice/protocol/mcp/constants';
import { membersOf, type RequestMessage, requestedLevel } from '@sluice/protocol/mcp/message';
import { TASKS_EXTENSION } from '@sluice/protocol/mcp/methods';
import type { MirroredParams } from '@sluice/protocol/mcp/param-headers';
import { declaresTasks } from '@sluice/protocol/mcp/tasks';
import { type Permit, requirePermit } from '../../access/access.ts';
import type { Target } from '../../access/target.ts';
import { type ErrorOutcome, rpcError } from '../../http/outcome.ts';
import type { Entry } from '../../registry/entries.ts';
import { toolSummary } from '../../telemetry/tool-calls/event.ts';
import type { ClientFacts } from '../client-facts.ts';
import type { CallDescription, RejectedCall, UpstreamConnection } from '../connection.ts';
import { failedOutcome, type ResponseSink } from '../response-sink.ts';
import { FORWARDING_LOOP } from '../upstream-headers.ts';
import { startTranslated, type TranslationDeps } from './era-translation/era-translator.ts';
import { FOREIGN_STATE } from './era-translation/request-state.ts';
import type { CallSpec, TaskHandler } from './relay/call-spec.ts';
import { RelayedCall } from './relay/relayed-call.ts';
import { calledName, RequestEdits } from './relay/request-edits.ts';
import type { CallSessionPool } from './sessions/call-session-pool.ts';
import type { SessionBindings } from './sessions/session-bindings.ts';
import type { TaskSupport } from './task-support.ts';
import type { Upstream } from './upstream.ts';
import type { UpstreamSession } from './upstream-sessions.ts';

/** What all connections to MCP servers need. */
export interface McpParts extends TranslationDeps {
  readonly sessionBindings: SessionBindings;
  readonly callSessionPool: CallSessionPool;
  readonly tasks: TaskHandler;
  readonly taskSupport: TaskSupport;
  /** Returns the parameters of a tool that a modern upstream expects in headers. */
  readonly mirroredParams: (tool: Entry, capabilities: JsonObject) => MirroredParams | undefined;
  /** See {@link Upstreams.ensureEraKnown}. */
  readonly ensureEraKnown: (address: string) => Promise<void> | undefined;
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

/** Returns the prefix of the message of a failed call. */
export function failureOf(method: string): string {
  return FAILURES.get(method) ?? 'forwarded request failed';
}

/** Sends requests to an MCP server: with its own name for the target, in the era that it supports, in the session of the client. */
export class McpConnection implements UpstreamConnection {
  readonly #upstream: Upstream;
  readonly #parts: McpParts;

  constructor(upstream: Upstream, parts: McpParts) {
    this.#upstream = upstream;
    this.#parts = parts;
  }

  get address(): string {
    return this.#upstream.transport.address;
  }

  get createsTasks(): boolean {
    return this.#upstream.eras.tasks.has('modern');
  }

  ready({ target: { forward, address } }: Permit): Promise<void> | undefined {
    return forward === undefined && address !== undefined ? this.#parts.ensureEraKnown(address) : undefined;
  }

  mayRequestInput({ message }: Permit, client: ClientFacts): boolean {
    const upstream = this.#upstream;
    const mayBeLegacy = upstream.eras.known === undefined || upstream.eras.for(client.era) === 'legacy';
    return mayBeLegacy && supportsServerRequests(advertisedCapabilities(client, message));
  }

  describe(permit: Permit, client: ClientFacts): CallDescription | RejectedCall {
    const { target, message } = permit;
    const upstream = this.#upstream;
    const called = { transport: 'mcp', service: { address: client.copiedHeaders && upstream.origin } } as const;
    const rejection = this.#rejection(permit, client);
    if (rejection) {
      const { error, status } = rejection;
      return { kind: 'rejected', target: called, outcome: { ...failedOutcome(error, 'UNKNOWN', 'UNKNOWN'), status } };
    }
    const kind = target.entry?.kind;
    const subject = kind === 'tool' || kind === 'prompt' ? { kind, name: upstreamName(target) } : undefined;
    const request = { method: message.method, protocol: 'mcp', subject, server: upstream.server } as const;
    const isToolCall = message.method === 'tools/call' && target.entry !== undefined;
    return { kind: 'described', target: called, request, summary: isToolCall ? summaryOf(message, client) : undefined };
  }

  request(permit: Permit, sink: ResponseSink): void {
    requirePermit(permit);
    const spec = this.#spec(permit, sink);
    if (permit.task !== undefined) this.#parts.tasks.resume(spec, permit.task, sink);
    else if (spec.needsTranslation) startTranslated(this.#parts, spec, sink);
    else new RelayedCall(this.#parts, spec, sink).start();
  }

  /** The error of a request that must not be sent. */
  #rejection({ target, message, task }: Permit, client: ClientFacts): ErrorOutcome | undefined {
    const upstream = this.#upstream;
    if (!client.copiedHeaders) return FORWARDING_LOOP;
    const era = upstream.eras.for(client.era);
    const isForeign = era !== client.era && client.era === 'modern' && message.params.requestState !== undefined;
    // The retry of a call of ours, which continues a task, has a state that the upstream does not get.
    if (isForeign && task === undefined) return rpcError(INVALID_PARAMS, FOREIGN_STATE);
    return this.#declaresTasks(client, target) === 'rejected' ? missingTasks() : undefined;
  }

  #spec({ target, message }: Permit, { client, observer }: ResponseSink): CallSpec {
    const { tasks, mirroredParams } = this.#parts;
    const upstream = this.#upstream;
    const { entry } = target;
    const tool = message.method === 'tools/call' ? entry : undefined;
    const { copiedHeaders = [] } = client;
    const edits = new RequestEdits(message, copiedHeaders);
    edits.rename(upstreamName(target));
    const era = upstream.eras.for(client.era);
    if (era === 'modern') edits.mirror(client.mcpHeaders, tool && mirroredParams(tool, client.capabilities));
    const needsTranslation = era !== client.era;
    const capabilities =
      needsTranslation && era === 'legacy' ? advertisedCapabilities(client, message) : client.capabilities;
    const trace = observer?.trace;
    const declaresForClient = this.#declaresTasks(client, target) === true;
    if (upstream.eras.tasks.size > 0 && era === 'legacy' && !needsTranslation) {
      edits.relateTask(tasks.relatedTask(message.params, client, upstream.transport.address));
    }
    // The translator declares the capabilities of a translated request.
    if (declaresForClient && era === 'modern' && !needsTranslation) edits.declareTasks();
    if (declaresForClient && era === 'legacy') edits.requestTask();
    if (trace) edits.setTrace(trace);
    const openSession =
      era === 'modern'
        ? () => upstream.sessions.modern
        : legacySession(upstream, client, { parts: this.#parts, capabilities, headers: copiedHeaders });
    // Written out: spreading one object into another costs more than the rest of this function.
    return {
      message,
      capabilities,
      upstream,
      edits,
      rewriter: undefined,
      needsTranslation,
      serverRequests: undefined,
      openSession: needsTranslation && era === 'legacy' ? withRequestedLevel(openSession, message) : openSession,
      failure: failureOf(message.method),
      forward: target.forward,
      task: tool && { handler: tasks, tool, isAccepted: acceptsTask(client, message), isDeclared: declaresForClient },
    };
  }

  /**
   * Whether a call is sent as one of a client that supports tasks in the era of the upstream, which its client does not: where
   * the upstream may respond with a task, or the tool requires one, or the client supports tasks in its own era. `rejected` if
   * that is disabled, and only a task would be possible.
   */
  #declaresTasks(client: ClientFacts, { entry: tool, message }: Target): boolean | 'rejected' {
    const upstream = this.#upstream;
    if (!tool || message.method !== 'tools/call' || upstream.eras.tasks.size === 0) return false;
    const { taskSupport } = this.#parts;
    const { era: own } = client;
    const { params } = message;
    if (upstream.eras.for(own) === 'modern') {
      if (acceptsTask(client, message)) return own === 'legacy' && upstream.eras.tasks.has('modern');
      return taskSupport.isDeclaredTo(upstream);
    }
    if (own === 'modern' && acceptsTask(client, message)) {
      return taskSupport.allowsTask(tool, upstream) && params.task === undefined;
    }
    if (!taskSupport.requiresTask(tool, upstream) || (own === 'legacy' && params.task !== undefined)) return false;
    if (taskSupport.isEnabled) return params.task === undefined;
    return own === 'modern' && 'rejected';
  }
}

/** The upstream's own name of what a request is about. */
function upstreamName({ entry, message }: Target): string {
  return (entry?.kind === 'resource' ? undefined : entry?.discovered?.upstreamKey) ?? calledName(message);
}

function summaryOf({ paramMembers }: RequestMessage, { copiedHeaders = [] }: ClientFacts) {
  // The hop count comes first.
  const copiedNames = copiedHeaders.length > 2 ? copiedHeaders.filter((_, at) => at > 1 && at % 2 === 0) : [];
  return toolSummary(
    membersOf(paramMembers, 'arguments').map(({ key }) => key),
    copiedNames,
  );
}

/** What determines the session of a call to a legacy upstream, besides its client. */
export interface LegacySessionOptions {
  readonly parts: Pick<McpParts, 'sessionBindings' | 'callSessionPool' | 'serverInfo'>;
  readonly capabilities: JsonObject;
  readonly headers: readonly string[];
}

/**
 * Selects the session of a call to a legacy upstream, which is opened when the call is sent: the upstream session that is bound
 * to a legacy client's session; an exclusive one for a modern client that supports server requests; one shared by clients that
 * look the same to the upstream otherwise. Opening rejects with `UpstreamError`.
 */
export function legacySession(
  upstream: Upstream,
  { session, namespace, principal }: ClientFacts,
  { parts: { sessionBindings, callSessionPool, serverInfo }, capabilities, headers }: LegacySessionOptions,
): SessionOpener {
  const { sessions } = upstream;
  if (session)
    return () => sessions.use(session.id, () => sessionBindings.open(upstream, { session, principal, headers }));
  const key = JSON.stringify([namespace, capabilityKey(capabilities), principal.key, headers]);
  const owner = { key, protocolVersion: LATEST_LEGACY, capabilities, clientInfo: { ...serverInfo }, headers };
  return supportsServerRequests(capabilities)
    ? () => callSessionPool.acquire(upstream, owner)
    : () => sessions.use(key, () => sessions.open(owner));
}

/** A legacy client sets the level of log messages for its session, a modern one with each request. */
function withRequestedLevel(open: SessionOpener, message: RequestMessage): SessionOpener {
  const level = requestedLevel(message);
  if (level === undefined) return open;
  return async () => {
    const session = await open();
    // Messages below the level of other calls are filtered on arrival.
    if (isLowerLevel(level, session.logLevel.current)) await session.logLevel.set(level);
    return session;
  };
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

/**
 * Returns the capabilities of a modern client that are declared to a legacy upstream: server requests only for calls that
 * can be suspended, so that sessions without them can be shared.
 */
function advertisedCapabilities({ capabilities }: ClientFacts, { method }: RequestMessage): JsonObject {
  return NAME_PARAM.has(method) ? legacyCapabilities(capabilities) : {};
}
