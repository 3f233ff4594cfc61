import type { JsonObject, JsonValue } from '@sluice/protocol/json/parse';
import type { RequestMessage } from '@sluice/protocol/mcp/message';
import type { ClientFacts } from './client-facts.ts';

/** Server requests of one call or one upstream session, relayed to the client. */
export interface ServerRequests {
  /** Number of requests that wait for a response of the client. */
  readonly pending: number;
  /**
   * Relays a request to the client, as text and parsed. False if the client does not support it, or too many requests are
   * pending.
   */
  relay(text: string, value: JsonObject): boolean;
  /** The upstream canceled a request with this `notifications/cancelled`. */
  onCancelled(text: string): void;
  /** Cancels all pending requests: the upstream does not wait for the responses any more. */
  cancelAll(): void;
  /** Fails all pending requests: the client will not respond any more. */
  failAll(): void;
}

/** The call whose upstream sends requests. */
export interface ServerRequestSource {
  /** A request was rejected because the client does not support it. */
  onRejected(method: string, params: JsonValue | undefined): void;
  /** Sends the upstream a message; resolves once it was accepted, rejects with `UpstreamError`. */
  post(text: string): Promise<void>;
  /** Fails the call: the upstream cannot get the response that it waits for. */
  fail(error: unknown): void;
}

/** A request that continues upstream while its call is suspended. */
export interface SuspendedRequest {
  /** It continues with the outline of its message, until it is resumed. */
  onSuspended(outline: RequestMessage): void;
  /** It continues with a retry of the client. */
  onRetry(retry: RequestMessage, client: ClientFacts): void;
}

/** Requests to a client that has no stream for them: its call is suspended until it has provided input. */
export interface ClientRequests extends ServerRequests {
  /** Connects the call that sends requests. */
  connect(source: ServerRequestSource): this;
  /** Sets what continues while the call is suspended. */
  continueWith(request: SuspendedRequest): void;
  /** Returns the `requestState` of a client that is to visit a URL and then to call again. */
  createRestartState(): string;
}
