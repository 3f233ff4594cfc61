import type { InteractionStore } from '../../inference/interaction-store.ts';
import type { StoredBody } from '../../inference/stored-body.ts';
import type { HistoryMessage } from '../actions/action-world.ts';
import { messagesOf } from './interaction-messages.ts';
import { ReadingTurns } from './reading-turns.ts';

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
