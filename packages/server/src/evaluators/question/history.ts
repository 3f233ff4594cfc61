import { setImmediate as nextTurn } from 'node:timers/promises';
import { isJsonObject, type JsonValue } from '@sluice/json/lossless';
import { tryParseJson } from '@sluice/json/parse';
import type { Interaction } from '../../inference/interaction.ts';
import type { InteractionStore } from '../../inference/interaction-store.ts';
import { ActionFailure, type HistoryMessage } from '../actions/action-world.ts';

/** Where conversations are looked up. */
type Interactions = Pick<InteractionStore, 'history'>;

/** Interactions of a conversation that a prompt has (spec "Limits"). */
const LATEST = 10;
/** After as many bytes of bodies read in one go, others have their turn. */
const BYTES_PER_TURN = 1024 * 1024;
/** Characters of a whole conversation that an action is given. */
const MAX_HISTORY = 32 * 1024 * 1024;

/** Of each interaction, a prompt has the newest messages alone, and of each of them no more than this. */
const MAX_MESSAGES = 200;
const MAX_CHARACTERS = 2000;
/** Interactions whose messages are kept, since the next request of a conversation mostly asks for the same ones. */
const MAX_KEPT = 32;

/** What was said in conversations, as prompts have it. Reading a large body takes long, and is done once. */
export class Conversations {
  readonly #interactions: Interactions;
  /** Oldest use first. */
  readonly #kept = new Map<Interaction, readonly HistoryMessage[]>();

  constructor(interactions: Interactions) {
    this.#interactions = interactions;
  }

  /**
   * The messages of the latest ten interactions of a conversation, oldest first, for a prompt (decisions 4.9); an empty
   * list for each interaction that has none to show. Of an interaction with more than 200 messages the newest are there,
   * each with its first 2000 characters. Large bodies are read one per turn of the event loop.
   */
  async latest(conversationId: string): Promise<readonly (readonly HistoryMessage[])[]> {
    const conversation: (readonly HistoryMessage[])[] = [];
    let bytes = 0;
    for (const interaction of this.#interactions.history(conversationId, LATEST)) {
      bytes += this.#kept.has(interaction) ? 0 : (interaction.request.body?.bytes.length ?? 0);
      if (conversation.length > 0 && bytes > BYTES_PER_TURN) {
        bytes = 0;
        await nextTurn();
      }
      conversation.push(this.#messagesOf(interaction));
    }
    return conversation;
  }

  #messagesOf(interaction: Interaction): readonly HistoryMessage[] {
    const messages = this.#kept.get(interaction) ?? newest(messagesOf(interaction));
    this.#kept.delete(interaction);
    this.#kept.set(interaction, messages);
    const [oldest] = this.#kept.keys();
    if (this.#kept.size > MAX_KEPT && oldest) this.#kept.delete(oldest);
    return messages;
  }
}

function newest(messages: readonly HistoryMessage[]): readonly HistoryMessage[] {
  return messages.slice(-MAX_MESSAGES).map(({ role, content }) => ({
    role: role.slice(0, MAX_CHARACTERS),
    content: content.slice(0, MAX_CHARACTERS),
  }));
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
