import type { ToolCallTransport } from '@sluice/contract';
import type { Logger, TargetLogger } from '../log.ts';
import { rounded, type ToolCallRecord } from './tool-call-record.ts';

/** The line of each event. */
const MESSAGES = {
  STARTED: 'tool call started',
  COMPLETED: 'tool call completed',
  FAILED: 'tool call failed',
} as const;

/**
 * Writes one line per event (decisions 6; 4.7, "Correlation"). Without what came back: neither the content nor the message
 * of an error, which others wrote and which may repeat an argument.
 */
export class EventLog {
  readonly #logs: Readonly<Record<ToolCallTransport, TargetLogger>>;
  readonly #enabled: Readonly<Record<ToolCallTransport, boolean>>;

  constructor(logger: Logger) {
    const bridge = logger.target('service::bridge');
    this.#logs = { mcp: logger.target('service::forward'), grpc: bridge, code: bridge };
    const bridged = bridge.enabled('info');
    this.#enabled = { mcp: this.#logs.mcp.enabled('info'), grpc: bridged, code: bridged };
  }

  write({ eventId, identity, happening }: ToolCallRecord): void {
    const { transport } = identity;
    if (!this.#enabled[transport]) return;
    const { type } = happening;
    this.#logs[transport].info(MESSAGES[type], {
      event_id: eventId,
      transport,
      namespace: identity.namespace,
      tool: identity.toolName,
      tool_type: identity.toolType,
      service: identity.serviceId,
      service_address: identity.serviceAddress,
      x_request_id: identity.requestId,
      conversation_id: identity.conversationId,
      argument_count: type === 'STARTED' ? happening.summary.argumentCount : undefined,
      is_error: type === 'COMPLETED' ? happening.isError : undefined,
      error_category: type === 'FAILED' ? happening.category : undefined,
      duration_ms: type === 'STARTED' ? undefined : rounded(happening.durationMs),
    });
  }
}
