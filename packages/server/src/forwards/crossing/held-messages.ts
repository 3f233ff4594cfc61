import { isJsonObject, tryParseJson } from '@sluice/protocol/json/parse';
import { reachesLevel, requestedLevel } from '@sluice/protocol/mcp/capabilities';
import { INTERNAL_ERROR } from '@sluice/protocol/mcp/constants';
import { progressTokenText, type RequestMessage, withId, withParam } from '@sluice/protocol/mcp/message';
import type { CallAnswer } from '../../answer/call-answer.ts';
import type { RpcError } from '../../answer/rpc-error.ts';

/** A complete response, as {@link CallAnswer} takes it. */
export type Response = Parameters<CallAnswer['response']>;

const TOO_MUCH: RpcError = {
  code: INTERNAL_ERROR,
  message: 'the upstream answered with more than can be held for a client that is not there',
};

/** What has come of a parked call since its client was answered, until the client is back. */
export class HeldMessages {
  /** Whether there is room for so many characters more. */
  readonly #admits: (characters: number) => boolean;
  #characters = 0;
  #notifications: string[] = [];
  #response: Response | undefined = undefined;
  #error: readonly [RpcError, number?] | undefined = undefined;

  constructor(admits: (characters: number) => boolean) {
    this.#admits = admits;
  }

  /** True when the call is over. */
  get complete(): boolean {
    return this.#response !== undefined || this.#error !== undefined;
  }

  /** The length of what is held. */
  get characters(): number {
    return this.#characters;
  }

  /** A notification that there is no room for is lost. */
  notification(text: string): void {
    if (!this.#admits(text.length)) return;
    this.#notifications.push(text);
    this.#characters += text.length;
  }

  /** A response that there is no room for becomes an error. */
  response(...response: Response): void {
    const [{ length }] = response;
    if (!this.#admits(length)) {
      this.#error = [TOO_MUCH];
      return;
    }
    this.#response = response;
    this.#characters += length;
  }

  error(...error: readonly [RpcError, number?]): void {
    this.#error = error;
  }

  /** Gives a client that is back what has come. False when it reads too slowly to be sent more. */
  release(client: CallAnswer, retry: RequestMessage): boolean {
    let reads = true;
    this.#characters = 0;
    for (const held of this.#notifications.splice(0)) {
      const notification = wantedBy(retry, held);
      if (notification === undefined) continue;
      if (!client.streaming) client.beginStream();
      reads = client.event(notification);
    }
    if (this.#error) client.error(...this.#error);
    else if (this.#response) {
      const [text, ...rest] = this.#response;
      client.response(withId(text, client.idText), ...rest);
    }
    return reads;
  }
}

/**
 * A notification that has waited for the client, as its retry is to have it: progress under the retry's own token, log
 * messages from the level on that it asks for. Undefined when it asks for none of that.
 */
function wantedBy(retry: RequestMessage, notification: string): string | undefined {
  const value = tryParseJson(notification);
  if (!isJsonObject(value)) return undefined;
  if (value.method === 'notifications/progress') {
    const token = progressTokenText(retry.text);
    return token && withParam(notification, 'progressToken', token);
  }
  const level = requestedLevel(retry);
  return level !== undefined && reachesLevel(value.params, level) ? notification : undefined;
}
