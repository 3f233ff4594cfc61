import { z } from 'zod';
import type { Peers, QueryHandlers } from '../../http/peers.ts';
import { jsonLines } from '../../http/response-body.ts';
import type { InteractionStore } from '../../inference/interaction-store.ts';
import type { RequestMessage } from '../../inference/request-messages.ts';
import { ActionFailure } from '../sandbox/action.ts';

/** Messages of a recorded completion. */
export interface RecordedMessages<Message> {
  /** Arrival time of the request. */
  readonly epochMs: number;
  readonly messages: readonly Message[];
}

/** How messages are passed: the beginnings of the latest ones, or all of them as JSON. */
const MESSAGES = {
  latest: z.object({ role: z.string(), content: z.string(), omitted: z.string().optional() }),
  whole: z.string(),
} as const;
type Kind = keyof typeof MESSAGES;

/** Time for the responses of other replicas, and bytes of each. An evaluation waits for them. */
const RESPONSE_MS = 1_000;
const RESPONSE_BYTES = 64 * 1024 * 1024;

const TARGET = '/conversation';

/** What one replica has of a conversation. */
interface Part<Message> {
  /** The conversation that the id names there; undefined for a completion of none, and if it is not known. */
  readonly conversation: string | undefined;
  readonly found: readonly RecordedMessages<Message>[];
}

/** Reads what this replica has of a conversation. */
type Read<Message> = (id: string) => Promise<readonly RecordedMessages<Message>[]>;

/** What is read of a conversation, here and at others. */
interface Wanted<Message> {
  readonly kind: Kind;
  readonly message: z.ZodType<Message>;
  readonly own: Read<Message>;
}

/**
 * Conversations whose completions other replicas have recorded as well: an evaluation decides the same on all of them
 * (docs/replicas.md). Of replicas that do not respond in time, the completions are missing.
 */
export class OtherConversations {
  readonly #peers: Pick<Peers, 'query'>;
  readonly #interactions: Pick<InteractionStore, 'conversationOf'>;

  constructor(peers: Pick<Peers, 'query'>, interactions: Pick<InteractionStore, 'conversationOf'>) {
    this.#peers = peers;
    this.#interactions = interactions;
  }

  /** Adds what others have to what `own` reads; oldest first. */
  latest(id: string, own: Read<RequestMessage>): Promise<readonly RecordedMessages<RequestMessage>[]> {
    return this.#merge(id, { kind: 'latest', message: MESSAGES.latest, own });
  }

  /** As {@link latest}, of all messages as JSON. */
  whole(id: string, own: Read<string>): Promise<readonly RecordedMessages<string>[]> {
    return this.#merge(id, { kind: 'whole', message: MESSAGES.whole, own });
  }

  async #merge<Message>(id: string, wanted: Wanted<Message>): Promise<readonly RecordedMessages<Message>[]> {
    const parts = await this.#parts(id, wanted);
    // An id is first that of a conversation, and else that of a completion, which one replica alone may know.
    const isConversation = parts.some(({ conversation }) => conversation === id);
    const other = parts.find(({ conversation }) => conversation !== undefined)?.conversation;
    if (isConversation) return sortedMessages(parts.filter(({ conversation }) => conversation === id));
    return sortedMessages(other === undefined ? parts : await this.#parts(other, wanted));
  }

  async #parts<Message>(id: string, { kind, message, own }: Wanted<Message>): Promise<readonly Part<Message>[]> {
    const line = lineSchema(message);
    const request = {
      target: `${TARGET}?${new URLSearchParams({ id, messages: kind })}`,
      timeoutMs: RESPONSE_MS,
      maxBytes: RESPONSE_BYTES,
      parse: (item: unknown) => line.parse(item),
    };
    const [found, { responses }] = await Promise.all([own(id), this.#peers.query(request)]);
    return [{ conversation: this.#interactions.conversationOf(id), found }, ...responses.map(partOf)];
  }
}

/** A line of a response: the conversation, then the time of each completion, followed by its messages; or why there is none. */
function lineSchema<Message>(message: z.ZodType<Message>) {
  return z.object({
    conversation: z.string().optional(),
    epochMs: z.number().optional(),
    message: message.optional(),
    failure: z.object({ fault: z.enum(['memory', 'limit']), message: z.string() }).optional(),
  });
}

function* linesOf<Message>({ conversation, found }: Part<Message>): Generator<object> {
  yield { conversation };
  for (const { epochMs, messages } of found) {
    yield { epochMs };
    for (const message of messages) yield { message };
  }
}

/** Throws `ActionFailure` for a conversation that the other replica could not read: it would decide so itself. */
function partOf<Message>(lines: readonly z.output<ReturnType<typeof lineSchema<Message>>>[]): Part<Message> {
  let conversation: string | undefined;
  const found: { epochMs: number; messages: Message[] }[] = [];
  for (const line of lines) {
    if (line.failure) throw new ActionFailure(line.failure.fault, line.failure.message);
    conversation ??= line.conversation;
    if (line.epochMs !== undefined) found.push({ epochMs: line.epochMs, messages: [] });
    if (line.message !== undefined) found.at(-1)?.messages.push(line.message);
  }
  return { conversation, found };
}

function sortedMessages<Message>(parts: readonly Part<Message>[]): readonly RecordedMessages<Message>[] {
  return parts.flatMap(({ found }) => found).sort((a, b) => a.epochMs - b.epochMs);
}

/** What this replica responds to {@link OtherConversations} of others. */
export function conversationQuery(
  interactions: Pick<InteractionStore, 'conversationOf'>,
  read: { readonly latest: Read<RequestMessage>; readonly whole: Read<string> },
): QueryHandlers {
  return {
    [`GET ${TARGET}`]: async (query) => {
      const id = query.get('id') ?? '';
      const conversation = interactions.conversationOf(id);
      try {
        const found = await (query.get('messages') === 'whole' ? read.whole(id) : read.latest(id));
        return jsonLines(linesOf<unknown>({ conversation, found }));
      } catch (error) {
        if (!(error instanceof ActionFailure)) throw error;
        return jsonLines([{ failure: { fault: error.fault, message: error.message } }]);
      }
    },
  };
}
