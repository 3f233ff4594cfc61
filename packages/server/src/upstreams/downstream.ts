import type { IncomingHttpHeaders } from 'node:http';
import type { JsonObject } from '@sluice/protocol/json/parse';
import { type Era, INTERNAL_ERROR } from '@sluice/protocol/mcp/constants';
import type { ResponseMessage } from '@sluice/protocol/mcp/message';
import type { Correlation } from '../exchange/correlation.ts';
import type { ExchangeFacts } from '../exchange/facts.ts';
import type { RequestHead } from '../exchange/head.ts';
import type { Outcome, RpcError } from '../http/outcome.ts';
import type { Principal } from '../identity/principal.ts';
import type { TargetLogger } from '../telemetry/log.ts';

/** Client of a request that is executed upstream. */
export interface Caller {
  readonly namespace: { readonly name: string } | undefined;
  readonly era: Era;
  readonly headers: IncomingHttpHeaders;
  /** Session of a legacy client. */
  readonly session: DownstreamSession | undefined;
  readonly principal: Principal;
  readonly capabilities: JsonObject;
  readonly correlation: Correlation;
  /** Undefined if the call belongs to no request of the client, as `facts`. */
  readonly head: Pick<RequestHead, 'address' | 'listener'> | undefined;
  readonly facts: ExchangeFacts | undefined;
}

/** Session of a legacy client (mcp 3). */
export interface DownstreamSession {
  readonly id: string;
  readonly protocolVersion: string;
  readonly clientInfo: JsonObject;
  readonly capabilities: JsonObject;
  /** True once the session was ended: the client can neither receive messages in it nor use it again. */
  readonly hasEnded: boolean;
  /** Minimum level of log messages; undefined unless the client set one. */
  readonly logLevel: string | undefined;
  readonly subscriptions: readonly ResourceSubscription[];
  /** True while the client has a notification stream, or may resume one. */
  readonly isListening: boolean;
  /** Returns the channel of the session; opens it if it is not open. */
  channel(): DownstreamChannel;
}

/** A resource subscription of a session and the forward that it was sent to. */
export interface ResourceSubscription {
  readonly uri: string;
  readonly forward: string;
}

/** Messages between upstreams and the client of one session outside of responses. Exists only while it is in use. */
export interface DownstreamChannel {
  /** True while the client has a notification stream, or may resume one. */
  readonly isListening: boolean;
  /** Sends a message on the notification stream. False if the client reads too slowly: wait for `onDrain`. */
  send(text: string): boolean;
  /** Calls back once when the client has read the sent messages. */
  onDrain(listener: () => void): void;
  /** Registers a server request; `make` receives the JSON text of the id that the client will see. */
  addServerRequest<Request extends PendingServerRequest>(make: (idText: string) => Request): Request;
  /** Unregisters a server request: a response to it is dropped. */
  removeServerRequest(request: PendingServerRequest): void;
  addListener(listener: StreamListener): void;
  removeListener(listener: StreamListener): void;
}

/** A server request that waits for the response of the client (mcp 4). */
export interface PendingServerRequest {
  /** JSON text of the id in the request to the client; also its progress token. */
  readonly idText: string;
  /** Takes the response of the client; resolves once the upstream accepted it, rejects with `UpstreamError`. */
  onResponse(response: ResponseMessage): Promise<void>;
  /** Takes a progress notification of the client, as text. */
  onProgress(text: string): void;
  /** The client will not respond. */
  onAbandoned(): void;
}

/** Listener for the notification streams of one session. */
export interface StreamListener {
  /** The client opened its first notification stream, or its last one was closed. */
  onListeningChanged(isListening: boolean): void;
}

/** A complete response as bytes, cut where the id of its request belongs. */
export interface ResponseBytes {
  readonly before: readonly Buffer[];
  readonly after: readonly Buffer[];
  /** Frees the bytes. To be called when they are written. */
  readonly free?: () => void;
}

/** Body of a response that was begun. */
export interface ResponseBody {
  /**
   * Writes at least one part. False if the client reads too slowly. `onWritten` is called when the parts are no longer needed:
   * never if the client disconnects, or may get them again on another connection.
   */
  write(parts: readonly Buffer[], onWritten: () => void): boolean;
  end(): void;
}

/**
 * Target of the response to a call that is executed upstream: the response to the client, or an adapter between client
 * and upstream of different eras.
 */
export interface CallResponse {
  /** JSON text of the request id, as sent by the client. */
  readonly idText: string;
  /** True once an event stream was begun. */
  readonly isStreaming: boolean;
  /** Calls back once when the client disconnects before its response is complete and cannot resume it. */
  onDisconnect(listener: () => void): void;
  /** Calls back once when buffered data was sent, or will not be any more. */
  onDrain(listener: () => void): void;
  /** Begins an event stream, unless it was begun. */
  beginStream(): void;
  /** Sends one message on the stream. False if the client reads too slowly. */
  sendEvent(data: string): boolean;
  /** Collects events until `uncork`, so that those that arrive together are one write. An adapter may omit it. */
  cork?(): void;
  uncork?(): void;
  /** Ends the connection but not the stream: the client is to reconnect in `retryMs`. */
  disconnect(retryMs: number): void;
  /**
   * Sends the complete response. `failed`: it is an error. `status`: HTTP status, if none was sent yet. `json`: the client
   * accepts JSON. `isAscii`: the text is known to be ASCII.
   */
  sendResponse(text: string, failed: boolean, status: number, json: boolean, isAscii?: boolean): void;
  /** Sends a complete response as bytes, like `sendResponse`; `errorCode`: its JSON-RPC error code. */
  sendBytes(bytes: ResponseBytes, failed: boolean, errorCode: unknown, status: number, json: boolean): void;
  /**
   * Begins a result that is sent while it arrives: the JSON response, or the last event of a stream that has begun. `length`:
   * its bytes, if known. An adapter between eras needs the whole response. An error that follows closes the connection.
   */
  beginBody?(length: number | undefined): ResponseBody;
  /** Sends a JSON-RPC error of our own. */
  sendError(error: RpcError, status?: number): void;
  /** Ends a request that was canceled, without a response. */
  endWithoutResponse(acceptsEventStream: boolean): void;
}

/** Response to a client, which can also carry results of our own. */
export interface ClientResponse extends CallResponse {
  /** Sends a result, as JSON text. */
  sendResult(json: string): void;
  /** Sends the result of a call, as JSON text, in the form that the client accepts. */
  sendCallResult(json: string, acceptsJson: boolean): void;
}

/** The response is written later; `start` starts a call to an upstream, or a stream of notifications. */
export interface DeferredOutcome<Response = ClientResponse> {
  readonly kind: 'deferred';
  /** JSON text of the response id, if it is not that of the request. */
  readonly idText?: string;
  start(response: Response): void;
}

/** Outcome of a request that is executed upstream. */
export type CallOutcome = Outcome | DeferredOutcome;

/**
 * Returns an outcome that waits for an upstream: meanwhile its client waits as for a call. `outcome` resolves with a result, an
 * error or a deferred outcome.
 */
export function deferOutcome(outcome: () => Promise<CallOutcome>, log: TargetLogger): DeferredOutcome {
  const respond = async (response: ClientResponse): Promise<void> => {
    try {
      sendOutcome(response, await outcome());
    } catch (error) {
      log.error('request failed', { error });
      response.sendError({ code: INTERNAL_ERROR, message: 'internal error' });
    }
  };
  return { kind: 'deferred', start: (response) => void respond(response) };
}

function sendOutcome(response: ClientResponse, outcome: CallOutcome): void {
  switch (outcome.kind) {
    case 'result':
      return response.sendResult(String(outcome.json));
    case 'error':
      return response.sendError(outcome.error, outcome.status);
    case 'deferred':
      return outcome.start(response);
    default:
      throw new Error(`a request has the outcome ${outcome.kind}`);
  }
}
