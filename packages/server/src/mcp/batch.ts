import { EventEmitter } from 'node:events';
import { memberText } from '@sluice/protocol/json/scan';
import { INTERNAL_ERROR } from '@sluice/protocol/mcp/constants';
import { readsStreams } from '@sluice/protocol/mcp/era';
import { EventStreamDecoder } from '@sluice/protocol/mcp/event-stream';
import type { Batch } from '@sluice/protocol/mcp/message';
import { RequestContext, type ResponseLike } from '../http/context.ts';
import { ChunkBuffer } from '../http/request-body.ts';
import { INTERNAL, ResponseWriter } from './response.ts';

/** The message that a member answers. */
export interface MemberRequest {
  /** JSON text of its id, `null` when it has none; asked for when it is needed. */
  readonly idText: string;
}

/**
 * The place of one message's answer in the answer to its batch: takes the HTTP answer that the message would have got
 * alone, and passes on what JSON-RPC messages are in it. Its status and headers have no place there.
 */
export class BatchMember extends EventEmitter implements ResponseLike {
  headersSent = false;
  writableEnded = false;
  readonly #batch: BatchResponse;
  readonly #request: MemberRequest;
  #status = 0;
  #type: string | undefined = undefined;
  #body = new ChunkBuffer();
  /** Set where this is an event stream, and the client reads none. */
  #decoder: EventStreamDecoder | undefined = undefined;

  constructor(batch: BatchResponse, request: MemberRequest) {
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
    this.#body = new ChunkBuffer();
    const { idText } = this.#request;
    new ResponseWriter(this, [], idText).error({ code: INTERNAL_ERROR, message }, Math.max(this.#status, 400));
  }
}

/** Of headers in the order name, value, name, value. */
function contentType(headers: readonly string[]): string | undefined {
  const name = headers.findIndex((header, at) => at % 2 === 0 && header.toLowerCase() === 'content-type');
  return name === -1 ? undefined : headers[name + 1]?.split(';')[0];
}

/** What is known of a batch before anything of it runs. */
export interface BatchAnswerOptions {
  /** How many members the batch has. */
  readonly size: number;
  /** True when there are requests among them. */
  readonly asks: boolean;
  /** True when the client reads event streams. */
  readonly streams: boolean;
}

/**
 * The answer to a batch (2025-03-26, "Sending Messages to the Server"), made of what its members' answers are:
 *
 * - 202 without a body when there is nothing to say
 * - else, with requests in the batch, HTTP 200: an event stream that carries every member's messages, or for a client
 *   that reads none an array of the responses
 * - else an array of what is wrong with the notifications and responses, with the first one's HTTP status (400 where it
 *   had none)
 *
 * Everything is sent as soon as it is there: no member's answer waits in memory for another's. The answer is complete when
 * all members have ended.
 */
export class BatchResponse {
  readonly #target: ResponseLike;
  readonly #client: ResponseWriter;
  readonly #asks: boolean;
  readonly #members: BatchMember[] = [];
  /** True when members share an event stream, false when they share an array. */
  readonly streams: boolean;
  #open: number;
  #begun = false;

  /** `headers` are those of every answer to this request. */
  constructor(target: ResponseLike, headers: readonly string[], { size, asks, streams }: BatchAnswerOptions) {
    this.#target = target;
    this.#client = new ResponseWriter(target, headers, 'null');
    this.#asks = asks;
    this.#open = size;
    this.streams = asks && streams;
    target.on('close', () => this.#tell('close'));
    target.on('drain', () => this.#tell('drain'));
  }

  /** True when the client has left. */
  get destroyed(): boolean {
    return this.#target.destroyed;
  }

  /** The place of the next member's answer. */
  member(request: MemberRequest): BatchMember {
    const member = new BatchMember(this, request);
    this.#members.push(member);
    return member;
  }

  /** One message of a member that had this HTTP status. False when the client reads too slowly. */
  message(text: string, status: number): boolean {
    const first = !this.#begun;
    this.#begin(status);
    return this.streams ? this.#client.event(text) : this.#client.write(`${first ? '[' : ','}${text}`);
  }

  /** A piece of a member's event stream, whole events only. False when the client reads too slowly. */
  events(chunk: Buffer | string): boolean {
    this.#begin(200);
    return this.#client.write(chunk);
  }

  /** A member has ended. */
  ended(): void {
    if (--this.#open > 0) return;
    if (!this.#begun) this.#client.plain(202);
    else if (this.streams) this.#client.end();
    else this.#client.end(']');
  }

  #begin(status: number): void {
    if (this.#begun) return;
    this.#begun = true;
    if (this.streams) this.#client.beginStream();
    else this.#client.beginJson(this.#asks ? 200 : Math.max(status, 400), undefined);
  }

  #tell(event: 'close' | 'drain'): void {
    for (const member of this.#members) member.emit(event);
  }
}

/** Runs the chain for one message and writes the outcome to its target. */
type Serve = (context: RequestContext, target: ResponseLike) => void;

/**
 * Carries out a batch (2025-03-26, "Batching"; mcp 6): each message goes through the chain from its beginning, as if it
 * had come alone with the headers of the batch, so that nothing is judged less for being in one. They are begun in their
 * order and none waits for another. `context` is that of the batch as a whole.
 */
export function serveBatch(context: RequestContext, batch: Batch, response: ResponseLike, serve: Serve): void {
  const { method, path, headers, responseHeaders } = context;
  const { messages, asks } = batch;
  const answer = new BatchResponse(response, responseHeaders, {
    size: messages.length,
    asks,
    streams: readsStreams(headers.accept),
  });
  for (const text of messages) {
    const observation = context.observation?.member();
    const part = new RequestContext(method, path, headers, Buffer.from(text), observation, true);
    part.scheme = context.scheme;
    const member = answer.member(part);
    if (observation) member.once('close', () => observation.end(member.status, member.writableEnded));
    serve(part, member);
  }
}
