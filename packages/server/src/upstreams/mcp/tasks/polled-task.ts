import { isJsonObject, type JsonObject, tryParseJson } from '@sluice/protocol/json/parse';
import { applyEdits, insertEdit, memberText } from '@sluice/protocol/json/text';
import { acceptsServerRequest } from '@sluice/protocol/mcp/capabilities';
import { INTERNAL_ERROR, INVALID_PARAMS } from '@sluice/protocol/mcp/constants';
import { isTerminal, readTask, relatedTo, type TaskState } from '@sluice/protocol/mcp/tasks';
import type { RpcError } from '../../../http/outcome.ts';
import { NO_CLIENT } from '../../client-facts.ts';
import type { DownstreamSession } from '../../downstream.ts';
import {
  type CallOutcome,
  DetachedSink,
  failedOutcome,
  type ResponseBytes,
  type ResponseSink,
} from '../../response-sink.ts';
import { withElicitationId } from '../era-translation/multi-round-call.ts';
import type { CallContext, PolledCall, ResponseRewriter } from '../relay/call-plan.ts';
import { CLIENT_CANCELED, CLIENT_DISCONNECTED, type InFlightCall, SHUTTING_DOWN } from '../relay/in-flight-calls.ts';
import type { ByteEdit, ResultPositions } from '../relay/large-message.ts';
import { sendResponse } from '../relay/response-rewrite.ts';
import { RelayedServerRequests } from '../relay/server-requests.ts';

/** Bounds of the time between two polls, whatever the upstream suggests, and the time if it suggests none. */
export const MIN_POLL_MS = 100;
const MAX_POLL_MS = 30_000;
const DEFAULT_POLL_MS = 1_000;

/** Returns the time until the next poll of a task in this state, in milliseconds. */
export function pollDelayMs({ pollIntervalMs = DEFAULT_POLL_MS }: TaskState): number {
  return Math.min(Math.max(pollIntervalMs, MIN_POLL_MS), MAX_POLL_MS);
}

/** Longer results are not parsed, which would take long. */
const MAX_PARSED_CHARACTERS = 4 * 1024 * 1024;
/** Maximum number of requests for input during one task. */
const MAX_INPUT_REQUESTS = 100;

/** Sends the requests of a {@link PolledTask}. */
export interface TaskPolling {
  /** Requests the state; the response is sent to `sink` after `rewriter` has seen it. */
  poll(sink: ResponseSink, rewriter: ResponseRewriter): void;
  /** Sends input, as members of `inputResponses` in JSON text. Rejects with `UpstreamError`. */
  update(inputResponses: string): Promise<void>;
  /**
   * Our id, if the client knows the task and waits for its result: requests for input are related to it, and the task goes on
   * when the client stops waiting.
   */
  readonly knownAs?: string;
  /** Records a reported state, with the result around it. Returns the problem with it, if there is one. */
  observe?(state: TaskState, result: JsonObject): string | undefined;
  /** The upstream does not know the task any more. */
  onGone?(): void;
  /** Cancels the task; never rejects. */
  cancel?(): void;
  /**
   * Stores the task until the client retries its call with input; resolves with the `requestState` of the retry. Undefined if
   * the client may have no more tasks; rejects with `StoreError`.
   */
  suspend?(state: TaskState): Promise<string | undefined>;
  /** The call has ended, and with it the stored task. Called again if that was not stored yet. */
  onEnd?(): void;
}

/**
 * A call that polls a task of a modern upstream on behalf of its client: the call of a client that does not support tasks, or
 * `tasks/result` of a legacy client. The client gets the result as if the call had taken that long. Changes of the status
 * message are sent as progress. A legacy client gets requests for input on the stream of the call. A modern client gets an
 * `InputRequiredResult`, and its retry continues here, also after a restart.
 */
export class PolledTask implements ResponseRewriter, InFlightCall {
  readonly startedAt: number;
  activeAt: number;
  slot = -1;
  readonly #context: CallContext;
  readonly #call: PolledCall;
  readonly #polling: TaskPolling;
  #state: TaskState;
  #timer: NodeJS.Timeout | undefined = undefined;
  #ended = false;
  /** The call has ended until its retry. */
  #isSuspended = false;
  #isClientDisconnected: boolean;
  /** Number of progress notifications so far. */
  #progress = 0;
  /** Keys of the requests for input that the client got. */
  readonly #sentKeys = new Set<string>();
  #serverRequests: RelayedServerRequests | undefined = undefined;
  /** The result of the task in a large response. */
  #largeResult: string | undefined = undefined;

  constructor(context: CallContext, call: PolledCall, state: TaskState, polling: TaskPolling) {
    this.#context = context;
    this.#call = call;
    this.#state = state;
    this.#polling = polling;
    this.#isClientDisconnected = call.isClientDisconnected;
    this.startedAt = performance.now();
    this.activeAt = this.startedAt;
  }

  /** `inputResponses`: input of the client with which it continues, as JSON text. */
  start(inputResponses?: string): void {
    this.#call.sink.onDisconnect(() => this.#onClientDisconnected());
    this.#context.calls.add(this);
    this.#report(this.#state.statusMessage);
    if (this.#polling.knownAs !== undefined) return this.#poll();
    if (inputResponses === undefined) return this.#pollLater();
    this.#polling.update(inputResponses).then(
      () => this.#pollLater(),
      (error: unknown) => this.#fail(error instanceof Error ? error.message : 'internal error', true),
    );
  }

  // The response to a poll.

  rewrite(): undefined {}

  rewriteLarge({ members: positions, textOf }: ResultPositions): readonly ByteEdit[] {
    const result = positions?.find(({ key }) => key === 'result');
    this.#largeResult = result && textOf(result);
    return [];
  }

  #onPollEnded(outcome: CallOutcome): void {
    if (this.#ended) return;
    if (outcome.kind === 'response') this.#onPolled(outcome.text, outcome.value);
    else if (outcome.kind === 'large') this.#onLargePolled(outcome.bytes, outcome.value);
    else if (outcome.kind === 'failed') this.#onPollFailed(outcome.error);
  }

  #onLargePolled(bytes: ResponseBytes, { result: state }: JsonObject): void {
    const result = this.#largeResult;
    this.#largeResult = undefined;
    if (!isJsonObject(state) || state.status !== 'completed' || result === undefined) {
      return this.#fail('the upstream answered with a task that is too large', true);
    }
    bytes.free?.();
    this.#complete(result);
  }

  /** A poll that fails is repeated for as long as an upstream may be silent. */
  #onPollFailed({ message }: RpcError): void {
    if (performance.now() - this.activeAt > this.#context.calls.limits.idleMs) return this.#fail(message, true);
    this.#pollLater();
  }

  // The call of the client.

  matches(session: string, idText: string): boolean {
    const { client } = this.#call.sink;
    return client.session?.id === session && client.idText === idText;
  }

  cancel(): void {
    if (this.#ended) return;
    this.#call.sink.observer?.canceled(CLIENT_CANCELED);
    this.#end(true);
    this.#call.sink.complete({ kind: 'canceled' });
  }

  onDeadline(limit: 'idle' | 'total'): void {
    if (limit === 'idle' && this.#serverRequests?.pending) {
      this.activeAt = performance.now();
      this.#context.calls.add(this);
      return;
    }
    const { idleMs, totalMs } = this.#context.calls.limits;
    const what =
      limit === 'idle' ? `did not respond for ${idleMs / 1000} s` : `did not finish within ${totalMs / 1000} s`;
    this.#fail(`the task ${what}`, true);
  }

  onShutdown(): void {
    if (this.#ended) return;
    this.#end(true);
    this.#call.sink.complete(failedOutcome(SHUTTING_DOWN, 'SERVICE_UNAVAILABLE', 'aborted'));
  }

  #onClientDisconnected(): void {
    this.#isClientDisconnected = true;
    // The call of a legacy client continues.
    if (this.#ended || this.#call.sink.client.era === 'legacy') return this.#endIfUnused();
    this.#call.sink.observer?.canceled(CLIENT_DISCONNECTED);
    this.#end(true);
  }

  /** A client that knows the task can ask for the result again, unless it is to respond to requests for input. */
  #endIfUnused(): void {
    if (this.#ended || this.#polling.knownAs === undefined || this.#serverRequests?.pending) return;
    this.#call.sink.observer?.canceled(CLIENT_DISCONNECTED);
    this.#end();
  }

  #pollLater(): void {
    if (this.#isClientDisconnected) this.#endIfUnused();
    if (!this.#ended) this.#timer = setTimeout(() => this.#poll(), pollDelayMs(this.#state)).unref();
  }

  #poll(): void {
    const client = { ...NO_CLIENT, namespace: this.#call.sink.client.namespace };
    this.#polling.poll(new DetachedSink(client, (outcome) => this.#onPollEnded(outcome)), this);
  }

  #onPolled(text: string, value: JsonObject): void {
    this.activeAt = performance.now();
    const { error, result } = value;
    if (isJsonObject(error)) {
      if (error.code !== INVALID_PARAMS) return this.#onPollFailed(INTERNAL);
      this.#polling.onGone?.();
      return this.#fail('the upstream no longer knows the task');
    }
    const state = readTask('modern', result);
    if (!state || !isJsonObject(result)) return this.#fail('the upstream answered with an invalid task', true);
    const problem = this.#polling.observe?.(state, result);
    if (problem !== undefined) return this.#fail(problem);
    const before = this.#state;
    this.#state = state;
    const resultText = memberText(text, 'result') ?? '';
    if (isTerminal(state.status)) return this.#finish(state, resultText);
    if (state.statusMessage !== before.statusMessage) this.#report(state.statusMessage);
    const isSuspended = state.status === 'input_required' && this.#requestInput(resultText, result.inputRequests);
    if (!isSuspended) this.#pollLater();
  }

  #finish({ status }: TaskState, text: string): void {
    const error = memberText(text, 'error');
    const result = memberText(text, 'result');
    if (status === 'completed' && result?.startsWith('{')) return this.#complete(result);
    if (status === 'failed' && error?.startsWith('{')) return this.#respondWith('error', error);
    this.#fail(
      status === 'cancelled' ? 'the upstream canceled the task' : 'the upstream answered with an invalid task',
    );
  }

  #complete(inlined: string): void {
    const { knownAs } = this.#polling;
    const result = knownAs === undefined ? inlined : relatedTo(inlined, knownAs);
    const needsType = this.#call.sink.client.era === 'modern' && result.length <= MAX_PARSED_CHARACTERS;
    const isTyped = !needsType || memberText(result, 'resultType') !== undefined;
    this.#respondWith(
      'result',
      isTyped ? result : applyEdits(result, [insertEdit(result, 0, '"resultType":"complete"')]),
    );
  }

  #respondWith(member: 'result' | 'error', content: string): void {
    const { plan, sink } = this.#call;
    const text = `{"jsonrpc":"2.0","id":${sink.client.idText},"${member}":${content}}`;
    const parsed = content.length <= MAX_PARSED_CHARACTERS ? tryParseJson(content) : {};
    const value: JsonObject = { [member]: isJsonObject(parsed) ? parsed : {} };
    this.#end();
    sendResponse(sink, plan, text, value, 200);
  }

  /** Sends a status message as progress, if the client has requested that. */
  #report(message: string | undefined): void {
    const { plan, sink } = this.#call;
    const { progressToken } = plan;
    if (message === undefined || !progressToken || !sink.client.accepts.sse || this.#isClientDisconnected) return;
    const token = plan.message.text.slice(progressToken.start, progressToken.end);
    const params = `{"progressToken":${token},"progress":${++this.#progress},"message":${JSON.stringify(message)}}`;
    sink.sendMessage(`{"jsonrpc":"2.0","method":"notifications/progress","params":${params}}`);
  }

  /** Sends the client those requests for input that it has not got yet. True if the call continues with its retry. */
  #requestInput(text: string, requests: unknown): boolean {
    const { session, accepts, capabilities, era } = this.#call.sink.client;
    const problem = problemOf(requests, capabilities);
    if (problem !== undefined || !isJsonObject(requests)) {
      this.#fail(problem ?? '', true);
      return false;
    }
    const texts = memberText(text, 'inputRequests') ?? '{}';
    if (era === 'modern') {
      this.#suspend(texts);
      return true;
    }
    for (const key of Object.keys(requests)) {
      if (this.#sentKeys.has(key)) continue;
      if (!session || !accepts.sse || session.hasEnded) this.#fail(UNSUPPORTED_INPUT, true);
      else if (this.#sentKeys.size >= MAX_INPUT_REQUESTS) this.#fail('the upstream requires too much input', true);
      else this.#relay(key, memberText(texts, key) ?? '{}', session);
      if (this.#ended) return false;
    }
    return false;
  }

  #relay(key: string, request: string, session: DownstreamSession): void {
    this.#sentKeys.add(key);
    this.#serverRequests ??= new RelayedServerRequests({
      channel: () => session.channel(),
      send: (sent) => this.#isClientDisconnected || this.#call.sink.sendMessage(sent),
      post: (response) => this.#sendInput(response),
    });
    // Some clients require `params`, which are optional.
    const params = this.#legacyParams(memberText(request, 'params') ?? '{}');
    const method = memberText(request, 'method');
    const text = `{"jsonrpc":"2.0","id":${JSON.stringify(key)},"method":${method},"params":${params}}`;
    if (!this.#serverRequests.relay(text)) this.#fail('the upstream requires too much input at once', true);
  }

  /** The params of a request for input in the form of the legacy era. */
  #legacyParams(params: string): string {
    const { knownAs } = this.#polling;
    const sent = withElicitationId(params);
    return knownAs === undefined ? sent : relatedTo(sent, knownAs);
  }

  /** Responds that input is required. */
  #suspend(inputRequests: string): void {
    const suspended = this.#polling.suspend?.(this.#state) ?? Promise.resolve(undefined);
    suspended.then(
      (requestState) => {
        // At the end, it was not stored yet.
        if (this.#ended) return this.#polling.onEnd?.();
        if (requestState === undefined) return this.#fail('too many tasks', true);
        this.#isSuspended = true;
        const state = JSON.stringify(requestState);
        this.#respondWith(
          'result',
          `{"resultType":"input_required","inputRequests":${inputRequests},"requestState":${state}}`,
        );
      },
      () => this.#fail('the task could not be stored', true),
    );
  }

  /** Sends the upstream one response of the client; its id is the key of the request. */
  async #sendInput(text: string): Promise<void> {
    if (this.#ended) return;
    this.activeAt = performance.now();
    const result = memberText(text, 'result');
    if (result === undefined) return this.#fail('the client did not provide the required input', true);
    await this.#polling.update(`{${memberText(text, 'id')}:${result}}`);
  }

  /** Fails the call; `cancels`: the task may be running. */
  #fail(what: string, cancels = false): void {
    if (this.#ended) return;
    const { plan, sink } = this.#call;
    this.#end(cancels);
    sink.complete({ kind: 'failed', error: { code: INTERNAL_ERROR, message: `${plan.failure}: ${what}` } });
  }

  #end(cancels = false): void {
    this.#ended = true;
    clearTimeout(this.#timer);
    this.#context.calls.remove(this);
    this.#serverRequests?.cancelAll();
    if (cancels) this.#polling.cancel?.();
    if (!this.#isSuspended) this.#polling.onEnd?.();
  }
}

const UNSUPPORTED_INPUT = 'the upstream requires input that the client does not support';

/** Returns why a client with these capabilities cannot provide the required input. */
function problemOf(requests: unknown, capabilities: JsonObject): string | undefined {
  if (!isJsonObject(requests)) return 'the upstream sent inputRequests that are not an object';
  for (const request of Object.values(requests)) {
    const { method, params }: JsonObject = isJsonObject(request) ? request : {};
    if (typeof method !== 'string' || !acceptsServerRequest(capabilities, method, params)) return UNSUPPORTED_INPUT;
  }
  return undefined;
}

const INTERNAL: RpcError = { code: INTERNAL_ERROR, message: 'the upstream rejected a request for the state of a task' };
