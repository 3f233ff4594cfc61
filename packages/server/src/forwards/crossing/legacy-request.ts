import { removals } from '../../json/removal.ts';
import { members } from '../../json/scan.ts';
import type { Edit } from '../../json/splice.ts';
import type { RequestMessage } from '../../mcp/message.ts';
import { ENVELOPE, RETRY } from './modern-request.ts';

/**
 * Takes the envelope out of `_meta`, at which a legacy server would take offence, and out of params what belongs to a
 * retry, since it is answered in another way; all else stays as it is.
 */
export function withoutEnvelope({ text, paramsRange }: RequestMessage): Edit[] {
  if (!paramsRange) return [];
  const edits = removals(text, paramsRange.start, (key) => RETRY.includes(key));
  for (const { key, start } of members(text, paramsRange.start)) {
    if (key === '_meta') edits.push(...removals(text, start, (name) => ENVELOPE.includes(name)));
  }
  return edits;
}
