import { removals } from '@sluice/json/removal';
import type { Edit } from '@sluice/json/splice';
import type { RequestMessage } from '../../mcp/message.ts';
import { TRACE_MEMBERS, type TraceContext, traceMembers } from '../../telemetry/tracing/trace-context.ts';
import { metaEdits } from '../meta-edits.ts';
import { ENVELOPE, RETRY } from './modern-request.ts';

/** Takes out of params what belongs to a retry, for an upstream that has not asked for it; all else stays as it is. */
export function withoutRetry({ text, paramsRange }: RequestMessage): Edit[] {
  return paramsRange ? removals(text, paramsRange.start, (key) => RETRY.includes(key)) : [];
}

/** The same, and takes the envelope out of `_meta`, at which a legacy server would take offence. */
export function withoutEnvelope(message: RequestMessage, trace?: TraceContext): Edit[] {
  const edits = withoutRetry(message);
  if (!trace) return message.paramsRange ? [...edits, ...metaEdits(message, '', ENVELOPE)] : edits;
  return [...edits, ...metaEdits(message, traceMembers(trace), [...ENVELOPE, ...TRACE_MEMBERS])];
}
