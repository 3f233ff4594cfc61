import type { InteractionStore } from '../../inference/interaction-store.ts';
import { ActionFailure, type HostAnswers } from '../actions/action-world.ts';
import { messagesOf } from './interaction-messages.ts';
import { ReadingTurns } from './reading-turns.ts';

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
