import { isJsonObject, type JsonObject } from '@sluice/protocol/json/parse';
import type { ResponseBody, ResponseSink } from '../../response-sink.ts';
import { isSameId } from '../request-ids.ts';
import type { LargeMessage } from './large-message.ts';

/** What is known of a large response when it begins to arrive. */
export interface LargeResponse {
  /** Id of its request. */
  readonly id: number;
  /** Bytes of the content, if they are announced. */
  readonly contentLength: number | undefined;
  /** Maximum nesting of values. */
  readonly maxDepth: number;
}

/** Sends the client a large result while it arrives. Created with the first part of a large response. */
export class LargeRelay {
  readonly #large: LargeMessage;
  readonly #response: LargeResponse;
  readonly #sink: ResponseSink;
  #body: ResponseBody | undefined = undefined;

  constructor(large: LargeMessage, response: LargeResponse, sink: ResponseSink) {
    this.#large = large;
    this.#response = response;
    this.#sink = sink;
  }

  /** True once the result is being sent. */
  get hasBegun(): boolean {
    return this.#body !== undefined;
  }

  /** Begins to send the result, if it is known to be one and the sink takes parts. `isFirst`: its first part has arrived. */
  begin(isFirst: boolean): void {
    const { id, contentLength } = this.#response;
    if (!this.#large.isRelayable(id)) return;
    const length = contentLength && this.#large.lengthWithId(this.#sink.client.idText, contentLength);
    this.#body = this.#sink.startBody(length, isFirst);
  }

  /** Why the result cannot be completed. */
  get problem(): ReturnType<LargeMessage['problem']> {
    return this.#large.problem(this.#response.maxDepth);
  }

  /** Sends what has arrived; false if the client reads too slowly. */
  sendPart(): boolean {
    // With a length, the last part completes the response for its client: it is sent when all of it has been checked.
    return this.#large.length === this.#response.contentLength || this.send();
  }

  /** Drops what has arrived: the client has disconnected. */
  drop(): void {
    this.#large.take(this.#sink.client.idText).free();
  }

  /** The known members of the complete response; undefined if it is not the result of the request. */
  get result(): JsonObject | undefined {
    const { value } = this.#large;
    const isResult = isJsonObject(value) && !('error' in value) && isSameId(this.#response.id, value.id);
    return isResult ? value : undefined;
  }

  /** Sends what has arrived, once all of it was checked. False if the client reads too slowly. */
  send(): boolean {
    const { parts, free } = this.#large.take(this.#sink.client.idText);
    return parts.length === 0 || this.#body?.write(parts, free) === true;
  }
}
