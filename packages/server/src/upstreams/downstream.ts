import type { JsonObject } from '@sluice/protocol/json/parse';
import type { ResponseMessage } from '@sluice/protocol/mcp/message';
import type { Principal } from '../identity/principal.ts';
import type { Namespace } from '../registry/entries.ts';

/** Session of a legacy client. */
export interface DownstreamSession {
  readonly id: string;
  readonly namespace: Namespace;
  readonly protocolVersion: string;
  readonly clientInfo: JsonObject;
  readonly capabilities: JsonObject;
  /** True once the session was ended: the client can neither receive messages in it nor use it again. */
  readonly hasEnded: boolean;
  /** What the client has set. `logLevel`: minimum level of log messages. */
  readonly state: { readonly logLevel?: string | undefined; readonly subscriptions: readonly ResourceSubscription[] };
  /** The open channel of the session; undefined if there is none. */
  readonly active: DownstreamChannel | undefined;
  /** Returns the channel of the session; opens it if it is not open. */
  channel(): DownstreamChannel;
}

/** The client of a session, for what is sent to upstreams besides its calls. */
export interface DownstreamClient {
  readonly session: DownstreamSession;
  readonly principal: Principal;
  /** Headers that accompany its requests upstream: names and values, alternating. */
  readonly headers: readonly string[];
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

/** A server request that waits for the response of the client. */
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
