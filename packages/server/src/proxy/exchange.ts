import type { IncomingMessage } from 'node:http';
import type { AnswerTarget } from '../answer/answer-target.ts';
import type { PlainOutcome } from '../answer/outcome.ts';
import type {
  BodySink,
  RawHeaders,
  ResponseHandler,
  ResponseHeaders,
  StreamedBody,
  UpstreamCall,
  UpstreamTransport,
} from '../transport/transport.ts';
import type { UpstreamError } from '../transport/upstream-error.ts';
import { responseHeaders } from './end-to-end-headers.ts';

/** Is told what passes, after it has passed. Must not throw. */
export interface ExchangeWatch {
  requestData(chunk: Buffer): void;
  responseHead(status: number, headers: ResponseHeaders): void;
  responseData(chunk: Buffer): void;
  /** `complete`: the client was sent the whole answer of the upstream. */
  ended(complete: boolean): void;
}

/** One request that is sent on, as far as it is known before. */
export interface ExchangePlan {
  readonly transport: UpstreamTransport;
  /** Path and query at the upstream. */
  readonly path: string;
  /** Names and values, alternating, for the upstream. */
  readonly headers: readonly string[];
  /** Where it was read already; otherwise the request's own is sent as it comes. */
  readonly body: Buffer | undefined;
  /** Names and values, alternating, that the answer has besides the upstream's. */
  readonly answerHeaders: readonly string[];
  /** What the client is answered when the upstream gives no answer. */
  readonly failed: (error: UpstreamError) => PlainOutcome;
  readonly watch: ExchangeWatch | undefined;
}

/**
 * An HTTP request on its way through, both bodies as they come (decisions 4.6, 4.8): nothing of them is changed, and who
 * reads slowly slows the other side down. A client that leaves ends the request upstream.
 */
export class Exchange implements ResponseHandler, StreamedBody {
  readonly length: number | undefined;
  readonly #plan: ExchangePlan;
  readonly #request: IncomingMessage;
  readonly #response: AnswerTarget;
  readonly #watch: ExchangeWatch | undefined;
  #call: UpstreamCall | undefined = undefined;
  #begun = false;
  #over = false;

  constructor(plan: ExchangePlan, request: IncomingMessage, response: AnswerTarget) {
    this.#plan = plan;
    this.#request = request;
    this.#response = response;
    this.#watch = plan.watch;
    const { 'content-length': length } = request.headers;
    this.length = length === undefined ? undefined : Number(length);
  }

  /** Sends it. */
  run(): void {
    const { transport, path, headers, body } = this.#plan;
    this.#response.on('close', () => this.#left());
    const { method = 'GET' } = this.#request;
    const streamed = body ?? (this.#hasBody ? this : undefined);
    if (streamed === undefined) this.#request.resume();
    this.#call = transport.dispatch({ method, path, headers, ...(streamed !== undefined && { body: streamed }) }, this);
    if (body) this.#watch?.requestData(body);
  }

  get #hasBody(): boolean {
    return this.length !== undefined || this.#request.headers['transfer-encoding'] !== undefined;
  }

  start(sink: BodySink): void {
    const request = this.#request;
    request.on('data', (chunk: Buffer) => {
      if (!sink.write(chunk)) request.pause();
      this.#watch?.requestData(chunk);
    });
    request.on('end', () => sink.end());
    request.on('error', () => sink.fail());
  }

  resume(): void {
    this.#request.resume();
  }

  /** The rest of the body is read for nothing, so that the client comes to its answer. */
  stop(): void {
    this.#request.removeAllListeners('data').removeAllListeners('end').resume();
  }

  onHead(status: number, headers: ResponseHeaders, raw: RawHeaders): void {
    this.#begun = true;
    // A date that the upstream did not send is not its own.
    this.#response.sendDate = false;
    this.#response.writeHead(status, [...responseHeaders(raw), ...this.#plan.answerHeaders]);
    this.#watch?.responseHead(status, headers);
  }

  onData(chunk: Buffer): boolean {
    const room = this.#response.write(chunk);
    this.#watch?.responseData(chunk);
    if (!room) this.#response.once('drain', () => this.#call?.resume());
    return room;
  }

  onEnd(): void {
    this.#over = true;
    this.#response.end();
    this.#watch?.ended(true);
  }

  onError(error: UpstreamError): void {
    if (this.#over) return;
    this.#over = true;
    this.#watch?.ended(false);
    // Half an answer cannot be taken back: the connection says that it is one.
    if (this.#begun) return void this.#response.destroy();
    const { status, headers = [], body = '' } = this.#plan.failed(error);
    this.#watch?.responseHead(status, {});
    const length = ['Content-Length', String(Buffer.byteLength(body))];
    this.#response.writeHead(status, [...headers, ...length, ...this.#plan.answerHeaders]);
    this.#response.end(body);
  }

  #left(): void {
    if (this.#over || this.#response.writableEnded) return;
    this.#over = true;
    this.#call?.abort();
    this.#watch?.ended(false);
  }
}
