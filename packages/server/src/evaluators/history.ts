import { setImmediate as nextTurn } from 'node:timers/promises';
import { isJsonObject, type JsonValue } from '@sluice/json/lossless';
import { tryParseJson } from '@sluice/json/parse';
import type { Interaction } from '../inference/interaction.ts';
import type { InteractionStore } from '../inference/interaction-store.ts';
import { ActionFailure, type HistoryMessage } from './actions/action-world.ts';

/** Where conversations are looked up. */
type Interactions = Pick<InteractionStore, 'history'>;

/** Interactions of a conversation that a prompt has (spec "Limits"). */
const LATEST = 10;
/** After as many bytes of bodies read in one go, others have their turn. */
const BYTES_PER_TURN = 1024 * 1024;
/** Characters of a whole conversation that an action is given. */
const MAX_HISTORY = 32 * 1024 * 1024;

/**
 * The messages of the latest ten interactions of a conversation, oldest first, for a prompt (decisions 4.9); an empty
 * list for each interaction that has none to show. Large bodies are read one per turn of the event loop.
 */
export async function latestConversation(
  interactions: Interactions,
  conversationId: string,
): Promise<readonly (readonly HistoryMessage[])[]> {
  const conversation: (readonly HistoryMessage[])[] = [];
  let bytes = 0;
  for (const interaction of interactions.history(conversationId, LATEST)) {
    bytes += interaction.request.body?.bytes.length ?? 0;
    if (conversation.length > 0 && bytes > BYTES_PER_TURN) {
      bytes = 0;
      await nextTurn();
    }
    conversation.push(messagesOf(interaction));
  }
  return conversation;
}

/**
 * All messages of a conversation, oldest first, as JSON text of `HistoryMessage[]`: what `get-history` answers
 * (decisions 2.11); `[]` when the conversation is not known. Large bodies are read one per turn of the event loop. Throws
 * `ActionFailure` for more than 32 MiB, which would not fit into an action's memory.
 */
export async function historyJson(interactions: Interactions, conversationId: string): Promise<string> {
  const pieces: string[] = [];
  let length = 0;
  let bytes = 0;
  for (const interaction of interactions.history(conversationId, Number.POSITIVE_INFINITY)) {
    bytes += interaction.request.body?.bytes.length ?? 0;
    if (bytes > BYTES_PER_TURN) {
      bytes = 0;
      await nextTurn();
    }
    for (const message of messagesOf(interaction)) {
      const piece = JSON.stringify(message);
      length += piece.length;
      pieces.push(piece);
    }
    if (length > MAX_HISTORY) throw new ActionFailure('memory', 'the conversation is larger than its memory');
  }
  return `[${pieces.join(',')}]`;
}

/** The messages that a completion was asked for with. Bodies that were cut, or given up, have none. */
function messagesOf({ request: { body } }: Interaction): HistoryMessage[] {
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
