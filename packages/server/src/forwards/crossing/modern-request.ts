import type { Edit } from '@sluice/protocol/json/edit';
import { isJsonObject, type JsonObject } from '@sluice/protocol/json/parse';
import { members } from '@sluice/protocol/json/scan';
import {
  LATEST_MODERN,
  META_CLIENT_CAPABILITIES,
  META_CLIENT_INFO,
  META_LOG_LEVEL,
  META_PROTOCOL_VERSION,
} from '@sluice/protocol/mcp/constants';
import type { RequestMessage } from '@sluice/protocol/mcp/message';
import { TRACE_MEMBERS, type TraceContext, traceMembers } from '../../telemetry/tracing/trace-context.ts';
import { replacing } from '../meta-edits.ts';

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
  /** Where the call stands in a trace; the client's own word on it stays where this is undefined. */
  readonly trace: TraceContext | undefined;
}

/**
 * Puts the metadata that every modern request carries into a legacy one's `_meta`. `more` are further members of its
 * params, as JSON text: those of a retry.
 */
export function modernEnvelope(
  { text, params, paramsRange }: RequestMessage,
  { clientInfo, capabilities, logLevel, trace }: ClientFacts,
  more: readonly string[] = [],
): Edit[] {
  const own = JSON.stringify({
    [META_PROTOCOL_VERSION]: LATEST_MODERN,
    [META_CLIENT_INFO]: clientInfo,
    [META_CLIENT_CAPABILITIES]: capabilities,
    [META_LOG_LEVEL]: logLevel,
  }).slice(1, -1);
  const envelope = trace ? `${own},${traceMembers(trace)}` : own;
  if (!paramsRange) {
    const end = text.lastIndexOf('}');
    return [{ start: end, end, text: `,"params":{${[`"_meta":{${envelope}}`, ...more].join(',')}}` }];
  }
  const { _meta: meta } = params;
  if (!isJsonObject(meta)) {
    return replacing(text, paramsRange.start, params, [`"_meta":{${envelope}}`, ...more].join(','), [
      ...RETRY,
      '_meta',
    ]);
  }
  const edits = replacing(text, paramsRange.start, params, more.join(','), RETRY);
  for (const { key, start } of members(text, paramsRange.start)) {
    if (key !== '_meta') continue;
    edits.push(...replacing(text, start, meta, envelope, trace ? [...ENVELOPE, ...TRACE_MEMBERS] : ENVELOPE));
  }
  return edits;
}
