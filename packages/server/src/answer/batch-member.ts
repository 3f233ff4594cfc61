import { EventEmitter } from 'node:events';
import { memberText } from '@sluice/protocol/json/scan';
import { INTERNAL_ERROR } from '@sluice/protocol/mcp/constants';
import { EventStreamDecoder } from '@sluice/protocol/mcp/event-stream';
import { ByteCollector } from '../bytes/collector.ts';
import type { AnswerTarget } from './answer-target.ts';
import type { BatchAnswer } from './batch-answer.ts';
import { ClientAnswer, INTERNAL } from './client-answer.ts';

/** The message that a member answers. */
export interface MemberRequest {
  /** JSON text of its id, `null` when it has none; asked for when it is needed. */
  readonly idText: string;
}

/**
 * The place of one message's answer in the answer to its batch: takes the HTTP answer that the message would have got
 * alone, and passes on what JSON-RPC messages are in it. Its status and headers have no place there.
 */
export class BatchMember extends EventEmitter implements AnswerTarget {
  headersSent = false;
  writableEnded = false;
  readonly #batch: BatchAnswer;
  readonly #request: MemberRequest;
  #status = 0;
  #type: string | undefined = undefined;
  #body = new ByteCollector();
  /** Set where this is an event stream, and the client reads none. */
  #decoder: EventStreamDecoder | undefined = undefined;

  constructor(batch: BatchAnswer, request: MemberRequest) {
    super();
    this.#batch = batch;
    this.#request = request;
  }

  /** True when the client has left. */
  get destroyed(): boolean {
    return this.#batch.destroyed;
  }

  /** Of the answer that the message would have had alone; 0 as long as it has none. */
  get status(): number {
    return this.#status;
  }

  writeHead(status: number, headers: readonly string[]): void {
    this.headersSent = true;
    this.#status = status;
    this.#type = contentType(headers);
    if (this.#type !== 'text/event-stream' || this.#batch.streams) return;
    this.#decoder = new EventStreamDecoder({
      onEvent: ({ data }) => this.#response(data),
      onEventError: () => this.destroy(),
    });
  }

  write(chunk: Buffer | string): boolean {
    if (this.writableEnded) return true;
    if (this.#type === 'text/event-stream' && !this.#decoder) return this.#batch.events(chunk);
    const bytes = typeof chunk === 'string' ? Buffer.from(chunk) : chunk;
    if (this.#decoder) this.#decoder.write(bytes);
    else this.#body.push(bytes);
    return true;
  }

  end(chunk?: Buffer | string): void {
    if (this.writableEnded) return;
    if (chunk !== undefined && chunk.length > 0) this.write(chunk);
    if (this.#type !== 'text/event-stream' && !this.#finishBody()) return;
    this.writableEnded = true;
    this.#batch.ended();
  }

  /** Answers come out whole or not at all: there is nothing to hold together. */
  cork(): void {}

  /** Nothing goes out of an answer that broke off, and the others go on: the client is told in its stead. */
  destroy(): void {
    this.#fail(INTERNAL.message);
  }

  /** False where what there is of a body is nothing to pass on, and an error took its place. */
  #finishBody(): boolean {
    const text = this.#body.take().toString('utf8');
    if (this.#type === 'application/json') {
      this.#batch.message(text, this.#status);
      return true;
    }
    if (this.#status < 300) return true;
    this.#fail(`answered with HTTP ${this.#status}`);
    return false;
  }

  /** Of an event's message, what an array of responses may hold. */
  #response(data: string): void {
    if (memberText(data, 'method') === undefined) this.#batch.message(data, this.#status);
  }

  #fail(message: string): void {
    if (this.writableEnded) return;
    this.#decoder?.stop();
    this.#decoder = undefined;
    this.#body = new ByteCollector();
    const { idText } = this.#request;
    new ClientAnswer(this, [], idText).error({ code: INTERNAL_ERROR, message }, Math.max(this.#status, 400));
  }
}

/** Of headers in the order name, value, name, value. */
function contentType(headers: readonly string[]): string | undefined {
  const name = headers.findIndex((header, at) => at % 2 === 0 && header.toLowerCase() === 'content-type');
  return name === -1 ? undefined : headers[name + 1]?.split(';')[0];
}
