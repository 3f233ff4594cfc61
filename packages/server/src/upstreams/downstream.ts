import { POLLING_VERSION } from '@sluice/protocol/mcp/constants';
import type { RpcError } from '../http/context.ts';
import type { ClientSession } from '../mcp/sessions/sessions.ts';

/**
 * Where the answer to a call that is carried out upstream goes: the client's {@link ClientAnswer}, or what stands in
 * between when client and upstream are of different eras.
 */
export interface CallResponse {
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

/**
 * For a call that has lasted for so long that its client may lose the connection over it: the stream is begun, so that the
 * client has been told where to come back to for the answer (mcp 1). Only where it has a session, and reads `streams`.
 */
export function makeResumable(client: CallResponse, session: ClientSession | undefined, streams: boolean): void {
  if (client.streaming || !streams || !session) return;
  if (session.protocolVersion >= POLLING_VERSION) client.beginStream(true);
}
