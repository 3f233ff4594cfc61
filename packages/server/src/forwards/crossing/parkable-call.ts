import type { CallAnswer } from '../../answer/call-answer.ts';
import type { RpcError } from '../../answer/rpc-error.ts';
import type { JsonObject } from '../../json/lossless.ts';
import { answersQuestion } from '../../mcp/askable.ts';
import type { CallAttempt } from '../call-plan.ts';
import type { QuestionSink, Questions } from '../questions.ts';
import { tellsSessionLost } from '../session-loss.ts';
import { UpstreamError } from '../upstream-error.ts';
import { decidesNothing } from '../upstream-response.ts';
import { HeldMessages, type Response } from './held-messages.ts';
import { InputRequests } from './input-requests.ts';
import type { Binding } from './request-state.ts';

/** After a question others are waited for so long, in milliseconds: what is asked at once, the client is asked at once. */
const GATHER_MS = 10;

/** The client's side of one request. */
export interface AskedClient extends CallAnswer {
  /** Answers it with a result, as JSON text. */
  result(json: string): void;
}

/** Where calls are held while their clients are away. */
export interface ParkingPlace {
  /** An id for a call that may be parked. */
  nextId(): string;
  /** Keeps a place for a call that is about to be parked. False when there is none. */
  admit(call: ParkableCall): boolean;
  /** False when what has come of a parked call is too much to be held. */
  admitMore(call: ParkableCall, characters: number): boolean;
  /** Holds a call that has a place until it is resumed or expires. The `requestState` that its client comes back with. */
  hold(call: ParkableCall): string;
  /** The call's place is free again. */
  leave(call: ParkableCall): void;
}

export interface ParkableCallOptions {
  readonly place: ParkingPlace;
  /** The client's request as it is now: its first one, or its latest retry. */
  readonly attempt: CallAttempt;
  /** Whose the call is; asked for when it is parked. */
  readonly binding: () => Binding;
  /** The client has sent a retry, which is the request from now on. */
  readonly retried: (retry: CallAttempt) => void;
}

/**
 * Stands between a modern client and the call to a legacy upstream (mcp 5). When the upstream asks something, the
 * client's request is answered `InputRequiredResult`; the call goes on upstream, and with the client's retry, which may
 * be answered in the same way. What the upstream sends in between waits for the client: it is held back after the first
 * message.
 */
export class ParkableCall implements CallAnswer, Questions {
  readonly id: string;
  readonly #options: ParkableCallOptions;
  #capabilities: JsonObject;
  #round = 0;
  /** Undefined while the call is parked. */
  #client: AskedClient | undefined;
  readonly #inputs = new InputRequests();
  readonly #held: HeldMessages;
  #sink: QuestionSink | undefined = undefined;
  #gathering: NodeJS.Timeout | undefined = undefined;
  #leave: (() => void) | undefined = undefined;
  #drain: (() => void) | undefined = undefined;

  constructor(options: ParkableCallOptions, client: AskedClient) {
    const { place, attempt } = options;
    this.#options = options;
    this.#capabilities = attempt.capabilities;
    this.#client = client;
    this.#held = new HeldMessages((characters) => place.admitMore(this, characters));
    this.id = place.nextId();
    client.onLeave(() => this.#leave?.());
  }

  /** How often it has been parked. */
  get round(): number {
    return this.#round;
  }

  get binding(): () => Binding {
    return this.#options.binding;
  }

  /** What holding its request costs. */
  get characters(): number {
    return this.#options.attempt.message.text.length;
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
  connect(sink: QuestionSink): this {
    this.#sink = sink;
    return this;
  }

  /** Parks the call soon. False when the client cannot be asked this, or there is no room for it. */
  ask(text: string, { method, params }: JsonObject): boolean {
    if (typeof method !== 'string' || !answersQuestion(this.#capabilities, method, params)) return false;
    if (!this.#options.place.admit(this) || !this.#inputs.add(text, method, params)) return false;
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
    this.#options.retried(retry);
    this.#capabilities = retry.capabilities;
    this.#client = client;
    client.onLeave(() => this.#leave?.());
    for (const answer of this.#inputs.answeredBy(retry.message)) this.#deliver(answer);
    // Each request of a modern client says for itself what it can be asked.
    for (const refusal of this.#inputs.beyond(retry.capabilities)) this.#deliver(refusal);
    if (this.#inputs.size > 0) this.#gather();
    else this.#leaveIfDone();
    const reads = this.#held.release(client, retry.message);
    if (this.#held.complete) return;
    if (reads) this.#drained();
    else client.onDrain(() => this.#drained());
  }

  /** Nobody comes back for it. */
  expire(): void {
    this.#options.place.leave(this);
    if (!this.#held.complete) this.#leave?.();
  }

  /** Nothing is left to be parked for, and nobody has to come back. */
  #leaveIfDone(): void {
    if (this.#client && this.#inputs.size === 0) this.#options.place.leave(this);
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
    this.#client = undefined;
    this.#round++;
    const state = this.#options.place.hold(this);
    client.result(`{"resultType":"input_required","inputRequests":${this.#inputs.toJson()},"requestState":"${state}"}`);
  }

  #drained(): void {
    const drain = this.#drain;
    this.#drain = undefined;
    drain?.();
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
  return !decidesNothing(error.status) && !tellsSessionLost(error.status, undefined);
}
