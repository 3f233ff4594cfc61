import type { ToolCallOutcome } from '@sluice/contract';
import type { Message } from '@sluice/protocol/mcp/message';
import type { Correlation } from '../exchange/correlation.ts';
import type { RequestHead } from '../exchange/head.ts';
import type { Principal } from '../identity/principal.ts';
import type { Subject } from './redaction.ts';
import type { ToolCallRecord } from './tool-calls/event.ts';

/** State of a request that filters set; the members of MCP are missing in other requests. */
export interface ObservedContext {
  readonly metadata: ReadonlyMap<string, string>;
  readonly message?: Message | undefined;
  readonly era?: 'legacy' | 'modern';
  readonly namespace?: { readonly name: string } | undefined;
  readonly session?: { readonly id: string; readonly protocolVersion: string } | undefined;
}

/** The JSON-RPC error of a response, if its writer knows it. */
export interface ObservedResponse {
  /** Undefined if the response is not an error. */
  readonly errorCode: number | undefined;
  /** Message of an error that the service itself created. */
  readonly errorMessage: string | undefined;
}

/** Result of a request: rejected, forwarded to an upstream, or answered by the service. */
export type Decision = 'refused' | 'forwarded' | 'answered';

/** Rejection of a request by an evaluator. */
export interface PolicyRejection {
  readonly evaluator: string;
  readonly reason: string;
}

/** Data of a request for its access log line and its span. */
export interface RequestRecord {
  /** `performance.now()` at its arrival. */
  readonly startedAt: number;
  readonly head: RequestHead;
  readonly principal: Principal;
  readonly correlation: Correlation;
  readonly context: ObservedContext | undefined;
  readonly decision: Decision;
  /** Name of the filter that responded. */
  readonly filter: string | undefined;
  /** The registered tool or prompt, with a bounded name. */
  readonly subject: Subject | undefined;
  /** `host:port` of the upstream. */
  readonly upstream: string | undefined;
  readonly answer: ObservedResponse | undefined;
  /**
   * Low-cardinality error type of a request that failed although it has a response: `tool_error`, or an upstream
   * failure.
   */
  readonly failure: string | undefined;
  /** How the request ended: known earlier than its end if it was rejected by an evaluator, canceled, or sent upstream. */
  readonly outcome: ToolCallOutcome | undefined;
  /** Rejection by an evaluator. */
  readonly policyRejection: PolicyRejection | undefined;
  /** Last event of the tool call. */
  readonly toolCall: ToolCallRecord | undefined;
  readonly traceId: string | undefined;
}
