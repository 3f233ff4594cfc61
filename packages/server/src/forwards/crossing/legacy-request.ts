import type { Edit } from '@sluice/protocol/json/edit';
import { removeEdits } from '@sluice/protocol/json/edit';
import { isJsonObject } from '@sluice/protocol/json/parse';
import type { RequestMessage } from '@sluice/protocol/mcp/message';
import { TRACE_MEMBERS, type TraceContext, traceMembers } from '../../telemetry/tracing/trace-context.ts';
import { metaEdits, replacing } from '../meta-edits.ts';
import { ENVELOPE, RETRY } from './modern-request.ts';

/** Takes out of params what belongs to a retry, for an upstream that has not asked for it; all else stays as it is. */
export function withoutRetry({ text, paramsRange }: RequestMessage): Edit[] {
  return paramsRange ? removeEdits(text, paramsRange.start, (key) => RETRY.includes(key)) : [];
}

/** The same, and takes the envelope out of `_meta`, at which a legacy server would take offence. */
export function withoutEnvelope(message: RequestMessage, trace?: TraceContext): Edit[] {
  const { text, params, paramsRange } = message;
  if (!trace) return paramsRange ? [...withoutRetry(message), ...metaEdits(message, '', ENVELOPE)] : [];
  const inserted = traceMembers(trace);
  // Both change the params themselves: two edits of theirs might meet.
  if (paramsRange && !isJsonObject(params._meta)) {
    return replacing(text, paramsRange.start, params, `"_meta":{${inserted}}`, [...RETRY, '_meta']);
  }
  return [...withoutRetry(message), ...metaEdits(message, inserted, [...ENVELOPE, ...TRACE_MEMBERS])];
}
