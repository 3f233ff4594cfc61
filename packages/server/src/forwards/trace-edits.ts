import type { Edit } from '@sluice/protocol/json/edit';
import type { RequestMessage } from '@sluice/protocol/mcp/message';
import { TRACE_MEMBERS, type TraceContext, traceHeaders, traceMembers } from '../telemetry/tracing/trace-context.ts';
import { metaEdits } from './meta-edits.ts';

/** Puts the trace into a request's `_meta`, in the place of the one that the client's request came from. */
export function traceEdits(message: RequestMessage, trace: TraceContext): Edit[] {
  return metaEdits(message, traceMembers(trace), TRACE_MEMBERS);
}

/** The headers of a request upstream with its trace, which is not the client's own. */
export function withTrace(headers: readonly string[], trace: TraceContext): string[] {
  const others = headers.filter((_, at) => !TRACE_MEMBERS.includes(headers[at - (at % 2)] ?? ''));
  return [...others, ...traceHeaders(trace)];
}
