import { isJsonObject, type JsonValue } from '../json/lossless.ts';

/** Links that are remembered, and how long a uri may be that is. */
const MAX_LINKS = 10_000;
const MAX_URI = 4096;

/**
 * Which forward sent a link to a resource: its uri may stand in no list, and only that forward can know it (mcp 6).
 * Remembers the newest ones, of a uri that several sent the latest sender. Lost at restart, when the only forward of a
 * namespace that offers resources is still asked.
 */
export class LinkedResources {
  readonly #limit: number;
  readonly #senders = new Map<string, string>();

  /** `limit`: how many links are remembered. */
  constructor(limit: number = MAX_LINKS) {
    this.#limit = limit;
  }

  /**
   * Takes in what a forward answered: `text` is the JSON-RPC response, `value` the same text parsed. Reads the content
   * of tool results and the messages of prompts. An answer without links costs one search of the text.
   */
  learn(namespace: string, forward: string, text: string, value: unknown): void {
    if (!text.includes('"resource_link"') || !isJsonObject(value) || !isJsonObject(value.result)) return;
    const { content, messages } = value.result;
    this.#learnAll(namespace, forward, content);
    if (!Array.isArray(messages)) return;
    for (const message of messages) if (isJsonObject(message)) this.#learnAll(namespace, forward, message.content);
  }

  /** The forward that last sent a link to this uri in this namespace; undefined when none did, or long ago. */
  find(namespace: string, uri: string): string | undefined {
    return this.#senders.get(keyOf(namespace, uri));
  }

  #learnAll(namespace: string, forward: string, content: JsonValue | undefined): void {
    for (const block of Array.isArray(content) ? content : [content]) {
      if (!isJsonObject(block) || block.type !== 'resource_link') continue;
      const { uri } = block;
      if (typeof uri === 'string' && uri.length <= MAX_URI) this.#remember(keyOf(namespace, uri), forward);
    }
  }

  #remember(key: string, forward: string): void {
    // The newest stand last.
    this.#senders.delete(key);
    this.#senders.set(key, forward);
    if (this.#senders.size <= this.#limit) return;
    for (const oldest of this.#senders.keys()) {
      this.#senders.delete(oldest);
      return;
    }
  }
}

/** No namespace's name has a line break. */
function keyOf(namespace: string, uri: string): string {
  return `${namespace}\n${uri}`;
}
