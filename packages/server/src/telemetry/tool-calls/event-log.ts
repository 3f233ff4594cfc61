import type { ToolCallTransport } from '@sluice/contract';
import type { LogLevel } from '../../config/log-targets.ts';
import type { Logger, TargetLogger } from '../log.ts';
import type { ToolCallIdentity } from './tool-call-identity.ts';
import { type EventDetails, rounded, type ToolCallRecord } from './tool-call-record.ts';

/**
 * The line of each event, and its level: that a call has begun says little that its end does not, and half of what the
 * lines cost is saved without it.
 */
const LINES: Readonly<Record<EventDetails['type'], { readonly message: string; readonly level: LogLevel }>> = {
  STARTED: { message: 'tool call started', level: 'debug' },
  COMPLETED: { message: 'tool call completed', level: 'info' },
  FAILED: { message: 'tool call failed', level: 'info' },
};

/**
 * Writes one line per event (decisions 6; 4.7, "Correlation"). Without what came back: neither the content nor the message
 * of an error, which others wrote and which may repeat an argument.
 */
export class EventLog {
  readonly #logs: Readonly<Record<ToolCallTransport, TargetLogger>>;

  readonly #isCompletion: (id: string) => boolean;

  /** `isCompletion`: whether an interaction has this completion id. */
  constructor(logger: Logger, isCompletion: (id: string) => boolean) {
    this.#isCompletion = isCompletion;
    const bridge = logger.target('service::bridge');
    this.#logs = { mcp: logger.target('service::forward'), grpc: bridge, code: bridge };
  }

  write({ eventId, identity, details }: ToolCallRecord): void {
    const { transport } = identity;
    const { type } = details;
    const { message, level } = LINES[type];
    const log = this.#logs[transport];
    if (!log.enabled(level)) return;
    log[level](message, {
      event_id: eventId,
      transport,
      namespace: identity.namespace,
      tool: identity.toolName,
      tool_type: identity.toolType,
      service: identity.serviceId,
      service_address: identity.serviceAddress,
      x_request_id: identity.requestId,
      conversation_id: identity.conversationId,
      completion_id: this.#completionOf(identity),
      service_request_id: identity.serviceRequestId,
      trace_id: identity.traceId,
      argument_count: type === 'STARTED' ? details.summary.argumentCount : undefined,
      is_error: type === 'COMPLETED' ? details.isError : undefined,
      error_category: type === 'FAILED' ? details.category : undefined,
      duration_ms: type === 'STARTED' ? undefined : rounded(details.durationMs),
    });
  }

  /** The completion that asked for the call, where its agent says so and it was recorded. */
  #completionOf({ requestId, conversationId }: ToolCallIdentity): string | undefined {
    if (requestId !== undefined && this.#isCompletion(requestId)) return requestId;
    return conversationId !== undefined && this.#isCompletion(conversationId) ? conversationId : undefined;
  }
}
