import { isJsonObject, type JsonObject, type JsonValue, tryParseJson } from '@sluice/protocol/json/parse';
import { applyEdits, insertEdit, memberText } from '@sluice/protocol/json/text';
import { acceptsServerRequest } from '@sluice/protocol/mcp/capabilities';
import { INTERNAL_ERROR, INVALID_PARAMS } from '@sluice/protocol/mcp/constants';
import { progressTokenOf } from '@sluice/protocol/mcp/message';
import { isTerminal, readTask, relatedTo, type TaskState } from '@sluice/protocol/mcp/tasks';
import { UpstreamError } from '../../../http/client/errors.ts';
import type { ClientFacts } from '../../client-facts.ts';
import type { DownstreamSession } from '../../downstream.ts';
import { CLIENT_CANCELED, CLIENT_DISCONNECTED, type InFlightCall, SHUTTING_DOWN } from '../../in-flight-calls.ts';
import { progressNotification } from '../../progress.ts';
import { failedOutcome } from '../../response-sink.ts';
import { withElicitationId } from '../era-translation/multi-round-call.ts';
import type { CreatedTask } from '../relay/call-spec.ts';
import type { Reply, ReplyResult } from '../relay/collect.ts';
import { sendResponse } from '../relay/response-rewrite.ts';
import { RelayedServerRequests } from '../relay/server-requests.ts';
import { requestTask, type TaskDeps, type TaskTarget } from './target.ts';
import type { ExtensionTask } from './task-record.ts';
import { observeState } from './translation.ts';

/** Bounds of the time between two polls, whatever the upstream suggests, and the time if it suggests none. */
export const MIN_POLL_MS = 100;
const MAX_POLL_MS = 30_000;
const DEFAULT_POLL_MS = 1_000;

/** Returns the time until the next poll of a task in this state, in milliseconds. */
export function pollDelayMs({ pollIntervalMs = DEFAULT_POLL_MS }: Partial<Pick<TaskState, 'pollIntervalMs'>>): number {
  return Math.min(Math.max(pollIntervalMs, MIN_POLL_MS), MAX_POLL_MS);
}

/** Longer results are not parsed, which would take long. */
const MAX_PARSED_CHARACTERS = 4 * 1024 * 1024;
/** Maximum number of requests for input during one task. */
const MAX_INPUT_REQUESTS = 100;

const INVALID_TASK = 'the upstream answered with an invalid task';
const UNSUPPORTED_INPUT = 'the upstream requires input that the client does not support';

/** A call of a client, and the task of a modern upstream that is polled for it. */
export interface Polling extends Pick<CreatedTask, 'spec' | 'sink' | 'isClientDisconnected'> {
  readonly target: TaskTarget;
  /** As last reported. */
  readonly state: TaskState;
  /**
   * The task, if the client knows it and waits for its result: requests for input are related to it, and it continues when the
   * client stops waiting.
   */
  readonly known?: ExtensionTask;
  /**
   * Stores the task until the client retries its call with input. Resolves with the `requestState` of the retry; undefined if the
   * client may have no more tasks. Rejects with `StoreError`.
   */
  suspend?(state: TaskState): Promise<{ readonly requestState: string } | undefined>;
  /** The call has ended, and with it the stored task. */
  onEnd?(): void;
}

/**
 * A call that polls a task of a modern upstream on behalf of its client: the call of a client that does not support tasks, or
 * `tasks/result` of a legacy client. The client gets the result as if the call had taken that long. Changes of the status
 * message are sent as progress. A legacy client gets requests for input on the stream of the call. A modern client gets an
 * `InputRequiredResult`, and its retry continues here, also after a restart.
 */
export class PolledCall implements InFlightCall {
  readonly startedAt: number;
  activeAt: number;
  slot = -1;
  readonly #context: TaskDeps;
  readonly #call: Polling;
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

  constructor(context: TaskDeps, call: Polling) {
    this.#context = context;
    this.#call = call;
    this.#state = call.state;
    this.#isClientDisconnected = call.isClientDisconnected;
    this.startedAt = performance.now();
    this.activeAt = this.startedAt;
  }

  /** `inputResponses`: input of the client with which it continues, as JSON text. */
  start(inputResponses?: string): void {
    this.#call.sink.onDisconnect(() => this.#onClientDisconnected());
    this.#context.calls.add(this);
    this.#report(this.#state.statusMessage);
    this.#run(inputResponses).catch((error: unknown) => {
      if (error instanceof UpstreamError) return this.#fail(error.message, true);
      this.#context.log.error('call failed', { method: 'tasks/get', error });
      this.#fail('internal error', true);
    });
  }

  // The task.

  async #run(inputResponses: string | undefined): Promise<void> {
    if (inputResponses !== undefined) await this.#update(inputResponses);
    if (!this.#call.known) await this.#pause();
    while (!this.#ended) {
      const reply = await this.#poll();
      if (!this.#ended) await this.#onPolled(reply);
      await this.#pause();
    }
  }

  async #pause(): Promise<void> {
    if (this.#isClientDisconnected) this.#endIfUnused();
    if (this.#ended) return;
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#timer = setTimeout(resolve, pollDelayMs(this.#state)).unref();
    await promise;
  }

  /** Requests the state; undefined if too many others do. */
  async #poll(): Promise<Reply | undefined> {
    const { known, target } = this.#call;
    // Any number of requests may wait for one task: together they poll as often as a single one, whatever the upstream suggests.
    const isTurn = !known || (await this.#context.tasks.pollTurn({ id: known.id }));
    return isTurn && !this.#ended ? requestTask(this.#context, target, 'tasks/get') : undefined;
  }

  /** A poll that fails is repeated for as long as an upstream may be silent. */
  #onPollFailed(message: string): void {
    if (performance.now() - this.activeAt > this.#context.calls.limits.idleMs) this.#fail(message, true);
  }

  async #onPolled(reply: Reply | undefined): Promise<void> {
    const { known } = this.#call;
    if (!reply) return this.#onPollFailed('too many requests for the result of the task');
    if (reply.kind === 'error' && reply.text === undefined) return this.#onPollFailed(reply.error.message);
    this.activeAt = performance.now();
    if (reply.kind === 'error') {
      if (reply.error.code !== INVALID_PARAMS) {
        return this.#onPollFailed('the upstream rejected a request for the state of a task');
      }
      if (known) this.#context.tasks.remove(known);
      return this.#fail('the upstream no longer knows the task');
    }
    const state = this.#observe(reply.value);
    if (typeof state === 'string') return this.#fail(state, true);
    if (reply.isLarge && (state.status !== 'completed' || reply.inlined === undefined)) {
      return this.#fail('the upstream answered with a task that is too large', true);
    }
    const before = this.#state;
    this.#state = state;
    if (isTerminal(state.status)) return this.#finish(state, reply);
    if (state.statusMessage !== before.statusMessage) this.#report(state.statusMessage);
    if (state.status === 'input_required') await this.#requestInput(reply);
  }

  /** Returns the state, or the problem with it. */
  #observe(value: JsonObject): TaskState | string {
    const { known } = this.#call;
    if (!known) return readTask('modern', value) ?? INVALID_TASK;
    const { tasks } = this.#context;
    const record = tasks.latest(known);
    if (!record || record.isCanceled) return 'the task was canceled';
    const state = observeState(tasks, record, value);
    return typeof state === 'string' ? `the upstream answered with ${state}` : state;
  }

  #finish({ status }: TaskState, reply: ReplyResult): void {
    const text = reply.isLarge ? '' : reply.text();
    const error = memberText(text, 'error');
    const result = reply.inlined ?? memberText(text, 'result');
    if (status === 'completed' && result?.startsWith('{')) return this.#respondWith('result', this.#plain(result));
    if (status === 'failed' && error?.startsWith('{')) return this.#respondWith('error', error);
    this.#fail(status === 'cancelled' ? 'the upstream canceled the task' : INVALID_TASK);
  }

  /** The result of the task as that of the call. */
  #plain(inlined: string): string {
    const { known, sink } = this.#call;
    const result = known ? relatedTo(inlined, known.id) : inlined;
    const needsType = sink.client.era === 'modern' && result.length <= MAX_PARSED_CHARACTERS;
    if (!needsType || memberText(result, 'resultType') !== undefined) return result;
    return applyEdits(result, [insertEdit(result, 0, '"resultType":"complete"')]);
  }

  /** Sends input, as members of `inputResponses` in JSON text. Rejects with `UpstreamError`. */
  async #update(inputResponses: string): Promise<void> {
    const { target } = this.#call;
    const reply = await requestTask(this.#context, target, 'tasks/update', `"inputResponses":${inputResponses}`);
    if (reply.kind === 'result' || reply.text !== undefined) return;
    throw new UpstreamError('rpc', target.upstream.transport.address, `did not get the input: ${reply.error.message}`);
  }

  /** Sends the client those requests for input that it has not got yet. */
  async #requestInput({ value: { inputRequests: requests }, text }: ReplyResult): Promise<void> {
    const { session, accepts, capabilities, era } = this.#call.sink.client;
    if (!isJsonObject(requests)) return this.#fail('the upstream sent inputRequests that are not an object', true);
    if (!Object.values(requests).every((request) => isAccepted(request, capabilities))) {
      return this.#fail(UNSUPPORTED_INPUT, true);
    }
    const texts = memberText(text(), 'inputRequests') ?? '{}';
    if (era === 'modern') return this.#suspend(texts);
    for (const key of Object.keys(requests)) {
      if (this.#ended || this.#sentKeys.has(key)) continue;
      if (!session || !accepts.sse || session.hasEnded) this.#fail(UNSUPPORTED_INPUT, true);
      else if (this.#sentKeys.size >= MAX_INPUT_REQUESTS) this.#fail('the upstream requires too much input', true);
      else this.#relay(key, memberText(texts, key) ?? '{}', session);
    }
  }

  #relay(key: string, request: string, session: DownstreamSession): void {
    const { known, sink } = this.#call;
    this.#sentKeys.add(key);
    this.#serverRequests ??= new RelayedServerRequests({
      channel: () => session.channel(),
      send: (sent) => this.#isClientDisconnected || sink.sendMessage(sent),
      post: (response) => this.#sendInput(response),
    });
    // Some clients require `params`, which are optional.
    const given = withElicitationId(memberText(request, 'params') ?? '{}');
    const params = known ? relatedTo(given, known.id) : given;
    const method = memberText(request, 'method');
    const text = `{"jsonrpc":"2.0","id":${JSON.stringify(key)},"method":${method},"params":${params}}`;
    if (!this.#serverRequests.relay(text)) this.#fail('the upstream requires too much input at once', true);
  }

  /** Sends the upstream one response of the client; its id is the key of the request. */
  async #sendInput(text: string): Promise<void> {
    if (this.#ended) return;
    this.activeAt = performance.now();
    const result = memberText(text, 'result');
    if (result === undefined) return this.#fail('the client did not provide the required input', true);
    await this.#update(`{${memberText(text, 'id')}:${result}}`);
  }

  /** Responds that input is required. */
  async #suspend(inputRequests: string): Promise<void> {
    const stored = await this.#call.suspend?.(this.#state).catch(() => 'failed' as const);
    if (this.#ended) return;
    if (stored === 'failed') return this.#fail('the task could not be stored', true);
    if (stored === undefined) return this.#fail('too many tasks', true);
    this.#isSuspended = true;
    const more = `"inputRequests":${inputRequests},"requestState":${JSON.stringify(stored.requestState)}`;
    this.#respondWith('result', `{"resultType":"input_required",${more}}`);
  }

  // The call of the client.

  get client(): ClientFacts {
    return this.#call.sink.client;
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
    const what = limit === 'idle' ? `respond for ${idleMs / 1000} s` : `finish within ${totalMs / 1000} s`;
    this.#fail(`the task did not ${what}`, true);
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
    if (this.#ended || !this.#call.known || this.#serverRequests?.pending) return;
    this.#call.sink.observer?.canceled(CLIENT_DISCONNECTED);
    this.#end();
  }

  /** Sends a status message as progress, if the client has requested that. */
  #report(message: string | undefined): void {
    const { spec, sink } = this.#call;
    const token = progressTokenOf(spec.message);
    if (message === undefined || !token || !sink.client.accepts.sse || this.#isClientDisconnected) return;
    sink.sendMessage(progressNotification(token, ++this.#progress, message));
  }

  #respondWith(member: 'result' | 'error', content: string): void {
    const { spec, sink } = this.#call;
    const text = `{"jsonrpc":"2.0","id":${sink.client.idText},"${member}":${content}}`;
    const parsed = content.length <= MAX_PARSED_CHARACTERS ? tryParseJson(content) : {};
    const value: JsonObject = { [member]: isJsonObject(parsed) ? parsed : {} };
    this.#end();
    sendResponse(sink, spec, { kind: 'response', text, value, status: 200, isAscii: false });
  }

  /** Fails the call; `cancels`: the task may be running. */
  #fail(what: string, cancels = false): void {
    if (this.#ended) return;
    const { spec, sink } = this.#call;
    this.#end(cancels);
    sink.complete({ kind: 'failed', error: { code: INTERNAL_ERROR, message: `${spec.failure}: ${what}` } });
  }

  /** `cancels`: the task is canceled, unless the client knows it. */
  #end(cancels = false): void {
    const { known, target, onEnd } = this.#call;
    this.#ended = true;
    clearTimeout(this.#timer);
    this.#context.calls.remove(this);
    this.#serverRequests?.cancelAll();
    if (cancels && !known) void requestTask(this.#context, target, 'tasks/cancel');
    if (!this.#isSuspended) onEnd?.();
  }
}

/** True if a client with these capabilities can provide the required input. */
function isAccepted(request: JsonValue, capabilities: JsonObject): boolean {
  const { method, params }: JsonObject = isJsonObject(request) ? request : {};
  return typeof method === 'string' && acceptsServerRequest(capabilities, method, params);
}
