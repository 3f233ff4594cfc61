import { isJsonObject, parseJson, tryParseJson } from '@sluice/protocol/json/parse';
import { elements } from '@sluice/protocol/json/scan';
import { HEADER_SESSION_ID } from '@sluice/protocol/mcp/constants';
import {
  type EventSink,
  EventStreamDecoder,
  type EventTooLargeError,
  type ServerSentEvent,
} from '@sluice/protocol/mcp/event-stream';
import type { ResponseHandler, ResponseHeaders, UpstreamCall, UpstreamTransport } from '../../http/client/client.ts';
import { quoted, UpstreamError } from '../../http/client/errors.ts';

/** Names and values, alternating, that every POST of a message to an upstream carries (mcp 1). */
export const MESSAGE_HEADERS: readonly string[] = [
  'Content-Type',
  'application/json',
  'Accept',
  'application/json, text/event-stream',
];

/** The media type of a response without parameters, lower case; empty when there is none. */
export function contentType(headers: ResponseHeaders): string {
  const value = headers['content-type'];
  // The two spellings that nearly every answer has cost nothing.
  if (value === 'application/json' || value === 'text/event-stream') return value;
  return typeof value === 'string' ? (value.split(';', 1)[0] ?? '').trim().toLowerCase() : '';
}

/**
 * True for the statuses that say nothing about what a server speaks: 401, 403, 429 and 5xx (mcp 4). Whatever stands in
 * front of a server sends them as well.
 */
export function isInconclusive(status: number): boolean {
  return status >= 500 || status === 401 || status === 403 || status === 429;
}

/** One JSON-RPC message to send and what to wait for. */
export interface ExchangeRequest {
  /** The message's exact text. */
  readonly message: string;
  /** Its id; absent for a notification, which any success status answers. */
  readonly id?: string | number;
  /** Header names and values, alternating; `content-type` and `accept` are added. */
  readonly headers: string[];
  /** Milliseconds for the whole exchange. */
  readonly timeoutMs: number;
  /** Ends the exchange; a reason that is an {@link UpstreamError} is what it fails with. */
  readonly signal?: AbortSignal | undefined;
}

/** A JSON-RPC response: what of it was parsed, beside its exact text. */
export type RpcOutcome =
  | { readonly kind: 'result'; readonly result: unknown }
  | { readonly kind: 'error'; readonly code: number; readonly message: string; readonly data: unknown };

export interface ExchangeAnswer {
  readonly status: number;
  /** Value of `Mcp-Session-Id`. */
  readonly sessionId: string | undefined;
  /** Exact text of the JSON-RPC response, from a JSON body or an event stream; absent for a notification. */
  readonly response?: string;
  /** The same, parsed. */
  readonly outcome?: RpcOutcome;
}

/** Bound on the bytes of an answer (decisions 8). */
const MAX_BYTES = 64 * 1024 * 1024;
/** An error's body is read for the sentence in it, no further. */
const MAX_ERROR_BYTES = 64 * 1024;
/** How long a stream may stay open after the answer, so that its connection can be used again. */
const LINGER_MS = 1_000;

/**
 * Sends one JSON-RPC message and resolves with the answer: the promise form of the transport, for everything but calls
 * (discovery, health, opening and closing sessions). Requests of the server met on the way stay unanswered.
 *
 * A response with an HTTP error status resolves too when its body is a JSON-RPC error: statuses of the modern era (mcp
 * 1). Rejects with an {@link UpstreamError}, `http` for 401, 403, 429, 5xx and error statuses without JSON-RPC.
 * `maxBytes` is for tests.
 */
export function exchange(
  transport: UpstreamTransport,
  request: ExchangeRequest,
  maxBytes: number = MAX_BYTES,
): Promise<ExchangeAnswer> {
  return new Promise((resolve, reject) => {
    new Exchange(transport.address, request, maxBytes, resolve, reject).start(transport);
  });
}

class Exchange implements ResponseHandler, EventSink {
  readonly #address: string;
  readonly #request: ExchangeRequest;
  readonly #maxBytes: number;
  readonly #resolve: (answer: ExchangeAnswer) => void;
  readonly #reject: (error: UpstreamError) => void;
  #call: UpstreamCall | undefined = undefined;
  #timer: NodeJS.Timeout | undefined = undefined;
  #settled = false;
  #status = 0;
  #headers: ResponseHeaders = {};
  #decoder: EventStreamDecoder | undefined = undefined;
  #chunks: Buffer[] = [];
  #bytes = 0;
  readonly #onAbort = () => this.#fail(abortion(this.#address, this.#request.signal?.reason));

  constructor(
    address: string,
    request: ExchangeRequest,
    maxBytes: number,
    resolve: (answer: ExchangeAnswer) => void,
    reject: (error: UpstreamError) => void,
  ) {
    this.#address = address;
    this.#request = request;
    this.#maxBytes = maxBytes;
    this.#resolve = resolve;
    this.#reject = reject;
  }

  start(transport: UpstreamTransport): void {
    const { message, headers, timeoutMs, signal } = this.#request;
    if (signal?.aborted === true) {
      this.#onAbort();
      return;
    }
    signal?.addEventListener('abort', this.#onAbort);
    this.#timer = setTimeout(() => {
      this.#fail(new UpstreamError('timeout', this.#address, `did not answer within ${timeoutMs / 1000} s`));
    }, timeoutMs);
    this.#call = transport.dispatch({ method: 'POST', headers: [...MESSAGE_HEADERS, ...headers], body: message }, this);
  }

  onHead(status: number, headers: ResponseHeaders): void {
    this.#status = status;
    this.#headers = headers;
    if (this.#request.id !== undefined && status < 300 && contentType(headers) === 'text/event-stream') {
      this.#decoder = new EventStreamDecoder(this, this.#maxBytes);
    }
  }

  onData(chunk: Buffer): boolean {
    if (this.#settled) return true;
    this.#bytes += chunk.length;
    if (this.#status >= 300 && this.#bytes > MAX_ERROR_BYTES) {
      this.#finish();
      this.#call?.abort();
    } else if (this.#bytes > this.#maxBytes) {
      this.#tooLarge();
    } else if (this.#decoder !== undefined) {
      this.#decoder.write(chunk);
    } else {
      this.#chunks.push(chunk);
    }
    return true;
  }

  onEnd(): void {
    if (this.#settled) clearTimeout(this.#timer);
    else this.#finish();
  }

  onError(error: UpstreamError): void {
    if (this.#settled) clearTimeout(this.#timer);
    else this.#fail(error);
  }

  onEvent(event: ServerSentEvent): void {
    // Streams may begin with an event that carries an id and nothing else, to resume from.
    if (event.data === '') return;
    let value: unknown;
    try {
      value = parseJson(event.data);
    } catch (cause) {
      this.#fail(new UpstreamError('invalid', this.#address, 'sent an event that is not JSON', { cause }));
      return;
    }
    if (Array.isArray(value)) {
      // Version 2025-03-26 may answer in arrays.
      let index = 0;
      for (const { start, end } of elements(event.data)) {
        this.#message(event.data.slice(start, end), value[index++]);
        if (this.#settled) return;
      }
    } else {
      this.#message(event.data, value);
    }
  }

  onEventError(_error: EventTooLargeError): void {
    this.#tooLarge();
  }

  #message(text: string, value: unknown): void {
    const outcome = readResponse(value, this.#request.id);
    // Notifications, and requests that nobody here can answer, pass by.
    if (outcome !== undefined) this.#answer(text, outcome);
  }

  /** The body is here as far as it matters, and no event of it was the answer. */
  #finish(): void {
    const status = this.#status;
    if (this.#decoder !== undefined) {
      this.#fail(new UpstreamError('dropped', this.#address, 'ended the event stream before the answer', { status }));
      return;
    }
    const text = Buffer.concat(this.#chunks).toString('utf8');
    const value = tryParseJson(text);
    if (status >= 300) {
      this.#httpError(text, value);
      return;
    }
    if (this.#request.id === undefined) {
      this.#settle();
      this.#resolve({ status, sessionId: sessionId(this.#headers) });
      return;
    }
    const outcome = readResponse(value, this.#request.id) ?? readAnonymousError(value);
    if (outcome !== undefined) {
      this.#answer(text, outcome);
      return;
    }
    const type = contentType(this.#headers);
    let what = 'answered with JSON that is not the JSON-RPC response to the request';
    if (text.trim() === '') what = `accepted the request without answering it (HTTP ${status})`;
    else if (value !== undefined) what = `${what} (HTTP ${status})`;
    else if (type === 'application/json') what = `answered with text that is not JSON (HTTP ${status})`;
    else what = `answered with ${type === '' ? 'no content type' : quoted(type)} where JSON or an event stream was due`;
    this.#fail(new UpstreamError('invalid', this.#address, what, { status }));
  }

  #httpError(text: string, value: unknown): void {
    const status = this.#status;
    const outcome = readResponse(value, this.#request.id) ?? readAnonymousError(value);
    if (!isInconclusive(status) && outcome?.kind === 'error') {
      this.#answer(text, outcome);
      return;
    }
    const said = outcome?.kind === 'error' && outcome.message !== '' ? `: ${quoted(outcome.message)}` : '';
    this.#fail(new UpstreamError('http', this.#address, `answered with HTTP ${status}${said}`, { status }));
  }

  #answer(response: string, outcome: RpcOutcome): void {
    const status = this.#status;
    this.#settle();
    this.#decoder?.stop();
    if (this.#decoder !== undefined) this.#timer = setTimeout(() => this.#call?.abort(), LINGER_MS).unref();
    this.#resolve({ status, sessionId: sessionId(this.#headers), response, outcome });
  }

  #fail(error: UpstreamError): void {
    if (this.#settled) return;
    this.#settle();
    this.#call?.abort();
    this.#reject(error);
  }

  #tooLarge(): void {
    const limit = `${this.#maxBytes} bytes`;
    this.#fail(
      new UpstreamError('too-large', this.#address, `answered with more than ${limit}`, { status: this.#status }),
    );
  }

  #settle(): void {
    this.#settled = true;
    this.#chunks = [];
    clearTimeout(this.#timer);
    this.#request.signal?.removeEventListener('abort', this.#onAbort);
  }
}

/** The outcome when `value` is the response with this id. */
function readResponse(value: unknown, id: string | number | undefined): RpcOutcome | undefined {
  if (!isJsonObject(value) || id === undefined || value.id !== id || 'method' in value) return undefined;
  if ('result' in value) return { kind: 'result', result: value.result };
  return readError(value.error);
}

/** The outcome when `value` is an error response without an id, as servers send that could not read the request. */
function readAnonymousError(value: unknown): RpcOutcome | undefined {
  if (!isJsonObject(value) || (value.id ?? null) !== null || 'method' in value) return undefined;
  return readError(value.error);
}

function readError(error: unknown): RpcOutcome | undefined {
  if (!isJsonObject(error) || typeof error.code !== 'number') return undefined;
  const message = typeof error.message === 'string' ? error.message : '';
  return { kind: 'error', code: error.code, message, data: error.data };
}

function abortion(address: string, reason: unknown): UpstreamError {
  if (reason instanceof UpstreamError) return reason;
  return new UpstreamError('aborted', address, 'was not waited for: the request was ended', { cause: reason });
}

function sessionId(headers: ResponseHeaders): string | undefined {
  const value = headers[HEADER_SESSION_ID];
  return typeof value === 'string' && value !== '' ? value : undefined;
}

/** An upstream that does not take a message of ours in this time does not get it. */
const TIMEOUT_MS = 5_000;

/**
 * Sends an upstream a message that needs no answer: a notification, or the client's answer to a question. Resolves when
 * the upstream has taken it, rejects with `UpstreamError`. `headers` are those of the link it goes over.
 */
export async function postMessage(
  transport: UpstreamTransport,
  headers: readonly string[],
  message: string,
): Promise<void> {
  const { status } = await exchange(transport, { message, headers: [...headers], timeoutMs: TIMEOUT_MS });
  // A JSON-RPC error is an answer too, and does not reject by itself.
  if (status < 300) return;
  throw new UpstreamError('http', transport.address, `answered with HTTP ${status}`, { status });
}
