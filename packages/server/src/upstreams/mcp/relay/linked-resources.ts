import { isJsonObject, type JsonObject, type JsonValue } from '@sluice/protocol/json/parse';

/** Links of one forward that are remembered, and how long a uri may be that is. */
const MAX_LINKS = 1_000;
const MAX_URI = 4096;

/**
 * Which forward sent a link to a resource: its uri may stand in no list, and only that forward can know it (mcp 6).
 * Remembers the newest ones of each forward. A uri that several sent stays with the first of them for as long as it
 * remembers it: one upstream must not take another's over. Lost at restart, when the only forward of a namespace that
 * offers resources is still asked.
 */
export class ResourceLinkCache {
  readonly #limit: number;
  readonly #registered: (forward: string) => boolean;
  readonly #senders = new Map<string, string>();
  /** The links of each forward, the newest last. */
  readonly #links = new Map<string, Set<string>>();

  /** `registered`: whether there is such a forward. `limit`: how many links of one are remembered. */
  constructor(registered: (forward: string) => boolean, limit: number = MAX_LINKS) {
    this.#registered = registered;
    this.#limit = limit;
  }

  /** Takes in a JSON-RPC response of a forward's: the content of tool results, and the messages of prompts. */
  learn(namespace: string, forward: string, { result }: JsonObject): void {
    if (!isJsonObject(result)) return;
    const { content, messages } = result;
    this.#learnAll(namespace, forward, content);
    if (!Array.isArray(messages)) return;
    for (const message of messages) if (isJsonObject(message)) this.#learnAll(namespace, forward, message.content);
  }

  /** The forward that sent a link to this uri in this namespace; undefined when none did, or long ago. */
  find(namespace: string, uri: string): string | undefined {
    const sender = this.#senders.get(keyOf(namespace, uri));
    return sender !== undefined && this.#registered(sender) ? sender : undefined;
  }

  #learnAll(namespace: string, forward: string, content: JsonValue | undefined): void {
    for (const block of Array.isArray(content) ? content : [content]) {
      if (!isJsonObject(block) || block.type !== 'resource_link') continue;
      const { uri } = block;
      if (typeof uri === 'string' && uri.length <= MAX_URI) this.#remember(keyOf(namespace, uri), forward);
    }
  }

  #remember(key: string, forward: string): void {
    const sender = this.#senders.get(key);
    if (sender !== undefined && sender !== forward) {
      if (this.#registered(sender)) return;
      this.#forget(sender);
    }
    this.#senders.set(key, forward);
    const links = this.#links.get(forward) ?? new Set();
    this.#links.set(forward, links);
    links.delete(key);
    links.add(key);
    if (links.size <= this.#limit) return;
    for (const oldest of links) {
      links.delete(oldest);
      this.#senders.delete(oldest);
      return;
    }
  }

  /** A forward is gone, and its links with it. */
  #forget(forward: string): void {
    for (const key of this.#links.get(forward) ?? []) this.#senders.delete(key);
    this.#links.delete(forward);
  }
}

/** No namespace's name has a line break. */
function keyOf(namespace: string, uri: string): string {
  return `${namespace}\n${uri}`;
}
