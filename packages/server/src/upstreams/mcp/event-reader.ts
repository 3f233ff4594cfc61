import { isJsonObject, type JsonObject, tryParseJson } from '@sluice/protocol/json/parse';
import { type EventSink, EventStreamDecoder, type ServerSentEvent } from '@sluice/protocol/mcp/event-stream';
import { detach } from '@sluice/protocol/text';
import { isResponseTo, largeContent, messagesIn, TooLargeError } from './received-messages.ts';
import { LargeMessage } from './relay/large-message.ts';
import type { ReadRequest, RpcResponseHandler } from './response-handler.ts';

/**
 * Reads the messages of an event stream until the response to the request: that one is stored here, all others are passed to the
 * handler. Events that are not JSON-RPC are skipped. Reading throws {@link TooLargeError}, and what the handler throws.
 */
export class EventReader implements EventSink {
  /** Nothing more is read. */
  isDone = false;
  /** The response: its text, or a large one; undefined if the handler has taken it. */
  content: string | LargeMessage | undefined = undefined;
  /** The response, parsed, or its known members. */
  value: JsonObject | undefined = undefined;
  /** The upstream has sent a message before the response. */
  hasMessages = false;
  /** The first event that was skipped. */
  skipped: string | undefined = undefined;
  readonly #request: ReadRequest;
  readonly #handler: RpcResponseHandler;
  readonly #decoder: EventStreamDecoder;
  /** Set while a large event arrives. */
  #large: LargeMessage | undefined = undefined;

  constructor(request: ReadRequest, handler: RpcResponseHandler) {
    this.#request = request;
    this.#handler = handler;
    this.#decoder = new EventStreamDecoder(this, request.maxBytes);
  }

  /** Reads the next bytes of the stream. */
  write(chunk: Buffer): void {
    this.#decoder.write(chunk);
  }

  /** Ends reading, also of the bytes that are being read. */
  stop(): void {
    this.isDone = true;
    this.#large = undefined;
    this.#decoder.stop();
  }

  onEvent({ data, id, retry }: ServerSentEvent): void {
    // A stream may begin with an event that only carries an id to resume from.
    if (data !== '') this.#takeData(data, tryParseJson(data));
    this.#takeCursor(id, retry);
  }

  onLargeData(bytes: Buffer): void {
    this.#handler.onActivity?.();
    this.#large ??= new LargeMessage();
    this.#large.write(bytes);
    this.#handler.large?.onPart(this.#large);
  }

  onLargeEvent({ id, retry }: Omit<ServerSentEvent, 'data'>): void {
    const large = this.#large;
    if (!large) return;
    this.#large = undefined;
    const received = largeContent(large, this.#handler.large);
    if (!received) return this.stop();
    const { content, value } = received;
    if (typeof content === 'string') this.#takeData(content, value);
    else if (isJsonObject(value) && isResponseTo(this.#request.id, value)) this.#end(content, value);
    this.#takeCursor(id, retry);
  }

  onEventError({ message }: Error): void {
    throw new TooLargeError(`too much: ${message}`);
  }

  #takeCursor(id: string | undefined, retry: number | undefined): void {
    if ((id !== undefined || retry !== undefined) && !this.isDone) this.#handler.onCursor?.(id, retry);
  }

  #takeData(data: string, value: unknown): void {
    if (!Array.isArray(value)) return this.#takeMessage(data, value);
    for (const [text, message] of messagesIn(data, value)) {
      if (this.isDone) break;
      this.#takeMessage(text, message);
    }
  }

  #takeMessage(text: string, value: unknown): void {
    if (isJsonObject(value) && typeof value.method === 'string') {
      this.hasMessages = true;
      this.#handler.onMessage?.(text, value);
    } else if (isJsonObject(value) && isResponseTo(this.#request.id, value)) {
      this.#handler.onActivity?.();
      this.#end(text, value);
    } else this.skipped ??= isJsonObject(value) ? Object.keys(value).join(', ') : detach(text.slice(0, 100));
  }

  #end(content: string | LargeMessage, value: JsonObject): void {
    this.content = content;
    this.value = value;
    this.stop();
  }
}
