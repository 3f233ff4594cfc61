import type { JsonObject, JsonValue } from '@sluice/protocol/json/parse';
import { members, memberText } from '@sluice/protocol/json/scan';
import { answersQuestion } from '@sluice/protocol/mcp/capabilities';
import { withoutElicitationId } from '@sluice/protocol/mcp/era';
import { paramText, type RequestMessage } from '@sluice/protocol/mcp/message';

/** Questions that one call may have open at a time. */
const MAX_OPEN = 32;

/** One request of the upstream's that waits for the client's answer. */
export interface InputRequest {
  /** As the upstream wrote it. */
  readonly text: string;
  readonly method: string;
  readonly params: JsonValue | undefined;
}

/** What an upstream of the legacy era has asked in the middle of a call, in the form in which a modern client is asked. */
export class InputRequests {
  /** By the key that the client answers under. */
  readonly #open = new Map<string, InputRequest>();
  #count = 0;

  /** How many wait. */
  get size(): number {
    return this.#open.size;
  }

  /** The length of all that wait. */
  get characters(): number {
    return this.#open.values().reduce((sum, { text }) => sum + text.length, 0);
  }

  /** False when too many are open. */
  add(text: string, method: string, params: JsonValue | undefined): boolean {
    if (this.#open.size >= MAX_OPEN) return false;
    this.#open.set(`${method}#${++this.#count}`, { text, method, params });
    return true;
  }

  /** The upstream takes one back, in this `notifications/cancelled`. */
  takeBack(text: string): void {
    const requestId = paramText(text, 'requestId');
    for (const [key, request] of this.#open) if (idOf(request) === requestId) this.#open.delete(key);
  }

  clear(): void {
    this.#open.clear();
  }

  /** The member `inputRequests` of a result, as JSON text. */
  toJson(): string {
    const requests = [...this.#open].map(([key, { text, method }]) => {
      const params = memberText(text, 'params');
      const asked = params !== undefined && method === 'elicitation/create' ? withoutElicitationId(params) : params;
      return `${JSON.stringify(key)}:{"method":"${method}"${asked === undefined ? '' : `,"params":${asked}`}}`;
    });
    return `{${requests.join(',')}}`;
  }

  /**
   * Takes the answers of a retry out, as the responses that the upstream is to be sent; what the retry leaves out stays
   * open. Answers that are no objects, or to nothing that was asked, count for nothing.
   */
  answeredBy({ text, paramsRange }: RequestMessage): string[] {
    const responses: string[] = [];
    if (!paramsRange) return responses;
    for (const { key: member, start } of members(text, paramsRange.start)) {
      if (member !== 'inputResponses') continue;
      for (const { key, start: from, end } of members(text, start)) {
        const request = this.#open.get(key);
        if (!request || text[from] !== '{') continue;
        this.#open.delete(key);
        responses.push(`{"jsonrpc":"2.0","id":${idOf(request)},"result":${text.slice(from, end)}}`);
      }
    }
    return responses;
  }

  /** Takes out what a client with these capabilities cannot be asked. */
  beyond(capabilities: JsonObject): InputRequest[] {
    const refused: InputRequest[] = [];
    for (const [key, request] of this.#open) {
      if (answersQuestion(capabilities, request.method, request.params)) continue;
      this.#open.delete(key);
      refused.push(request);
    }
    return refused;
  }
}

function idOf({ text }: InputRequest): string {
  return memberText(text, 'id') ?? 'null';
}
