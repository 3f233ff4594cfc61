import { randomUUID } from 'node:crypto';
import { applyEdits, insertEdit } from '@sluice/protocol/json/edit';
import { isJsonObject, type JsonObject, type JsonValue, tryParseJson } from '@sluice/protocol/json/parse';
import { members, memberText } from '@sluice/protocol/json/scan';
import { answersQuestion } from '@sluice/protocol/mcp/capabilities';
import { INTERNAL_ERROR } from '@sluice/protocol/mcp/constants';
import { withoutElicitationId } from '@sluice/protocol/mcp/era';
import { type NotificationMessage, paramText, type RequestMessage } from '@sluice/protocol/mcp/message';
import type { RpcError } from '../../../http/context.ts';
import type { CallResponse } from '../../downstream.ts';
import { type CallObserver, watchOfRounds } from '../relay/call-observer.ts';
import { CLIENT_CANCELLED, CLIENT_LEFT, type InFlightCall } from '../relay/in-flight.ts';
import type { AnswerRewriting, CallParts, CallPlan, Rewritten } from '../relay/relay.ts';
import { RelayedCall } from '../relay/relayed-call.ts';
import { MAX_OPEN_REQUESTS, UpstreamServerRequests } from '../relay/server-requests.ts';
import { type ClientFacts, modernEnvelope } from './messages.ts';

/** How often an upstream may ask for input before it has to have an answer (mcp 5). */
const MAX_ROUNDS = 10;

/**
 * A legacy client's call to a modern upstream (mcp 5). Where the upstream answers that it needs input, the client is
 * asked on the call's own stream, and the upstream is sent the request again with the answers: a call upstream of its own
 * for each round, one call for the client.
 */
export class MultiRoundCall implements CallResponse, InFlightCall, AnswerRewriting {
  readonly startedAt: number;
  activeAt: number;
  slot = -1;
  lasting = false;
  readonly #parts: CallParts;
  /** Without what makes the request a modern one. */
  readonly #plan: CallPlan;
  readonly #facts: ClientFacts;
  readonly #client: CallResponse;
  /** For the calls upstream. */
  readonly #watch: CallObserver | undefined;
  #rounds = 0;
  /** The highest that the client was told of. */
  #progress = Number.NEGATIVE_INFINITY;
  #over = false;
  #gone = false;
  /** Told when the client leaves, by the call upstream; undefined while there is none. */
  #leave: (() => void) | undefined = undefined;
  /** Of the call upstream that has just been answered. */
  #result: JsonObject | undefined = undefined;
  #questions: UpstreamServerRequests | undefined = undefined;
  /** Of this round: the answers so far, as members of `inputResponses`, and what they are to be sent with. */
  #answers: string[] = [];
  #state: string | undefined = undefined;

  constructor(parts: CallParts, plan: CallPlan, facts: ClientFacts, client: CallResponse) {
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
    this.#questions ??= new UpstreamServerRequests({
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

/** Questions that one call may have open at a time. */
const MAX_OPEN = 32;

/** One request of the upstream's that waits for the client's answer. */
export interface InputRequest {
  /** As the upstream wrote it. */
  readonly text: string;
  readonly method: string;
  readonly params: JsonValue | undefined;
}

/** What an upstream of the legacy era has asked in the middle of a call, in the form in which a modern client is asked. */
export class InputRequests {
  /** By the key that the client answers under. */
  readonly #open = new Map<string, InputRequest>();
  #count = 0;

  /** How many wait. */
  get size(): number {
    return this.#open.size;
  }

  /** The length of all that wait. */
  get characters(): number {
    return this.#open.values().reduce((sum, { text }) => sum + text.length, 0);
  }

  /** False when too many are open. */
  add(text: string, method: string, params: JsonValue | undefined): boolean {
    if (this.#open.size >= MAX_OPEN) return false;
    this.#open.set(`${method}#${++this.#count}`, { text, method, params });
    return true;
  }

  /** The upstream takes one back, in this `notifications/cancelled`. */
  takeBack(text: string): void {
    const requestId = paramText(text, 'requestId');
    for (const [key, request] of this.#open) if (idOf(request) === requestId) this.#open.delete(key);
  }

  clear(): void {
    this.#open.clear();
  }

  /** The member `inputRequests` of a result, as JSON text. */
  toJson(): string {
    const requests = [...this.#open].map(([key, { text, method }]) => {
      const params = memberText(text, 'params');
      const asked = params !== undefined && method === 'elicitation/create' ? withoutElicitationId(params) : params;
      return `${JSON.stringify(key)}:{"method":"${method}"${asked === undefined ? '' : `,"params":${asked}`}}`;
    });
    return `{${requests.join(',')}}`;
  }

  /**
   * Takes the answers of a retry out, as the responses that the upstream is to be sent; what the retry leaves out stays
   * open. Answers that are no objects, or to nothing that was asked, count for nothing.
   */
  answeredBy({ text, paramsRange }: RequestMessage): string[] {
    const responses: string[] = [];
    if (!paramsRange) return responses;
    for (const { key: member, start } of members(text, paramsRange.start)) {
      if (member !== 'inputResponses') continue;
      for (const { key, start: from, end } of members(text, start)) {
        const request = this.#open.get(key);
        if (!request || text[from] !== '{') continue;
        this.#open.delete(key);
        responses.push(`{"jsonrpc":"2.0","id":${idOf(request)},"result":${text.slice(from, end)}}`);
      }
    }
    return responses;
  }

  /** Takes out what a client with these capabilities cannot be asked. */
  beyond(capabilities: JsonObject): InputRequest[] {
    const refused: InputRequest[] = [];
    for (const [key, request] of this.#open) {
      if (answersQuestion(capabilities, request.method, request.params)) continue;
      this.#open.delete(key);
      refused.push(request);
    }
    return refused;
  }
}

function idOf({ text }: InputRequest): string {
  return memberText(text, 'id') ?? 'null';
}
