import { EventEmitter } from 'node:events';
import { ChunkBuffer } from '@sluice/protocol/chunk-buffer';
import { memberText } from '@sluice/protocol/json/text';
import { acceptsEventStream } from '@sluice/protocol/mcp/accept';
import { INTERNAL_ERROR } from '@sluice/protocol/mcp/constants';
import { EventStreamDecoder, encodeMessage } from '@sluice/protocol/mcp/event-stream';
import type { Batch } from '@sluice/protocol/mcp/message';
import type { ResponseLike } from '../http/exchange.ts';
import type { RequestTelemetry } from '../telemetry/request-telemetry.ts';
import { McpExchange } from './exchange.ts';
import { type OpenResponses, OpenWriter } from './open-responses.ts';
import { INTERNAL, ResponseWriter } from './response.ts';
import { EVENT_END, EVENT_START, toSingleLine } from './response-stream.ts';

/** The message of a batch that a member responds to; its id is computed on demand. */
type MemberRequest = Pick<McpExchange, 'idText'>;

/**
 * Part of one message in the response to its batch: receives the HTTP response of a single message and forwards its
 * JSON-RPC messages, without status and headers.
 */
export class BatchMember extends EventEmitter implements ResponseLike {
  headersSent = false;
  writableEnded = false;
  /** Status of the message's own response; 0 until there is one. */
  status = 0;
  readonly #batch: BatchResponse;
  readonly #request: MemberRequest;
  #type: string | undefined = undefined;
  /** Body of a response that is no stream, or the begin of an event. */
  #body = new ChunkBuffer();
  /** Set if this is an event stream and the client accepts none. */
  #decoder: EventStreamDecoder | undefined = undefined;

  constructor(batch: BatchResponse, request: MemberRequest) {
    super();
    this.#batch = batch;
    this.#request = request;
  }

  /** True if the client has disconnected. */
  get destroyed(): boolean {
    return this.#batch.target.destroyed;
  }

  writeHead(status: number, headers: readonly string[]): void {
    this.headersSent = true;
    this.status = status;
    this.#type = contentType(headers);
    if (this.#type !== 'text/event-stream' || this.#batch.streams) return;
    this.#decoder = new EventStreamDecoder({
      onEvent: ({ data }) => this.#forwardResponse(data),
      onEventError: () => this.destroy(),
    });
  }

  write(chunk: Buffer | string): boolean {
    if (this.writableEnded) return true;
    const isEvents = this.#type === 'text/event-stream' && !this.#decoder;
    if (isEvents && this.#body.length === 0 && endsEvent(chunk)) return this.#batch.sendEvents([chunk]);
    const bytes = typeof chunk === 'string' ? Buffer.from(chunk) : chunk;
    if (this.#decoder) this.#decoder.write(bytes);
    else this.#body.push(bytes);
    // The others send between two events, but not in one whose parts are sent while they arrive.
    if (isEvents && endsEvent(chunk)) return this.#batch.sendEvents(this.#takeBody().chunks);
    return !this.#batch.isBlocked;
  }

  end(chunk?: Buffer | string): void {
    if (this.writableEnded) return;
    if (chunk !== undefined && chunk.length > 0) this.write(chunk);
    if (!this.#finishBody()) return;
    this.writableEnded = true;
    this.#batch.onMemberEnded();
  }

  /** Responses are forwarded whole, so corking has no effect. */
  cork(): void {}

  uncork(): void {}

  /** Replaces an incomplete response by an error; the other messages are not affected. */
  destroy(): void {
    this.#fail(INTERNAL.message);
  }

  /** Forwards the body. False if it was replaced by an error. */
  #finishBody(): boolean {
    const body = this.#takeBody();
    if (this.#type === 'text/event-stream') {
      const isWhole = body.length === 0 || body.toAscii(body.length - EVENT_END.length) === EVENT_END;
      if (!isWhole) this.#fail(INTERNAL.message);
      else if (body.length > 0) this.#batch.sendEvents(body.chunks);
      return isWhole;
    }
    if (this.#type === 'application/json') {
      this.#batch.sendMessage(body.length > MAX_TEXT_BYTES ? body : body.concat().toString('utf8'), this.status);
      return true;
    }
    if (this.status < 300) return true;
    this.#fail(`answered with HTTP ${this.status}`);
    return false;
  }

  #takeBody(): ChunkBuffer {
    const body = this.#body;
    this.#body = new ChunkBuffer();
    return body;
  }

  /** Forwards a message if it is a response; an array may contain nothing else. */
  #forwardResponse(data: string): void {
    if (memberText(data, 'method') === undefined) this.#batch.sendMessage(data, this.status);
  }

  #fail(message: string): void {
    if (this.writableEnded) return;
    this.#decoder?.stop();
    this.#decoder = undefined;
    this.#takeBody();
    const { idText } = this.#request;
    new ResponseWriter(this, [], idText).sendError({ code: INTERNAL_ERROR, message }, Math.max(this.status, 400));
  }
}

function endsEvent(chunk: Buffer | string): boolean {
  return typeof chunk === 'string' ? chunk.endsWith(EVENT_END) : chunk.includes(EVENT_END, -EVENT_END.length);
}

/** `headers`: names and values, alternating. */
function contentType(headers: readonly string[]): string | undefined {
  const name = headers.findIndex((header, at) => at % 2 === 0 && header.toLowerCase() === 'content-type');
  return name === -1 ? undefined : headers[name + 1]?.split(';')[0];
}

/** Longer messages, such as lists, are the same bytes for all clients, and so are sent without a text of their own. */
const MAX_TEXT_BYTES = 4 * 1024;

/** Properties of a batch that are known before it is served. */
export interface BatchResponseOptions extends Pick<Batch, 'hasRequests'> {
  /** Number of messages in the batch. */
  readonly size: number;
  /** True if the client accepts event streams. */
  readonly streams: boolean;
}

/**
 * Response to a batch (2025-03-26, "Sending Messages to the Server"), combined from the responses of its members:
 *
 * - 202 without a body if no member has a message
 * - else, with requests in the batch, HTTP 200: an event stream with the messages of all members, or an array of the
 *   responses for a client that accepts no streams
 * - else an array of the errors of notifications and responses, with the HTTP status of the first one (400 if it had none)
 *
 * Messages are sent as soon as they arrive and the client has read those before; none is buffered until another member has
 * ended. The response is complete when all members have ended.
 */
export class BatchResponse {
  readonly target: ResponseLike;
  readonly #client: ResponseWriter;
  readonly #hasRequests: boolean;
  readonly #members: BatchMember[] = [];
  /** True if members share an event stream, false if they share an array. */
  readonly streams: boolean;
  #open: number;
  #hasBegun = false;
  /** What is sent once the client has read what was written: in parts as they are, or a message. */
  #unsent: (readonly (Buffer | string)[] | ChunkBuffer)[] = [];
  /** The client reads too slowly. */
  #isFull = false;
  #onUnblocked: (() => void) | undefined = undefined;

  /** `headers` are those of every response to this request. */
  constructor(target: ResponseLike, headers: readonly string[], { size, hasRequests, streams }: BatchResponseOptions) {
    this.target = target;
    this.#client = new ResponseWriter(target, headers, 'null');
    this.#hasRequests = hasRequests;
    this.#open = size;
    this.streams = hasRequests && streams;
    target.on('close', () => this.#onClose());
    target.on('drain', () => this.#onDrain());
  }

  /** Begins the stream if there is no message for a while, and sends comments. The batch arrived at `startedAt`. */
  keepOpen(responses: OpenResponses, startedAt: number): void {
    if (this.streams) responses.add(new OpenWriter(responses, this.#client), startedAt);
  }

  /** Returns the part of the next message. */
  addMember(request: MemberRequest): BatchMember {
    const member = new BatchMember(this, request);
    this.#members.push(member);
    return member;
  }

  /** True while the client reads too slowly; false again if it has disconnected. */
  get isBlocked(): boolean {
    return this.#isFull && !this.target.destroyed;
  }

  /** Calls back once the client has read what was written, or has disconnected. There is one listener at a time. */
  onceUnblocked(listener: () => void): void {
    this.#onUnblocked = listener;
  }

  /** Sends a message of a member with this HTTP status. */
  sendMessage(message: string | ChunkBuffer, status: number): void {
    const separator = this.#hasBegun ? ',' : '[';
    this.#begin(status);
    const isText = typeof message === 'string';
    if (this.streams) this.#send(isText ? [encodeMessage(message)] : message);
    else this.#send(isText ? [separator + message] : [separator, ...message.chunks]);
  }

  /** Sends whole events of a member's stream. False if the client reads too slowly. */
  sendEvents(chunks: readonly (Buffer | string)[]): boolean {
    this.#begin(200);
    return this.#send(chunks);
  }

  onMemberEnded(): void {
    this.#open--;
    this.#endIfComplete();
  }

  #endIfComplete(): void {
    if (this.#open > 0 || this.#unsent.length > 0 || this.target.writableEnded) return;
    if (this.#client.stream) this.target.end();
    else if (!this.#hasBegun) this.#client.sendPlain(202);
    else this.target.end(']');
  }

  /** Messages of other members may already wait. */
  #send(data: readonly (Buffer | string)[] | ChunkBuffer): boolean {
    if (this.isBlocked) this.#unsent.push(data);
    else this.#isFull = !this.#write(data);
    return !this.#isFull;
  }

  /** Nothing else is written between the parts, such as a comment. */
  #write(data: readonly (Buffer | string)[] | ChunkBuffer): boolean {
    const { target } = this;
    let keepsUp = true;
    if (!(data instanceof ChunkBuffer)) {
      for (const part of data) keepsUp = target.write(part);
      return keepsUp;
    }
    target.write(EVENT_START);
    for (const chunk of data.chunks) target.write(toSingleLine(chunk));
    return target.write(EVENT_END);
  }

  #onDrain(): void {
    this.#isFull = false;
    while (!this.#isFull && this.#unsent.length > 0) this.#isFull = !this.#write(this.#unsent.shift() ?? []);
    if (this.#isFull) return;
    this.#endIfComplete();
    this.#emit('drain');
    if (!this.#isFull) this.#unblock();
  }

  #onClose(): void {
    this.#unsent = [];
    this.#emit('close');
    this.#unblock();
  }

  #unblock(): void {
    const listener = this.#onUnblocked;
    this.#onUnblocked = undefined;
    listener?.();
  }

  #begin(status: number): void {
    if (this.#hasBegun) return;
    this.#hasBegun = true;
    if (this.streams) this.#client.startStream();
    else this.#client.startJson(this.#hasRequests ? 200 : Math.max(status, 400), undefined);
  }

  #emit(event: 'close' | 'drain'): void {
    for (const member of this.#members) member.emit(event);
  }
}

/** Length of the messages that are parsed in one turn of the event loop. */
const TURN_CHARACTERS = 128 * 1024;

/** Dependencies of {@link serveBatch}. */
export interface BatchParts {
  readonly openResponses: OpenResponses | undefined;
  readonly telemetry: Pick<RequestTelemetry, 'begin' | 'end'>;
  /** Runs the filter chain for one message and writes the outcome to its response. */
  serve(member: McpExchange): void;
}

/**
 * Serves a batch (2025-03-26, "Batching"): each message runs through the whole filter chain, as if it had been sent on its own
 * with the headers of the batch, so that no evaluator is bypassed. Messages start in their order; none waits for another, but
 * large ones are parsed in turns of their own, and none starts while the client does not read. If it disconnects, the others
 * start too: for a client of this era that is no cancellation. `exchange` is that of the batch.
 */
export function serveBatch(exchange: McpExchange, batch: Batch, parts: BatchParts): void {
  const { messages } = batch;
  // Parsing the batch took the time of this turn.
  const isLarge = messages.reduce((sum, { length }) => sum + length, 0) > TURN_CHARACTERS;
  if (isLarge) setImmediate(() => startBatch(exchange, batch, parts));
  else startBatch(exchange, batch, parts);
}

/** Creates the exchange of one message of a batch, as if it had been sent on its own. */
function memberOf({ head, request, response, authenticated, path, headers }: McpExchange, text: string): McpExchange {
  const member = new McpExchange({ ...head, inBatch: true, startedAt: performance.now() }, request, response);
  member.authenticated = authenticated;
  member.path = path;
  member.query = '';
  member.headers = headers;
  member.body = ChunkBuffer.of(Buffer.from(text));
  return member;
}

function startBatch(exchange: McpExchange, { messages, hasRequests }: Batch, parts: BatchParts): void {
  const { head, headers, response, responseHeaders } = exchange;
  const { openResponses, telemetry, serve } = parts;
  const result = new BatchResponse(response, responseHeaders, {
    size: messages.length,
    hasRequests,
    streams: acceptsEventStream(headers.accept),
  });
  if (openResponses) result.keepOpen(openResponses, head.startedAt);
  const startMember = (text: string): void => {
    const member = memberOf(exchange, text);
    const part = result.addMember(member);
    member.response = part;
    telemetry.begin(member);
    part.once('close', () => telemetry.end(member, { status: part.status, isComplete: part.writableEnded }));
    serve(member);
    // `close` of the batch was emitted before.
    if (part.destroyed) process.nextTick(() => part.emit('close'));
  };
  const start = (first: number): void => {
    let characters = 0;
    for (let at = first; at < messages.length; at++) {
      if (exchange.request.isRevoked) return;
      if (result.isBlocked) return result.onceUnblocked(() => start(at));
      const text = messages[at] ?? '';
      characters += text.length;
      if (at > first && characters > TURN_CHARACTERS) return void setImmediate(() => start(at));
      startMember(text);
    }
  };
  // As did finding the requests of a large one.
  if ((messages[0]?.length ?? 0) > TURN_CHARACTERS) setImmediate(() => start(0));
  else start(0);
}
