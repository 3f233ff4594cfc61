/** Stored body: UTF-8 in a buffer of its own, not a view of a larger one. */
export interface StoredBody {
  /** Whether the bytes are JSON; otherwise they are text. */
  readonly isJson: boolean;
  readonly bytes: Buffer;
}

/** Body of a completed exchange. */
export interface RecordedBody {
  /** Undefined if there was none, or none that can be decoded. */
  readonly body: StoredBody | undefined;
  /** Whether bytes were discarded. */
  readonly truncated: boolean;
  /** Of a truncated request, the text of its last messages: JSON of `RequestMessage[]`. */
  readonly outline?: StoredBody;
}

/** Recorded chat completion. */
export interface Interaction {
  /** Arrival time of the request. */
  readonly epochMs: number;
  /** Without the query. */
  readonly path: string;
  readonly conversationId: string | undefined;
  readonly completionId: string | undefined;
  readonly model: string | undefined;
  /** 0 if the exchange ended before a response began. */
  readonly statusCode: number;
  readonly durationMs: number;
  readonly request: RecordedBody;
  readonly response: RecordedBody;
}

/** Default limit of all stored bodies. */
const MAX_BODY_BYTES = 256 * 1024 * 1024;

/** Selects interactions; without members, all of them. */
export interface InteractionFilter {
  readonly conversationId?: string | undefined;
  readonly completionId?: string | undefined;
  /** Maximum number; the newest are returned. */
  readonly limit?: number | undefined;
}

/**
 * In-memory store of the latest interactions. Beyond the capacity the first recorded interaction is removed; beyond 256 MiB of
 * bodies the first recorded interactions lose their bodies.
 */
export class InteractionStore {
  /** Number of interactions that were recorded since the start. */
  recorded = 0;
  #capacity: number;
  readonly #maxBodyBytes: number;
  #bodyBytes = 0;
  #all = new RecordQueue<StoredInteraction>();
  #withBodies = new RecordQueue<StoredInteraction>();
  readonly #conversations = new Map<string, RecordQueue<StoredInteraction>>();
  readonly #completions = new Map<string, StoredInteraction>();

  constructor(capacity: number, maxBodyBytes: number = MAX_BODY_BYTES) {
    this.#capacity = capacity;
    this.#maxBodyBytes = maxBodyBytes;
  }

  /** Maximum number of interactions; 0 disables recording. */
  get capacity(): number {
    return this.#capacity;
  }

  /** Removes interactions beyond the new capacity at once. */
  set capacity(capacity: number) {
    this.#capacity = capacity;
    while (this.#all.length > capacity) this.#evict();
  }

  /** Number of stored interactions. */
  get length(): number {
    return this.#all.length;
  }

  /** Bytes of all stored bodies. */
  get bodyBytes(): number {
    return this.#bodyBytes;
  }

  add(interaction: Interaction): void {
    if (this.#capacity === 0) return;
    this.recorded++;
    while (this.#all.length >= this.#capacity) this.#evict();
    const stored: StoredInteraction = { ...interaction };
    const bytes = bodyBytesOf(stored);
    this.#all.push(stored);
    if (bytes > 0) this.#withBodies.push(stored);
    this.#bodyBytes += bytes;
    const { conversationId, completionId } = stored;
    if (conversationId !== undefined) {
      this.#conversations.getOrInsertComputed(conversationId, () => new RecordQueue()).push(stored);
    }
    if (completionId !== undefined) this.#completions.set(completionId, stored);
    while (this.#bodyBytes > this.#maxBodyBytes) {
      const oldest = this.#withBodies.shift();
      if (oldest === undefined) return;
      this.#bodyBytes -= dropBodies(oldest);
    }
  }

  /** Removes all interactions. */
  clear(): void {
    while (this.#all.length > 0) this.#evict();
  }

  /** Returns the selected interactions in order of arrival. */
  list({ conversationId, completionId, limit = this.#all.length }: InteractionFilter = {}): readonly Interaction[] {
    const candidates = conversationId === undefined ? this.#all : this.#conversations.get(conversationId);
    if (candidates === undefined) return [];
    const all = candidates.newest(candidates.length);
    const sorted = sortByArrival(
      completionId === undefined ? all : all.filter((each) => each.completionId === completionId),
    );
    return limit < sorted.length ? sorted.slice(sorted.length - limit) : sorted;
  }

  /**
   * Returns the latest `count` interactions of a conversation, oldest first: those with this conversation id, else the
   * conversation of the interaction with this completion id.
   */
  history(id: string, count: number): readonly Interaction[] {
    const known = this.#conversations.get(id);
    if (known !== undefined) return sortByArrival(known.newest(count));
    const completion = this.#completions.get(id);
    if (completion === undefined) return [];
    const conversation = this.#conversations.get(completion.conversationId ?? '');
    return conversation === undefined ? [completion] : sortByArrival(conversation.newest(count));
  }

  /** Returns the conversation whose interactions {@link history} returns; undefined if there is none. */
  conversationOf(id: string): string | undefined {
    return this.#conversations.has(id) ? id : this.#completions.get(id)?.conversationId;
  }

  /** Returns the interaction with this completion id; of several, the one recorded last. */
  completion(id: string): Interaction | undefined {
    return this.#completions.get(id);
  }

  #evict(): void {
    const oldest = this.#all.shift();
    if (oldest === undefined) return;
    if (bodyBytesOf(oldest) > 0) {
      this.#withBodies.shift();
      this.#bodyBytes -= dropBodies(oldest);
    }
    const { conversationId, completionId } = oldest;
    if (conversationId !== undefined) {
      const queue = this.#conversations.get(conversationId);
      queue?.shift();
      if (queue?.length === 0) this.#conversations.delete(conversationId);
    }
    if (completionId !== undefined && this.#completions.get(completionId) === oldest) {
      this.#completions.delete(completionId);
    }
  }
}

/** Interactions are recorded when they end, so some are stored after others that arrived later. */
function sortByArrival(found: StoredInteraction[]): StoredInteraction[] {
  const isSorted = found.every((each, at) => at === 0 || each.epochMs >= (found[at - 1]?.epochMs ?? 0));
  return isSorted ? found : found.sort((a, b) => a.epochMs - b.epochMs);
}

/** Interaction whose bodies can be dropped. */
interface StoredInteraction extends Interaction {
  request: RecordedBody;
  response: RecordedBody;
}

/** Bytes of both bodies. */
function bodyBytesOf({ request, response }: Interaction): number {
  return bytesOf(request) + bytesOf(response);
}

/** Drops both bodies and marks them as truncated; returns the number of bytes. */
function dropBodies(interaction: StoredInteraction): number {
  const bytes = bodyBytesOf(interaction);
  interaction.request = withoutBody(interaction.request);
  interaction.response = withoutBody(interaction.response);
  return bytes;
}

function bytesOf({ body, outline }: RecordedBody): number {
  return (body?.bytes.length ?? 0) + (outline?.bytes.length ?? 0);
}

function withoutBody({ body, truncated }: RecordedBody): RecordedBody {
  return { body: undefined, truncated: truncated || body !== undefined };
}

/** First-in, first-out queue; items that were removed cost nothing. */
export class RecordQueue<T> {
  #items: (T | undefined)[] = [];
  #start = 0;

  get length(): number {
    return this.#items.length - this.#start;
  }

  push(item: T): void {
    this.#items.push(item);
  }

  /** Removes and returns the oldest item. */
  shift(): T | undefined {
    if (this.length === 0) return undefined;
    const item = this.#items[this.#start];
    this.#items[this.#start++] = undefined;
    // Moving the remaining items on each call would be linear; this moves each item once on average.
    if (this.#start * 2 > this.#items.length) {
      this.#items = this.#items.slice(this.#start);
      this.#start = 0;
    }
    return item;
  }

  /** Returns the newest `count` items, oldest first. */
  newest(count: number): T[] {
    return this.#items
      .slice(Math.max(this.#start, this.#items.length - count))
      .filter((item): item is T => item !== undefined);
  }
}
