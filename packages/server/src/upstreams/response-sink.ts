import type { ToolCallErrorCategory } from '@sluice/contract';
import type { JsonObject } from '@sluice/protocol/json/parse';
import type { RpcError } from '../http/outcome.ts';
import type { CallObserver } from '../telemetry/call-observer.ts';
import type { EventContent } from '../telemetry/tool-calls/event.ts';
import type { ClientFacts } from './client-facts.ts';
import type { ClientRequests } from './client-requests.ts';

/** A complete response as bytes, cut where the id of its request belongs. */
export interface ResponseBytes {
  readonly before: readonly Buffer[];
  readonly after: readonly Buffer[];
  /** Frees the bytes. To be called when they are written. */
  readonly free?: () => void;
}

/** Length of a response, in bytes without its id. */
export function lengthOf({ before, after }: ResponseBytes): number {
  return [...before, ...after].reduce((sum, { length }) => sum + length, 0);
}

/** Returns the text of a response, with the id 0. */
export function textOf({ before, after }: ResponseBytes): string {
  return Buffer.concat([...before, Buffer.from('0'), ...after]).toString();
}

/** Body of a response that was begun. The outcome `sent` ends it; any other one closes the connection. */
export interface ResponseBody {
  /**
   * Writes at least one part. False if the client reads too slowly. `onWritten` is called when the parts are no longer needed:
   * never if the client disconnects, or may get them again on another connection.
   */
  write(parts: readonly Buffer[], onWritten: () => void): boolean;
}

/** What is recorded of a call where its response does not say that: a result, or a failure. */
export type CallReport = { readonly isError: boolean; readonly content: EventContent } | CallFailure;

/** Why a call has no usable result. `errorType`: OpenTelemetry's `error.type`. */
export interface CallFailure {
  readonly category: ToolCallErrorCategory;
  readonly message: string;
  readonly errorType: string;
}

/** How a call ended. */
export type CallOutcome = (CallResponse | OwnOutcome) & { readonly report?: CallReport | undefined };

/** The outcome of a call without a response. */
export type FailedOutcome = Extract<CallOutcome, { kind: 'failed' }>;

/** The response of an upstream. `status`: HTTP status, if none was sent yet. */
type CallResponse =
  /** A response with the id of the client, as text and parsed. `isAscii`: the text is known to be ASCII. */
  | {
      readonly kind: 'response';
      readonly text: string;
      readonly value: JsonObject;
      readonly status: number;
      readonly isAscii: boolean;
    }
  /** A large response; `value` has the members of it that are known. */
  | { readonly kind: 'large'; readonly bytes: ResponseBytes; readonly value: JsonObject; readonly status: number }
  /** The body that was begun has been written; `value` as for a large response. */
  | { readonly kind: 'sent'; readonly value: JsonObject };

type OwnOutcome =
  /** A result of our own, as JSON text. */
  | { readonly kind: 'result'; readonly json: string }
  /** There is no response: an error of our own. */
  | { readonly kind: 'failed'; readonly error: RpcError; readonly status?: number | undefined }
  /** The client has canceled the call: it gets no response. */
  | { readonly kind: 'canceled' };

/** Returns the outcome of a call that failed here or at its upstream. `errorType`: OpenTelemetry's `error.type`. */
export function failedOutcome(error: RpcError, category: ToolCallErrorCategory, errorType: string): FailedOutcome {
  return { kind: 'failed', error, report: { category, message: error.message, errorType } };
}

/** Where a call sends its response: to its client, or to an adapter that changes the response or collects it. */
export interface ResponseSink {
  /** The client of the call. A retry of a suspended call replaces it. */
  readonly client: ClientFacts;
  /** Records the call. It reads outcomes; only a cancellation, and that the call has become a task, are reported to it. */
  readonly observer: CallObserver | undefined;
  /** Undefined unless the call can be suspended. */
  readonly clientRequests: ClientRequests | undefined;
  /** Whether a client waits for the outcome: then it gets that before the call is recorded. */
  readonly isAwaited: boolean;
  /** Sends a message on the event stream, which it begins. False if the client reads too slowly: wait for `onDrain`. */
  sendMessage(text: string): boolean;
  /**
   * Begins a result that is sent while it arrives: the JSON response, or the last event of a stream that has begun. `length`:
   * its bytes, if known; `isFirst`: this is the first part, and the rest may arrive at once. Undefined if the
   * result cannot be sent in parts, or not yet.
   */
  startBody(length: number | undefined, isFirst: boolean): ResponseBody | undefined;
  /** Ends the call, once; also after its client has disconnected. */
  complete(outcome: CallOutcome): void;
  /** Calls back once when the client disconnects before its response is complete and cannot resume it: all that wait for that. */
  onDisconnect(listener: () => void): void;
  /** Calls back once when buffered data was sent or discarded. */
  onDrain(listener: () => void): void;
  /** Ends the connection but not the stream: the client is to reconnect in `retryMs`. */
  disconnect(retryMs: number): void;
  /** Collects messages until this is called with false, so that those that arrive together are one write. */
  cork(isCorked: boolean): void;
}

/** Returns a function that calls both listeners; the second one itself if there is no other. */
export function joinListeners(first: (() => void) | undefined, second: () => void): () => void {
  if (!first) return second;
  return () => {
    first();
    second();
  };
}

/** Sink of a call without a client that reads: passes its outcome on, and its messages if they are of use. */
export class DetachedSink implements ResponseSink {
  readonly client: ClientFacts;
  readonly isAwaited = false;
  readonly observer: CallObserver | undefined = undefined;
  readonly clientRequests = undefined;
  readonly #onOutcome: (outcome: CallOutcome) => void;
  readonly #onMessage: (text: string) => void;

  constructor(
    client: ClientFacts,
    onOutcome: (outcome: CallOutcome) => void,
    onMessage: (text: string) => void = () => undefined,
  ) {
    this.client = client;
    this.#onOutcome = onOutcome;
    this.#onMessage = onMessage;
  }

  sendMessage(text: string): boolean {
    this.#onMessage(text);
    return true;
  }
  startBody(): ResponseBody | undefined {
    return undefined;
  }
  complete(outcome: CallOutcome): void {
    this.#onOutcome(outcome);
  }
  onDisconnect(_listener: () => void): void {}
  /** There is nothing to wait for. */
  onDrain(listener: () => void): void {
    queueMicrotask(listener);
  }
  disconnect(): void {}
  cork(): void {}
}

/** Passes everything on to another sink: base of adapters, which override what they change. */
export class ForwardingSink implements ResponseSink {
  /** May be replaced between two messages. */
  protected inner: ResponseSink;

  constructor(inner: ResponseSink) {
    this.inner = inner;
  }

  get client(): ClientFacts {
    return this.inner.client;
  }
  get observer(): CallObserver | undefined {
    return this.inner.observer;
  }
  get clientRequests(): ClientRequests | undefined {
    return this.inner.clientRequests;
  }
  get isAwaited(): boolean {
    return this.inner.isAwaited;
  }
  sendMessage(text: string): boolean {
    return this.inner.sendMessage(text);
  }
  startBody(length: number | undefined, isFirst: boolean): ResponseBody | undefined {
    return this.inner.startBody(length, isFirst);
  }
  complete(outcome: CallOutcome): void {
    this.inner.complete(outcome);
  }
  onDisconnect(listener: () => void): void {
    this.inner.onDisconnect(listener);
  }
  onDrain(listener: () => void): void {
    this.inner.onDrain(listener);
  }
  disconnect(retryMs: number): void {
    this.inner.disconnect(retryMs);
  }
  cork(isCorked: boolean): void {
    this.inner.cork(isCorked);
  }
}
