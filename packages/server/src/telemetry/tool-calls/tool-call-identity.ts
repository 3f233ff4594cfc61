import type { ToolCallTransport } from '@sluice/contract';
import type { Entry } from '../../registry/entries.ts';
import type { RequestObservation } from '../requests/request-observation.ts';
import type { Correlation } from './correlation.ts';

/** Whose call it is, and what carries it out: said by all events of the call (decisions 6). */
export interface ToolCallIdentity {
  readonly transport: ToolCallTransport;
  readonly namespace: string;
  /** Of code: `code-execution/{engine}/{language}`. */
  readonly toolName: string;
  readonly toolType: string;
  /** The name of the service entry, where there is one. */
  readonly serviceId: string | undefined;
  /** `host:port` of the service, or the upstream's origin; empty when nothing was found to carry the call out. */
  readonly serviceAddress: string;
  readonly conversationId: string | undefined;
  /** The call's own header `x-request-id`. */
  readonly requestId: string | undefined;
  /** What the service is sent as `x-service-request-id`; for the log alone. */
  readonly serviceRequestId: string | undefined;
  /** The trace that the call is part of; for the log alone. */
  readonly traceId: string | undefined;
}

/** What carries a call out, as far as it is known. */
export interface CarriedOutBy {
  readonly transport: ToolCallTransport;
  /** Where events call the tool something else. */
  readonly toolName?: string | undefined;
  readonly serviceId?: string | undefined;
  readonly serviceAddress?: string | undefined;
  readonly serviceRequestId?: string | undefined;
}

/** Who makes a call, as far as events say it. */
export interface IdentifiedCaller {
  readonly namespace: { readonly name: string } | undefined;
  readonly correlation: Correlation;
  readonly observation: RequestObservation | undefined;
}

/** What events say of a call of this tool. */
export function toolCallIdentity(
  caller: IdentifiedCaller,
  tool: Pick<Entry, 'name' | 'members'>,
  { transport, toolName = tool.name, serviceId, serviceAddress = '', serviceRequestId }: CarriedOutBy,
): ToolCallIdentity {
  const { conversationId, requestId } = caller.correlation;
  return {
    transport,
    namespace: caller.namespace?.name ?? '',
    toolName,
    toolType: String(tool.members.toolType),
    serviceId,
    serviceAddress,
    conversationId,
    requestId,
    serviceRequestId,
    traceId: caller.observation?.span?.context.traceId,
  };
}

/** The name that events give to code that is executed (decisions 6). */
export function codeToolName(engine: string, language: string): string {
  return `code-execution/${engine}/${language}`;
}
