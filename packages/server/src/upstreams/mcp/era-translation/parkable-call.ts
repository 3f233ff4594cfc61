import { isJsonObject, type JsonObject, tryParseJson } from '@sluice/protocol/json/parse';
import { answersQuestion, reachesLevel, requestedLevel } from '@sluice/protocol/mcp/capabilities';
import { INTERNAL_ERROR } from '@sluice/protocol/mcp/constants';
import {
  outlineOf,
  progressTokenText,
  type RequestMessage,
  refusalOf,
  withId,
  withParam,
} from '@sluice/protocol/mcp/message';
import { UpstreamError } from '../../../http/client/errors.ts';
import type { RpcError } from '../../../http/context.ts';
import type { CallResponse } from '../../downstream.ts';
import { isSessionNotFound } from '../client.ts';
import type { CallAttempt } from '../relay/relay.ts';
import type { ServerRequestSink, ServerRequests } from '../relay/server-requests.ts';
import { isInconclusive } from '../rpc-request.ts';
import { InputRequests } from './input-rounds.ts';
import { type Binding, digestOf } from './parked-calls.ts';

/** A complete response, as {@link CallResponse} takes it. */
export type Response = Parameters<CallResponse['response']>;

const TOO_MUCH: RpcError = {
  code: INTERNAL_ERROR,
  message: 'the upstream answered with more than can be held for a client that is not there',
};

/** What has come of a parked call since its client was answered, until the client is back. */
export class BufferedMessages {
  /** Whether there is room for so many characters more. */
  readonly #admits: (characters: number) => boolean;
  #characters = 0;
  #notifications: string[] = [];
  #response: Response | undefined = undefined;
  #error: readonly [RpcError, number?] | undefined = undefined;

  constructor(admits: (characters: number) => boolean) {
    this.#admits = admits;
  }

  /** True when the call is over. */
  get complete(): boolean {
    return this.#response !== undefined || this.#error !== undefined;
  }

  /** The length of what is held. */
  get characters(): number {
    return this.#characters;
  }

  /** A notification that there is no room for is lost. */
  notification(text: string): void {
    if (!this.#admits(text.length)) return;
    this.#notifications.push(text);
    this.#characters += text.length;
  }

  /** A response that there is no room for becomes an error. */
  response(...response: Response): void {
    const [{ length }] = response;
    if (!this.#admits(length)) {
      this.#error = [TOO_MUCH];
      return;
    }
    this.#response = response;
    this.#characters += length;
  }

  error(...error: readonly [RpcError, number?]): void {
    this.#error = error;
  }

  /** Gives a client that is back what has come. False when it reads too slowly to be sent more. */
  release(client: CallResponse, retry: RequestMessage): boolean {
    let reads = true;
    this.#characters = 0;
    for (const held of this.#notifications.splice(0)) {
      const notification = wantedBy(retry, held);
      if (notification === undefined) continue;
      if (!client.streaming) client.beginStream();
      reads = client.event(notification);
    }
    if (this.#error) client.error(...this.#error);
    else if (this.#response) {
      const [text, ...rest] = this.#response;
      client.response(withId(text, client.idText), ...rest);
    }
    return reads;
  }
}

/**
 * A notification that has waited for the client, as its retry is to have it: progress under the retry's own token, log
 * messages from the level on that it asks for. Undefined when it asks for none of that.
 */
function wantedBy(retry: RequestMessage, notification: string): string | undefined {
  const value = tryParseJson(notification);
  if (!isJsonObject(value)) return undefined;
  if (value.method === 'notifications/progress') {
    const token = progressTokenText(retry.text);
    return token && withParam(notification, 'progressToken', token);
  }
  const level = requestedLevel(retry);
  return level !== undefined && reachesLevel(value.params, level) ? notification : undefined;
}

/** After a question others are waited for so long, in milliseconds: what is asked at once, the client is asked at once. */
const GATHER_MS = 10;

/** The client's side of one request. */
export interface AskedClient extends CallResponse {
  /** Answers it with a result, as JSON text. */
  result(json: string): void;
}

/** Where calls are held while their clients are away. */
export interface SuspensionStore {
  /** An id for a call that may be parked. */
  nextId(): string;
  /**
   * Keeps a place for a call that is parked or about to be, as large as it is now and `more` characters. False when there
   * is none, or not so much.
   */
  admit(call: SuspendableCall, more: number): boolean;
  /** Holds a call that has a place until it is resumed or expires. The `requestState` that its client comes back with. */
  hold(call: SuspendableCall): string;
  /** The call's place is free again. */
  leave(call: SuspendableCall): void;
}

export interface ParkableCallOptions {
  readonly place: SuspensionStore;
  /** The client's first request. */
  readonly attempt: CallAttempt;
  /** Whose it is. */
  readonly owner: Pick<Binding, 'namespace' | 'user'>;
  /** This is the client's request from now on: a retry, or what is left of a request while it is parked. */
  readonly continueWith: (attempt: CallAttempt) => void;
}

/**
 * Stands between a modern client and the call to a legacy upstream (mcp 5). When the upstream asks something, the
 * client's request is answered `InputRequiredResult`; the call goes on upstream, and with the client's retry, which may
 * be answered in the same way. What the upstream sends in between waits for the client: it is held back after the first
 * message.
 */
export class SuspendableCall implements CallResponse, ServerRequests {
  readonly id: string;
  readonly owner: Pick<Binding, 'namespace' | 'user'>;
  readonly #place: SuspensionStore;
  readonly #continueWith: (attempt: CallAttempt) => void;
  /** The client's request as it is now: its first one, or its latest retry; while the call is parked, its outline. */
  #attempt: CallAttempt;
  #digest: string | undefined = undefined;
  #round = 0;
  /** Undefined while the call is parked. */
  #client: AskedClient | undefined;
  readonly #inputs = new InputRequests();
  readonly #held: BufferedMessages;
  #sink: ServerRequestSink | undefined = undefined;
  #gathering: NodeJS.Timeout | undefined = undefined;
  #leave: (() => void) | undefined = undefined;
  #drain: (() => void) | undefined = undefined;

  constructor(options: ParkableCallOptions, client: AskedClient) {
    const { place, attempt, owner, continueWith } = options;
    this.owner = owner;
    this.#place = place;
    this.#continueWith = continueWith;
    this.#attempt = attempt;
    this.#client = client;
    this.#held = new BufferedMessages((characters) => place.admit(this, characters));
    this.id = place.nextId();
    client.onLeave(() => this.#leave?.());
  }

  /** How often it has been parked. */
  get round(): number {
    return this.#round;
  }

  /** Whose it is, and for what: what a retry has to agree in. */
  get binding(): Binding {
    this.#digest ??= digestOf(this.#attempt.message);
    return { ...this.owner, digest: this.#digest };
  }

  /** What is held of it, in characters: the request, and what the upstream has asked and sent. */
  get characters(): number {
    return this.#attempt.message.text.length + this.#inputs.characters + this.#held.characters;
  }

  get open(): number {
    return this.#inputs.size;
  }

  get idText(): string {
    return this.#client?.idText ?? 'null';
  }

  get streaming(): boolean {
    return this.#client?.streaming ?? true;
  }

  /** Where the client's answers go. */
  connect(sink: ServerRequestSink): this {
    this.#sink = sink;
    return this;
  }

  /** Parks the call soon. False when the client cannot be asked this, or there is no room for it. */
  ask(text: string, { method, params }: JsonObject): boolean {
    if (typeof method !== 'string' || !answersQuestion(this.#attempt.capabilities, method, params)) return false;
    if (!this.#place.admit(this, text.length) || !this.#inputs.add(text, method, params)) return false;
    this.#gather();
    return true;
  }

  takenBack(text: string): void {
    this.#inputs.takeBack(text);
    this.#leaveIfDone();
  }

  withdrawAll(): void {
    clearTimeout(this.#gathering);
    this.#gathering = undefined;
    this.#inputs.clear();
    this.#leaveIfDone();
  }

  abandonAll(): void {
    this.withdrawAll();
  }

  onLeave(listener: () => void): void {
    this.#leave = listener;
  }

  onDrain(listener: () => void): void {
    this.#drain = listener;
    this.#client?.onDrain(() => this.#drained());
  }

  beginStream(prime?: boolean): void {
    this.#client?.beginStream(prime);
  }

  event(data: string): boolean {
    if (this.#client) return this.#client.event(data);
    this.#held.notification(data);
    return false;
  }

  poll(retryMs: number): void {
    this.#client?.poll(retryMs);
  }

  response(...response: Response): void {
    if (this.#client) this.#client.response(...response);
    else this.#held.response(...response);
  }

  error(...error: readonly [RpcError, number?]): void {
    if (this.#client) this.#client.error(...error);
    else this.#held.error(...error);
  }

  cancelled(readsStreams: boolean): void {
    this.#client?.cancelled(readsStreams);
  }

  /** The client is back, with what it was asked for or a part of it: what is missing, it is asked for again. */
  resume(client: AskedClient, retry: CallAttempt): void {
    this.#request(retry);
    this.#client = client;
    client.onLeave(() => this.#leave?.());
    for (const answer of this.#inputs.answeredBy(retry.message)) this.#deliver(answer);
    // Each request of a modern client says for itself what it can be asked.
    this.#refuseBeyond(retry.capabilities);
    const reads = this.#held.release(client, retry.message);
    // The retry is held in place of what was left of the request, and may be too large for the call to be parked again.
    if (!this.#place.admit(this, 0)) this.#refuseBeyond({});
    if (this.#inputs.size > 0) this.#gather();
    else this.#leaveIfDone();
    if (this.#held.complete) return;
    if (reads) this.#drained();
    else client.onDrain(() => this.#drained());
  }

  /** Nobody comes back for it. */
  expire(): void {
    this.#place.leave(this);
    if (!this.#held.complete) this.#leave?.();
  }

  /** Nothing is left to be parked for, and nobody has to come back. */
  #leaveIfDone(): void {
    if (this.#client && this.#inputs.size === 0) this.#place.leave(this);
  }

  #gather(): void {
    this.#gathering ??= setTimeout(() => this.#park(), GATHER_MS);
  }

  /** Answers the client that its input is needed; from now on it is not there. */
  #park(): void {
    this.#gathering = undefined;
    const client = this.#client;
    // What was taken back needs no answer; and a client that is not there is asked when it comes back.
    if (!client || this.#inputs.size === 0) return;
    this.#round++;
    const state = this.#place.hold(this);
    const inputs = this.#inputs.toJson();
    this.#client = undefined;
    // It may wait for long, and its request may be large.
    this.#request({ ...this.#attempt, message: outlineOf(this.#attempt.message) });
    this.#place.admit(this, 0);
    client.result(`{"resultType":"input_required","inputRequests":${inputs},"requestState":"${state}"}`);
  }

  #request(attempt: CallAttempt): void {
    this.#attempt = attempt;
    this.#continueWith(attempt);
  }

  #drained(): void {
    const drain = this.#drain;
    this.#drain = undefined;
    drain?.();
  }

  /** Tells the upstream of what it has asked and a client with these capabilities cannot be. */
  #refuseBeyond(capabilities: JsonObject): void {
    for (const { text, method, params } of this.#inputs.beyond(capabilities)) {
      this.#sink?.refused(method, params);
      this.#deliver(refusalOf(text, method));
    }
  }

  #deliver(text: string): void {
    this.#sink?.deliver(text).catch((error: unknown) => {
      if (!isRefusal(error)) this.#sink?.fail(error);
    });
  }
}

/** True when the upstream has the answer and no use for it: it says on the call what comes of that. */
function isRefusal(error: unknown): boolean {
  if (!(error instanceof UpstreamError) || error.kind !== 'http' || error.status === undefined) return false;
  return !isInconclusive(error.status) && !isSessionNotFound(error.status, undefined);
}
