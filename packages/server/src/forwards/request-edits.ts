import type { Edit } from '@sluice/protocol/json/edit';
import { isJsonObject } from '@sluice/protocol/json/parse';
import { members } from '@sluice/protocol/json/scan';
import { NAME_PARAM } from '@sluice/protocol/mcp/constants';
import type { RequestMessage } from '@sluice/protocol/mcp/message';

/** Where a request's text must differ upstream. */
export interface RequestEdits {
  readonly edits: Edit[];
  /** Where the client's progress token stands; undefined when it wants no progress. */
  readonly progressToken: Edit | undefined;
}

/** Puts in the upstream's own name for what is called, and finds the progress token. */
export function requestEdits(message: RequestMessage, name: string): RequestEdits {
  const { text, params, paramsRange, method } = message;
  const renamed = calledName(message) !== name;
  const meta = params._meta;
  const wantsProgress = isJsonObject(meta) && meta.progressToken !== undefined;
  const edits: Edit[] = [];
  let progressToken: Edit | undefined;
  if (!paramsRange || (!renamed && !wantsProgress)) return { edits, progressToken };
  const member = method === 'completion/complete' ? 'ref' : NAME_PARAM.get(method);
  for (const { key, start, end } of members(text, paramsRange.start)) {
    if (renamed && key === member) edits.push(...renaming(method, text, start, end, name));
    if (!wantsProgress || key !== '_meta') continue;
    for (const found of members(text, start)) {
      if (found.key === 'progressToken') progressToken = { start: found.start, end: found.end, text: '' };
    }
  }
  return { edits, progressToken };
}

/** Where a request's progress token stands; undefined when its client wants no progress. */
export function progressTokenOf(message: RequestMessage): Edit | undefined {
  return requestEdits(message, calledName(message)).progressToken;
}

/** The name or uri that a request addresses, as the client spelled it; empty for methods that address nothing by name. */
export function calledName({ method, params }: RequestMessage): string {
  const { ref } = params;
  if (method === 'completion/complete') return isJsonObject(ref) ? String(ref.name ?? ref.uri) : '';
  const member = NAME_PARAM.get(method);
  return member === undefined ? '' : String(params[member]);
}

function renaming(method: string, text: string, start: number, end: number, name: string): Edit[] {
  if (method !== 'completion/complete') return [{ start, end, text: JSON.stringify(name) }];
  // Every one of that name: which of two an upstream reads is its own affair.
  const names = [...members(text, start)].filter(({ key }) => key === 'name');
  return names.map((found) => ({ start: found.start, end: found.end, text: JSON.stringify(name) }));
}
