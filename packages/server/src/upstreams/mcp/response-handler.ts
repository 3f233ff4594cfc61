import type { JsonObject } from '@sluice/protocol/json/parse';
import type { UpstreamError } from '../../http/client/errors.ts';
import type { LargeMessage } from './relay/large-message.ts';

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
  /** Creates a scan of the response to the request, which is then not read into memory. */
  scan?(isStream: boolean): BodyScan;
}

/** Reads a response while it arrives, in steps. */
export interface BodyScan {
  /** Reads the next bytes of the body; returns true as soon as it needs no more. Throws `UpstreamError`. */
  write(chunk: Buffer): Promise<boolean>;
  /** Whether the response to the request has arrived. */
  readonly isFound: boolean;
  /** Whether the body is JSON so far; that of an event stream is not. */
  readonly isJson: boolean;
}

/** A response that cannot be used. */
export interface Rejection {
  readonly error: UpstreamError;
  /** Undefined if there was none. */
  readonly status: number | undefined;
  /** The parsed body, if it is a JSON object. */
  readonly value?: JsonObject | undefined;
}

/** How the reading of a response ends, other than with the response. */
export type ResponseEnd =
  /** The scan has found the response, or the upstream has accepted a notification. */
  | { readonly kind: 'done' }
  /** The event stream has ended before the response; `isRegular`: it was not cut off. */
  | { readonly kind: 'interrupted'; readonly error: UpstreamError; readonly isRegular: boolean }
  /** There is no response, or it cannot be used. */
  | ({ readonly kind: 'rejected' } & Rejection)
  /** The upstream does not know the session, and did not process the request. */
  | ({ readonly kind: 'session-unknown' } & Rejection);

/** Receives what a `ResponseReader` reads: messages, then either `onResponse` or `onEnd`, once; nothing after `abort`. */
export interface RpcResponseHandler {
  /** True while nothing more is to be read, until `resume`. */
  readonly isBlocked: boolean;
  /** Something of the response has arrived: its head, or a part of a body. */
  onActivity(): void;
  /** The response is an event stream. */
  onStream?(): void;
  /** A request or notification of the upstream, as text and parsed. */
  onMessage(text: string, value: JsonObject): void;
  /** Id to resume from (empty to clear it) and `retry` of an event, after its message. */
  onCursor?(id: string | undefined, retryMs: number | undefined): void;
  /** The response: as text, or a large one that need not be text. `isAscii`: the text is known to be ASCII. */
  onResponse(content: string | LargeMessage, value: JsonObject, isAscii: boolean): void;
  /** Whether this large response, of which some members are known, must be text. */
  requiresText(value: JsonObject): boolean;
  /** A part of a large message has arrived. */
  onLargePart?(large: LargeMessage, isFirst: boolean): void;
  /** A large message is complete; true if its parts were all that is needed. */
  onLargeEnd?(): boolean;
  onEnd(end: ResponseEnd): void;
  /** Events that arrive together are between two calls of this. */
  cork?(isCorked: boolean): void;
  /** The handler has thrown an error, perhaps after the end. */
  onInternalError(error: unknown): void;
}
