import { setImmediate as nextTurn } from 'node:timers/promises';
import { isJsonObject, type JsonValue, tryParseJson } from '@sluice/protocol/json/parse';
import type { StoredBody } from '../../inference/body-capture.ts';
import type { InteractionStore } from '../../inference/interaction-store.ts';
import { ActionFailure, type HistoryMessage, type HostAnswers } from '../sandbox/action.ts';

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

/** After as many bytes of bodies read in one go, others have their turn. */
const BYTES_PER_TURN = 1024 * 1024;

/** Keeps who reads many bodies from holding up everything else: small ones share a turn of the event loop. */
export class ReadingTurns {
  #bytes = 0;

  /** Before a body of so many bytes is read. Others have their turn first where it is too much for this one. */
  async before(bytes: number): Promise<void> {
    this.#bytes += bytes;
    if (this.#bytes <= BYTES_PER_TURN) return;
    this.#bytes = bytes;
    await nextTurn();
  }
}

/** Interactions of a conversation that a prompt has (spec "Limits"). */
const LATEST = 10;

/** Of each interaction, a prompt has the newest messages alone, and of each of them no more than this. */
const MAX_MESSAGES = 200;
const MAX_CHARACTERS = 2000;
/** Interactions whose messages are kept, since the next request of a conversation mostly asks for the same ones. */
const MAX_KEPT = 32;

/**
 * What was said in conversations, as prompts have it. Reading a large body takes long, and is done once while it is in
 * use. Bodies are held by the store alone: what it gives up, or is told to forget, goes here as well.
 */
export class Conversations {
  readonly #interactions: Pick<InteractionStore, 'history'>;
  readonly #kept = new WeakMap<StoredBody, readonly HistoryMessage[]>();
  /** The bodies whose messages are kept, oldest use first. */
  #used: readonly WeakRef<StoredBody>[] = [];

  constructor(interactions: Pick<InteractionStore, 'history'>) {
    this.#interactions = interactions;
  }

  /**
   * The messages of the latest ten interactions of a conversation, oldest first, for a prompt (decisions 4.9); an empty
   * list for each interaction that has none to show. Of an interaction with more than 200 messages the newest are there,
   * each with its first 2000 characters. Large bodies are read one per turn of the event loop.
   */
  async latest(conversationId: string): Promise<readonly (readonly HistoryMessage[])[]> {
    const conversation: (readonly HistoryMessage[])[] = [];
    const turns = new ReadingTurns();
    for (const interaction of this.#interactions.history(conversationId, LATEST)) {
      const known = interaction.request.body;
      if (known && !this.#kept.has(known)) await turns.before(known.bytes.length);
      // It may have gone meanwhile.
      const { body } = interaction.request;
      conversation.push(body ? this.#messagesOf(body) : []);
    }
    return conversation;
  }

  #messagesOf(body: StoredBody): readonly HistoryMessage[] {
    const messages = this.#kept.get(body) ?? newest(messagesOf(body));
    this.#kept.set(body, messages);
    const others = this.#used.filter((ref) => {
      const used = ref.deref();
      return used !== undefined && used !== body;
    });
    const oldest = others.length === MAX_KEPT ? others.shift()?.deref() : undefined;
    if (oldest) this.#kept.delete(oldest);
    this.#used = [...others, new WeakRef(body)];
    return messages;
  }
}

/** Copies: the beginning of a text, as V8 makes it, would keep all of the text in memory. */
function newest(messages: readonly HistoryMessage[]): readonly HistoryMessage[] {
  const beginnings = messages.slice(-MAX_MESSAGES).map(({ role, content }) => ({
    role: role.slice(0, MAX_CHARACTERS),
    content: content.slice(0, MAX_CHARACTERS),
  }));
  return structuredClone(beginnings);
}

/** Characters of a whole conversation that an action is given. */
const MAX_HISTORY = 32 * 1024 * 1024;
/** Bytes of bodies that are read for one run: as many as the store has, once. */
const MAX_READ_BYTES = 256 * 1024 * 1024;

/**
 * What `get-history` answers one run of an action (decisions 2.11): all messages of a conversation, oldest first, as JSON
 * text of `HistoryMessage[]`; `[]` when the conversation is not known. Large bodies are read one per turn of the event
 * loop, and none once the signal is aborted: it throws its reason then. Throws `ActionFailure` for more than 32 MiB, which
 * would not fit into an action's memory, and when a run has more than 256 MiB of bodies read in all.
 */
export function historyJson(interactions: Pick<InteractionStore, 'history'>): HostAnswers['history'] {
  let readBytes = 0;
  return async (conversationId, signal) => {
    const pieces: string[] = [];
    let length = 0;
    const turns = new ReadingTurns();
    for (const interaction of interactions.history(conversationId, Number.POSITIVE_INFINITY)) {
      await turns.before(interaction.request.body?.bytes.length ?? 0);
      signal.throwIfAborted();
      // It may have gone meanwhile.
      const { body } = interaction.request;
      readBytes += body?.bytes.length ?? 0;
      if (readBytes > MAX_READ_BYTES) throw new ActionFailure('limit', 'it had too much of conversations read');
      for (const message of messagesOf(body)) {
        const piece = JSON.stringify(message);
        length += piece.length;
        pieces.push(piece);
      }
      if (length > MAX_HISTORY) throw new ActionFailure('memory', 'the conversation is larger than its memory');
    }
    return `[${pieces.join(',')}]`;
  };
}
