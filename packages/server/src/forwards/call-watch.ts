import { isJsonObject, type JsonObject } from '@sluice/json/lossless';
import type { Entry } from '../registry/entries.ts';
import { contentOfResult, saysError } from '../telemetry/tool-calls/event-content.ts';
import type { Invocation } from '../telemetry/tool-calls/invocation.ts';
import { type RequestSummary, toolSummary } from '../telemetry/tool-calls/request-summary.ts';
import type { ToolCallSink } from '../telemetry/tool-calls/tool-call-events.ts';
import type { ToolCallIdentity } from '../telemetry/tool-calls/tool-call-identity.ts';
import type { Caller } from './relay.ts';
import type { Upstream } from './upstream.ts';
import { UpstreamError } from './upstream-error.ts';

/** Is told how a call goes. Of several ends the first counts. */
export interface CallWatch {
  /** It is about to be sent. */
  begin(): void;
  /** The upstream's response to it, a result or an error. */
  answered(value: JsonObject): void;
  /** There will be no response, or none that can be used; `reason` is what the client is told of it. */
  failed(error: unknown, reason: string): void;
  /** Nobody waits for the response any more. */
  abandoned(reason: string): void;
}

/**
 * Tells the events of one tool call that is forwarded (decisions 6). Made with the plan of the call, and keeps nothing of
 * its request but what is told.
 */
export class ToolCallWatch implements CallWatch {
  readonly #events: ToolCallSink;
  readonly #identity: ToolCallIdentity;
  readonly #summary: RequestSummary;
  #invocation: Invocation | undefined = undefined;

  /** `headers`: names and values, alternating, of those that the client's request brings along. */
  constructor(events: ToolCallSink, identity: ToolCallIdentity, args: unknown, headers: readonly string[]) {
    this.#events = events;
    this.#identity = identity;
    const names = headers.length === 0 ? headers : headers.filter((_, index) => index % 2 === 0);
    this.#summary = toolSummary(isJsonObject(args) ? args : {}, names);
  }

  begin(): void {
    this.#invocation ??= this.#events.begin(this.#identity, this.#summary);
  }

  answered({ result, error }: JsonObject): void {
    if (result !== undefined) return this.#invocation?.completed(saysError(result), contentOfResult(result));
    const message = isJsonObject(error) ? error.message : undefined;
    this.#invocation?.failed('UNKNOWN', typeof message === 'string' ? message : 'an error without a message');
  }

  failed(error: unknown, reason: string): void {
    this.#invocation?.failed(isUnavailable(error) ? 'SERVICE_UNAVAILABLE' : 'UNKNOWN', reason);
  }

  abandoned(reason: string): void {
    this.#invocation?.failed('UNKNOWN', reason);
  }
}

/** What events say of a forwarded tool call; `upstream` is undefined where there is none to send it to. */
export function forwardedIdentity(
  { namespace, correlation }: Pick<Caller, 'namespace' | 'correlation'>,
  tool: Entry,
  upstream: Pick<Upstream, 'origin'> | undefined,
): ToolCallIdentity {
  return {
    transport: 'mcp',
    namespace: namespace?.name ?? '',
    toolName: tool.name,
    toolType: String(tool.members.toolType),
    serviceId: undefined,
    serviceAddress: upstream?.origin ?? '',
    conversationId: correlation.conversationId,
    requestId: correlation.requestId,
  };
}

/** True where the upstream could not be reached or did not answer in time, or what stands before it says so (decisions 6). */
function isUnavailable(error: unknown): boolean {
  if (!(error instanceof UpstreamError)) return false;
  switch (error.kind) {
    case 'refused':
    case 'timeout':
    case 'dropped':
    case 'session-lost':
      return true;
    case 'http':
      return error.status !== undefined && error.status >= 500;
    default:
      return false;
  }
}
