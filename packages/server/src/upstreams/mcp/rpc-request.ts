import { isJsonObject } from '@sluice/protocol/json/parse';
import { HEADER_SESSION_ID } from '@sluice/protocol/mcp/constants';
import { rejectServerRequest } from '@sluice/protocol/mcp/message-text';
import type { UpstreamTransport } from '../../http/client/client.ts';
import { abortError, UpstreamError } from '../../http/client/errors.ts';
import type { LargeMessage } from './relay/large-message.ts';
import { requestIds } from './request-ids.ts';
import type { LargeMessageHandler, ResponseEnd, RpcResponseHandler, UpstreamResponse } from './response-handler.ts';
import { ResponseReader } from './response-reader.ts';
import { LOST_SESSION_REMEDY } from './session-loss.ts';
import { unusableResponse } from './unusable-response.ts';

/** Headers of every POST of a message to an upstream: names and values, alternating. */
export const MESSAGE_HEADERS: readonly string[] = [
  'Content-Type',
  'application/json',
  'Accept',
  'application/json, text/event-stream',
];

/**
 * True for statuses that reveal nothing about the protocol of a server: 401, 403, 429 and 5xx. Proxies in front of a server
 * send them as well.
 */
export function isInconclusive(status: number): boolean {
  return status >= 500 || status === 401 || status === 403 || status === 429;
}

/** One JSON-RPC message to send. */
export interface RpcRequest {
  /** JSON text: of a request, for the id that it gets, or of a notification, which any success status accepts. */
  readonly message: string | ((id: number) => string);
  /** Its method; for messages. */
  readonly method: string;
  /** The session it is sent in, if that has an id. */
  readonly sessionId: string | undefined;
  /** Names and values, alternating; those of {@link MESSAGE_HEADERS} are added. */
  readonly headers: readonly string[];
  /** Milliseconds for the whole exchange. */
  readonly timeoutMs: number;
  /** Aborts the exchange; it fails with the reason if that is an {@link UpstreamError}. */
  readonly signal?: AbortSignal | undefined;
  /** Bytes of the response (default 512 KiB, which are parsed in a few milliseconds). */
  readonly maxBytes?: number;
  /** Called with each part of a large response, which is then not parsed. */
  readonly onPart?: (large: LargeMessage) => void;
}

/** Parsed content of a JSON-RPC response. */
export type RpcOutcome = { readonly kind: 'result'; readonly result: unknown } | RpcFailure;

/** The upstream's error in response to a request. */
export interface RpcFailure {
  readonly kind: 'error';
  readonly code: number;
  readonly message: string;
  readonly data: unknown;
  /** Whether the error names the loss of the session. */
  readonly isSessionLost?: boolean;
}

export interface RpcResponse {
  readonly status: number;
  /** Value of `Mcp-Session-Id`. */
  readonly sessionId: string | undefined;
  /** Exact text of the JSON-RPC response, from a JSON body or an event stream; absent for a notification. */
  readonly text?: string;
  /** In place of the text, a large response that was not parsed: the outcome has its known members. */
  readonly large?: LargeMessage;
  readonly outcome?: RpcOutcome;
}

const MAX_BYTES = 512 * 1024;
/** Bytes of a response that are shown if it cannot be used. */
const MAX_SHOWN_BYTES = 4 * 1024;

/**
 * Sends one JSON-RPC message and resolves with the response. For everything but relayed calls: discovery, health checks,
 * sessions. Requests of the server on the event stream are ignored.
 *
 * An HTTP error status with a JSON-RPC error in the body resolves too: statuses of the modern era. Rejects with an
 * {@link UpstreamError}: `session-lost` if the upstream does not know the session, `http` for 401, 403, 429, 5xx and error
 * statuses without JSON-RPC.
 */
export function sendMessage(transport: UpstreamTransport, request: RpcRequest): Promise<RpcResponse> {
  return new Exchange(transport, request).response;
}

class Exchange implements RpcResponseHandler {
  readonly large?: LargeMessageHandler;
  readonly #address: string;
  readonly #request: RpcRequest;
  readonly #id: number | undefined;
  readonly #reader: ResponseReader;
  readonly #outcome = Promise.withResolvers<RpcResponse>();
  readonly response: Promise<RpcResponse> = this.#outcome.promise;
  readonly #onAbort = () => this.#fail(abortError(this.#address, this.#request.signal));
  #timer: NodeJS.Timeout | undefined = undefined;

  constructor(transport: UpstreamTransport, request: RpcRequest) {
    const { method, sessionId, maxBytes = MAX_BYTES, onPart, signal, message, headers, timeoutMs } = request;
    const id = typeof message === 'string' ? undefined : requestIds.next();
    this.#address = transport.address;
    this.#request = request;
    this.#id = id;
    if (onPart) this.large = { onPart, onComplete: () => 'bytes' };
    const read = { id, name: method, sessionId, maxBytes };
    this.#reader = new ResponseReader(transport.address, read, this);
    if (signal?.aborted) {
      this.#onAbort();
      return;
    }
    signal?.addEventListener('abort', this.#onAbort);
    this.#timer = setTimeout(() => this.#onTimeout(), timeoutMs);
    const body = typeof message === 'string' ? message : message(id ?? 0);
    this.#reader.send(transport, { method: 'POST', headers: [...MESSAGE_HEADERS, ...headers], body });
  }

  onEnd(end: ResponseEnd): void {
    if (end.kind === 'response' || end.kind === 'large') return this.#onResponse(end);
    if (end.kind === 'done') return this.#succeed({});
    const address = this.#address;
    if (end.kind === 'session-unknown') {
      const { error: cause } = end;
      const lost = `no longer knows the session: it ${cause.what}`;
      this.#fail(new UpstreamError('session-lost', address, lost, { cause, remedy: LOST_SESSION_REMEDY }));
    } else if (end.kind === 'interrupted' && end.isRegular) {
      const { status } = this.#reader;
      this.#fail(
        new UpstreamError('dropped', address, end.error.what, { status, remedy: 'see the log of the upstream' }),
      );
    } else this.#fail(end.error);
  }

  #onResponse(received: UpstreamResponse): void {
    const { value, session } = received;
    const { status, headers } = this.#reader;
    const content = received.kind === 'large' ? { large: received.large } : { text: received.text };
    const outcome = 'result' in value ? ({ kind: 'result', result: value.result } as const) : readError(value.error);
    if (!outcome || (outcome.kind === 'error' && isInconclusive(status))) {
      const body = content.large?.start(MAX_SHOWN_BYTES) ?? Buffer.from(content.text ?? '');
      const response = { request: this.#request.method, status, headers, body, value };
      return this.#fail(unusableResponse(this.#address, response));
    }
    const isSessionLost = session === 'lost';
    this.#succeed({ ...content, outcome: outcome.kind === 'error' ? { ...outcome, isSessionLost } : outcome });
  }

  #onTimeout(): void {
    const what = `did not answer ${this.#request.method} within ${this.#request.timeoutMs / 1000} s`;
    const remedy = 'see the log of the upstream, and check the URL path (usually /mcp)';
    this.#fail(new UpstreamError('timeout', this.#address, what, { remedy }));
  }

  #succeed(response: Omit<RpcResponse, 'status' | 'sessionId'>): void {
    const { status, headers } = this.#reader;
    const sessionId = headers[HEADER_SESSION_ID];
    this.#settle();
    this.#outcome.resolve({
      status,
      sessionId: typeof sessionId === 'string' && sessionId !== '' ? sessionId : undefined,
      ...response,
    });
  }

  #fail(error: unknown): void {
    this.#settle();
    this.#reader.abort();
    this.#outcome.reject(error);
  }

  #settle(): void {
    clearTimeout(this.#timer);
    if (this.#id !== undefined) requestIds.release(this.#id);
    this.#request.signal?.removeEventListener('abort', this.#onAbort);
  }
}

/** The outcome of a response with this error; undefined if it is none. */
function readError(error: unknown): RpcFailure | undefined {
  if (!isJsonObject(error) || typeof error.code !== 'number') return undefined;
  const message = typeof error.message === 'string' ? error.message : '';
  return { kind: 'error', code: error.code, message, data: error.data };
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
  const at = headers.indexOf(HEADER_SESSION_ID);
  const sessionId = at === -1 ? undefined : headers[at + 1];
  await sendMessage(transport, { message, method: 'a message', sessionId, headers, timeoutMs: POST_TIMEOUT_MS });
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
