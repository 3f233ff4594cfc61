import type { IncomingMessage } from 'node:http';
import type { Batch } from '@sluice/protocol/mcp/message';
import type { AnswerTarget } from './answer-target.ts';
import type { ClientAnswer } from './client-answer.ts';
import type { RpcError } from './rpc-error.ts';

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
  | { readonly kind: 'stream'; start(exchange: ClientAnswer): void }
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
  start(request: IncomingMessage, response: AnswerTarget, body: Buffer | undefined): void;
}

/** An error outcome. */
export function rpcError(code: number, message: string, status?: number, data?: unknown): ErrorOutcome {
  const error = data === undefined ? { code, message } : { code, message, data: JSON.stringify(data) };
  return status === undefined ? { kind: 'error', error } : { kind: 'error', error, status };
}
