import { isJsonObject, type JsonObject, type JsonValue } from '@sluice/protocol/json/parse';

/** Maximum number of cached links of one forward, and maximum length of a cached URI. */
const MAX_LINKS = 1_000;
const MAX_URI = 4096;

/**
 * Cache of which forward sent a link to a resource: its URI may be in no list, and only that forward can read it. Contains the
 * newest links of each forward. A URI that several forwards sent belongs to the first of them while it is cached: one upstream
 * must not take over another's. Lost at restart; then only a namespace with a single forward that offers resources still finds
 * it.
 */
export class ResourceLinkCache {
  readonly #limit: number;
  readonly #isRegistered: (forward: string) => boolean;
  readonly #senders = new Map<string, string>();
  /** Links of each forward, the newest last. */
  readonly #links = new Map<string, Set<string>>();

  /** `isRegistered`: whether a forward exists. `limit`: maximum number of links of one forward. */
  constructor(isRegistered: (forward: string) => boolean, limit: number = MAX_LINKS) {
    this.#isRegistered = isRegistered;
    this.#limit = limit;
  }

  /** Records the links in a JSON-RPC response of a forward: in the content of tool results and in the messages of prompts. */
  record(namespace: string, forward: string, { result }: JsonObject): void {
    if (!isJsonObject(result)) return;
    const { content, messages } = result;
    this.#recordAll(namespace, forward, content);
    if (!Array.isArray(messages)) return;
    for (const message of messages) if (isJsonObject(message)) this.#recordAll(namespace, forward, message.content);
  }

  /** Returns the forward that sent a link to this URI in this namespace; undefined if none is cached. */
  find(namespace: string, uri: string): string | undefined {
    const sender = this.#senders.get(keyOf(namespace, uri));
    return sender !== undefined && this.#isRegistered(sender) ? sender : undefined;
  }

  #recordAll(namespace: string, forward: string, content: JsonValue | undefined): void {
    for (const block of Array.isArray(content) ? content : [content]) {
      if (!isJsonObject(block) || block.type !== 'resource_link') continue;
      const { uri } = block;
      if (typeof uri === 'string' && uri.length <= MAX_URI) this.#add(keyOf(namespace, uri), forward);
    }
  }

  #add(key: string, forward: string): void {
    const sender = this.#senders.get(key);
    if (sender !== undefined && sender !== forward) {
      if (this.#isRegistered(sender)) return;
      this.#removeForward(sender);
    }
    this.#senders.set(key, forward);
    const links = this.#links.getOrInsertComputed(forward, () => new Set());
    links.delete(key);
    links.add(key);
    const [oldest = ''] = links;
    if (links.size <= this.#limit) return;
    links.delete(oldest);
    this.#senders.delete(oldest);
  }

  #removeForward(forward: string): void {
    for (const key of this.#links.get(forward) ?? []) this.#senders.delete(key);
    this.#links.delete(forward);
  }
}

/** Names of namespaces contain no line break. */
function keyOf(namespace: string, uri: string): string {
  return `${namespace}\n${uri}`;
}
