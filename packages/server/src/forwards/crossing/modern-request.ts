import { insertion } from '@sluice/json/insertion';
import { isJsonObject, type JsonObject } from '@sluice/json/lossless';
import { removals } from '@sluice/json/removal';
import { members } from '@sluice/json/scan';
import type { Edit } from '@sluice/json/splice';
import type { RequestMessage } from '../../mcp/message.ts';
import {
  LATEST_MODERN,
  META_CLIENT_CAPABILITIES,
  META_CLIENT_INFO,
  META_LOG_LEVEL,
  META_PROTOCOL_VERSION,
} from '../../mcp/protocol.ts';

/** What of a modern request's `_meta` makes it modern. */
export const ENVELOPE: readonly string[] = [
  META_PROTOCOL_VERSION,
  META_CLIENT_INFO,
  META_CLIENT_CAPABILITIES,
  META_LOG_LEVEL,
];
/** What only a retry has among its params. */
export const RETRY: readonly string[] = ['inputResponses', 'requestState'];

/** What a legacy client has said of itself once, and a modern upstream wants to be told with every request. */
export interface ClientFacts {
  readonly clientInfo: JsonObject;
  /** What the upstream may ask of it. */
  readonly capabilities: JsonObject;
  /** The least level of log messages that it wants; undefined when it can be sent none. */
  readonly logLevel: string | undefined;
}

/**
 * Puts the metadata that every modern request carries into a legacy one's `_meta`. `more` are further members of its
 * params, as JSON text: those of a retry.
 */
export function modernEnvelope(
  { text, params, paramsRange }: RequestMessage,
  { clientInfo, capabilities, logLevel }: ClientFacts,
  more: readonly string[] = [],
): Edit[] {
  const envelope = JSON.stringify({
    [META_PROTOCOL_VERSION]: LATEST_MODERN,
    [META_CLIENT_INFO]: clientInfo,
    [META_CLIENT_CAPABILITIES]: capabilities,
    [META_LOG_LEVEL]: logLevel,
  });
  if (!paramsRange) {
    const end = text.lastIndexOf('}');
    return [{ start: end, end, text: `,"params":{${[`"_meta":${envelope}`, ...more].join(',')}}` }];
  }
  const { _meta: meta } = params;
  if (!isJsonObject(meta)) {
    return replacing(text, paramsRange.start, params, [`"_meta":${envelope}`, ...more].join(','), [...RETRY, '_meta']);
  }
  const edits = replacing(text, paramsRange.start, params, more.join(','), RETRY);
  for (const { key, start } of members(text, paramsRange.start)) {
    if (key === '_meta') edits.push(...replacing(text, start, meta, envelope.slice(1, -1), ENVELOPE));
  }
  return edits;
}

/**
 * Inserts members at the beginning of the object that begins at `start` and has the value `object`, and takes those of
 * these names out: of two of one name an upstream might obey the other.
 */
function replacing(
  text: string,
  start: number,
  object: JsonObject,
  inserted: string,
  names: readonly string[],
): Edit[] {
  if (!names.some((name) => Object.hasOwn(object, name)))
    return inserted === '' ? [] : [insertion(text, start, inserted)];
  const stays = Object.keys(object).some((key) => !names.includes(key));
  const first = { start: start + 1, end: start + 1, text: stays && inserted !== '' ? `${inserted},` : inserted };
  return [first, ...removals(text, start, (key) => names.includes(key))];
}
