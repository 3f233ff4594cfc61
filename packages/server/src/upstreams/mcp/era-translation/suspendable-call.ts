import { isJsonObject, type JsonObject, tryParseJson } from '@sluice/protocol/json/parse';
import { acceptsServerRequest, reachesLevel } from '@sluice/protocol/mcp/capabilities';
import { INTERNAL_ERROR } from '@sluice/protocol/mcp/constants';
import {
  outlineOf,
  progressTokenText,
  type RequestMessage,
  rejectServerRequest,
  requestedLevel,
  withId,
  withParam,
} from '@sluice/protocol/mcp/message';
import { UpstreamError } from '../../../http/client/errors.ts';
import type { RpcError } from '../../../http/outcome.ts';
import type { QuotaOwner } from '../../../http/shares.ts';
import type { Entry } from '../../../registry/entries.ts';
import type { CallResponse, ClientResponse } from '../../downstream.ts';
import type { CallRequest } from '../relay/call-plan.ts';
import type { ServerRequestSource, ServerRequests } from '../relay/server-requests.ts';
import { isInconclusive } from '../rpc-request.ts';
import { InputRequests } from './input-requests.ts';
import { type CallBinding, digestOf } from './request-state.ts';

/** Arguments of {@link CallResponse.sendResponse}. */
type CompleteResponse = Parameters<CallResponse['sendResponse']>;
/** Arguments of {@link CallResponse.sendBytes}. */
type LargeResponse = Parameters<CallResponse['sendBytes']>;

const TOO_LARGE: RpcError = {
  code: INTERNAL_ERROR,
  message: 'the response of the upstream is too large to be stored until the client retries',
};

/** Messages of the upstream for a suspended call. */
export class BufferedMessages {
  /** Returns whether so many more characters can be stored. */
  readonly #reserve: (characters: number) => boolean;
  #characters = 0;
  #notifications: string[] = [];
  #response: CompleteResponse | undefined = undefined;
  #large: LargeResponse | undefined = undefined;
  #error: readonly [RpcError, number?] | undefined = undefined;

  constructor(reserve: (characters: number) => boolean) {
    this.#reserve = reserve;
  }

  /** True once the call has a response. */
  get isComplete(): boolean {
    return this.#response !== undefined || this.#large !== undefined || this.#error !== undefined;
  }

  /** Length of the stored messages. */
  get characters(): number {
    return this.#characters;
  }

  /** Stores a notification, or drops it if it is too large. */
  addNotification(text: string): void {
    if (!this.#reserve(text.length)) return;
    this.#notifications.push(text);
    this.#characters += text.length;
  }

  /** Stores the response, or an error if it is too large. */
  setResponse(...response: CompleteResponse): void {
    const [{ length }] = response;
    if (!this.#reserve(length)) {
      this.#error = [TOO_LARGE];
      return;
    }
    this.#response = response;
    this.#characters += length;
  }

  /** Stores a large response, or an error if it is too large. */
  setBytes(...response: LargeResponse): void {
    const [{ before, after }] = response;
    const length = [...before, ...after].reduce((sum, part) => sum + part.length, 0);
    if (!this.#reserve(length)) {
      this.#error = [TOO_LARGE];
      return;
    }
    this.#large = response;
    this.#characters += length;
  }

  setError(...error: readonly [RpcError, number?]): void {
    this.#error = error;
  }

  /** Sends the messages to a client that retries. False if it reads too slowly. */
  flush(client: CallResponse, retry: RequestMessage): boolean {
    let keepsUp = true;
    this.#characters = 0;
    for (const stored of this.#notifications.splice(0)) {
      const notification = notificationFor(retry, stored);
      if (notification === undefined) continue;
      if (!client.isStreaming) client.beginStream();
      keepsUp = client.sendEvent(notification);
    }
    if (this.#error) client.sendError(...this.#error);
    else if (this.#large) client.sendBytes(...this.#large);
    else if (this.#response) {
      const [text, failed, status, json] = this.#response;
      // The id of the retry need not be ASCII.
      client.sendResponse(withId(text, client.idText), failed, status, json);
    }
    return keepsUp;
  }
}

/**
 * Returns a stored notification in the form for a retry: progress with its token, log messages from its level on. Undefined
 * if the retry requests neither.
 */
function notificationFor(retry: RequestMessage, notification: string): string | undefined {
  const value = tryParseJson(notification);
  if (!isJsonObject(value)) return undefined;
  if (value.method === 'notifications/progress') {
    const token = progressTokenText(retry.text);
    return token && withParam(notification, 'progressToken', token);
  }
  const level = requestedLevel(retry);
  return level !== undefined && reachesLevel(value.params, level) ? notification : undefined;
}

/** Delay of a suspension after the first server request, in milliseconds, so that concurrent ones are sent together. */
const GATHER_MS = 10;

/** Storage of calls while their clients gather input. */
export interface SuspensionStore {
  /** Returns a new id for a call. */
  nextId(): string;
  /** Reserves space for a call with its current size and `more` characters. False if the limits are exceeded. */
  reserve(call: SuspendableCall, more: number): boolean;
  /** Stores a call with a reservation until it is resumed or expires. Returns its `requestState`. */
  suspend(call: SuspendableCall): string;
  /** Releases the reservation of a call. */
  release(call: SuspendableCall): void;
}

/** What a suspended call is about. */
export interface SuspendedTarget {
  readonly entry: Entry | undefined;
  /** Undefined for an unregistered upstream. */
  readonly forward: string | undefined;
  /** Requested uri of a resource. */
  readonly uri: string | undefined;
}

export interface SuspendableCallOptions {
  readonly store: SuspensionStore;
  /** First request of the client. */
  readonly request: CallRequest;
  readonly owner: Pick<CallBinding, 'namespace' | 'principal'>;
  /** Whom the call counts for while it is suspended. */
  readonly holder: QuotaOwner;
  readonly target: SuspendedTarget;
  /** Replaces the request of the client: by a retry, or by its outline while the call is suspended. */
  readonly continueWith: (request: CallRequest) => void;
}

/**
 * Adapter between a modern client and the call to a legacy upstream (mcp 5). When the upstream sends a request, the client
 * gets an `InputRequiredResult`; the call continues upstream, and the client's retry gets its response, which may be
 * another `InputRequiredResult`. Messages of the upstream in between are buffered; it is paused after the first one.
 */
export class SuspendableCall implements CallResponse, ServerRequests {
  readonly id: string;
  readonly owner: Pick<CallBinding, 'namespace' | 'principal'>;
  readonly holder: QuotaOwner;
  readonly target: SuspendedTarget;
  readonly #store: SuspensionStore;
  readonly #continueWith: (request: CallRequest) => void;
  /** The first request or the latest retry; its outline while the call is suspended. */
  #request: CallRequest;
  #digest: string | undefined = undefined;
  #round = 0;
  /** Undefined while the call is suspended. */
  #client: ClientResponse | undefined;
  readonly #inputs = new InputRequests();
  readonly #buffer: BufferedMessages;
  #source: ServerRequestSource | undefined = undefined;
  #suspendTimer: NodeJS.Timeout | undefined = undefined;
  #disconnectListener: (() => void) | undefined = undefined;
  #drainListener: (() => void) | undefined = undefined;

  constructor(options: SuspendableCallOptions, client: ClientResponse) {
    const { store, request, owner, holder, target, continueWith } = options;
    this.owner = owner;
    this.holder = holder;
    this.target = target;
    this.#store = store;
    this.#continueWith = continueWith;
    this.#request = request;
    this.#client = client;
    this.#buffer = new BufferedMessages((characters) => store.reserve(this, characters));
    this.id = store.nextId();
    client.onDisconnect(() => this.#disconnectListener?.());
  }

  /** Number of suspensions so far. */
  get round(): number {
    return this.#round;
  }

  get binding(): CallBinding {
    this.#digest ??= digestOf(this.#request.message);
    return { ...this.owner, digest: this.#digest };
  }

  /** Size of the call in characters: the request, and the messages of the upstream. */
  get characters(): number {
    return this.#request.message.text.length + this.#inputs.characters + this.#buffer.characters;
  }

  /** Connects the call whose upstream sends requests. */
  connect(source: ServerRequestSource): this {
    this.#source = source;
    return this;
  }

  get pending(): number {
    return this.#inputs.size;
  }

  /** Suspends the call soon. False if the client does not support the request, or the limits are exceeded. */
  relay(text: string, { method, params }: JsonObject): boolean {
    if (typeof method !== 'string' || !acceptsServerRequest(this.#request.capabilities, method, params)) return false;
    if (!this.#store.reserve(this, text.length) || !this.#inputs.add(text, method, params)) return false;
    this.#suspendSoon();
    return true;
  }

  onCancelled(text: string): void {
    this.#inputs.remove(text);
    this.#releaseIfDone();
  }

  cancelAll(): void {
    clearTimeout(this.#suspendTimer);
    this.#suspendTimer = undefined;
    this.#inputs.clear();
    this.#releaseIfDone();
  }

  failAll(): void {
    this.cancelAll();
  }

  get idText(): string {
    return this.#client?.idText ?? 'null';
  }

  get isStreaming(): boolean {
    return this.#client?.isStreaming ?? true;
  }

  onDisconnect(listener: () => void): void {
    this.#disconnectListener = listener;
  }

  onDrain(listener: () => void): void {
    this.#drainListener = listener;
    this.#client?.onDrain(() => this.#onDrained());
  }

  beginStream(): void {
    this.#client?.beginStream();
  }

  sendEvent(data: string): boolean {
    if (this.#client) return this.#client.sendEvent(data);
    this.#buffer.addNotification(data);
    return false;
  }

  disconnect(retryMs: number): void {
    this.#client?.disconnect(retryMs);
  }

  sendResponse(...response: CompleteResponse): void {
    if (this.#client) this.#client.sendResponse(...response);
    else this.#buffer.setResponse(...response);
  }

  sendBytes(...response: LargeResponse): void {
    if (this.#client) this.#client.sendBytes(...response);
    else this.#buffer.setBytes(...response);
  }

  sendError(...error: readonly [RpcError, number?]): void {
    if (this.#client) this.#client.sendError(...error);
    else this.#buffer.setError(...error);
  }

  endWithoutResponse(acceptsEventStream: boolean): void {
    this.#client?.endWithoutResponse(acceptsEventStream);
  }

  /** Resumes the call with a retry that has all of the input or a part: the rest is requested again. */
  resume(client: ClientResponse, retry: CallRequest): void {
    this.#replaceRequest(retry);
    this.#client = client;
    client.onDisconnect(() => this.#disconnectListener?.());
    for (const response of this.#inputs.takeResponses(retry.message)) this.#post(response);
    // Each request of a modern client declares its own capabilities.
    this.#rejectUnsupported(retry.capabilities);
    const keepsUp = this.#buffer.flush(client, retry.message);
    // The retry is stored in place of the outline, and may be too large for the call to be suspended again.
    if (!this.#store.reserve(this, 0)) this.#rejectUnsupported({});
    if (this.#inputs.size > 0) this.#suspendSoon();
    else this.#releaseIfDone();
    if (this.#buffer.isComplete) return;
    if (keepsUp) this.#onDrained();
    else client.onDrain(() => this.#onDrained());
  }

  /** The client did not retry in time or may not any more, or others need the place: the call is canceled upstream. */
  expire(): void {
    this.#store.release(this);
    if (!this.#buffer.isComplete) this.#disconnectListener?.();
  }

  #releaseIfDone(): void {
    if (this.#client && this.#inputs.size === 0) this.#store.release(this);
  }

  #suspendSoon(): void {
    this.#suspendTimer ??= setTimeout(() => this.#suspend(), GATHER_MS);
  }

  /** Responds to the client that input is required. */
  #suspend(): void {
    this.#suspendTimer = undefined;
    const client = this.#client;
    // All requests were canceled, or the call is suspended already: the retry gets the new ones.
    if (!client || this.#inputs.size === 0) return;
    this.#round++;
    const state = this.#store.suspend(this);
    const inputs = this.#inputs.toJson();
    this.#client = undefined;
    // The call may be suspended for long, and its request may be large.
    this.#replaceRequest({ ...this.#request, message: outlineOf(this.#request.message) });
    this.#store.reserve(this, 0);
    client.sendResult(`{"resultType":"input_required","inputRequests":${inputs},"requestState":"${state}"}`);
  }

  #replaceRequest(request: CallRequest): void {
    this.#request = request;
    this.#continueWith(request);
  }

  #onDrained(): void {
    const listener = this.#drainListener;
    this.#drainListener = undefined;
    listener?.();
  }

  /** Rejects the pending requests that a client with these capabilities does not support. */
  #rejectUnsupported(capabilities: JsonObject): void {
    for (const { text, method, params } of this.#inputs.takeUnsupported(capabilities)) {
      this.#source?.onRejected(method, params);
      this.#post(rejectServerRequest(text, method));
    }
  }

  #post(text: string): void {
    this.#source?.post(text).catch((error: unknown) => {
      if (!isRejection(error)) this.#source?.fail(error);
    });
  }
}

/** True if the upstream received the response but rejected it, which affects only the call itself. */
function isRejection(error: unknown): boolean {
  if (!(error instanceof UpstreamError) || error.kind !== 'http' || error.status === undefined) return false;
  return !isInconclusive(error.status);
}
