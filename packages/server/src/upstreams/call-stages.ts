import { INTERNAL_ERROR, NAME_PARAM } from '@sluice/protocol/mcp/constants';
import { type Access, type Permit, requirePermit } from '../access/access.ts';
import type { Target } from '../access/target.ts';
import type { ErrorOutcome } from '../http/outcome.ts';
import { type Entry, FORWARD_HEADERS_LABEL } from '../registry/entries.ts';
import type { TargetLogger } from '../telemetry/log.ts';
import { toolCallIdentity } from '../telemetry/tool-calls/event.ts';
import type { ToolCallSink } from '../telemetry/tool-calls/events.ts';
import { type ClientFacts, type ClientRequest, clientFacts } from './client-facts.ts';
import type { UpstreamConnection } from './connection.ts';
import { type DeferredOutcome, deferOutcome, type RequestOutcome, startOutcome } from './deferred-outcome.ts';
import { CancelableRequest, type InFlightCalls } from './in-flight-calls.ts';
import { SuspendableCall } from './mcp/era-translation/suspendable-call.ts';
import type { SuspendedCalls } from './mcp/era-translation/suspended-calls.ts';
import type { PromotableCall, PromotedCalls } from './mcp/tasks/promoted-call.ts';
import { ObservedSink } from './observed-sink.ts';
import type { ResponseSink } from './response-sink.ts';
import type { UpstreamHeaders } from './upstream-headers.ts';

/** Executes a request; the call ends once, by `sink.complete`. */
export type CallHandler = (permit: Permit, connection: UpstreamConnection, sink: ResponseSink) => void;

/** A step on the way of a call. One that does not apply calls `next` with what it got. */
export type CallStage = (next: CallHandler) => CallHandler;

/** What the stages need. */
export interface StageDeps {
  readonly access: Access;
  readonly connectionOf: (target: Target) => UpstreamConnection;
  readonly calls: InFlightCalls;
  readonly suspendedCalls: SuspendedCalls;
  readonly promotedCalls: PromotedCalls;
  readonly toolCalls: ToolCallSink;
  readonly log: TargetLogger;
  /** Checks the request of a client against what its tool declares by now. */
  readonly check: (client: ClientFacts, target: Target) => ErrorOutcome | undefined;
}

/**
 * The stages of a call, outermost first. What they share: a permit has been decided; a stage that waits renews it; nothing is sent
 * before the last one.
 */
const callStages = (parts: StageDeps): readonly CallStage[] => [
  promote(parts),
  suspend(parts),
  // An approval waits here: it may promote the call, or suspend it.
  ready(parts),
  observe(parts),
  // What changes results, and an audit, come here: events have what the client gets.
];

/** Returns the handler that passes a call through the stages and sends it. */
export function handleCalls(parts: StageDeps): CallHandler {
  const send: CallHandler = (permit, connection, sink) => connection.request(permit, sink);
  const handle = callStages(parts).reduceRight((next, stage) => stage(next), send);
  return (permit, connection, sink) => {
    requirePermit(permit);
    handle(permit, connection, sink);
  };
}

/** Sends the requests of clients, each with its permit. */
export class Calls {
  readonly headers: UpstreamHeaders;
  readonly #parts: StageDeps;
  readonly #handle: CallHandler;

  constructor(headers: UpstreamHeaders, parts: StageDeps) {
    this.headers = headers;
    this.#parts = parts;
    this.#handle = handleCalls(parts);
  }

  /** Returns the outcome that starts the call. */
  send(request: ClientRequest, permit: Permit): DeferredOutcome {
    this.clientOf(request, permit.target.entry);
    return {
      kind: 'deferred',
      start: (sink) => this.#handle(permit, this.#parts.connectionOf(permit.target), sink),
    };
  }

  /** Returns the facts of the client of a request about this entry, and sets them. */
  clientOf(request: ClientRequest, entry?: Entry): ClientFacts {
    const client = clientFacts(request, this.headers(request.headers, entry?.labels[FORWARD_HEADERS_LABEL]));
    request.client = client;
    return client;
  }
}

/** A call of a tool with the label `service.task=auto` becomes a task if it takes long. */
const promote =
  ({ access, connectionOf, promotedCalls }: StageDeps): CallStage =>
  (next) => {
    /** Another round of a call that has become a task. It must not retain the request of the first. */
    const repeat: PromotableCall['repeat'] = (message, sink) => {
      const { namespace = '', principal } = sink.client;
      const permit = access.decideIn(namespace, principal, message);
      if (permit.kind === 'error') return startOutcome(permit, sink);
      next(permit, connectionOf(permit.target), sink);
    };
    return (permit, connection, sink) => {
      if (!promotedCalls.accepts(permit.target, sink.client) || connection.createsTasks) {
        return next(permit, connection, sink);
      }
      const { address } = connection;
      promotedCalls.start({ target: permit.target, address, repeat }, sink, (promoted) =>
        next(permit, connection, promoted),
      );
    };
  };

/** A modern client may have to provide input, or visit a URL, and then sends its request again: until then, the call is suspended. */
const suspend =
  ({ suspendedCalls }: StageDeps): CallStage =>
  (next) => {
    const start: CallHandler = (permit, connection, sink) => {
      const mayRequestInput = sink.client.era === 'modern' && connection.mayRequestInput?.(permit, sink.client);
      next(permit, connection, mayRequestInput ? new SuspendableCall(suspendedCalls, permit, sink) : sink);
    };
    return (permit, connection, sink) => {
      const { client } = sink;
      const { method, params } = permit.message;
      const isRetry = client.era === 'modern' && params.requestState !== undefined && NAME_PARAM.has(method);
      // In a forwarding loop, it is rejected like any other request.
      if (!isRetry || !client.copiedHeaders) return start(permit, connection, sink);
      const resumption = suspendedCalls.resume(client, permit.message);
      switch (resumption.kind) {
        case 'handled':
          if (client.facts) client.facts.resumesCall = true;
          return startOutcome(resumption.outcome, sink);
        case 'restart':
          // The state is ours: no upstream knows it.
          return start(permit.as({ inputResponses: null, requestState: null }), connection, sink);
        case 'task':
          return start(permit.as({ task: resumption.task }), connection, sink);
        case 'foreign':
          return start(permit, connection, sink);
      }
    };
  };

/** Waits for an upstream whose eras are not known yet. Meanwhile the client can cancel the call, and an operator can change the tool. */
const ready =
  ({ calls, connectionOf, check, log }: StageDeps): CallStage =>
  (next) => {
    const handle: CallHandler = (permit, connection, sink) => {
      const waiting = connection.ready?.(permit);
      if (waiting) deferOutcome(() => handleAfter(waiting, permit, sink), log).start(sink);
      else next(permit, connection, sink);
    };
    const handleAfter = async (waiting: Promise<void>, permit: Permit, sink: ResponseSink): Promise<RequestOutcome> => {
      const { facts = { outcome: undefined } } = sink.client;
      const response = { on: (_event: 'close', listener: () => void) => sink.onDisconnect(listener) };
      const canceled = await new CancelableRequest({ ...sink.client, facts, response }, calls).outcome(waiting);
      if (canceled) return canceled;
      const renewed = permit.renew();
      if (renewed.kind === 'error') return renewed;
      const problem = renewed === permit ? undefined : check(sink.client, renewed.target);
      if (problem) return problem;
      // Another server may have to be waited for.
      const then = renewed === permit ? next : handle;
      return { kind: 'deferred', start: () => then(renewed, connectionOf(renewed.target), sink) };
    };
    return handle;
  };

/** Records the call: its events, its span and its metrics. */
const observe =
  ({ toolCalls, log }: StageDeps): CallStage =>
  (next) =>
  (permit, connection, sink) => {
    const { client } = sink;
    const { entry, message } = permit.target;
    const call = connection.describe(permit, client);
    const isToolCall = entry !== undefined && message.method === 'tools/call';
    const observer = isToolCall
      ? toolCalls.of(toolCallIdentity(client, entry, call.target), client.facts)
      : toolCalls.request(client.facts);
    const observed = new ObservedSink(sink, observer);
    if (call.kind === 'rejected') return observed.complete(call.outcome);
    const now = performance.now();
    if (call.summary) observer.begin(call.summary, now);
    observer.send(call.request, now);
    try {
      next(permit, connection, observed);
    } catch (error) {
      log.error('call failed', { method: message.method, error });
      observed.complete({ kind: 'failed', error: { code: INTERNAL_ERROR, message: 'internal error' } });
    }
  };
