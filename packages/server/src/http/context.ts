import type { IncomingHttpHeaders, IncomingMessage } from 'node:http';
import type { JsonObject } from '@sluice/protocol/json/parse';
import type { Era } from '@sluice/protocol/mcp/constants';
import type { Batch, Message } from '@sluice/protocol/mcp/message';
import type { ResponseWriter } from '../mcp/response.ts';
import type { ClientSession } from '../mcp/sessions/sessions.ts';
import type { NamespaceState } from '../registry/snapshot.ts';
import { type Correlation, correlationOf, userOf } from '../telemetry/correlation.ts';
import type { RequestObservation } from '../telemetry/request-telemetry.ts';
import type { HeaderEdits } from './filters/rewrite.ts';
import type { ExchangeWatch } from './proxy.ts';

const NO_CAPABILITIES: JsonObject = {};

/**
 * One request on its way through a chain. The listener makes it; filters read it and fill in what they find out, each
 * the members that its comment names.
 */
export class RequestContext {
  readonly method: string;
  /** Path without query, as sent, or as `path_rewrite` has made it. */
  path: string;
  /** With its question mark; empty where there is none. */
  readonly query: string;
  readonly headers: IncomingHttpHeaders;
  readonly body: Buffer;
  /** Sees what becomes of it; undefined where nobody looks. */
  readonly observation: RequestObservation | undefined;
  /** True for a message of a batch: each goes through the chain as a request of its own. */
  readonly inBatch: boolean;
  /** String map that later filters and the log read: `mcp.method`, `service.namespace`, what actions set. */
  readonly metadata = new Map<string, string>();

  /** How the client speaks to the listener. Filled by the listener. */
  scheme: 'http' | 'https' = 'http';
  /** Closes when the client leaves, or has its answer. Filled by the listener. */
  client: Pick<ResponseLike, 'on'> | undefined = undefined;
  /** Header names and values that every answer to this request carries. Filled by `cors`. */
  responseHeaders: readonly string[] = [];
  /** The parsed body of a POST. Filled by `mcp`. */
  message: Message | undefined = undefined;
  /** Set instead where the body is a batch: whether it may be sent is judged before any of its messages. Filled by `mcp`. */
  batch: Batch | undefined = undefined;
  /** Filled by `mcp`. */
  era: Era = 'legacy';
  /** As it stood when the request came in, or had been judged. Filled by `service_namespace`, `service_evaluator`. */
  namespace: NamespaceState | undefined = undefined;
  /** Of a legacy client that has one. Filled by `service_namespace`. */
  session: ClientSession | undefined = undefined;
  /** True where evaluators decide what the answer is: it is good for this time alone. Filled by `service_evaluator`. */
  judged = false;
  /** Names of the tools that `tools/list` is to show; undefined shows all. Filled by `service_evaluator`. */
  onlyTools: ReadonlySet<string> | undefined = undefined;
  /** What the client says it can do; a legacy client says it once per session. Filled by `service_mcp_init`. */
  capabilities: JsonObject = NO_CAPABILITIES;

  /** Names and values, alternating, of what the request is sent on with besides its own. Filled by `headers`. */
  addedHeaders: readonly string[] = [];
  /** What is done to the headers of every answer. Filled by `headers`. */
  headerEdits: readonly HeaderEdits[] = [];
  /** Where the request is to be sent. Filled by `router`. */
  cluster: string | undefined = undefined;
  /** Begins to record an exchange. Filled by `service_intercept`. */
  recording: (() => ExchangeWatch | undefined) | undefined = undefined;

  /** `target`: the path, and the query if there is one. */
  constructor(
    method: string,
    target: string,
    headers: IncomingHttpHeaders,
    body: Buffer,
    observation?: RequestObservation,
    inBatch = false,
  ) {
    const query = target.indexOf('?');
    this.method = method;
    this.path = query === -1 ? target : target.slice(0, query);
    this.query = query === -1 ? '' : target.slice(query);
    this.headers = headers;
    this.body = body;
    this.observation = observation;
    this.inBatch = inBatch;
    if (observation) observation.context = this;
  }

  /** The id to answer with, as the client spelled it. */
  get idText(): string {
    return this.message && this.message.kind !== 'notification' ? this.message.idText : 'null';
  }

  /** The ids by which others find the request again. */
  get correlation(): Correlation {
    return correlationOf(this.headers);
  }

  /** The user as the authenticating proxy passes it. */
  get user(): string | undefined {
    return userOf(this.headers);
  }
}

/**
 * How a filter answers. The listener writes it; a filter that returns none passes the request on.
 *
 * - `result`: a JSON-RPC result, as JSON text; `bytes` is its length in UTF-8 when that is known already.
 * - `error`: a JSON-RPC error; `status` where it is not sent with HTTP 200, `idText` where the id is not the message's
 *   (a body that is no message may still name one).
 * - `plain`: an HTTP answer of its own (202 for a notification, 204 for a preflight, a fixed answer).
 * - `stream`: the answer is written to the exchange as it comes, by what `start` begins.
 * - `exchange`: the request is sent on as HTTP, body and answer as they come.
 * - `batch`: the answer is that of the batch's messages, each of which goes through the chain from its beginning.
 */
export type Outcome =
  | {
      readonly kind: 'result';
      readonly json: string | Buffer;
      readonly bytes?: number;
      readonly headers?: readonly string[];
    }
  | ErrorOutcome
  | PlainOutcome
  | ExchangeOutcome
  | { readonly kind: 'stream'; start(exchange: ResponseWriter): void }
  | Batch;

/** A JSON-RPC error. */
export interface ErrorOutcome {
  readonly kind: 'error';
  readonly error: RpcError;
  readonly status?: number;
  readonly idText?: string;
}

/** An HTTP answer of its own. */
export interface PlainOutcome {
  readonly kind: 'plain';
  readonly status: number;
  readonly headers?: readonly string[];
  readonly body?: string;
}

/** See {@link Outcome}. */
export interface ExchangeOutcome {
  readonly kind: 'exchange';
  /** `body`: where it was read already, and the request has none any more. */
  start(request: IncomingMessage, response: ResponseLike, body: Buffer | undefined): void;
}

/** An error outcome. */
export function rpcError(code: number, message: string, status?: number, data?: unknown): ErrorOutcome {
  const error = data === undefined ? { code, message } : { code, message, data: JSON.stringify(data) };
  return status === undefined ? { kind: 'error', error } : { kind: 'error', error, status };
}

/** A JSON-RPC error as it goes out. `data` is JSON text. */
export interface RpcError {
  readonly code: number;
  readonly message: string;
  readonly data?: string;
}

/** What a problem is called, by its status, in the words of inference APIs. */
const TYPES: Readonly<Record<number, string>> = {
  400: 'bad_request',
  403: 'forbidden',
  404: 'not_found',
  413: 'payload_too_large',
  502: 'bad_gateway',
  503: 'service_unavailable',
  504: 'gateway_timeout',
};

/** An answer of ours where no JSON-RPC is spoken: `{"error":{"message","type"}}` (decisions 4.8). */
export function httpProblem(status: number, message: string): PlainOutcome {
  const body = JSON.stringify({ error: { message, type: TYPES[status] ?? 'internal_error' } });
  return { kind: 'plain', status, headers: ['Content-Type', 'application/json'], body };
}

/**
 * What an answer is written to: an HTTP response, or one message's place in the answer to a batch. The members of
 * node:http's `ServerResponse` that answers need, with its meanings. An event stream is written in whole events, so that
 * those of several answers can share one stream.
 */
export interface ResponseLike {
  readonly destroyed: boolean;
  readonly headersSent: boolean;
  readonly writableEnded: boolean;
  /** False for an answer that is another's: no date is put on it. */
  sendDate?: boolean;
  /** False when the connection ends with the answer. */
  shouldKeepAlive?: boolean;
  /** The status line's own text, where it is another's. */
  statusMessage?: string;
  writeHead(status: number, headers: string[]): unknown;
  write(chunk: string | Buffer): boolean;
  end(chunk?: string | Buffer): unknown;
  cork(): void;
  destroy(): unknown;
  on(event: 'close' | 'drain', listener: () => void): unknown;
  once(event: 'close' | 'drain', listener: () => void): unknown;
}
