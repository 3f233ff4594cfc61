import { randomUUID } from 'node:crypto';
import { applyEdits, insertEdit } from '@sluice/protocol/json/edit';
import { isJsonObject, type JsonObject, tryParseJson } from '@sluice/protocol/json/parse';
import { members, memberText } from '@sluice/protocol/json/scan';
import { answersQuestion } from '@sluice/protocol/mcp/capabilities';
import { INTERNAL_ERROR } from '@sluice/protocol/mcp/constants';
import type { NotificationMessage } from '@sluice/protocol/mcp/message';
import type { CallAnswer } from '../../answer/call-answer.ts';
import type { RpcError } from '../../answer/rpc-error.ts';
import type { AnswerRewriting, CallParts, CallPlan, Rewritten } from '../call-plan.ts';
import { type CallUnderWay, CLIENT_CANCELLED, CLIENT_LEFT } from '../call-under-way.ts';
import { type CallWatch, watchOfRounds } from '../call-watch.ts';
import { MAX_OPEN_REQUESTS, UpstreamQuestions } from '../questions.ts';
import { RelayedCall } from '../relayed-call.ts';
import { type ClientFacts, modernEnvelope } from './modern-request.ts';

/** How often an upstream may ask for input before it has to have an answer (mcp 5). */
const MAX_ROUNDS = 10;

/**
 * A legacy client's call to a modern upstream (mcp 5). Where the upstream answers that it needs input, the client is
 * asked on the call's own stream, and the upstream is sent the request again with the answers: a call upstream of its own
 * for each round, one call for the client.
 */
export class CallInRounds implements CallAnswer, CallUnderWay, AnswerRewriting {
  readonly startedAt: number;
  activeAt: number;
  slot = -1;
  lasting = false;
  readonly #parts: CallParts;
  /** Without what makes the request a modern one. */
  readonly #plan: CallPlan;
  readonly #facts: ClientFacts;
  readonly #client: CallAnswer;
  /** For the calls upstream. */
  readonly #watch: CallWatch | undefined;
  #rounds = 0;
  /** The highest that the client was told of. */
  #progress = Number.NEGATIVE_INFINITY;
  #over = false;
  #gone = false;
  /** Told when the client leaves, by the call upstream; undefined while there is none. */
  #leave: (() => void) | undefined = undefined;
  /** Of the call upstream that has just been answered. */
  #result: JsonObject | undefined = undefined;
  #questions: UpstreamQuestions | undefined = undefined;
  /** Of this round: the answers so far, as members of `inputResponses`, and what they are to be sent with. */
  #answers: string[] = [];
  #state: string | undefined = undefined;

  constructor(parts: CallParts, plan: CallPlan, facts: ClientFacts, client: CallAnswer) {
    this.#parts = parts;
    this.#plan = plan;
    this.#facts = facts;
    this.#client = client;
    this.#watch = plan.watch && watchOfRounds(plan.watch, () => this.#inputRequired());
    this.startedAt = parts.calls.now();
    this.activeAt = this.startedAt;
  }

  start(): void {
    this.#client.onLeave(() => this.#clientLeft());
    this.#send([]);
  }

  get idText(): string {
    return this.#client.idText;
  }

  get streaming(): boolean {
    return this.#client.streaming;
  }

  onLeave(listener: () => void): void {
    this.#leave = listener;
  }

  onDrain(listener: () => void): void {
    this.#client.onDrain(listener);
  }

  beginStream(prime?: boolean): void {
    this.#client.beginStream(prime);
  }

  /** Each round begins its own progress, and the client is told of one that only rises (2025-11-25, "Progress"). */
  event(data: string): boolean {
    const progress = progressOf(data);
    if (progress !== undefined && progress <= this.#progress) return true;
    this.#progress = progress ?? this.#progress;
    return this.#client.event(data);
  }

  poll(retryMs: number): void {
    this.#client.poll(retryMs);
  }

  refused(): void {}

  /** What each call upstream is answered is looked at before it is handed on. */
  rewrite(text: string, value: JsonObject): Rewritten | undefined {
    this.#result = isJsonObject(value.result) ? value.result : undefined;
    return this.#plan.rewriting?.rewrite(text, value);
  }

  response(text: string, ...rest: [failed: boolean, status: number, json: boolean]): void {
    this.#leave = undefined;
    const result = this.#result;
    this.#result = undefined;
    if (result?.resultType === 'input_required') this.#ask(memberText(text, 'result') ?? '', result);
    else this.#client.response(text, ...rest);
  }

  error(error: RpcError): void {
    this.#end();
    this.#client.error(error);
  }

  cancelled(readsStreams: boolean): void {
    this.#leave = undefined;
    this.#client.cancelled(readsStreams);
  }

  isFor(session: string, idText: string): boolean {
    return this.#plan.session?.id === session && this.idText === idText;
  }

  /** Cancelled while the client is being asked: there is no call upstream. */
  cancel(_message: NotificationMessage): void {
    this.#plan.watch?.abandoned(CLIENT_CANCELLED);
    this.#end();
    this.#client.cancelled(this.#plan.streams);
  }

  onLasting(): void {}

  /** It is the client that is silent: only the whole length counts. */
  onDeadline(limit: 'silence' | 'total'): void {
    if (limit === 'total') return this.#fail(`it did not finish within ${this.#parts.calls.limits.totalMs / 1000} s`);
    this.activeAt = this.#parts.calls.now();
    this.#parts.calls.watch(this);
  }

  /** Sends the request upstream; `more` are members of its params, as JSON text. */
  #send(more: readonly string[]): void {
    const { message, edits } = this.#plan;
    const plan = {
      ...this.#plan,
      rewriting: this,
      watch: this.#watch,
      edits: [...edits, ...modernEnvelope(message, this.#facts, more)],
    };
    new RelayedCall(this.#parts, plan, this, this.startedAt).start();
  }

  /** There is nobody left to ask, and so no further round; the answer itself is nobody's either. */
  #inputRequired(): void {
    if (!this.#gone) return;
    this.#plan.watch?.abandoned(CLIENT_LEFT);
    this.#end();
  }

  /** Asks the client for all that the upstream needs. */
  #ask(text: string, { inputRequests = {}, requestState }: JsonObject): void {
    if (++this.#rounds > MAX_ROUNDS) return this.#fail(`the upstream asked for input more than ${MAX_ROUNDS} times`);
    if (!isJsonObject(inputRequests)) return this.#fail('the upstream asked for input that is no object of requests');
    if (requestState !== undefined && typeof requestState !== 'string') {
      return this.#fail('the upstream asked for input with a requestState that is no string');
    }
    this.#state = memberText(text, 'requestState');
    this.#answers = [];
    const requests = Object.entries(inputRequests);
    if (requests.length === 0) {
      if (this.#state === undefined) return this.#fail('the upstream asked for input without saying for what');
      return this.#retry();
    }
    if (requests.length > MAX_OPEN_REQUESTS) {
      return this.#fail(
        `the upstream asked for ${requests.length} things at once, and at most ${MAX_OPEN_REQUESTS} can be`,
      );
    }
    for (const [, request] of requests) {
      const { method, params }: JsonObject = isJsonObject(request) ? request : {};
      if (typeof method !== 'string' || !answersQuestion(this.#facts.capabilities, method, params)) {
        return this.#fail(
          `the upstream asked for input that the client does not offer (${named(method, 'no method')})`,
        );
      }
      if (params !== undefined && !isJsonObject(params)) {
        return this.#fail(
          `the upstream asked for input with params that are no object (${named(method, 'no method')})`,
        );
      }
    }
    const { session } = this.#plan;
    if (!session || this.#parts.sessions.ended(session)) {
      return this.#fail('the client cannot be asked: its session has ended');
    }
    this.#parts.calls.watch(this);
    this.#questions ??= new UpstreamQuestions({
      live: () => this.#parts.lives.of(session.id),
      send: (question) => this.#show(question),
      deliver: async (answer) => this.#answered(answer),
    });
    for (const [key, request] of memberTexts(memberText(text, 'inputRequests') ?? '{}')) {
      const params = memberText(request, 'params');
      const asked = params === undefined ? '' : `,"params":${withElicitationId(params)}`;
      const method = memberText(request, 'method');
      this.#questions.ask(`{"jsonrpc":"2.0","id":${JSON.stringify(key)},"method":${method}${asked}}`);
    }
  }

  #show(text: string): void {
    if (this.#gone) return;
    if (!this.#client.streaming) this.#client.beginStream();
    this.#client.event(text);
  }

  /** One answer of the client's, under the key of the request. */
  #answered(text: string): void {
    if (this.#over) return;
    const result = memberText(text, 'result');
    if (result === undefined) {
      const reason = tryParseJson(memberText(memberText(text, 'error') ?? '', 'message') ?? '');
      return this.#fail(`the client did not give the input that the upstream asked for: ${named(reason, 'no reason')}`);
    }
    this.#answers.push(`${memberText(text, 'id')}:${result}`);
    if (!this.#questions?.open) this.#retry();
  }

  #retry(): void {
    this.#parts.calls.unwatch(this);
    const more = this.#answers.length > 0 ? [`"inputResponses":{${this.#answers.join(',')}}`] : [];
    if (this.#state !== undefined) more.push(`"requestState":${this.#state}`);
    this.#send(more);
  }

  #clientLeft(): void {
    this.#gone = true;
    if (this.#leave) return this.#leave();
    this.#plan.watch?.abandoned(CLIENT_LEFT);
    this.#end();
  }

  #fail(what: string): void {
    if (this.#over) return;
    this.#end();
    const reason = `${this.#plan.failure}: ${what}`;
    this.#plan.watch?.failed(undefined, reason);
    this.#client.error({ code: INTERNAL_ERROR, message: reason });
  }

  #end(): void {
    this.#over = true;
    this.#parts.calls.unwatch(this);
    this.#questions?.withdrawAll();
  }
}

/** The members of an object, each as JSON text; of two under one key the last, which is the one that was looked at. */
function memberTexts(text: string): Map<string, string> {
  return new Map([...members(text)].map(({ key, start, end }) => [key, text.slice(start, end)]));
}

/** A text of somebody else's, short enough to be repeated; they may have put anything there. */
function named(text: unknown, otherwise: string): string {
  return typeof text === 'string' ? text.slice(0, 200) : otherwise;
}

/** The legacy era demands an id of every address that is to be visited. */
function withElicitationId(params: string): string {
  const keys = memberTexts(params);
  if (keys.get('mode') !== '"url"' || keys.has('elicitationId')) return params;
  return applyEdits(params, [insertEdit(params, 0, `"elicitationId":"${randomUUID()}"`)]);
}

/** How far a call is, as this message says; undefined for a message that says nothing of it. */
function progressOf(text: string): number | undefined {
  if (!text.includes('notifications/progress')) return undefined;
  const value = tryParseJson(text);
  const params = isJsonObject(value) && value.method === 'notifications/progress' ? value.params : undefined;
  return isJsonObject(params) && typeof params.progress === 'number' ? params.progress : undefined;
}
