import { members, memberText, removeAt, withMembers } from '@sluice/protocol/json/text';
import { parseRequest, type RequestMessage } from '@sluice/protocol/mcp/message';
import { detach } from '@sluice/protocol/text';
import { inputRequestsText } from '../era-translation/input-requests.ts';
import { RETRY_PARAMS } from '../relay/request-edits.ts';

/** Longest params of a call that can be repeated, and longest requests for input, in characters. */
const MAX_REQUEST_CHARACTERS = 1024 * 1024;
/** Maximum number of times that an upstream may require input. */
const MAX_ROUNDS = 100;

/** What a promoted call is repeated with if its upstream requires input: its params, and the input of its client. */
export class PromotedInput {
  /** Params of the first request, as JSON text. */
  readonly #params: string;
  #round = 0;
  /** Pending requests for input by the key that the client knows: the upstream's own key, and the request as JSON text. */
  readonly #pending = new Map<string, { readonly key: string; readonly text: string }>();
  /** Members of its `inputResponses`, and its `requestState`, as JSON text. */
  #responses: string[] = [];
  #requestState: string | undefined = undefined;

  private constructor(params: string) {
    this.#params = params;
  }

  /** Returns the input of a call; undefined if its params are too large. */
  static of({ text, bytes }: RequestMessage): PromotedInput | undefined {
    const params = (bytes ?? text).length <= MAX_REQUEST_CHARACTERS ? memberText(text, 'params') : undefined;
    if (params === undefined) return undefined;
    return new PromotedInput(detach(removeAt(params, [], (key) => RETRY_PARAMS.includes(key))));
  }

  /** Size of everything, in characters. */
  get size(): number {
    const requests = this.#pending.values().map(({ text }) => text);
    const texts = [this.#params, this.#requestState ?? '', ...this.#responses, ...this.#pending.keys(), ...requests];
    return texts.reduce((sum, { length }) => sum + length, 0);
  }

  /** Whether the upstream waits for no input. */
  get isComplete(): boolean {
    return this.#pending.size === 0;
  }

  /** The pending requests as member `inputRequests`, as JSON text. */
  get inputRequests(): string {
    return inputRequestsText(this.#pending.entries().map(([key, { text }]) => [key, text]));
  }

  /** The upstream requires input with this result. Returns why the call cannot go on. */
  require(result: string): string | undefined {
    const requests = memberText(result, 'inputRequests') ?? '{}';
    const requestState = memberText(result, 'requestState');
    if (++this.#round > MAX_ROUNDS) return `the upstream required input more than ${MAX_ROUNDS} times`;
    if (!requests.startsWith('{')) return 'the upstream sent inputRequests that are not an object';
    if (requests.length > MAX_REQUEST_CHARACTERS) return NO_ROOM;
    this.#requestState = requestState && detach(requestState);
    const own = detach(requests);
    for (const { key, start, end } of members(own)) {
      // Unique for the life of the task.
      const known = this.#round === 1 && !/#\d+$/.test(key) ? key : `${key}#${this.#round}`;
      this.#pending.set(known, { key, text: own.slice(start, end) });
    }
    return undefined;
  }

  /**
   * Takes the responses of the client, as an object in JSON text. Those under keys that are not pending are ignored. False if one is
   * not an object.
   */
  takeResponses(inputResponses: string): boolean {
    const given = [...members(inputResponses)].filter(({ key }) => this.#pending.has(key));
    if (given.some(({ start }) => inputResponses[start] !== '{')) return false;
    for (const { key, start, end } of given) {
      const input = this.#pending.get(key);
      // Of duplicates, the first one counts.
      if (!input || !this.#pending.delete(key)) continue;
      this.#responses.push(detach(`${JSON.stringify(input.key)}:${inputResponses.slice(start, end)}`));
    }
    return true;
  }

  /** Returns the request of the next round, with the responses, which are dropped here. */
  nextRequest(idText: string): RequestMessage {
    const more = [
      ...(this.#responses.length > 0 ? [`"inputResponses":{${this.#responses.join(',')}}`] : []),
      ...(this.#requestState === undefined ? [] : [`"requestState":${this.#requestState}`]),
    ].join(',');
    this.#responses = [];
    this.#requestState = undefined;
    const params = more === '' ? this.#params : withMembers(this.#params, more);
    return parseRequest(`{"jsonrpc":"2.0","id":${idText},"method":"tools/call","params":${params}}`);
  }
}

/** Why a task fails without memory for its requests for input. */
export const NO_ROOM = 'there is no room for its requests for input';
