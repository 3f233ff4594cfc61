import type { JsonObject, JsonValue } from '@sluice/protocol/json/parse';
import type { Edit } from '@sluice/protocol/json/text';
import type { Era } from '@sluice/protocol/mcp/constants';
import type { RequestMessage } from '@sluice/protocol/mcp/message';
import type { UpstreamError } from '../../../http/client/errors.ts';
import type { Entry } from '../../../registry/entries.ts';
import type { TargetLogger } from '../../../telemetry/log.ts';
import type { ClientFacts } from '../../client-facts.ts';
import type { ServerRequestSource, ServerRequests } from '../../client-requests.ts';
import type { InFlightCalls } from '../../in-flight-calls.ts';
import type { ResponseSink } from '../../response-sink.ts';
import type { ReadRequest, UpstreamResponse } from '../response-handler.ts';
import type { Upstream } from '../upstream.ts';
import type { UpstreamSession } from '../upstream-sessions.ts';
import type { ResultPositions } from './large-message.ts';
import type { RequestEdits } from './request-edits.ts';
import type { ResourceLinkCache } from './resource-link-cache.ts';

/** Dependencies that all calls share. */
export interface CallDeps {
  readonly calls: InFlightCalls;
  readonly resourceLinks: ResourceLinkCache;
  /** Maximum size of a response that is buffered, in bytes. */
  readonly maxResponseBytes: number;
  readonly log: TargetLogger;
}

/** How an attempt of a call ends. */
export type AttemptEnd =
  | UpstreamResponse
  /** A large result that was sent while it arrived, but for its end, which `relay` sends. */
  | { readonly kind: 'relayed'; readonly value: JsonObject; readonly relay: { send(): void } }
  /** `session-unknown`: the upstream did not process the request. `internal-error`: perhaps after another end. */
  | { readonly kind: 'session-unknown'; readonly error: UpstreamError }
  | { readonly kind: 'failed' | 'internal-error'; readonly error: unknown };

/** A call that is attempted. */
export interface AttemptedCall {
  /** Time of the last activity of the upstream. */
  lastActivityAt: number;
  /** A retry of the client replaces parts of it. */
  readonly spec: CallSpec;
  /** Undefined once the client has disconnected. */
  readonly sink: ResponseSink | undefined;
  onEnd(end: AttemptEnd): void;
}

/** The request of an attempt, and its session. */
export interface RelayedRequest extends ReadRequest {
  readonly id: number;
  readonly session: UpstreamSession;
}

/** A response, as text and parsed. */
export interface RewrittenResponse {
  readonly text: string;
  readonly value: JsonObject;
}

/** Changes responses for their client. */
export interface ResponseRewriter {
  /** A server request of the upstream was rejected because the client does not support it. */
  onRejected?(method: string, params: JsonValue | undefined): void;
  /** Whether this large response, of which some members are known, is needed as text. */
  needsText?(value: JsonObject): boolean;
  /** Returns the rewritten response; undefined if it is unchanged. */
  rewrite(text: string, value: JsonObject): RewrittenResponse | undefined;
  /**
   * Returns how the result in a large response is rewritten: edits of its bytes, or a response that replaces it, with this
   * id. `value` has the members that a large message stores.
   */
  rewriteLarge(result: ResultPositions, value: JsonObject, idText: string): readonly Edit[] | RewrittenResponse;
}

/** A call whose upstream has created a task. */
export interface CreatedTask {
  readonly spec: CallSpec;
  readonly sink: ResponseSink;
  /** The session that the call was sent in. */
  readonly session: UpstreamSession;
  /** Id of the request upstream, which is also its progress token. */
  readonly requestId: string;
}

/** Handles results that create tasks. */
export interface TaskHandler {
  /** True if this result, which may create a task, does that: for an upstream session of this era. */
  isCreated(spec: CallSpec, era: Era, result: JsonObject): boolean;
  /** Takes over the call: it is responded to and observed from here. */
  onCreated(task: CreatedTask, text: string, value: JsonObject): void;
  /**
   * Returns the id at the upstream of the task which a legacy request is related to, or an empty one if it is no task of this
   * client: an upstream session may be shared with others.
   */
  relatedTask(params: JsonObject, client: ClientFacts, address: string): string;
  /** Continues a task for the retry of a call. */
  resume(spec: CallSpec, task: string, sink: ResponseSink): void;
}

/** Translates messages of an upstream that belong to a call, and those that are sent to it. */
export interface MessageTranslator {
  /** Undefined for a notification that the client must not get. */
  toClient(text: string, value: JsonObject): string | undefined;
  /** True for progress of a task, which the client of its call gets although that has ended. */
  isTaskProgress(value: JsonObject): boolean;
  toUpstream(text: string): string;
}

/** What a call has to do with tasks. */
export interface CallTask {
  /** Handles a result that creates a task; undefined if no result can. */
  readonly handler?: TaskHandler | undefined;
  /** The tool that creates it. */
  readonly tool?: Entry | undefined;
  /** The client gets a task for its call, if the upstream creates one. */
  readonly isAccepted?: boolean;
  /** The call is sent as one of a client that supports tasks in the era of the upstream, which its client does not. */
  readonly isDeclared?: boolean;
  /** The response is the result of a task: the upstream may be silent for as long as that takes. */
  readonly awaitsResult?: boolean;
  /** The call ends because its client or the service does not wait for the response any more. */
  onAbandoned?(): void;
  /** The call has ended. */
  onSettled?(): void;
}

/** Specification of a call: what is known before it is sent, besides its client, which the sink of the call has. */
export interface CallSpec {
  readonly message: RequestMessage;
  /** Capabilities of the client in the form of the era of the upstream. */
  readonly capabilities: JsonObject;
  readonly upstream: Upstream;
  readonly edits: RequestEdits;
  /** Translates the response; undefined within one era. */
  readonly rewriter?: ResponseRewriter | undefined;
  /** True if client and upstream are of different eras. */
  readonly needsTranslation: boolean;
  /** Relays server requests to a client without a session, by suspending its call. */
  readonly serverRequests?: ((source: ServerRequestSource) => ServerRequests) | undefined;
  /** Prefix of the message of a failure: `forwarded tool call failed`. */
  readonly failure: string;
  /** Forward of the upstream; undefined for an unregistered upstream. */
  readonly forward: string | undefined;
  /** Undefined for a call that can neither become a task nor belongs to one. */
  readonly task?: CallTask | undefined;
  /** Translates messages of the upstream; undefined if they are relayed unchanged. */
  readonly messages?: MessageTranslator | undefined;
  /** Returns the upstream session to send in. `isRetry`: the upstream does not know the one before. */
  openSession(isRetry: boolean): UpstreamSession | Promise<UpstreamSession>;
}
