import { EventEmitter } from 'node:events';
import { ChunkBuffer } from '@sluice/protocol/chunk-buffer';
import { memberText } from '@sluice/protocol/json/text';
import { acceptsEventStream } from '@sluice/protocol/mcp/accept';
import { INTERNAL_ERROR } from '@sluice/protocol/mcp/constants';
import { EventStreamDecoder } from '@sluice/protocol/mcp/event-stream';
import type { Batch } from '@sluice/protocol/mcp/message';
import type { ResponseLike } from '../http/exchange.ts';
import type { RequestTelemetry } from '../telemetry/request-telemetry.ts';
import { McpExchange } from './exchange.ts';
import { type OpenResponses, OpenWriter } from './open-responses.ts';
import { INTERNAL, ResponseWriter } from './response.ts';

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
    if (this.#type === 'text/event-stream' && !this.#decoder) return this.#batch.sendEvents(chunk);
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
    const text = this.#body.concat().toString('utf8');
    if (this.#type === 'application/json') {
      this.#batch.sendMessage(text, this.status);
      return true;
    }
    if (this.status < 300) return true;
    this.#fail(`answered with HTTP ${this.status}`);
    return false;
  }

  /** Forwards a message if it is a response; an array may contain nothing else. */
  #forwardResponse(data: string): void {
    if (memberText(data, 'method') === undefined) this.#batch.sendMessage(data, this.status);
  }

  #fail(message: string): void {
    if (this.writableEnded) return;
    this.#decoder?.stop();
    this.#decoder = undefined;
    this.#body = new ChunkBuffer();
    const { idText } = this.#request;
    new ResponseWriter(this, [], idText).sendError({ code: INTERNAL_ERROR, message }, Math.max(this.status, 400));
  }
}

/** `headers`: names and values, alternating. */
function contentType(headers: readonly string[]): string | undefined {
  const name = headers.findIndex((header, at) => at % 2 === 0 && header.toLowerCase() === 'content-type');
  return name === -1 ? undefined : headers[name + 1]?.split(';')[0];
}

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
 * Messages are sent as soon as they arrive; none is buffered until another member has ended. The response is complete when
 * all members have ended.
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

  /** `headers` are those of every response to this request. */
  constructor(target: ResponseLike, headers: readonly string[], { size, hasRequests, streams }: BatchResponseOptions) {
    this.target = target;
    this.#client = new ResponseWriter(target, headers, 'null');
    this.#hasRequests = hasRequests;
    this.#open = size;
    this.streams = hasRequests && streams;
    target.on('close', () => this.#emit('close'));
    target.on('drain', () => this.#emit('drain'));
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

  /** Sends a message of a member with this HTTP status. False if the client reads too slowly. */
  sendMessage(text: string, status: number): boolean {
    const first = !this.#hasBegun;
    this.#begin(status);
    return this.#client.stream?.send(text) ?? this.target.write(`${first ? '[' : ','}${text}`);
  }

  /** Sends whole events of a member's stream. False if the client reads too slowly. */
  sendEvents(chunk: Buffer | string): boolean {
    this.#begin(200);
    return this.target.write(chunk);
  }

  onMemberEnded(): void {
    if (--this.#open > 0) return;
    if (this.#client.stream) this.target.end();
    else if (!this.#hasBegun) this.#client.sendPlain(202);
    else this.target.end(']');
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
 * large ones are parsed in turns of their own. `exchange` is that of the batch.
 */
export function serveBatch(exchange: McpExchange, batch: Batch, parts: BatchParts): void {
  const { messages } = batch;
  // Parsing the batch took the time of this turn.
  const isLarge = messages.reduce((sum, { length }) => sum + length, 0) > TURN_CHARACTERS;
  if (isLarge) setImmediate(() => startBatch(exchange, batch, parts));
  else startBatch(exchange, batch, parts);
}

/** Creates the exchange of one message of a batch, as if it had been sent on its own. */
function memberOf({ head, request, response, principal, path, headers }: McpExchange, text: string): McpExchange {
  const member = new McpExchange({ ...head, inBatch: true, startedAt: performance.now() }, request, response);
  member.principal = principal;
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
  };
  const start = (first: number): void => {
    let characters = 0;
    for (let at = first; at < messages.length; at++) {
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
