import { isJsonObject, type JsonObject, type JsonValue, tryParseJson } from '@sluice/protocol/json/parse';
import { memberText, withMembers } from '@sluice/protocol/json/text';
import { acceptsServerRequest } from '@sluice/protocol/mcp/capabilities';
import { INTERNAL_ERROR, INVALID_PARAMS } from '@sluice/protocol/mcp/constants';
import { isTerminal, readTask, relatedTo, type TaskState } from '@sluice/protocol/mcp/tasks';
import { UpstreamError } from '../../../http/client/errors.ts';
import { CANCELED } from '../../../telemetry/tool-calls/event.ts';
import type { DownstreamSession } from '../../downstream.ts';
import { CLIENT_DISCONNECTED } from '../../in-flight-calls.ts';
import {
  CallError,
  type Operation,
  type OperationContext,
  type OperationFailure,
  type ReportProgress,
} from '../../operation.ts';
import type { CallOutcome } from '../../response-sink.ts';
import { legacyServerRequest } from '../era-translation/multi-round-call.ts';
import type { CreatedTask } from '../relay/call-spec.ts';
import type { ReplyResult } from '../relay/collect.ts';
import { clientResponse } from '../relay/response-rewrite.ts';
import { RelayedServerRequests } from '../relay/server-requests.ts';
import { requestTask, type TaskTarget } from './target.ts';
import type { UpstreamTask } from './task.ts';
import { observeState } from './translation.ts';

/** Bounds of the time between two polls, whatever the upstream suggests, and the time if it suggests none. */
export const MIN_POLL_MS = 100;
const MAX_POLL_MS = 30_000;
const DEFAULT_POLL_MS = 1_000;

/** Returns the time until the next poll of a task in this state, in milliseconds. */
export function pollDelayMs({ pollIntervalMs = DEFAULT_POLL_MS }: Partial<Pick<TaskState, 'pollIntervalMs'>>): number {
  return Math.min(Math.max(pollIntervalMs, MIN_POLL_MS), MAX_POLL_MS);
}

/** A pause between two polls. */
export class Pause {
  /** Ends the pause, if there is one. */
  end = (): void => undefined;

  async wait(ms: number): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    this.end = resolve;
    const timer = setTimeout(resolve, ms).unref();
    await promise;
    clearTimeout(timer);
  }
}

/** Longer results are not parsed, which would take long. */
const MAX_PARSED_CHARACTERS = 4 * 1024 * 1024;
/** Maximum number of requests for input during one task. */
const MAX_INPUT_REQUESTS = 100;

const INVALID_TASK = 'the upstream answered with an invalid task';
const UNSUPPORTED_INPUT = 'the upstream requires input that the client does not support';

/** A call of a client, and the task of a modern upstream that is polled for it. */
export interface Polling extends Pick<CreatedTask, 'spec' | 'sink'> {
  readonly target: TaskTarget;
  readonly state: TaskState;
  /** Input of the client with which it continues, as JSON text. */
  readonly input?: string | undefined;
  /**
   * The task, if the client knows it and waits for its result: requests for input are related to it, and it continues when the
   * client stops waiting.
   */
  readonly known?: UpstreamTask;
  /**
   * Stores the task until the client retries its call with input. Resolves with the `requestState` of the retry; undefined if the
   * client may have no more tasks. Rejects with `StoreError`.
   */
  suspend?(state: TaskState): Promise<string | undefined>;
  /** The call has ended, and with it the stored task. */
  onEnd?(): void;
}

/**
 * A call that polls a task of a modern upstream on behalf of its client: the call of a client that does not support tasks, or
 * `tasks/result` of a legacy client. The client gets the result as if the call had taken that long. Changes of the status
 * message are sent as progress. A legacy client gets requests for input on the stream of the call. A modern client gets an
 * `InputRequiredResult`, and its retry continues here, also after a restart.
 */
export class PolledCall implements Operation {
  readonly #call: Polling;
  #state: TaskState;
  /** When the upstream last responded. */
  #lastActivityAt = performance.now();
  /** There is nothing to cancel upstream any more. */
  #isTaskOver = false;
  /** The call continues with a retry. */
  #isSuspended = false;
  #isClientDisconnected = false;
  #sendProgress: ReportProgress = async () => undefined;
  #isSending = false;
  /** Keys of the requests for input that the client got. */
  readonly #sentKeys = new Set<string>();
  #serverRequests: RelayedServerRequests | undefined = undefined;
  /** Why the client has not provided input. */
  #inputProblem: string | undefined = undefined;
  readonly #pause = new Pause();

  constructor(call: Polling) {
    this.#call = call;
    this.#state = call.state;
  }

  start(): void {
    const { spec, sink, target } = this.#call;
    const { message, forward, task } = spec;
    target.deps.operations.run({ entry: task?.tool, message, forward }, sink, this);
  }

  async execute({ signal, progress }: OperationContext): Promise<CallOutcome> {
    const { known, sink, input, target } = this.#call;
    this.#sendProgress = progress(target.deps.calls.limits.totalMs);
    sink.onDisconnect(() => {
      this.#isClientDisconnected = true;
      this.#pause.end();
    });
    signal.addEventListener('abort', () => this.#pause.end());
    this.#report(this.#state.statusMessage);
    if (input !== undefined) await this.#update(input).catch((error: Error) => Promise.reject(failure(error.message)));
    signal.throwIfAborted();
    if (!known) await this.#pause.wait(pollDelayMs(this.#state));
    for (;;) {
      signal.throwIfAborted();
      if (this.#inputProblem !== undefined) throw failure(this.#inputProblem);
      const outcome = this.#isUnused ? UNUSED : await this.#poll(signal);
      if (outcome && !this.#isSuspended) this.#end();
      if (outcome) return outcome;
      if (this.#inputProblem === undefined && !this.#isUnused) await this.#pause.wait(pollDelayMs(this.#state));
    }
  }

  onFailure(error: CallError): Partial<OperationFailure> {
    const { known, spec, target } = this.#call;
    this.#end();
    if (!known && !this.#isTaskOver) void requestTask(target, 'tasks/cancel');
    const message = `${spec.failure}: ${error.message}`;
    const outcome = (): CallOutcome => ({ kind: 'failed', error: { code: INTERNAL_ERROR, message } });
    return error.errorType === CANCELED ? { outcome } : { outcome, report: { ...error.report, message } };
  }

  #end(): void {
    this.#serverRequests?.cancelAll();
    this.#call.onEnd?.();
  }

  /** A client that knows the task can ask for the result again, unless it is to respond to requests for input. */
  get #isUnused(): boolean {
    return this.#isClientDisconnected && this.#call.known !== undefined && !this.#serverRequests?.pending;
  }

  /** Requests the state. Returns the outcome if the call ends with that. */
  async #poll(signal: AbortSignal): Promise<CallOutcome | undefined> {
    const { known, target } = this.#call;
    // Any number of requests may wait for one task: together they poll as often as a single one, whatever the upstream suggests.
    const mayPoll = !known || (await known.throttlePoll());
    signal.throwIfAborted();
    if (!mayPoll) return this.#onPollFailed('too many requests for the result of the task');
    const reply = await requestTask(target, 'tasks/get');
    signal.throwIfAborted();
    if (reply.kind === 'error' && reply.text === undefined) return this.#onPollFailed(reply.error.message);
    this.#lastActivityAt = performance.now();
    if (reply.kind === 'error') {
      if (reply.error.code !== INVALID_PARAMS) {
        return this.#onPollFailed('the upstream rejected a request for the state of a task');
      }
      known?.remove();
      this.#isTaskOver = true;
      throw failure('the upstream no longer knows the task');
    }
    const state = this.#observe(reply.value);
    if (reply.isLarge && (state.status !== 'completed' || reply.inlined === undefined)) {
      throw failure('the upstream answered with a task that is too large');
    }
    const before = this.#state;
    this.#state = state;
    if (isTerminal(state.status)) return this.#finish(state, reply);
    if (state.statusMessage !== before.statusMessage) this.#report(state.statusMessage);
    return state.status === 'input_required' ? this.#requestInput(reply) : undefined;
  }

  /** A poll that fails is repeated for as long as an upstream may be silent. */
  #onPollFailed(message: string): undefined {
    if (performance.now() - this.#lastActivityAt > this.#call.target.deps.calls.limits.idleMs) throw failure(message);
    return undefined;
  }

  #observe(value: JsonObject): TaskState {
    const { known } = this.#call;
    if (known && (known.isRemoved || known.record.isCanceled)) throw failure('the task was canceled');
    const state = known ? observeState(known, value) : (readTask('modern', value) ?? 'an invalid task');
    if (typeof state === 'string') throw failure(`the upstream answered with ${state}`);
    return state;
  }

  #finish({ status }: TaskState, reply: ReplyResult): CallOutcome {
    this.#isTaskOver = true;
    const text = reply.isLarge ? '' : reply.text();
    const error = memberText(text, 'error');
    const result = reply.inlined ?? memberText(text, 'result');
    if (status === 'completed' && result?.startsWith('{')) return this.#outcome('result', this.#plain(result));
    if (status === 'failed' && error?.startsWith('{')) return this.#outcome('error', error);
    throw failure(status === 'cancelled' ? 'the upstream canceled the task' : INVALID_TASK);
  }

  /** The result of the task as that of the call. */
  #plain(inlined: string): string {
    const { known, sink } = this.#call;
    const result = known ? relatedTo(inlined, known.id) : inlined;
    const needsType = sink.client.era === 'modern' && result.length <= MAX_PARSED_CHARACTERS;
    if (!needsType || memberText(result, 'resultType') !== undefined) return result;
    return withMembers(result, '"resultType":"complete"');
  }

  /** Sends input, as members of `inputResponses` in JSON text. Rejects with `UpstreamError`. */
  async #update(inputResponses: string): Promise<void> {
    const { target } = this.#call;
    const reply = await requestTask(target, 'tasks/update', `"inputResponses":${inputResponses}`);
    if (reply.kind === 'result' || reply.text !== undefined) return;
    throw new UpstreamError('rpc', target.upstream.transport.address, `did not get the input: ${reply.error.message}`);
  }

  /** Sends a legacy client those requests for input that it has not got yet. Returns the outcome for a modern one. */
  async #requestInput({ value: { inputRequests: requests }, text }: ReplyResult): Promise<CallOutcome | undefined> {
    const { session, accepts, capabilities, era } = this.#call.sink.client;
    if (!isJsonObject(requests)) throw failure('the upstream sent inputRequests that are not an object');
    if (!Object.values(requests).every((request) => isAccepted(request, capabilities)))
      throw failure(UNSUPPORTED_INPUT);
    const texts = memberText(text(), 'inputRequests') ?? '{}';
    if (era === 'modern') return this.#suspend(texts);
    for (const key of Object.keys(requests)) {
      if (this.#sentKeys.has(key)) continue;
      if (!session || !accepts.sse || session.hasEnded) throw failure(UNSUPPORTED_INPUT);
      if (this.#sentKeys.size >= MAX_INPUT_REQUESTS) throw failure('the upstream requires too much input');
      this.#relay(key, memberText(texts, key) ?? '{}', session);
    }
    return undefined;
  }

  #relay(key: string, request: string, session: DownstreamSession): void {
    const { known, sink } = this.#call;
    this.#sentKeys.add(key);
    this.#serverRequests ??= new RelayedServerRequests({
      channel: () => session.channel(),
      send: (sent) => this.#isClientDisconnected || sink.sendMessage(sent),
      post: (response) => this.#sendInput(response),
    });
    const text = legacyServerRequest(key, request, (params) => (known ? relatedTo(params, known.id) : params));
    if (!this.#serverRequests.relay(text)) throw failure('the upstream requires too much input at once');
  }

  /** Sends the upstream one response of the client; its id is the key of the request. */
  async #sendInput(text: string): Promise<void> {
    this.#lastActivityAt = performance.now();
    const result = memberText(text, 'result');
    if (result !== undefined) return this.#update(`{${memberText(text, 'id')}:${result}}`);
    this.#inputProblem = 'the client did not provide the required input';
    this.#pause.end();
  }

  async #suspend(inputRequests: string): Promise<CallOutcome> {
    const stored = this.#call.suspend?.(this.#state);
    const requestState = await stored?.catch(() => Promise.reject(failure('the task could not be stored')));
    if (requestState === undefined) throw failure('too many tasks');
    this.#isSuspended = true;
    const more = `"inputRequests":${inputRequests},"requestState":${JSON.stringify(requestState)}`;
    return this.#outcome('result', `{"resultType":"input_required",${more}}`);
  }

  #report(message: string | undefined): void {
    // A client that reads too slowly gets later messages only.
    if (message === undefined || this.#isClientDisconnected || this.#isSending) return;
    this.#isSending = true;
    void this.#sendProgress(message).then(() => {
      this.#isSending = false;
    });
  }

  /** Returns the outcome of a response with this content, in the form for the client. */
  #outcome(member: 'result' | 'error', content: string): CallOutcome {
    const { spec, sink } = this.#call;
    const text = `{"jsonrpc":"2.0","id":${sink.client.idText},"${member}":${content}}`;
    const parsed = content.length <= MAX_PARSED_CHARACTERS ? tryParseJson(content) : {};
    const value: JsonObject = { [member]: isJsonObject(parsed) ? parsed : {} };
    return clientResponse(sink.client, spec, { kind: 'response', text, value, status: 200, isAscii: false });
  }
}

/** The client that knows the task does not wait any more. */
const UNUSED: CallOutcome = {
  kind: 'canceled',
  report: { category: 'UNKNOWN', message: CLIENT_DISCONNECTED, errorType: CANCELED },
};

function failure(what: string): CallError {
  return new CallError('UNKNOWN', what, { errorType: '_OTHER' });
}

function isAccepted(request: JsonValue, capabilities: JsonObject): boolean {
  const { method, params }: JsonObject = isJsonObject(request) ? request : {};
  return typeof method === 'string' && acceptsServerRequest(capabilities, method, params);
}
