import type { StoredBody } from './body-capture.ts';

/** Records in the order in which they were put in; they leave in that order too. What has left costs nothing. */
export class RecordQueue<T> {
  #items: (T | undefined)[] = [];
  #start = 0;

  get length(): number {
    return this.#items.length - this.#start;
  }

  push(item: T): void {
    this.#items.push(item);
  }

  /** Takes the oldest out. */
  shift(): T | undefined {
    if (this.length === 0) return undefined;
    const item = this.#items[this.#start];
    this.#items[this.#start++] = undefined;
    // Moving the rest each time would cost as much as there is; this way it is once per record.
    if (this.#start * 2 > this.#items.length) {
      this.#items = this.#items.slice(this.#start);
      this.#start = 0;
    }
    return item;
  }

  /** The newest `count`, oldest first. */
  newest(count: number): T[] {
    return this.#items
      .slice(Math.max(this.#start, this.#items.length - count))
      .filter((item): item is T => item !== undefined);
  }
}

/** An interaction that may lose its bodies later. */
export class StoredInteraction implements Interaction {
  readonly epochMs: number;
  readonly path: string;
  readonly conversationId: string | undefined;
  readonly completionId: string | undefined;
  readonly model: string | undefined;
  readonly statusCode: number;
  readonly durationMs: number;
  #request: RecordedBody;
  #response: RecordedBody;

  constructor(interaction: Interaction) {
    this.epochMs = interaction.epochMs;
    this.path = interaction.path;
    this.conversationId = interaction.conversationId;
    this.completionId = interaction.completionId;
    this.model = interaction.model;
    this.statusCode = interaction.statusCode;
    this.durationMs = interaction.durationMs;
    this.#request = interaction.request;
    this.#response = interaction.response;
  }

  get request(): RecordedBody {
    return this.#request;
  }

  get response(): RecordedBody {
    return this.#response;
  }

  /** Bytes of both bodies. */
  get bodyBytes(): number {
    return bytesOf(this.#request) + bytesOf(this.#response);
  }

  /** Drops the bodies, and says of each that there was one. Returns how many bytes they had. */
  dropBodies(): number {
    const bytes = this.bodyBytes;
    this.#request = dropped(this.#request);
    this.#response = dropped(this.#response);
    return bytes;
  }
}

function bytesOf({ body }: RecordedBody): number {
  return body?.bytes.length ?? 0;
}

function dropped({ body, truncated }: RecordedBody): RecordedBody {
  return { body: undefined, truncated: truncated || body !== undefined };
}

const BODY_BYTES = 256 * 1024 * 1024;

/** Which interactions are asked for; all where nothing is said. */
export interface InteractionFilter {
  readonly conversationId?: string | undefined;
  readonly completionId?: string | undefined;
  /** Only as many, the newest. */
  readonly limit?: number | undefined;
}

/**
 * The latest interactions, in memory (decisions 2.9). When there are more than the capacity, the one that was recorded
 * first goes. When their bodies have more than 256 MiB together, those that were recorded first lose their bodies.
 */
export class InteractionStore {
  #capacity: number;
  readonly #mostBytes: number;
  #bytes = 0;
  #all = new RecordQueue<StoredInteraction>();
  /** Those that have bodies. */
  #withBodies = new RecordQueue<StoredInteraction>();
  readonly #conversations = new Map<string, RecordQueue<StoredInteraction>>();
  readonly #completions = new Map<string, StoredInteraction>();

  /** `mostBytes` of bodies are kept (default 256 MiB, decisions 8). */
  constructor(capacity: number, mostBytes: number = BODY_BYTES) {
    this.#capacity = capacity;
    this.#mostBytes = mostBytes;
  }

  /** How many are kept; 0 for none at all. */
  get capacity(): number {
    return this.#capacity;
  }

  /** Keeps as many from now on; those that are too many go at once. */
  set capacity(capacity: number) {
    this.#capacity = capacity;
    while (this.#all.length > capacity) this.#evict();
  }

  /** How many there are now. */
  get length(): number {
    return this.#all.length;
  }

  /** Bytes of their bodies together. */
  get bodyBytes(): number {
    return this.#bytes;
  }

  add(interaction: Interaction): void {
    if (this.#capacity === 0) return;
    while (this.#all.length >= this.#capacity) this.#evict();
    const stored = new StoredInteraction(interaction);
    this.#all.push(stored);
    if (stored.bodyBytes > 0) this.#withBodies.push(stored);
    this.#bytes += stored.bodyBytes;
    const { conversationId, completionId } = stored;
    if (conversationId !== undefined) this.#conversation(conversationId).push(stored);
    if (completionId !== undefined) this.#completions.set(completionId, stored);
    while (this.#bytes > this.#mostBytes) {
      const oldest = this.#withBodies.shift();
      if (oldest === undefined) return;
      this.#bytes -= oldest.dropBodies();
    }
  }

  /** Forgets all of them. */
  clear(): void {
    while (this.#all.length > 0) this.#evict();
  }

  /** Those asked for, in the order in which they arrived. */
  list({ conversationId, completionId, limit = this.#all.length }: InteractionFilter = {}): readonly Interaction[] {
    const candidates = conversationId === undefined ? this.#all : this.#conversations.get(conversationId);
    if (candidates === undefined) return [];
    const found =
      completionId === undefined
        ? candidates.newest(candidates.length)
        : candidates.newest(candidates.length).filter((each) => each.completionId === completionId);
    const inOrder = byArrival(found);
    return limit < inOrder.length ? inOrder.slice(inOrder.length - limit) : inOrder;
  }

  /**
   * The latest `count` interactions of a conversation, oldest first: those with this conversation id; where there are
   * none, the one with this completion id and those of its conversation (decisions 4.7, "History look-up").
   */
  history(id: string, count: number): readonly Interaction[] {
    const known = this.#conversations.get(id);
    if (known !== undefined) return byArrival(known.newest(count));
    const completion = this.#completions.get(id);
    if (completion === undefined) return [];
    const conversation = this.#conversations.get(completion.conversationId ?? '');
    return conversation === undefined ? [completion] : byArrival(conversation.newest(count));
  }

  /** The interaction with this completion id; of several the one recorded last. */
  completion(id: string): Interaction | undefined {
    return this.#completions.get(id);
  }

  #conversation(id: string): RecordQueue<StoredInteraction> {
    let queue = this.#conversations.get(id);
    if (queue === undefined) {
      queue = new RecordQueue();
      this.#conversations.set(id, queue);
    }
    return queue;
  }

  #evict(): void {
    const oldest = this.#all.shift();
    if (oldest === undefined) return;
    if (oldest.bodyBytes > 0) {
      this.#withBodies.shift();
      this.#bytes -= oldest.dropBodies();
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

/** Interactions are recorded when they end, so that some come behind others that arrived later. */
function byArrival(found: StoredInteraction[]): StoredInteraction[] {
  const inOrder = found.every((each, at) => at === 0 || each.epochMs >= (found[at - 1]?.epochMs ?? 0));
  return inOrder ? found : found.sort((a, b) => a.epochMs - b.epochMs);
}

/** A body of an exchange that is over. Undefined: there was none, or none that can be read. */
export interface RecordedBody {
  readonly body: StoredBody | undefined;
  /** Whether there was more of it than is kept. */
  readonly truncated: boolean;
}

/** One completion that was asked for, as it is recorded (decisions 2.9). */
export interface Interaction {
  /** When the request arrived. */
  readonly epochMs: number;
  /** Without query. */
  readonly path: string;
  readonly conversationId: string | undefined;
  readonly completionId: string | undefined;
  readonly model: string | undefined;
  /** 0 when the exchange ended before an answer began. */
  readonly statusCode: number;
  readonly durationMs: number;
  readonly request: RecordedBody;
  readonly response: RecordedBody;
}
