import type { ResponseLike } from './exchange.ts';
import type { ServerRequest } from './server/request.ts';

/** Response of a filter. A filter without one passes the request on. */
export type Outcome = ResultOutcome | ErrorOutcome | PlainOutcome | ProxiedOutcome | HandedOff;

/** A JSON-RPC result. */
export interface ResultOutcome {
  readonly kind: 'result';
  /** JSON text. */
  readonly json: string | Buffer;
  /** Length of `json` in UTF-8 bytes, if known. */
  readonly bytes?: number;
  /** Additional response headers: names and values, alternating. */
  readonly headers?: readonly string[];
}

/** A JSON-RPC error. */
export interface ErrorOutcome {
  readonly kind: 'error';
  readonly error: RpcError;
  /** HTTP status; 200 if undefined. */
  readonly status?: number;
  /** JSON text of the response id; by default that of the request. A body that is not a message may still contain one. */
  readonly idText?: string;
  /** Set if the registry has no such object, which another replica may just have added. */
  readonly notFoundLocally?: true;
}

/** A complete HTTP response (202 for a notification, 204 for a preflight request, a static response). */
export interface PlainOutcome {
  readonly kind: 'plain';
  readonly status: number;
  readonly headers?: readonly string[];
  readonly body?: string;
}

/** The request is proxied; both bodies are streamed. */
export interface ProxiedOutcome {
  readonly kind: 'proxied';
  /** `body` is the request body if it has been read; otherwise `request` still has it. */
  start(request: ServerRequest, response: ResponseLike, body: Buffer | undefined): void;
}

/** Another replica handles the message. */
export interface HandedOff {
  readonly kind: 'handed_off';
  /** `body`: the message, or nothing. */
  start(request: ServerRequest, response: ResponseLike, body: Buffer): void;
}

/** The error object of a JSON-RPC response. `data` is JSON text. */
export interface RpcError {
  readonly code: number;
  readonly message: string;
  readonly data?: string;
}

/** Returns an error object as JSON text. */
export function errorJson({ code, message, data }: RpcError): string {
  return `{"code":${code},"message":${JSON.stringify(message)}${data === undefined ? '' : `,"data":${data}`}}`;
}

/** Creates an error outcome; `data` is serialized. */
export function rpcError(code: number, message: string, status?: number, data?: unknown): ErrorOutcome {
  const error = data === undefined ? { code, message } : { code, message, data: JSON.stringify(data) };
  return status === undefined ? { kind: 'error', error } : { kind: 'error', error, status };
}

/** As {@link rpcError}, for an object that the registry does not have. */
export function notFound(code: number, message: string, status?: number, data?: unknown): ErrorOutcome {
  return { ...rpcError(code, message, status, data), notFoundLocally: true };
}

/** Error types by HTTP status, as inference APIs name them. */
const ERROR_TYPES: Readonly<Record<number, string>> = {
  400: 'bad_request',
  401: 'unauthorized',
  403: 'forbidden',
  404: 'not_found',
  413: 'payload_too_large',
  502: 'bad_gateway',
  503: 'service_unavailable',
  504: 'gateway_timeout',
};

/** Creates an error response for HTTP that carries no JSON-RPC: `{"error":{"message","type"}}`. */
export function httpProblem(status: number, message: string): PlainOutcome {
  const body = JSON.stringify({ error: { message, type: ERROR_TYPES[status] ?? 'internal_error' } });
  return { kind: 'plain', status, headers: ['Content-Type', 'application/json'], body };
}
