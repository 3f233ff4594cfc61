import type { JsonObject, JsonValue } from '@sluice/protocol/json/parse';
import { findMembers, members, memberText } from '@sluice/protocol/json/text';
import { acceptsServerRequest } from '@sluice/protocol/mcp/capabilities';
import { withoutElicitationId } from '@sluice/protocol/mcp/era';
import type { RequestMessage } from '@sluice/protocol/mcp/message';
import { paramText } from '@sluice/protocol/mcp/message-text';

/** Maximum number of pending input requests of one call. */
const MAX_PENDING = 32;

/** A server request of a legacy upstream that waits for the input of the client. */
export interface InputRequest {
  /** As sent by the upstream. */
  readonly text: string;
  readonly method: string;
  readonly params: JsonValue | undefined;
}

/** Returns a server request of a legacy upstream as an input request. Some clients require `params`, which are optional. */
export function inputRequest(text: string, method: string): string {
  const params = memberText(text, 'params') ?? '{}';
  const sent = method === 'elicitation/create' ? withoutElicitationId(params) : params;
  return `{"method":${JSON.stringify(method)},"params":${sent}}`;
}

/** Returns the member `inputRequests` of a result: of requests by their keys, as JSON text. */
export function inputRequestsText(requests: Iterable<readonly [key: string, request: string]>): string {
  return `{${Array.from(requests, ([key, request]) => `${JSON.stringify(key)}:${request}`).join(',')}}`;
}

/** Server requests of a legacy upstream during a call, translated to the `inputRequests` of a modern result. */
export class InputRequests {
  /** By the key that the client responds under. */
  readonly #pending = new Map<string, InputRequest>();
  #lastKey = 0;

  get size(): number {
    return this.#pending.size;
  }

  /** Length of all pending requests. */
  get characters(): number {
    return this.#pending.values().reduce((sum, { text }) => sum + text.length, 0);
  }

  /** Returns false if too many requests are pending. */
  add(text: string, method: string, params: JsonValue | undefined): boolean {
    if (this.#pending.size >= MAX_PENDING) return false;
    this.#pending.set(`${method}#${++this.#lastKey}`, { text, method, params });
    return true;
  }

  /** The upstream canceled a request with this `notifications/cancelled`. */
  remove(text: string): void {
    const requestId = paramText(text, 'requestId');
    for (const [key, request] of this.#pending) if (idOf(request) === requestId) this.#pending.delete(key);
  }

  clear(): void {
    this.#pending.clear();
  }

  /** Returns the member `inputRequests` of a result, as JSON text. */
  toJson(): string {
    return inputRequestsText(
      this.#pending.entries().map(([key, { text, method }]) => [key, inputRequest(text, method)]),
    );
  }

  /**
   * Removes the requests that a retry contains input for and returns the responses for the upstream. Input that is not
   * an object, or under an unknown key, is ignored.
   */
  takeResponses({ text }: RequestMessage): string[] {
    const responses: string[] = [];
    for (const { start } of findMembers(text, ['params', 'inputResponses'])) {
      for (const { key, start: from, end } of members(text, start)) {
        const request = this.#pending.get(key);
        if (!request || text[from] !== '{') continue;
        this.#pending.delete(key);
        responses.push(`{"jsonrpc":"2.0","id":${idOf(request)},"result":${text.slice(from, end)}}`);
      }
    }
    return responses;
  }

  /** Removes and returns the requests that a client with these capabilities does not support. */
  takeUnsupported(capabilities: JsonObject): InputRequest[] {
    const unsupported: InputRequest[] = [];
    for (const [key, request] of this.#pending) {
      if (acceptsServerRequest(capabilities, request.method, request.params)) continue;
      this.#pending.delete(key);
      unsupported.push(request);
    }
    return unsupported;
  }
}

function idOf({ text }: InputRequest): string {
  return memberText(text, 'id') ?? 'null';
}
