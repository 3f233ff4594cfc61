import type { Edit } from '@sluice/protocol/json/edit';
import { insertEdit, removeEdits } from '@sluice/protocol/json/edit';
import { isJsonObject, type JsonObject } from '@sluice/protocol/json/parse';
import { members } from '@sluice/protocol/json/scan';
import type { RequestMessage } from '@sluice/protocol/mcp/message';

/** Puts members, as JSON text, into a request's `_meta`, and takes those of these names out; all else stays as it is. */
export function metaEdits(
  { text, params, paramsRange }: RequestMessage,
  inserted: string,
  names: readonly string[],
): Edit[] {
  if (!paramsRange) {
    if (inserted === '') return [];
    const end = text.lastIndexOf('}');
    return [{ start: end, end, text: `,"params":{"_meta":{${inserted}}}` }];
  }
  const { _meta: meta } = params;
  if (!isJsonObject(meta)) {
    return inserted === '' ? [] : replacing(text, paramsRange.start, params, `"_meta":{${inserted}}`, ['_meta']);
  }
  const edits: Edit[] = [];
  for (const { key, start } of members(text, paramsRange.start)) {
    if (key === '_meta') edits.push(...replacing(text, start, meta, inserted, names));
  }
  return edits;
}

/**
 * Inserts members at the beginning of the object that begins at `start` and has the value `object`, and takes those of
 * these names out: of two of one name an upstream might obey the other.
 */
export function replacing(
  text: string,
  start: number,
  object: JsonObject,
  inserted: string,
  names: readonly string[],
): Edit[] {
  if (!names.some((name) => Object.hasOwn(object, name)))
    return inserted === '' ? [] : [insertEdit(text, start, inserted)];
  const stays = Object.keys(object).some((key) => !names.includes(key));
  const first = { start: start + 1, end: start + 1, text: stays && inserted !== '' ? `${inserted},` : inserted };
  return [first, ...removeEdits(text, start, (key) => names.includes(key))];
}
