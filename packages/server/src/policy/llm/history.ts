import { setImmediate as nextTurn } from 'node:timers/promises';
import { isJsonObject, tryParseJson } from '@sluice/protocol/json/parse';
import type { InteractionStore, RecordedBody, StoredBody } from '../../inference/interaction-store.ts';
import { earlierMessages, type RequestMessage, requestMessages } from '../../inference/request-messages.ts';
import { ActionFailure, type HistoryMessage, type HostFunctions } from '../sandbox/action.ts';
import type { OtherConversations, RecordedMessages } from './other-conversations.ts';

/** What is stored of a request: its body, or the text of its last messages if that was truncated. */
function storedOf({ body, outline }: RecordedBody): StoredBody | undefined {
  return body?.isJson ? body : outline;
}

/** Parses the messages of a recorded request; none if it was dropped or has no conversation. */
export function parseMessages(request: RecordedBody): readonly RequestMessage[] {
  const stored = storedOf(request);
  if (stored === undefined) return [];
  const value: unknown = tryParseJson(stored.bytes.toString());
  if (stored !== request.outline) return isJsonObject(value) ? requestMessages(value) : [];
  return Array.isArray(value) ? value.filter(isMessage) : [];
}

function isMessage(value: unknown): value is RequestMessage {
  return isJsonObject(value) && typeof value.role === 'string' && typeof value.content === 'string';
}

/** Bytes that are parsed without yielding to the event loop. */
const BYTES_PER_TURN = 1024 * 1024;

/** Yields to the event loop while many bodies are parsed; small bodies share a turn. */
export class ReadThrottle {
  #bytes = 0;

  /** Call it before parsing a body of this size. Waits for the next turn if it is too much for this one. */
  async beforeRead(bytes: number): Promise<void> {
    this.#bytes += bytes;
    if (this.#bytes <= BYTES_PER_TURN) return;
    this.#bytes = bytes;
    await nextTurn();
  }
}

/** Interactions of a conversation in a prompt. */
const MAX_INTERACTIONS = 10;

/** Messages of an interaction in a prompt, and characters of each. */
const MAX_MESSAGES = 200;
const MAX_CHARACTERS = 2000;
/** Cached interactions: the next request of a conversation mostly needs the same ones. */
const MAX_CACHED = 32;

/**
 * Cache of conversations for prompts: parsing a large body takes long. The cache does not retain bodies; the messages
 * of a body are dropped with it.
 */
export class ConversationCache {
  readonly #interactions: Pick<InteractionStore, 'history'>;
  readonly #others: OtherConversations | undefined;
  readonly #messages = new WeakMap<StoredBody, readonly RequestMessage[]>();
  /** Bodies with cached messages, least recently used first. */
  #used: readonly WeakRef<StoredBody>[] = [];

  /** `others`: what other replicas have recorded. */
  constructor(interactions: Pick<InteractionStore, 'history'>, others?: OtherConversations) {
    this.#interactions = interactions;
    this.#others = others;
  }

  /**
   * Returns the messages of the latest ten interactions of a conversation, oldest first; an interaction without text has an empty
   * list. Includes the newest 200 messages of an interaction, each with its first 2000 characters, and names what was left out.
   * Parses one large body per turn of the event loop.
   */
  async latest(conversationId: string): Promise<readonly (readonly RequestMessage[])[]> {
    const own = (id: string) => this.latestHere(id);
    const found = this.#others ? await this.#others.latest(conversationId, own) : await own(conversationId);
    return found.slice(-MAX_INTERACTIONS).map(({ messages }) => messages);
  }

  /** The same interactions of those that this process has recorded. */
  async latestHere(conversationId: string): Promise<readonly RecordedMessages<RequestMessage>[]> {
    const conversation: RecordedMessages<RequestMessage>[] = [];
    const throttle = new ReadThrottle();
    for (const interaction of this.#interactions.history(conversationId, MAX_INTERACTIONS)) {
      const known = storedOf(interaction.request);
      if (known && !this.#messages.has(known)) await throttle.beforeRead(known.bytes.length);
      // The store may have dropped it in the meantime.
      const { request } = interaction;
      conversation.push({ epochMs: interaction.epochMs, messages: this.#messagesOf(request) });
    }
    return conversation;
  }

  #messagesOf(request: RecordedBody): readonly RequestMessage[] {
    const body = storedOf(request);
    if (body === undefined) return [];
    const messages = this.#messages.get(body) ?? newest(parseMessages(request));
    this.#messages.set(body, messages);
    const others = this.#used.filter((ref) => {
      const used = ref.deref();
      return used !== undefined && used !== body;
    });
    const oldest = others.length === MAX_CACHED ? others.shift()?.deref() : undefined;
    if (oldest) this.#messages.delete(oldest);
    this.#used = [...others, new WeakRef(body)];
    return messages;
  }
}

/** Copies, because a slice of a string retains the whole string. */
function newest(messages: readonly RequestMessage[]): readonly RequestMessage[] {
  const truncated = messages.slice(-MAX_MESSAGES).map(({ role, content, ...omitted }) => ({
    role: role.slice(0, MAX_CHARACTERS),
    content: content.slice(0, MAX_CHARACTERS),
    ...omitted,
  }));
  const left = messages.length - truncated.length;
  return structuredClone(left === 0 ? truncated : [earlierMessages(left), ...truncated]);
}

/** Maximum length of a conversation for an action, whose memory could not hold more. */
const MAX_HISTORY_CHARACTERS = 32 * 1024 * 1024;
/** Bodies that are parsed for one run: as many bytes as the store can have. */
const MAX_READ_BYTES = 256 * 1024 * 1024;

/**
 * Creates the host function `get-history` for one run. It returns all messages of a conversation, oldest first, as JSON of
 * `HistoryMessage[]`; `[]` for an unknown conversation. Parses one large body per turn of the event loop. Throws the reason of
 * the signal if it aborts, and `ActionFailure` for more than 32 MiB of messages or for more than 256 MiB of bodies in one run.
 * `others`: what other replicas have recorded.
 */
export function historyReader(
  interactions: Pick<InteractionStore, 'history'>,
  others?: OtherConversations,
): HostFunctions['history'] {
  const read = conversationReader(interactions);
  return async (conversationId, signal) => {
    const own = (id: string) => read(id, signal);
    const found = others ? await others.whole(conversationId, own) : await own(conversationId);
    const pieces = found.flatMap(({ messages }) => messages);
    requireRoom(pieces.reduce((length, piece) => length + piece.length, 0));
    return `[${pieces.join(',')}]`;
  };
}

/**
 * Returns a function that reads whole conversations of those that this process has recorded, within the limits of one run: the
 * messages of each interaction, as JSON. It throws as {@link historyReader}.
 */
export function conversationReader(interactions: Pick<InteractionStore, 'history'>) {
  let readBytes = 0;
  return async (conversationId: string, signal?: AbortSignal): Promise<readonly RecordedMessages<string>[]> => {
    const conversation: RecordedMessages<string>[] = [];
    let length = 0;
    const throttle = new ReadThrottle();
    for (const interaction of interactions.history(conversationId, Number.POSITIVE_INFINITY)) {
      await throttle.beforeRead(storedOf(interaction.request)?.bytes.length ?? 0);
      signal?.throwIfAborted();
      // The store may have dropped it in the meantime.
      const { request } = interaction;
      readBytes += storedOf(request)?.bytes.length ?? 0;
      if (readBytes > MAX_READ_BYTES)
        throw new ActionFailure('limit', `more than ${MAX_READ_BYTES / 1024 ** 2} MiB of conversations in one run`);
      const messages = parseMessages(request).flatMap(({ role, content }) =>
        content === '' ? [] : JSON.stringify({ role, content } satisfies HistoryMessage),
      );
      for (const message of messages) length += message.length;
      conversation.push({ epochMs: interaction.epochMs, messages });
      requireRoom(length);
    }
    return conversation;
  };
}

/** Throws if a conversation of this many characters exceeds the memory of an action. */
function requireRoom(length: number): void {
  if (length <= MAX_HISTORY_CHARACTERS) return;
  throw new ActionFailure('memory', `the conversation exceeds ${MAX_HISTORY_CHARACTERS / 1024 ** 2} MiB`);
}
