import { STATUS_CODES } from 'node:http';
import type { Socket } from 'node:net';
import { type InputTurns, LARGE_INPUT_BYTES } from '../input-turns.ts';
import { copyOf, MalformedMessage, type MessageParser, type MessageSink } from '../message-parser.ts';
import { type AdmittedRequest, ServerRequest } from './request.ts';
import { createRequestParser, type RequestHead, type RequestParserOptions } from './request-parser.ts';
import { type ResponseConnection, type ResponseTurn, ServerResponse } from './response.ts';
import type { HeadEncoder } from './response-head.ts';

/** Creates headers and body of the response to a message that is not a request, or that is not supported. */
export type ErrorResponse = (
  message: string,
  request: {
    readonly status: RejectionStatus;
    /** Its `Origin`, as far as it was received. */
    readonly origin: string | undefined;
    /** Path and query of a request whose head was received. */
    readonly target: string | undefined;
  },
) => {
  /** Names and values, alternating. */
  readonly headers: readonly string[];
  readonly body: string;
};

type RejectionStatus = 400 | 401 | 403 | 408 | 431;

/** Settings of the connections of a server. */
export interface ConnectionSettings extends RequestParserOptions {
  /** Idle time after which a connection is closed, in milliseconds. */
  readonly keepAliveMs: number;
  /** Time in which a client must send the head of a request. */
  readonly headMs: number;
  /** Time in which a client must send a whole request; 0 for no limit. */
  readonly requestMs: number;
  /** Status of the response to CONNECT. */
  readonly connectStatus: 400 | 403;
  /** Text by default. */
  readonly errorResponse?: ErrorResponse | undefined;
}

const textResponse: ErrorResponse = (body) => ({ headers: ['Content-Type', 'text/plain'], body });

/** What the connections of a server share. */
export interface ConnectionOwner {
  readonly settings: ConnectionSettings;
  readonly heads: HeadEncoder;
  readonly turn: ResponseTurn;
  /** Shares the time for large requests among connections. */
  readonly turns: InputTurns;
  /** Responds to a request whose head was received, usually with the whole body. */
  serve(request: ServerRequest, response: ServerResponse): void;
  remove(connection: Connection): void;
}

/** Requests that a client sends before the response to an earlier one; it is not read any more from this size on. */
const MAX_PIPELINED_BYTES = 64 * 1024;
/** Time in which a client can read the last response before its connection is closed. */
const LINGER_MS = 2_000;

const EMPTY = Buffer.alloc(0);

/** Why a request is ended whose credential is not accepted any more. */
const REVOKED = 'the credential is not accepted any more';
/** Header of each 401 that the listener gives no other one. */
export const CHALLENGE: readonly string[] = ['WWW-Authenticate', 'Bearer error="invalid_token"'];

const ORIGIN = '\r\norigin:';

/** Returns the `Origin` in a head that cannot be parsed; undefined if its line is not complete. */
function originIn(head: string): string | undefined {
  const start = head.toLowerCase().indexOf(ORIGIN);
  const end = start === -1 ? -1 : head.indexOf('\r', start + ORIGIN.length);
  return end === -1 ? undefined : head.slice(start + ORIGIN.length, end).trim();
}

/**
 * A connection of a client. One request is served after another: the next one is parsed when the response is complete. A
 * client that ends its side has disconnected, as in node:http.
 */
export class Connection implements MessageSink<RequestHead>, ResponseConnection {
  readonly socket: Socket;
  readonly owner: ConnectionOwner;
  readonly #parser: MessageParser<RequestHead>;
  #request: ServerRequest | undefined = undefined;
  #response: ServerResponse | undefined = undefined;
  /** The request before, whose response the socket may still have. */
  #answered: AdmittedRequest | undefined = undefined;
  /** `request` has not been served yet. */
  #isNew = false;
  /** Received after the current request, or while the connection waits for a turn. */
  #pipelined: Buffer = EMPTY;
  /** It continues in a later turn, since others or its own input took the time of this one. */
  #waits = false;
  /** Nothing more is parsed. */
  #closing = false;
  #lingerTimer: NodeJS.Timeout | undefined = undefined;
  /** `performance.now()` when the connection became idle or began to receive a request. */
  #since = performance.now();
  /** A request is being received; the first one may begin at once. */
  #receives = true;

  constructor(socket: Socket, owner: ConnectionOwner) {
    this.socket = socket;
    this.owner = owner;
    this.#parser = createRequestParser(this, owner.settings);
    socket.on('end', () => this.#onEnd());
    socket.on('drain', () => this.#onDrain());
    // `close` follows.
    socket.on('error', () => undefined);
    socket.on('close', () => this.#onClose());
  }

  /** True while no request is being received or answered. */
  get isIdle(): boolean {
    return (
      this.socket.writableLength === 0 && (this.#closing || !(this.#request || this.#waits || this.#parser.hasBegun))
    );
  }

  /** Closes the connection if it has been idle for too long; responds with 408 if its client takes too long for a request. */
  checkTimeout(now: number): void {
    if (this.#closing) return;
    const { keepAliveMs, headMs, requestMs } = this.owner.settings;
    // The client is still reading a response.
    if (!this.#receives && this.socket.writableLength > 0) this.#since = now;
    const age = now - this.#since;
    if (!this.#receives) {
      if (!this.#request && age >= keepAliveMs) this.destroy();
    } else if ((!this.#parser.inBody && age >= headMs) || (requestMs > 0 && age >= requestMs)) {
      this.#reject(408, 'malformed request: Request Timeout');
    }
  }

  destroy(): void {
    this.socket.destroy();
  }

  /**
   * Ends the current request if it is rejected: with 401, or by closing the connection if its response has begun. Also closes it if
   * the response to a rejected request has not been sent as a whole.
   */
  revoke(isRejected: (request: AdmittedRequest) => boolean): void {
    const request = this.#request;
    const admitted = request?.admitted;
    if (request && admitted && isRejected(admitted)) {
      request.isRevoked = true;
      admitted.facts.rejected = true;
      admitted.facts.rejection = { evaluator: undefined, reason: REVOKED };
      if (this.#response?.headersSent) this.destroy();
      else this.#reject(401, REVOKED);
    } else if (this.#answered && this.socket.writableLength > 0 && isRejected(this.#answered)) this.destroy();
  }

  onHead(head: RequestHead): void {
    this.#request = new ServerRequest(head, this.socket);
    this.#response = new ServerResponse(this.#request, this);
    this.#isNew = true;
  }

  onBody(buffer: Buffer, start: number, end: number): void {
    this.#request?.body.push(copyOf(buffer, start, end));
  }

  onResponseEnd(keepsAlive: boolean): void {
    const body = this.#request?.body;
    if (!keepsAlive) this.#close();
    else if (body?.complete === true) this.#next();
    else body?.discardUnread();
  }

  /** Receives the first bytes of a buffer, in which others are received afterwards. */
  receive(buffer: Buffer, bytes: number): void {
    if (this.#closing) return;
    if (!this.#parser.done && this.#pipelined.length === 0 && this.#hasRoom) {
      if (bytes < LARGE_INPUT_BYTES) return this.#parse(buffer, bytes);
      const { turns } = this.owner;
      const begins = !this.#waits && turns.begin();
      if (begins) this.#parse(buffer, bytes);
      else this.#pipelined = copyOf(buffer, 0, bytes);
      if (!begins || (!this.#closing && this.#parser.inBody && turns.isOver)) this.#wait();
      return;
    }
    this.#pipelined = Buffer.concat([this.#pipelined, buffer.subarray(0, bytes)]);
    if (this.#pipelined.length >= MAX_PIPELINED_BYTES) this.socket.pause();
  }

  #wait(): void {
    this.socket.pause();
    if (this.#waits) return;
    this.#waits = true;
    this.owner.turns.wait(() => {
      if (!this.#waits) return;
      this.#parseWaiting();
      if (this.#closing || this.#request?.body.isFull !== true) this.socket.resume();
    });
  }

  /** Parses the input of this request that was received while the connection waited. */
  #parseWaiting(): void {
    this.#waits = false;
    if (this.#closing || this.#parser.done || this.#pipelined.length === 0) return;
    const waiting = this.#pipelined;
    this.#pipelined = EMPTY;
    this.#parse(waiting, waiting.length);
  }

  #parse(buffer: Buffer, bytes: number): void {
    let end: number;
    try {
      end = this.#parser.execute(buffer, 0, bytes);
    } catch (error) {
      if (!(error instanceof MalformedMessage)) throw error;
      const received = this.#parser.unparsed + buffer.toString('latin1', 0, bytes);
      const origin = this.#request ? undefined : originIn(received);
      return this.#reject(error.kind === 'too-large' ? 431 : 400, `malformed request: ${error.message}`, origin);
    }
    const request = this.#request;
    if (request === undefined) {
      // An empty line after a body begins nothing: the connection stays idle.
      if (!this.#receives && this.#parser.hasBegun) this.#begin();
      return;
    }
    if (this.#parser.done) {
      this.#receives = false;
      if (end < bytes) this.#pipelined = copyOf(buffer, end, bytes);
      request.body.finish();
      // From now on, reading only shows whether the client disconnects.
      if (this.socket.isPaused()) this.socket.resume();
    } else if (!this.#receives) {
      this.#begin();
    }
    if (this.#isNew) this.#serve(request);
    else if (request.body.complete && this.#response?.writableEnded === true) this.#next();
  }

  #begin(): void {
    this.#receives = true;
    this.#since = performance.now();
  }

  #serve(request: ServerRequest): void {
    this.#isNew = false;
    const response = this.#response;
    if (response === undefined || this.socket.writableEnded) return;
    if (request.method === 'CONNECT')
      return this.#reject(this.owner.settings.connectStatus, 'method CONNECT is not supported');
    if (request.head.expectsContinue) this.socket.write('HTTP/1.1 100 Continue\r\n\r\n', 'latin1');
    this.owner.serve(request, response);
  }

  /** Prepares for the next request. */
  #next(): void {
    // Not for as long as the connection is idle: it has the message.
    this.#answered = this.socket.writableLength > 0 ? this.#request?.admitted : undefined;
    this.#request = undefined;
    this.#response = undefined;
    this.#since = performance.now();
    this.#parser.reset();
    // In another turn, so that a client with many requests does not delay others.
    if (this.#pipelined.length > 0) setImmediate(() => this.#parsePipelined());
  }

  #parsePipelined(): void {
    if (this.socket.destroyed || this.#closing || this.#request || !this.#hasRoom) return;
    const pipelined = this.#pipelined;
    this.#pipelined = EMPTY;
    if (pipelined.length > 0) this.#parse(pipelined, pipelined.length);
    if (this.socket.isPaused()) this.socket.resume();
  }

  /** False while a client does not read its responses: the next request has to wait. */
  get #hasRoom(): boolean {
    return this.#request !== undefined || !this.socket.writableNeedDrain;
  }

  #onDrain(): void {
    this.#answered = undefined;
    this.#response?.uncork();
    this.#parsePipelined();
  }

  #onEnd(): void {
    if (this.#waits) this.#parseWaiting();
    if (this.#closing) return;
    if (this.#response?.writableEnded) this.#response.uncork();
    if (this.#parser.inBody || (this.#parser.hasBegun && !this.#parser.done))
      this.#reject(400, 'malformed request: incomplete');
    else this.socket.end();
  }

  /** Responds to bytes that are not a request, unless the client would take that for a part of another response. */
  #reject(status: RejectionStatus, message: string, origin = this.#request?.head.headers.origin): void {
    if (this.#response?.headersSent === true) return this.socket.destroySoon();
    const { errorResponse = textResponse } = this.owner.settings;
    const { headers, body } = errorResponse(message, { status, origin, target: this.#request?.url });
    const challenge = status === 401 && !headers.includes('WWW-Authenticate') ? CHALLENGE : [];
    const fields = [...headers, ...challenge, 'Content-Length', String(Buffer.byteLength(body)), 'Connection', 'close'];
    const lines = fields.map((text, at) => text + (at % 2 === 0 ? ': ' : '\r\n'));
    this.socket.write(`HTTP/1.1 ${status} ${STATUS_CODES[status]}\r\n${lines.join('')}\r\n${body}`);
    this.#close();
    if (this.#isNew) {
      this.#request = undefined;
      this.#response = undefined;
    }
    this.#abort(status === 401 ? status : undefined);
  }

  /** Closes the connection after the last response, so that a client that is still sending can read it. */
  #close(): void {
    this.#closing = true;
    this.#pipelined = EMPTY;
    this.socket.end(() => {
      this.#lingerTimer = setTimeout(() => this.destroy(), LINGER_MS);
    });
    if (this.socket.isPaused()) this.socket.resume();
  }

  #onClose(): void {
    clearTimeout(this.#lingerTimer);
    this.#closing = true;
    this.owner.remove(this);
    this.#abort();
  }

  /** `status` of the response that was sent in place of that of the request. */
  #abort(status?: number): void {
    const request = this.#request;
    const response = this.#response;
    this.#request = undefined;
    this.#response = undefined;
    this.#answered = undefined;
    if (!request) return;
    // What continues without its client does not retain what it has sent.
    request.admitted = undefined;
    request.body.abort();
    response?.close(status);
  }
}
