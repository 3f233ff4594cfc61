import { removals } from '@sluice/json/removal';
import { members } from '@sluice/json/scan';
import type { Edit } from '@sluice/json/splice';
import type { RequestMessage } from '../../mcp/message.ts';
import { ENVELOPE, RETRY } from './modern-request.ts';

/** Takes out of params what belongs to a retry, for an upstream that has not asked for it; all else stays as it is. */
export function withoutRetry({ text, paramsRange }: RequestMessage): Edit[] {
  return paramsRange ? removals(text, paramsRange.start, (key) => RETRY.includes(key)) : [];
}

/** The same, and takes the envelope out of `_meta`, at which a legacy server would take offence. */
export function withoutEnvelope(message: RequestMessage): Edit[] {
  const { text, paramsRange } = message;
  if (!paramsRange) return [];
  const edits = withoutRetry(message);
  for (const { key, start } of members(text, paramsRange.start)) {
    if (key === '_meta') edits.push(...removals(text, start, (name) => ENVELOPE.includes(name)));
  }
  return edits;
}
