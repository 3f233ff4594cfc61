import { setTimeout as delay } from 'node:timers/promises';
import { isJsonObject, type JsonObject } from '@sluice/protocol/json/parse';
import { applyEdits, memberText } from '@sluice/protocol/json/text';
import { legacyCapabilities, translatedCapabilities } from '@sluice/protocol/mcp/capabilities';
import { INTERNAL_ERROR, INVALID_PARAMS, METHOD_NOT_FOUND } from '@sluice/protocol/mcp/constants';
import { paramText, type RequestMessage } from '@sluice/protocol/mcp/message';
import {
  isTerminal,
  readTask,
  relatedTo,
  reportedTaskEdits,
  type TaskState,
  translatedTask,
  unrelated,
} from '@sluice/protocol/mcp/tasks';
import { withTimeout } from '@sluice/protocol/timing';
import { UpstreamError } from '../../../http/client/errors.ts';
import { type ErrorOutcome, rpcError } from '../../../http/outcome.ts';
import type { Entry } from '../../../registry/entries.ts';
import type { ToolCallSink } from '../../../telemetry/tool-calls/events.ts';
import type { TraceContext } from '../../../telemetry/tracing/trace-context.ts';
import type { Calls } from '../../calls.ts';
import type { ClientFacts, ClientRequest } from '../../client-facts.ts';
import { deferOutcome, type RequestOutcome } from '../../deferred-outcome.ts';
import { ObservedSink } from '../../observed-sink.ts';
import { FORWARDING_LOOP } from '../../upstream-headers.ts';
import { LegacyResponseRewriter } from '../era-translation/messages.ts';
import { legacySession, type McpParts } from '../mcp-connection.ts';
import type { CallSpec } from '../relay/call-spec.ts';
import { collect, type Reply, type ReplyError } from '../relay/collect.ts';
import { RelayedCall } from '../relay/relayed-call.ts';
import { postMessage } from '../rpc-request.ts';
import type { Upstream } from '../upstream.ts';
import type { UpstreamSession } from '../upstream-sessions.ts';
import { PolledCall } from './polled-call.ts';
import {
  requestTask,
  storedTarget,
  type TaskDeps,
  type TaskTarget,
  taskMessage,
  taskSession,
  taskSpec,
  upstreamOf,
} from './target.ts';
import {
  type CoreTask,
  type ExtensionTask,
  isOwnedBy,
  stateOf,
  type TaskQuestion,
  type TaskRecord,
  type UpstreamTask,
} from './task-record.ts';
import {
  ACKNOWLEDGED,
  inputRequestsOf,
  observeState,
  reportedTask,
  TASK_FAILURE,
  taskMessages,
  taskNotFound,
  taskRewriter,
  unusableTask,
} from './translation.ts';

export interface TaskRequestsOptions extends TaskDeps {
  readonly clientOf: Calls['clientOf'];
  readonly sessions: Pick<McpParts, 'sessionBindings' | 'callSessionPool'>;
  readonly toolCalls: Pick<ToolCallSink, 'request'>;
}

/** A request of a client about a task, and where that is executed. */
interface TaskRequest {
  readonly client: ClientFacts;
  readonly message: RequestMessage;
  readonly target: TaskTarget;
  /** Of the request upstream; undefined where no traces are exported. */
  readonly trace: TraceContext | undefined;
}

/** The state of a task for clients of the other era than its upstream: members of the task object, as JSON text. */
export type TaskReading =
  | { readonly kind: 'task'; readonly state: TaskState; readonly members: string }
  | Pick<ErrorOutcome, 'kind' | 'error'>;

/** Time for the response to the cancellation of an operator, in milliseconds. */
const CANCEL_MS = 30_000;
/** Time for the first question of a task that requires input to arrive, in milliseconds. */
const QUESTION_MS = 1_000;

/**
 * Executes the requests of clients about their tasks: relays them within one era, and translates between core tasks and those of
 * the extension.
 */
export class TaskRequests {
  readonly #options: TaskRequestsOptions;
  /** Requests for results on whose streams legacy upstreams send their questions, by task. */
  readonly #listening = new Map<string, Promise<Reply>>();
  /** Keys of the questions whose responses are being sent. */
  readonly #answering = new Set<string>();

  constructor(options: TaskRequestsOptions) {
    this.#options = options;
    options.tasks.orphaned.subscribe((record) => void this.#cancelUpstream(record));
  }

  /** Returns the outcome of a request about a task. `tool` is the tool that the task was created by, if that is served. */
  request(
    exchange: ClientRequest,
    message: RequestMessage,
    record: UpstreamTask,
    tool: Entry | undefined,
  ): RequestOutcome {
    const upstream = upstreamOf(this.#options, record);
    if (!upstream) return taskNotFound();
    const { clientOf, toolCalls, log } = this.#options;
    const client = clientOf(exchange, tool);
    const { copiedHeaders } = client;
    if (!copiedHeaders) return FORWARDING_LOOP;
    const observer = toolCalls.request(client.facts);
    const { server } = upstream;
    const trace = observer.send({ method: message.method, protocol: 'mcp', subject: undefined, server });
    const target = this.#targetFor(client, copiedHeaders, record, upstream);
    const execute = async () => this.#execute({ client, message, target, trace }, record);
    return { kind: 'deferred', start: (sink) => deferOutcome(execute, log).start(new ObservedSink(sink, observer)) };
  }

  #execute(request: TaskRequest, record: UpstreamTask): RequestOutcome | Promise<RequestOutcome> {
    const { message, target } = request;
    const isTranslated = record.clientEra !== target.era;
    if (record.kind === 'core') {
      if (message.method === 'tasks/cancel') {
        return isTranslated ? this.#requestCancellation(target, record) : this.#cancelCore(request, record);
      }
      if (!isTranslated) return this.#relay(request, record);
      if (message.method === 'tasks/update') return this.#answer(request, record);
      return resultOf(this.#readCore(record, target), '"resultType":"complete",');
    }
    if (!isTranslated) {
      return message.method === 'tasks/update' ? this.#update(request, record) : this.#relay(request, record);
    }
    if (message.method === 'tasks/cancel') return this.#cancelForGood(target, record);
    if (message.method === 'tasks/result') return this.#awaitResult(request, record);
    return resultOf(this.#readExtension(record, target));
  }

  /** Returns the state of a core task for its modern client, which has subscribed to it with these headers. */
  async read(record: CoreTask, headers: readonly string[]): Promise<TaskReading | undefined> {
    const upstream = upstreamOf(this.#options, record);
    return upstream && this.#readCore(record, storedTarget(this.#options, record, upstream, headers));
  }

  /** Cancels a task for an operator, and records that. Rejects with `UpstreamError` or `StoreError`. */
  async cancel(record: TaskRecord): Promise<void> {
    const { tasks } = this.#options;
    // A call of our own ends when that is recorded.
    if (record.kind === 'call') return tasks.cancel(record);
    const canceled = this.#cancelUpstream(record);
    if (!canceled) return tasks.discard(record);
    const reply = await Promise.race([canceled, delay(CANCEL_MS, undefined, { ref: false })]);
    if (reply?.kind !== 'result') {
      const what = `did not cancel the task: ${reply?.error.message ?? `no response within ${CANCEL_MS / 1000} s`}`;
      throw new UpstreamError('rpc', record.address, what);
    }
    // Clients of the extension go on to see what the upstream reports, which may complete the task nevertheless.
    if (record.clientEra === 'legacy') await tasks.cancel(record);
    else tasks.end(record, { by: 'cancelled' });
  }

  /** Cancels a task on behalf of no client; undefined if its upstream is gone. */
  #cancelUpstream(record: UpstreamTask): Promise<Reply> | undefined {
    const upstream = upstreamOf(this.#options, record);
    return upstream && requestTask(this.#options, storedTarget(this.#options, record, upstream), 'tasks/cancel');
  }

  /** The target of requests of a client, which is sent in the session of the task. */
  #targetFor(client: ClientFacts, headers: readonly string[], record: UpstreamTask, upstream: Upstream): TaskTarget {
    const { session, capabilities, era } = client;
    const stored = storedTarget(this.#options, record, upstream, headers);
    return {
      ...stored,
      clientInfo: session?.clientInfo ?? stored.clientInfo,
      capabilities: era === 'modern' ? capabilities : translatedCapabilities(capabilities, session !== undefined),
      openSession: (isRetry) =>
        isRetry && record.kind === 'core'
          ? this.#reopenSession(client, headers, record, upstream)
          : stored.openSession(false),
    };
  }

  /**
   * If the upstream does not know the session of the task any more, a request is sent in one that calls of the client are sent
   * in. An upstream whose tasks do not depend on sessions still knows the task there.
   */
  async #reopenSession(
    client: ClientFacts,
    headers: readonly string[],
    record: CoreTask,
    upstream: Upstream,
  ): Promise<UpstreamSession> {
    const { tasks, sessions, clientInfo } = this.#options;
    if (client.era === 'legacy' && !client.session) {
      throw new UpstreamError('session-lost', record.address, 'no longer knows the session of the task');
    }
    const own = { serverInfo: clientInfo, capabilities: legacyCapabilities(client.capabilities), headers };
    const session = await legacySession(upstream, client, { ...sessions, ...own })();
    tasks.setSession(record, session);
    return session;
  }

  // Within one era.

  /** `inputs`: keys of the responses to requests for input that are sent; the others are removed. */
  #relay(request: TaskRequest, record: UpstreamTask, inputs?: readonly string[]): RequestOutcome {
    const { tasks } = this.#options;
    const { client, message } = request;
    const spec = this.#spec(request, record);
    if (inputs) spec.edits.keepInputs(inputs);
    const onAccepted = inputs && (() => tasks.onAnswered(record, inputs));
    const rewriter = taskRewriter(tasks, record, message.method, client.capabilities, onAccepted);
    return { kind: 'deferred', start: (sink) => new RelayedCall(this.#options, { ...spec, rewriter }, sink).start() };
  }

  /** Returns the spec of the client's own request, with the id of the upstream in place of ours. */
  #spec({ client, message, target, trace }: TaskRequest, record: UpstreamTask): CallSpec {
    const spec = taskSpec(target, message);
    spec.edits.rename(record.upstreamId);
    if (trace) spec.edits.setTrace(trace);
    const isOwn = (other: TaskRecord) => isOwnedBy(other, client);
    const place = record.kind === 'core' && { address: record.address, session: record.session.id };
    return {
      ...spec,
      capabilities: client.capabilities,
      messages: place ? taskMessages(this.#options.tasks, place, isOwn) : undefined,
      task: { isAwaited: message.method === 'tasks/result' },
    };
  }

  /**
   * Relays the input that a task of the extension waits for. Other input is ignored, as the extension says: an upstream might take
   * an answer that is sent twice for one to its next question.
   */
  async #update(request: TaskRequest, record: ExtensionTask): Promise<RequestOutcome> {
    const { tasks } = this.#options;
    const { inputResponses } = request.message.params;
    if (!isJsonObject(inputResponses)) return this.#relay(request, record);
    const keys = Object.keys(inputResponses);
    const isOpen = (key: string) => tasks.latest(record)?.openKeys.includes(key) === true;
    if (!keys.every(isOpen)) {
      // The client may know a later state than we do.
      const reading = await this.#readExtension(record, request.target);
      if (reading.kind === 'error') return reading;
    }
    const open = keys.filter(isOpen);
    return open.length === 0 && keys.length > 0 ? ACKNOWLEDGED : this.#relay(request, record, open);
  }

  /** Cancels a core task of a legacy client. That it is canceled is durable before the response. */
  async #cancelCore(request: TaskRequest, record: CoreTask): Promise<RequestOutcome> {
    const { tasks } = this.#options;
    const reply = await collect(this.#options, this.#spec(request, record), record.namespace);
    if (reply.kind === 'error') return reply;
    await tasks.cancel(record);
    const state = observeState(tasks, record, reply.value);
    if (typeof state === 'string') return unusableTask(state);
    const text = reply.text();
    const edits = reportedTaskEdits('legacy', text, 0, reportedTask({ ...record, isCanceled: true }));
    return { kind: 'result', json: applyEdits(text, edits) };
  }

  // Between eras.

  /** Reads the state of a task of the extension for a legacy client. */
  async #readExtension(record: ExtensionTask, target: TaskTarget): Promise<TaskReading> {
    const { tasks } = this.#options;
    // For good: the upstream need not honor the cancellation of a legacy client.
    if (record.isCanceled) return legacyReading(record, stateOf(record));
    const reply = await requestTask(this.#options, target, 'tasks/get');
    if (reply.kind === 'error') return this.#onUnread(record, reply);
    const current = tasks.latest(record);
    if (!current) return taskNotFound();
    if (current.isCanceled) return legacyReading(current, stateOf(current));
    const state = observeState(tasks, record, reply.value);
    if (typeof state === 'string') return unusableTask(state);
    return legacyReading(tasks.latest(record) ?? current, state, reply.isLarge ? undefined : reply.text());
  }

  /** Reads the state of a core task for a modern client, with its result or the input that it waits for. */
  async #readCore(record: CoreTask, target: TaskTarget): Promise<TaskReading> {
    const { tasks } = this.#options;
    const reply = await requestTask(this.#options, target, 'tasks/get');
    if (reply.kind === 'error') return this.#onUnread(record, reply);
    const { status } = reply.value;
    const hasResult = status === 'completed' || status === 'failed';
    const end = hasResult ? await requestTask(this.#options, target, 'tasks/result') : undefined;
    if (end?.kind === 'error' && end.text === undefined) return end;
    const content: JsonObject | undefined =
      end && (end.kind === 'result' ? { result: end.value } : { error: { ...end.error } });
    if (!tasks.latest(record)) return taskNotFound();
    const state = observeState(tasks, record, reply.value, content);
    if (typeof state === 'string') return unusableTask(state);
    const text = reply.text();
    if (end) return endedTask(state, text, end);
    if (state.status === 'cancelled') return modernReading(state, text);
    const questions = await this.#questions(record, target, state);
    // Without open questions, there is nothing that the client could do.
    if (questions.length === 0) return modernReading({ ...state, status: 'working' }, text);
    const requests = `,"inputRequests":${inputRequestsOf(questions)}`;
    return modernReading({ ...state, status: 'input_required' }, text, requests);
  }

  /** The outcome of a failed request for a state. An upstream that does not know the task any more has discarded it. */
  #onUnread(record: UpstreamTask, reply: ReplyError): ErrorOutcome {
    if (reply.error.code !== INVALID_PARAMS) return reply;
    this.#options.tasks.remove(record);
    return taskNotFound();
  }

  async #questions(record: CoreTask, target: TaskTarget, { status }: TaskState): Promise<readonly TaskQuestion[]> {
    const { tasks } = this.#options;
    const open = () => tasks.latest(record)?.questions ?? [];
    if (status === 'input_required' && open().length === 0) {
      // Another replica may have got them.
      await tasks.refresh();
      if (open().length === 0) await this.#awaitQuestion(record, target);
    }
    await tasks.stored(record);
    return open();
  }

  /** Waits for a question on the stream of the result, which stays open for further ones until the task has ended. */
  async #awaitQuestion(record: CoreTask, target: TaskTarget): Promise<void> {
    const { tasks } = this.#options;
    const listening = this.#listening.getOrInsertComputed(record.id, () => {
      const spec = { ...taskSpec(target, taskMessage(target, 'tasks/result')), task: { isAwaited: true } };
      return collect(this.#options, spec, record.namespace).finally(() => this.#listening.delete(record.id));
    });
    const { promise: asked, resolve } = Promise.withResolvers<void>();
    const stop = tasks.onChange(record, () => {
      if (tasks.latest(record)?.questions.length) resolve();
    });
    await withTimeout(QUESTION_MS, Promise.race([asked, listening]));
    stop();
  }

  /**
   * Sends the responses to the questions of a legacy upstream. Those under keys that are not open, or that are no objects, are
   * ignored, as the extension says.
   */
  async #answer({ message, target }: TaskRequest, record: CoreTask): Promise<RequestOutcome> {
    const { tasks } = this.#options;
    const { upstream, headers } = target;
    const responses = paramText(message.text, 'inputResponses');
    if (!responses?.startsWith('{')) return rpcError(INVALID_PARAMS, 'missing required parameter: inputResponses');
    await tasks.refresh();
    const session = taskSession(tasks, record, upstream);
    for (const { key, requestId } of tasks.latest(record)?.questions ?? []) {
      const response = memberText(responses, key);
      if (!response?.startsWith('{') || this.#answering.has(key)) continue;
      this.#answering.add(key);
      try {
        const result = relatedTo(response, record.upstreamId);
        const sent = `{"jsonrpc":"2.0","id":${requestId},"result":${result}}`;
        await postMessage(upstream.transport, [...session.identityHeaders, ...headers], sent);
        tasks.removeQuestions(record, (question) => question.key === key);
      } catch (error) {
        if (!(error instanceof UpstreamError)) throw error;
        return rpcError(INTERNAL_ERROR, `${TASK_FAILURE}: ${error.message}`);
      } finally {
        this.#answering.delete(key);
      }
    }
    await tasks.stored(record);
    return ACKNOWLEDGED;
  }

  /** In the extension, a cancellation is a request that the upstream need not honor, and so no error if it is too late. */
  async #requestCancellation(target: TaskTarget, record: CoreTask): Promise<RequestOutcome> {
    const reply = await requestTask(this.#options, target, 'tasks/cancel');
    if (reply.kind === 'error') {
      const isTooLate = reply.error.code === INVALID_PARAMS || reply.error.code === METHOD_NOT_FOUND;
      return isTooLate ? ACKNOWLEDGED : reply;
    }
    const state = readTask('legacy', reply.value);
    const by = state?.status === 'cancelled' ? 'cancelled' : 'polled';
    if (state) this.#options.tasks.observe(record, state, { by });
    return ACKNOWLEDGED;
  }

  /** Cancels a task of the extension for a legacy client. That it is canceled is durable before the response. */
  async #cancelForGood(target: TaskTarget, record: ExtensionTask): Promise<RequestOutcome> {
    const reading = await this.#readExtension(record, target);
    if (reading.kind === 'error') return reading;
    const { status } = reading.state;
    if (isTerminal(status)) {
      return rpcError(INVALID_PARAMS, `cannot cancel a task that has ended: its status is ${status}`);
    }
    await this.#options.tasks.cancel(record);
    void requestTask(this.#options, target, 'tasks/cancel');
    const canceled = { ...reading.state, status: 'cancelled' as const, lastUpdatedAt: new Date().toISOString() };
    return { kind: 'result', json: `{${translatedTask('legacy', canceled)}}` };
  }

  /** Waits for the end of a task of the extension, and asks the legacy client for input meanwhile. */
  #awaitResult({ message, target }: TaskRequest, record: ExtensionTask): RequestOutcome {
    if (record.isCanceled) return rpcError(INTERNAL_ERROR, `${TASK_FAILURE}: the task was canceled`);
    const spec = { ...taskSpec(target, message), rewriter: new LegacyResponseRewriter(TASK_FAILURE, false) };
    const call = { spec, isClientDisconnected: false, target, state: stateOf(record), known: record };
    return { kind: 'deferred', start: (sink) => new PolledCall(this.#options, { ...call, sink }).start() };
  }
}

/** The state of a task as result; `type` is a further member, as JSON text. */
async function resultOf(read: Promise<TaskReading>, type = ''): Promise<RequestOutcome> {
  const reading = await read;
  return reading.kind === 'error' ? reading : { kind: 'result', json: `{${type}${reading.members}}` };
}

/** The state of a task of the extension, for legacy clients: one whose result has `isError` has failed. */
function legacyReading(record: ExtensionTask, state: TaskState, text?: string): TaskReading {
  const own = { ...state, status: stateOf(record).status };
  return { kind: 'task', state: own, members: translatedTask('legacy', own, text) };
}

/** The state of a core task, for modern clients; `more` are further members, as JSON text. */
function modernReading(state: TaskState, text: string, more = ''): TaskReading {
  return { kind: 'task', state, members: `${translatedTask('modern', state, text)}${more}` };
}

/** A task that has failed with a result, which has `isError`, is completed for modern clients. */
function endedTask(state: TaskState, text: string, end: Reply): TaskReading {
  return end.kind === 'result'
    ? modernReading({ ...state, status: 'completed' }, text, `,"result":${unrelated(end.text())}`)
    : modernReading({ ...state, status: 'failed' }, text, `,"error":${end.text}`);
}
