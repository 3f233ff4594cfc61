import type { TaskEnd, ToolCallOutcome, ToolCallVerdict } from '@sluice/contract';
import type { TaskStatus } from '@sluice/protocol/mcp/tasks';

/** Rejection of a request by an evaluator, or of its credential. */
export interface RequestRejection {
  /** Undefined for a credential. */
  readonly evaluator: string | undefined;
  /** For the log; clients may get another one. */
  readonly reason: string;
}

/** An evaluation that a request has passed. */
export interface PassedEvaluation {
  readonly evaluator: string;
  /** The decision, or the failure after which the request continued. */
  readonly verdict: ToolCallVerdict;
  readonly durationMs: number;
}

/** The task that continued a call. */
export interface EventTask {
  readonly id: string;
  /** How its end became known; undefined for a call that became a task. */
  readonly end: TaskEnd | undefined;
  readonly states: readonly { readonly status: TaskStatus; readonly at: number }[];
}

/** The tool call that a request has made. */
export interface ObservedCall {
  /** Id of its events. */
  readonly eventId: string | undefined;
  /** Set once the call has become a task: returns what its last event says about that. */
  task: (() => EventTask) | undefined;
}

/** The JSON-RPC error of a response. */
export interface ResponseError {
  readonly code: number;
  /** Undefined for errors of upstreams, which may contain anything. */
  readonly message: string | undefined;
}

/** End of a response. */
export interface ResponseEnd {
  /** Undefined if the client has disconnected before there was one. */
  readonly status: number | undefined;
  /** The whole response was passed to the operating system. */
  readonly isComplete: boolean;
}

/** Evaluations of a request that no evaluator matches. */
export const NO_EVALUATIONS: readonly PassedEvaluation[] = [];

/**
 * How a request was handled: written by the code that handles it, read by telemetry at its end. A call may outlive its request and
 * retains these facts then, so they refer to nothing of the request. Part of the hot path: only references are stored.
 */
export class ExchangeFacts {
  rejected = false;
  /** Name of the filter that responded. */
  filter: string | undefined = undefined;
  /** `host:port` of the upstream. */
  upstream: string | undefined = undefined;
  /** The request resumes a call that is already in flight upstream. */
  resumesCall = false;
  /** Low-cardinality error type of a request that failed although it has a response: `tool_error`, or an upstream failure. */
  failure: string | undefined = undefined;
  /** How the request ended, if that is known before its end: rejected by an evaluator, canceled, or sent upstream. */
  outcome: ToolCallOutcome | undefined = undefined;
  error: ResponseError | undefined = undefined;
  /** The registered tool or prompt, with a bounded name. */
  subject: { readonly kind: 'tool' | 'prompt'; readonly name: string } | undefined = undefined;
  rejection: RequestRejection | undefined = undefined;
  /** A new list for each evaluation. */
  evaluations: readonly PassedEvaluation[] = NO_EVALUATIONS;
  call: ObservedCall | undefined = undefined;
  /** Set by telemetry if traces are exported. */
  span: object | undefined = undefined;
}
