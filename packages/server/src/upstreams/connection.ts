import type { Permit } from '../access/access.ts';
import type { UpstreamRequestInfo } from '../telemetry/call-observer.ts';
import type { RequestSummary, ToolTarget } from '../telemetry/tool-calls/event.ts';
import type { ClientFacts } from './client-facts.ts';
import type { CallOutcome, ResponseSink } from './response-sink.ts';

/** What is known of a call before it is sent, for events, metrics and traces. */
export interface CallDescription {
  readonly kind: 'described';
  readonly target: ToolTarget;
  readonly request: UpstreamRequestInfo;
  /** Of a tool call. */
  readonly summary?: RequestSummary | undefined;
}

/** A call that cannot be sent. */
export interface RejectedCall {
  readonly kind: 'rejected';
  readonly target: ToolTarget;
  readonly outcome: CallOutcome;
}

/** Executes requests: an upstream MCP server, a capability service, or whatever else a kind of upstreams connects to. */
export interface UpstreamConnection {
  /** Address in the records of tasks. */
  readonly address: string;
  /** Whether the upstream creates tasks itself: then calls are not promoted. */
  readonly createsTasks: boolean;
  /** Resolves when requests can be sent; undefined if they can be now, which is nearly always. Never rejects. */
  ready?(permit: Permit): Promise<void> | undefined;
  /** Whether its upstream may ask the client for input while it executes the request, and the client has no stream for that. */
  mayRequestInput?(permit: Permit, client: ClientFacts): boolean;
  describe(permit: Permit, client: ClientFacts): CallDescription | RejectedCall;
  /**
   * Sends the request of the permit, and nothing else. The response is in the form of the client's era; the call ends once, by
   * `sink.complete`.
   */
  request(permit: Permit, sink: ResponseSink): void;
}
