import type { ToolCallErrorCategory, ToolCallEvent } from '@sluice/contract';
import type { EventContent } from './event-content.ts';
import type { RequestSummary } from './request-summary.ts';
import type { ToolCallIdentity } from './tool-call-identity.ts';

/** What one event says besides whose call it is. */
export type EventDetails =
  | { readonly type: 'STARTED'; readonly summary: RequestSummary }
  | {
      readonly type: 'COMPLETED';
      readonly durationMs: number;
      readonly isError: boolean;
      readonly content: EventContent;
    }
  | {
      readonly type: 'FAILED';
      readonly durationMs: number;
      readonly category: ToolCallErrorCategory;
      readonly message: string;
    };

/** An event as it is kept: cheap to make, since most are never read. Nothing in it needs redaction any more. */
export interface ToolCallRecord {
  readonly eventId: string;
  /** Milliseconds since the Unix epoch. */
  readonly at: number;
  readonly identity: ToolCallIdentity;
  readonly details: EventDetails;
}

/** The event as it is told (decisions 6). Members without a value are left out. */
export function eventOf({ eventId, at, identity, details }: ToolCallRecord): ToolCallEvent {
  const timestamp = new Date(at).toISOString();
  const whose = identityOf(identity);
  switch (details.type) {
    case 'STARTED': {
      const { argumentNames, argumentCount, headerNames, code } = details.summary;
      return {
        eventId,
        eventType: 'STARTED',
        timestamp,
        ...whose,
        ...(argumentNames && { argumentNames: [...argumentNames] }),
        argumentCount,
        headers: Object.fromEntries(headerNames.map((name) => [name, '[REDACTED]' as const])),
        ...(code && { body: '[CODE]' as const }),
      };
    }
    case 'COMPLETED': {
      const { isError, content, durationMs } = details;
      return {
        eventId,
        eventType: 'COMPLETED',
        timestamp,
        ...whose,
        isError,
        content: [...content.texts],
        ...(content.truncated && { contentTruncated: true as const }),
        duration: rounded(durationMs),
      };
    }
    case 'FAILED': {
      const { category, message, durationMs } = details;
      return {
        eventId,
        eventType: 'FAILED',
        timestamp,
        ...whose,
        duration: rounded(durationMs),
        errorCategory: category,
        errorMessage: message,
      };
    }
  }
}

function identityOf({
  serviceId,
  conversationId,
  requestId,
  serviceRequestId: _forTheLog,
  traceId: _forTheLogToo,
  ...always
}: ToolCallIdentity) {
  return {
    ...always,
    ...(serviceId !== undefined && { serviceId }),
    ...(conversationId !== undefined && { conversationId }),
    ...(requestId !== undefined && { requestId }),
  };
}

/** To three decimals. */
export function rounded(ms: number): number {
  return Math.round(ms * 1000) / 1000;
}
