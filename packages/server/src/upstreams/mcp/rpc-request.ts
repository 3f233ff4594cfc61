import { randomFillSync } from 'node:crypto';
import { isJsonObject, parseJson, tryParseJson } from '@sluice/protocol/json/parse';
import { JsonScanner } from '@sluice/protocol/json/scanner';
import { elements } from '@sluice/protocol/json/text';
import { HEADER_SESSION_ID } from '@sluice/protocol/mcp/constants';
import {
  type EventSink,
  EventStreamDecoder,
  type EventTooLargeError,
  type ServerSentEvent,
} from '@sluice/protocol/mcp/event-stream';
import { rejectServerRequest } from '@sluice/protocol/mcp/message';
import type { ResponseHeaders, UpstreamTransport } from '../../http/client/client.ts';
import { collectResponse } from '../../http/client/collect-response.ts';
import { quoted, UpstreamError } from '../../http/client/errors.ts';
import { mediaType } from '../../http/client/response-parser.ts';
import { credentialsHint, rejectionText } from './http-error.ts';

/** Headers of every POST of a message to an upstream (mcp 1): names and values, alternating. */
export const MESSAGE_HEADERS: readonly string[] = [
  'Content-Type',
  'application/json',
  'Accept',
  'application/json, text/event-stream',
];

const ID_BYTES = 16;

/** Random ids; the bytes of many are created at once. */
class RandomIds {
  readonly #bytes = Buffer.allocUnsafeSlow(256 * ID_BYTES);
  #used = this.#bytes.length;

  next(): string {
    if (this.#used === this.#bytes.length) {
      randomFillSync(this.#bytes);
      this.#used = 0;
    }
    this.#used += ID_BYTES;
    return this.#bytes.toString('hex', this.#used - ID_BYTES, this.#used);
  }
}

const requestIds = new RandomIds();

/**
 * Returns the id of a new request to an upstream, which is also its progress token (decisions 10.2). Random, so that an
 * upstream cannot refer to requests that it did not receive: to those of other users, or to other upstreams.
 */
export function newRequestId(): string {
  return requestIds.next();
}

/**
 * True for statuses that reveal nothing about the protocol of a server: 401, 403, 429 and 5xx (mcp 4). Proxies in front
 * of a server send them as well.
 */
export function isInconclusive(status: number): boolean {
  return status >= 500 || status === 401 || status === 403 || status === 429;
}

/**
 * True if the response to a request with a session id means that the upstream no longer has the session: nothing was
 * executed, and the request may be repeated after a new `initialize` (mcp 4).
 *
 * The protocol's status is 404. The reference server, and the many modeled on it, send 400 with -32000 (`No valid
 * session ID provided`); `code` is that of the JSON-RPC error in the response, if there is one.
 */
export function isSessionNotFound(status: number, code: number | undefined): boolean {
  return status === 404 || (status === 400 && code === -32000);
}

/** One JSON-RPC message to send. */
export interface RpcRequest {
  /** JSON text. */
  readonly message: string;
  /** Its id; absent for a notification, which any success status accepts. */
  readonly id?: string | undefined;
  /** Names and values, alternating; those of {@link MESSAGE_HEADERS} are added. */
  readonly headers: readonly string[];
  /** Milliseconds for the whole exchange. */
  readonly timeoutMs: number;
  /** Aborts the exchange; it fails with the reason if that is an {@link UpstreamError}. */
  readonly signal?: AbortSignal | undefined;
  /** Creates the scan of a successful response, in place of reading it into memory. */
  readonly scan?: ((isStream: boolean) => BodyScan) | undefined;
}

/** Reads the response to a request while it arrives. */
export interface BodyScan {
  /** Reads the next bytes of the body; returns true as soon as it needs no more. Throws `UpstreamError`. */
  write(chunk: Buffer): Promise<boolean>;
  /** The response, if it has arrived. */
  readonly outcome: RpcOutcome | undefined;
  /** Whether the body is JSON, or has nothing but white space. */
  readonly isJson: boolean;
  readonly isEmpty: boolean;
}

/** Parsed content of a JSON-RPC response. */
export type RpcOutcome =
  | { readonly kind: 'result'; readonly result: unknown }
  | { readonly kind: 'error'; readonly code: number; readonly message: string; readonly data: unknown };

export interface RpcResponse {
  readonly status: number;
  /** Value of `Mcp-Session-Id`. */
  readonly sessionId: string | undefined;
  /** Exact text of the JSON-RPC response, from a JSON body or an event stream; absent for a notification. */
  readonly text?: string;
  /** Parsed content of the text. */
  readonly outcome?: RpcOutcome;
}

/** Bytes and JSON values of a response that is parsed, which takes a few milliseconds. Lists are scanned instead. */
const MAX_BYTES = 512 * 1024;
const MAX_VALUES = 50_000;
/** Bytes read of a response with an HTTP error status, for its message. */
const MAX_ERROR_BYTES = 64 * 1024;

/**
 * Sends one JSON-RPC message and resolves with the response. For everything but relayed calls: discovery, health checks,
 * sessions. Requests of the server on the event stream are ignored.
 *
 * An HTTP error status with a JSON-RPC error in the body resolves too: statuses of the modern era (mcp 1). Rejects with
 * an {@link UpstreamError}, `http` for 401, 403, 429, 5xx and error statuses without JSON-RPC. `maxBytes` is for tests.
 */
export async function sendMessage(
  transport: UpstreamTransport,
  { message, id, headers, timeoutMs, signal, scan }: RpcRequest,
  maxBytes: number = MAX_BYTES,
): Promise<RpcResponse> {
  const { address } = transport;
  const request = { method: 'POST', headers: [...MESSAGE_HEADERS, ...headers], body: message };
  let events: ResponseEvents | undefined;
  let scanned: BodyScan | undefined;
  const response = await collectResponse(transport, request, {
    // A scan has limits of its own.
    maxBytes: scan ? Number.POSITIVE_INFINITY : maxBytes,
    maxErrorBytes: MAX_ERROR_BYTES,
    timeoutMs,
    signal,
    onHead(status, responseHeaders) {
      if (id === undefined || status >= 300) return undefined;
      const isStream = mediaType(responseHeaders) === 'text/event-stream';
      const started = scan?.(isStream);
      scanned = started;
      if (started) return (chunk) => started.write(chunk);
      if (!isStream) return undefined;
      const reader = new ResponseEvents(address, id, maxBytes);
      events = reader;
      return (chunk) => reader.read(chunk);
    },
  });
  const { status } = response;
  const sessionId = sessionIdOf(response.headers);
  const type = mediaType(response.headers);
  const { outcome: result } = scanned ?? {};
  if (result !== undefined) return { status, sessionId, outcome: result };
  if (events?.response !== undefined) return { status, sessionId, ...events.response };
  if (events !== undefined || (scanned && type === 'text/event-stream')) {
    throw new UpstreamError('dropped', address, 'ended the event stream before the response', { status });
  }
  if (scanned) throw new UpstreamError('invalid', address, describeUnexpectedBody(status, type, scanned), { status });
  if (id === undefined && status < 300) return { status, sessionId };
  const text = response.body.toString('utf8');
  checkValues(address, text);
  const value = tryParseJson(text);
  const outcome = readResponse(value, id) ?? readAnonymousError(value);
  if (status >= 300) {
    if (!isInconclusive(status) && outcome?.kind === 'error') return { status, sessionId, text, outcome };
    let detail = outcome?.kind === 'error' ? quoted(outcome.message) : '';
    if (status === 401 || status === 403) detail = rejectionText(response.headers, text, value);
    const what = `answered with HTTP ${status}${detail && `: ${detail}`}${credentialsHint(status)}`;
    throw new UpstreamError('http', address, what, { status });
  }
  if (outcome !== undefined) return { status, sessionId, text, outcome };
  const content = { isEmpty: text.trim() === '', isJson: value !== undefined };
  const what = describeUnexpectedBody(status, type, content);
  throw new UpstreamError('invalid', address, what, { status });
}

function describeUnexpectedBody(
  status: number,
  type: string,
  { isEmpty, isJson }: Pick<BodyScan, 'isEmpty' | 'isJson'>,
): string {
  if (isEmpty) return `accepted the request without answering it (HTTP ${status})`;
  if (isJson) {
    return `answered with JSON that is not the JSON-RPC response to the request (HTTP ${status})`;
  }
  if (type === 'application/json') return `answered with text that is not JSON (HTTP ${status})`;
  return `answered with ${type === '' ? 'no content type' : quoted(type)} instead of JSON or an event stream`;
}

/** Finds the response with an id in an event stream. Throws an {@link UpstreamError} if the stream cannot be read. */
class ResponseEvents implements EventSink {
  response: { readonly text: string; readonly outcome: RpcOutcome } | undefined = undefined;
  readonly #address: string;
  readonly #id: string;
  readonly #decoder: EventStreamDecoder;

  constructor(address: string, id: string, maxBytes: number) {
    this.#address = address;
    this.#id = id;
    this.#decoder = new EventStreamDecoder(this, maxBytes);
  }

  /** Returns true once the response has arrived. */
  read(chunk: Buffer): boolean {
    this.#decoder.write(chunk);
    return this.response !== undefined;
  }

  onEvent({ data }: ServerSentEvent): void {
    // A stream may begin with an event that has an id to resume from and nothing else.
    if (data === '') return;
    const value = this.#parse(data);
    if (!Array.isArray(value)) return this.#onMessage(data, value);
    // Version 2025-03-26 may send arrays of messages.
    let index = 0;
    for (const { start, end } of elements(data)) {
      this.#onMessage(data.slice(start, end), value[index++]);
      if (this.response !== undefined) return;
    }
  }

  onEventError({ message }: EventTooLargeError): void {
    throw new UpstreamError('too-large', this.#address, `sent too much: ${message}`);
  }

  #onMessage(text: string, value: unknown): void {
    const outcome = readResponse(value, this.#id);
    // Notifications and unsupported requests are skipped.
    if (outcome === undefined) return;
    this.response = { text, outcome };
    this.#decoder.stop();
  }

  #parse(data: string): unknown {
    checkValues(this.#address, data);
    try {
      return parseJson(data);
    } catch (cause) {
      throw new UpstreamError('invalid', this.#address, 'sent an event that is not JSON', { cause });
    }
  }
}

/** Throws an {@link UpstreamError} if a text has more JSON values than are parsed. */
function checkValues(address: string, text: string): void {
  // Shorter texts cannot have so many.
  if (text.length <= MAX_VALUES) return;
  const scanner = new JsonScanner({ onValue: () => false, onKey() {}, onScalar() {}, onEnd() {} });
  scanner.write(Buffer.from(text));
  if (scanner.size > MAX_VALUES) {
    throw new UpstreamError('too-large', address, `sent a message of more than ${MAX_VALUES} JSON values`);
  }
}

/** The outcome if `value` is the response with this id. */
function readResponse(value: unknown, id: string | undefined): RpcOutcome | undefined {
  if (!isJsonObject(value) || id === undefined || value.id !== id || 'method' in value) return undefined;
  if ('result' in value) return { kind: 'result', result: value.result };
  return readError(value.error);
}

/** The outcome if `value` is an error response without an id, sent by servers that could not read the request. */
function readAnonymousError(value: unknown): RpcOutcome | undefined {
  if (!isJsonObject(value) || (value.id ?? null) !== null || 'method' in value) return undefined;
  return readError(value.error);
}

/** The outcome of a response with this error; undefined if it is none. */
export function readError(error: unknown): RpcOutcome | undefined {
  if (!isJsonObject(error) || typeof error.code !== 'number') return undefined;
  const message = typeof error.message === 'string' ? error.message : '';
  return { kind: 'error', code: error.code, message, data: error.data };
}

function sessionIdOf(headers: ResponseHeaders): string | undefined {
  const value = headers[HEADER_SESSION_ID];
  return typeof value === 'string' && value !== '' ? value : undefined;
}

const POST_TIMEOUT_MS = 5_000;

/**
 * Sends an upstream a message without a response of its own: a notification, or a client's response to a server request.
 * `headers` are those of its session. Rejects with {@link UpstreamError}, also after 5 s.
 */
export async function postMessage(
  transport: UpstreamTransport,
  headers: readonly string[],
  message: string,
): Promise<void> {
  const { status } = await sendMessage(transport, { message, headers, timeoutMs: POST_TIMEOUT_MS });
  // A JSON-RPC error in the body resolves.
  if (status >= 300) throw new UpstreamError('http', transport.address, `answered with HTTP ${status}`, { status });
}

/** Maximum number of server requests that are being answered at a time; further ones are not answered. */
const MAX_CONCURRENT_RESPONSES = 16;

/** Answers the requests of an upstream that cannot be relayed to a client: pings with a result, all others with an error. */
export class DefaultResponder {
  readonly #post: (response: string) => Promise<void>;
  #inFlight = 0;

  /** `post` sends the upstream a response; one that it does not accept is lost. */
  constructor(post: (response: string) => Promise<void>) {
    this.#post = post;
  }

  /** Answers the request `text`, whose method is `method`. */
  respond(text: string, method: unknown): void {
    if (this.#inFlight >= MAX_CONCURRENT_RESPONSES) return;
    this.#inFlight++;
    this.#post(rejectServerRequest(text, method))
      .catch(() => undefined)
      .finally(() => {
        this.#inFlight--;
      });
  }
}
