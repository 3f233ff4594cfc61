import { isJsonObject, type JsonObject, tryParseJson } from '@sluice/protocol/json/parse';
import { acceptsServerRequest, legacyCapabilities, reachesLevel } from '@sluice/protocol/mcp/capabilities';
import { INTERNAL_ERROR } from '@sluice/protocol/mcp/constants';
import { outlineOf, type RequestMessage, requestedLevel } from '@sluice/protocol/mcp/message';
import { progressTokenText, rejectServerRequest, withId, withParam } from '@sluice/protocol/mcp/message-text';
import type { Permit, PermitOutline } from '../../../access/access.ts';
import { UpstreamError } from '../../../http/client/errors.ts';
import type { RpcError } from '../../../http/outcome.ts';
import { type QuotaOwner, quotaOwner } from '../../../http/quota.ts';
import type { ClientFacts } from '../../client-facts.ts';
import type { ClientRequests, ServerRequestSource, SuspendedRequest } from '../../client-requests.ts';
import {
  type CallOutcome,
  DetachedSink,
  ForwardingSink,
  joinListeners,
  lengthOf,
  type ResponseBody,
  type ResponseSink,
} from '../../response-sink.ts';
import { isInconclusive } from '../rpc-request.ts';
import { InputRequests } from './input-requests.ts';
import { type CallBinding, digestOf } from './request-state.ts';

const TOO_LARGE: RpcError = {
  code: INTERNAL_ERROR,
  message: 'the response of the upstream is too large to be stored until the client retries',
};

/** Stores the messages of the upstream for a suspended call. */
export class BufferedMessages extends DetachedSink {
  /** Returns whether so many more characters can be stored. */
  readonly #reserve: (characters: number) => boolean;
  #characters = 0;
  #notifications: string[] = [];
  #outcome: CallOutcome | undefined = undefined;

  constructor(client: ClientFacts, reserve: (characters: number) => boolean) {
    super(client, () => undefined);
    this.#reserve = reserve;
  }

  /** True once the call has a response. */
  get isComplete(): boolean {
    return this.#outcome !== undefined;
  }

  /** Length of the stored messages. */
  get characters(): number {
    return this.#characters;
  }

  /** Stores a notification, or drops it if it is too large. The upstream is paused after the first one. */
  override sendMessage(text: string): boolean {
    if (this.#reserve(text.length)) {
      this.#notifications.push(text);
      this.#characters += text.length;
    }
    return false;
  }

  /** Until it is resumed. */
  override onDrain(): void {}

  /** Stores the response, or an error if it is too large. */
  override complete(outcome: CallOutcome): void {
    const length = sizeOf(outcome);
    // Also an error: the input requests, which were canceled, do not count any more.
    const hasRoom = this.#reserve(length) || length === 0;
    this.#outcome = hasRoom ? outcome : { kind: 'failed', error: TOO_LARGE };
    if (hasRoom) this.#characters += length;
  }

  /** Sends the messages to a client that retries. False if it reads too slowly. */
  flush(client: ResponseSink, retry: RequestMessage): boolean {
    let keepsUp = true;
    this.#characters = 0;
    for (const stored of this.#notifications.splice(0)) {
      const notification = notificationFor(retry, stored);
      if (notification !== undefined) keepsUp = client.sendMessage(notification);
    }
    const outcome = this.#outcome;
    if (outcome?.kind === 'response') {
      // The id of the retry need not be ASCII.
      client.complete({ ...outcome, text: withId(outcome.text, client.client.idText), isAscii: false });
    } else if (outcome) client.complete(outcome);
    return keepsUp;
  }
}

/** Length of a response, in characters or bytes. */
function sizeOf(outcome: CallOutcome): number {
  if (outcome.kind === 'response') return outcome.text.length;
  return outcome.kind === 'large' ? lengthOf(outcome.bytes) : 0;
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
  /** Returns the `requestState` of a client that is to visit a URL and then to call again. */
  createRestartState(binding: CallBinding): string;
  /** Releases the reservation of a call. */
  release(call: SuspendableCall): void;
}

/**
 * Adapter between a modern client and the call to a legacy upstream. When the upstream sends a request, the client gets an
 * `InputRequiredResult`; the call continues upstream, and the client's retry gets its response, which may be another
 * `InputRequiredResult`. Messages of the upstream in between are buffered; it is paused after the first one.
 */
export class SuspendableCall extends ForwardingSink implements ClientRequests {
  readonly id: string;
  /** Whom the call counts for while it is suspended. */
  readonly owner: QuotaOwner;
  readonly outline: PermitOutline;
  /** Number of suspensions so far. */
  round = 0;
  readonly #store: SuspensionStore;
  /** The first message or the latest retry; its outline while the call is suspended. */
  #message: RequestMessage;
  /** Capabilities of the client in the form of the legacy era. */
  #capabilities: JsonObject;
  #digest: string | undefined = undefined;
  #client: ClientFacts;
  readonly #inputs = new InputRequests();
  readonly #buffer: BufferedMessages;
  #source: ServerRequestSource | undefined = undefined;
  #request: SuspendedRequest | undefined = undefined;
  #suspendTimer: NodeJS.Timeout | undefined = undefined;
  #expiryTimer: NodeJS.Timeout | undefined = undefined;
  #disconnectListener: (() => void) | undefined = undefined;
  #drainListener: (() => void) | undefined = undefined;

  constructor(store: SuspensionStore, permit: Permit, sink: ResponseSink) {
    super(sink);
    const { namespace = '', principal, address, capabilities } = sink.client;
    this.owner = quotaOwner(namespace, principal, address);
    this.#store = store;
    this.outline = permit.outline();
    this.#message = permit.message;
    this.#client = sink.client;
    this.#capabilities = legacyCapabilities(capabilities);
    this.#buffer = new BufferedMessages(sink.client, (characters) => store.reserve(this, characters));
    this.id = store.nextId();
    sink.onDisconnect(() => this.expire());
  }

  get binding(): CallBinding {
    const { namespace = '', principal } = this.#client;
    this.#digest ??= digestOf(this.#message);
    return { namespace, principal, digest: this.#digest };
  }

  /** Size of the call in characters: the request, and the messages of the upstream. */
  get characters(): number {
    return this.#message.text.length + this.#inputs.characters + this.#buffer.characters;
  }

  /** Connects the call whose upstream sends requests. */
  connect(source: ServerRequestSource): this {
    this.#source = source;
    return this;
  }

  override get clientRequests(): ClientRequests {
    return this;
  }

  continueWith(request: SuspendedRequest): void {
    this.#request = request;
  }

  createRestartState(): string {
    return this.#store.createRestartState(this.binding);
  }

  get pending(): number {
    return this.#inputs.size;
  }

  /** Suspends the call soon. False if the client does not support the request, or the limits are exceeded. */
  relay(text: string, { method, params }: JsonObject): boolean {
    if (typeof method !== 'string' || !acceptsServerRequest(this.#capabilities, method, params)) return false;
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

  get isSuspended(): boolean {
    return this.inner === this.#buffer;
  }

  /** While the call is suspended, the client of the last request. */
  override get client(): ClientFacts {
    return this.#client;
  }

  /** Only a complete response can be stored. */
  override startBody(): ResponseBody | undefined {
    return undefined;
  }

  override onDisconnect(listener: () => void): void {
    this.#disconnectListener = joinListeners(this.#disconnectListener, listener);
  }

  override onDrain(listener: () => void): void {
    this.#drainListener = joinListeners(this.#drainListener, listener);
    this.inner.onDrain(() => this.#onDrained());
  }

  /** Resumes the call with a retry that has all of the input or a part: the rest is requested again. */
  resume(sink: ResponseSink, retry: RequestMessage): void {
    clearTimeout(this.#expiryTimer);
    this.#client = sink.client;
    this.#capabilities = legacyCapabilities(sink.client.capabilities);
    this.#message = retry;
    this.#request?.onRetry(retry, sink.client);
    this.inner = sink;
    sink.onDisconnect(() => this.expire());
    for (const response of this.#inputs.takeResponses(retry)) this.#post(response);
    // Each request of a modern client declares its own capabilities.
    this.#rejectUnsupported(this.#capabilities);
    const keepsUp = this.#buffer.flush(sink, retry);
    // The retry is stored in place of the outline, and may be too large for the call to be suspended again.
    if (!this.#store.reserve(this, 0)) this.#rejectUnsupported({});
    if (this.#inputs.size > 0) this.#suspendSoon();
    else this.#releaseIfDone();
    if (this.#buffer.isComplete) return;
    if (keepsUp) this.#onDrained();
    else sink.onDrain(() => this.#onDrained());
  }

  /** Expires unless it is resumed in time. */
  expireIn(ms: number): void {
    this.#expiryTimer = setTimeout(() => this.expire(), ms).unref();
  }

  /** There will be no retry: it would be too late, or may not be sent, or others need the place. Cancels the call upstream. */
  expire(): void {
    clearTimeout(this.#expiryTimer);
    this.#store.release(this);
    if (!this.#buffer.isComplete) this.#disconnectListener?.();
  }

  #releaseIfDone(): void {
    if (!this.isSuspended && this.#inputs.size === 0) this.#store.release(this);
  }

  #suspendSoon(): void {
    this.#suspendTimer ??= setTimeout(() => this.#suspend(), GATHER_MS);
  }

  /** Responds to the client that input is required. */
  #suspend(): void {
    this.#suspendTimer = undefined;
    const sink = this.inner;
    // All requests were canceled, or the call is suspended already: the retry gets the new ones.
    if (this.isSuspended || this.#inputs.size === 0) return;
    this.round++;
    const state = this.#store.suspend(this);
    const inputs = this.#inputs.toJson();
    this.inner = this.#buffer;
    // The call may be suspended for long, and its request may be large.
    this.#message = outlineOf(this.#message);
    this.#request?.onSuspended(this.#message);
    this.#store.reserve(this, 0);
    const json = `{"resultType":"input_required","inputRequests":${inputs},"requestState":"${state}"}`;
    sink.complete({ kind: 'result', json });
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
