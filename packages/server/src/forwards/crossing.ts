import type { JsonObject } from '../json/lossless.ts';
import { members } from '../json/scan.ts';
import { type Edit, splice } from '../json/splice.ts';
import type { RequestMessage } from '../mcp/message.ts';
import {
  type Era,
  LATEST_MODERN,
  META_CLIENT_CAPABILITIES,
  META_CLIENT_INFO,
  META_LOG_LEVEL,
  META_PROTOCOL_VERSION,
} from '../mcp/protocol.ts';

/**
 * What differs for a call whose client and upstream are of different eras (mcp 5). Plain calls cross: an upstream that
 * would ask the client something in the middle is told that the client can do nothing.
 */
export interface Crossing {
  /** Replacements in the request's text. */
  readonly edits: readonly Edit[];
  /** The response's text as the client's era writes it. */
  answer(text: string): string;
}

/** The crossing from a client of `era` to an upstream of the other. */
export function crossing(era: Era, message: RequestMessage, clientInfo: JsonObject): Crossing {
  return era === 'legacy'
    ? { edits: [envelope(message, clientInfo)], answer: (text) => text }
    : {
        edits: withoutEnvelope(message),
        answer: (text) => withModernMembers(text, message.method),
      };
}

/** Puts the metadata that every modern request carries into a legacy one's `_meta`. */
function envelope({ text, paramsRange }: RequestMessage, clientInfo: JsonObject): Edit {
  const meta = JSON.stringify({
    [META_PROTOCOL_VERSION]: LATEST_MODERN,
    [META_CLIENT_INFO]: clientInfo,
    [META_CLIENT_CAPABILITIES]: {},
  });
  if (!paramsRange) {
    const end = text.lastIndexOf('}');
    return { start: end, end, text: `,"params":{"_meta":${meta}}` };
  }
  for (const { key, start } of members(text, paramsRange.start)) {
    if (key === '_meta' && text[start] === '{') return opening(text, start, meta.slice(1, -1));
  }
  return opening(text, paramsRange.start, `"_meta":${meta}`);
}

/** What of a modern request's `_meta` makes it modern: a legacy server would take offence at it. */
const ENVELOPE: readonly string[] = [META_PROTOCOL_VERSION, META_CLIENT_INFO, META_CLIENT_CAPABILITIES, META_LOG_LEVEL];

/** Takes the envelope out of `_meta`; all else in it stays, the client's progress token too. */
function withoutEnvelope({ text, paramsRange }: RequestMessage): Edit[] {
  if (!paramsRange) return [];
  for (const { key, start, end } of members(text, paramsRange.start)) {
    if (key !== '_meta') continue;
    const kept = [...members(text, start)].filter((member) => !ENVELOPE.includes(member.key));
    const parts = kept.map((member) => `${JSON.stringify(member.key)}:${text.slice(member.start, member.end)}`);
    return [{ start, end, text: `{${parts.join(',')}}` }];
  }
  return [];
}

/** Members that a modern client expects of every result, and caching hints of what must not be kept. */
function withModernMembers(text: string, method: string): string {
  for (const { key, start } of members(text)) {
    if (key !== 'result') continue;
    const hints = method === 'resources/read' ? ',"ttlMs":0,"cacheScope":"private"' : '';
    return splice(text, [opening(text, start, `"resultType":"complete"${hints}`)]);
  }
  return text;
}

/** Inserts members at the beginning of the object that begins at `start`. */
function opening(text: string, start: number, inserted: string): Edit {
  const [first] = members(text, start);
  return { start: start + 1, end: start + 1, text: first ? `${inserted},` : inserted };
}
