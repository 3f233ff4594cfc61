import { isJsonObject, type JsonValue, tryParseJson } from '@sluice/protocol/json/parse';
import type { StoredBody } from '../../inference/stored-body.ts';
import type { HistoryMessage } from '../actions/action-world.ts';

/**
 * The messages that a completion was asked for with, out of the body of its request (decisions 4.9). None where there is
 * no body, where it was cut or given up, and where it has none to show.
 */
export function messagesOf(body: StoredBody | undefined): HistoryMessage[] {
  if (body?.isJson !== true) return [];
  const asked = tryParseJson(body.bytes.toString());
  if (!isJsonObject(asked) || !Array.isArray(asked.messages)) return [];
  const messages: HistoryMessage[] = [];
  for (const message of asked.messages) {
    if (!isJsonObject(message)) continue;
    const content = contentOf(message.content);
    if (content !== '') messages.push({ role: roleOf(message.role), content });
  }
  return messages;
}

function roleOf(role: JsonValue | undefined): string {
  return typeof role === 'string' && role !== '' ? role.toWellFormed() : 'unknown';
}

/** A text, or the texts among the parts of a content joined; empty when there is none. */
function contentOf(content: JsonValue | undefined): string {
  if (typeof content === 'string') return content.toWellFormed();
  if (!Array.isArray(content)) return '';
  let text = '';
  for (const part of content) {
    if (isJsonObject(part) && part.type === 'text' && typeof part.text === 'string') text += part.text;
  }
  return text.toWellFormed();
}
