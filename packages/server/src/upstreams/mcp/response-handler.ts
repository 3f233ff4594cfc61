import type { JsonObject } from '@sluice/protocol/json/parse';
import type { UpstreamError } from '../../http/client/errors.ts';
import type { LargeMessage } from './relay/large-message.ts';
import type { SessionVerdict } from './session-loss.ts';

/** A request whose response is read. */
export interface ReadRequest {
  /** Id of the JSON-RPC request; undefined for a notification, and for the notification stream of a session. */
  readonly id: number | undefined;
  /** For messages: the JSON-RPC method, or the HTTP method. */
  readonly name: string;
  /** The session it is sent in, if that has an id. */
  readonly sessionId: string | undefined;
  /** Only an event stream is a response: the request opens or resumes one. */
  readonly requiresStream?: boolean;
  /** Bytes of one message. */
  readonly maxBytes: number;
}

/** What a response reveals about the session of its request, if that may be lost. */
interface SessionHint {
  readonly session?: SessionVerdict;
}

/** A response as text. It is replaced by that for the client, and so are the other properties: nearly all calls have one. */
export interface TextResponse extends SessionHint {
  readonly kind: 'response';
  text: string;
  value: JsonObject;
  /** HTTP status. */
  status: number;
  /** The text is known to be ASCII. */
  isAscii: boolean;
}

/** A large response that need not be text. `value`: its known members. */
export interface LargeResponse extends SessionHint {
  readonly kind: 'large';
  readonly large: LargeMessage;
  readonly value: JsonObject;
  readonly status: number;
}

/** The response to a request. */
export type UpstreamResponse = TextResponse | LargeResponse;

/** A response that cannot be used. */
export interface Rejection extends SessionHint {
  readonly error: UpstreamError;
  /** Undefined if there was none. */
  readonly status: number | undefined;
  /** The parsed body, if it is a JSON object. */
  readonly value?: JsonObject | undefined;
}

/** How the reading of a response ends. */
export type ResponseEnd =
  | UpstreamResponse
  /** The handler has taken the response, or the upstream has accepted a notification. */
  | { readonly kind: 'done' }
  /** The event stream has ended before the response; `isRegular`: it was not cut off. */
  | { readonly kind: 'interrupted'; readonly error: UpstreamError; readonly isRegular: boolean }
  /** There is no response, or it cannot be used. */
  | ({ readonly kind: 'rejected' } & Rejection)
  /** The upstream does not know the session, and did not process the request. */
  | ({ readonly kind: 'session-unknown' } & Rejection)
  /** The handler has thrown an error, perhaps after another end. */
  | { readonly kind: 'internal-error'; readonly error: unknown };

/** Receives what a `ResponseReader` reads: messages, then `onEnd`, once; nothing after `abort`. */
export interface RpcResponseHandler {
  /** Takes large messages while they arrive. Without it, all messages are passed on as text. */
  readonly large?: LargeMessageHandler;
  /** Something of the response has arrived: its head, or a part of a body. */
  onActivity?(): void;
  /** The response is an event stream. */
  onStream?(): void;
  /** A request or notification of the upstream, as text and parsed. */
  onMessage?(text: string, value: JsonObject): void;
  /** Id to resume from (empty to clear it) and `retry` of an event, after its message. */
  onCursor?(id: string | undefined, retryMs: number | undefined): void;
  /** Events that arrive together are between two calls of this. */
  cork?(isCorked: boolean): void;
  onEnd(end: ResponseEnd): void;
}

/** Takes large messages while they arrive. Throws `UpstreamError` to reject the response. */
export interface LargeMessageHandler {
  /** A part of a message has arrived. `length`: bytes of the whole message, if they are announced. */
  onPart(large: LargeMessage, length?: number): void;
  /**
   * A message is complete; `value`: its known members, if it may be the response. `taken`: its parts were all that is needed;
   * else whether it must be text.
   */
  onComplete(value: JsonObject | undefined): 'taken' | 'text' | 'bytes';
}
