import type { ToolCallTransport } from '@sluice/contract';

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
}

/** The name that events give to code that is executed (decisions 6). */
export function codeToolName(engine: string, language: string): string {
  return `code-execution/${engine}/${language}`;
}
