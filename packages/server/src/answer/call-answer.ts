import type { RpcError } from './rpc-error.ts';

/**
 * Where the answer to a call that is carried out upstream goes: the client's {@link ClientAnswer}, or what stands in
 * between when client and upstream are of different eras.
 */
export interface CallAnswer {
  /** The id as the client spelled it. */
  readonly idText: string;
  /** True once an event stream was begun. */
  readonly streaming: boolean;
  /** Calls back once when the client leaves before its answer is complete, and cannot come back for it. */
  onLeave(listener: () => void): void;
  /** Calls back once when what was sent has gone out, or will not any more. */
  onDrain(listener: () => void): void;
  /** Begins an event stream. `prime`: no message follows at once. */
  beginStream(prime?: boolean): void;
  /** One message on the stream. False when the client reads too slowly. */
  event(data: string): boolean;
  /** Ends the connection of a stream and not the stream: the client is to come back in `retryMs`. */
  poll(retryMs: number): void;
  /**
   * The complete response, as text; `failed`: it is an error. `status` is the HTTP status where there is still one to
   * choose, `json` whether the client reads JSON.
   */
  response(text: string, failed: boolean, status: number, json: boolean): void;
  /** A JSON-RPC error of our own. */
  error(error: RpcError, status?: number): void;
  /** Ends a request that nobody waits for any more, without a response. */
  cancelled(readsStreams: boolean): void;
}
