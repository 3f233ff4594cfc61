import { setTimeout as delay } from 'node:timers/promises';
import { isJsonObject, type JsonObject } from '@sluice/protocol/json/parse';
import { applyEdits, memberText } from '@sluice/protocol/json/text';
import { legacyCapabilities, translatedCapabilities } from '@sluice/protocol/mcp/capabilities';
import { INTERNAL_ERROR, INVALID_PARAMS, METHOD_NOT_FOUND } from '@sluice/protocol/mcp/constants';
import { type Implementation, paramText, type RequestMessage } from '@sluice/protocol/mcp/message';
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
import type { DownstreamSession } from '../../downstream.ts';
import { ObservedSink } from '../../observed-sink.ts';
import type { ResponseSink } from '../../response-sink.ts';
import { FORWARDING_LOOP } from '../../upstream-headers.ts';
import { LegacyResponseRewriter } from '../era-translation/messages.ts';
import { legacySession, type McpParts } from '../mcp-connection.ts';
import type { CallDeps, CallSpec } from '../relay/call-spec.ts';
import { collect, type Reply } from '../relay/collect.ts';
import { RelayedCall } from '../relay/relayed-call.ts';
import { postMessage } from '../rpc-request.ts';
import type { Upstream } from '../upstream.ts';
import type { Upstreams } from '../upstreams.ts';
import type { CreatedTasks } from './created-tasks.ts';
import { PolledCall } from './polled-call.ts';
import { requestTask, storedTarget, type TaskTarget, taskMessage, taskSession, taskSpec } from './target.ts';
import { clientEraOf, isOwnedBy, stateOf, type TaskQuestion, type TaskRecord } from './task-record.ts';
import { boundedState, type OrphanedTask, type Tasks } from './tasks.ts';
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

export interface TaskRequestsOptions extends CallDeps {
  readonly tasks: Tasks;
  readonly upstreams: Pick<Upstreams, 'at' | 'of'>;
  readonly clientOf: Calls['clientOf'];
  readonly sessions: Pick<McpParts, 'sessionBindings' | 'callSessionPool'>;
  /** Identity of the service, for clients without one. */
  readonly clientInfo: Implementation;
  readonly created: Pick<CreatedTasks, 'takeUp'>;
  readonly toolCalls: Pick<ToolCallSink, 'request'>;
}

/** A request of a client about a task, and where that is executed. */
interface TaskRequest {
  readonly client: ClientFacts;
  readonly message: RequestMessage;
  readonly record: TaskRecord;
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
    options.tasks.orphaned.subscribe((orphan) => this.#cancelOrphan(orphan));
  }

  /** Returns the upstream of a task; undefined if its forward is gone, or has another address now. */
  upstreamOf({ forward, address }: TaskRecord): Upstream | undefined {
    const { upstreams } = this.#options;
    const upstream = forward === undefined ? upstreams.at(address) : upstreams.of(forward);
    return upstream?.transport.address === address ? upstream : undefined;
  }

  /** Returns the outcome of a request about a task. `tool` is the tool that the task was created by, if that is served. */
  request(
    exchange: ClientRequest,
    message: RequestMessage,
    record: TaskRecord,
    tool: Entry | undefined,
  ): RequestOutcome {
    const upstream = this.upstreamOf(record);
    if (!upstream) return taskNotFound();
    const { clientOf, toolCalls } = this.#options;
    const client = clientOf(exchange, tool);
    const { copiedHeaders } = client;
    if (!copiedHeaders) return FORWARDING_LOOP;
    const observer = toolCalls.request(client.facts);
    const { server } = upstream;
    const trace = observer.send({ method: message.method, protocol: 'mcp', subject: undefined, server });
    const target = this.#targetFor(client, copiedHeaders, record, upstream);
    const request = { client, message, record, target, trace };
    return { kind: 'deferred', start: (sink) => this.#start(request, new ObservedSink(sink, observer)) };
  }

  #start(request: TaskRequest, sink: ResponseSink): void {
    const { message, record } = request;
    const isCore = record.era === 'legacy';
    const isTranslated = clientEraOf(record) !== record.era;
    const later = (outcome: () => Promise<RequestOutcome>) => deferOutcome(outcome, this.#options.log).start(sink);
    switch (message.method) {
      case 'tasks/update':
        return later(() => (isTranslated ? this.#answer(request) : this.#update(request)));
      case 'tasks/cancel':
        if (isTranslated)
          return later(() => (isCore ? this.#requestCancellation(request) : this.#cancelForGood(request)));
        return isCore ? later(() => this.#cancelCore(request)) : this.#relay(request, sink);
      case 'tasks/result':
        return isTranslated ? this.#awaitResult(request, sink) : this.#relay(request, sink);
    }
    if (!isTranslated) return this.#relay(request, sink);
    later(async () => {
      const reading = await this.#read(record, request.target);
      if (reading.kind === 'error') return reading;
      return { kind: 'result', json: `{${isCore ? '"resultType":"complete",' : ''}${reading.members}}` };
    });
  }

  /**
   * Returns the function that takes a call of a session up again that waited for a task in a process that has ended; undefined
   * if there is none, or it continues.
   */
  async interruptedCall(
    session: DownstreamSession,
    idText: string,
    headers: readonly string[],
  ): Promise<((sink: ResponseSink) => void) | undefined> {
    const { tasks, calls, created } = this.#options;
    await tasks.refresh();
    const record = tasks.ofCall(session.id, idText);
    const upstream = record && this.upstreamOf(record);
    if (!upstream || calls.ofRequest(session.id, idText)) return undefined;
    return (sink) => created.takeUp(record, upstream, headers, sink);
  }

  /** Returns the state of a core task for its modern client, which has subscribed to it with these headers. */
  async read(record: TaskRecord, headers: readonly string[]): Promise<TaskReading | undefined> {
    const upstream = this.upstreamOf(record);
    return upstream && this.#read(record, storedTarget(this.#options.tasks, record, upstream, headers));
  }

  /** Cancels a task for an operator, and records that. Rejects with `UpstreamError` or `StoreError`. */
  async cancel(record: TaskRecord): Promise<void> {
    const { tasks } = this.#options;
    // A call of our own ends when that is recorded.
    if (record.replica !== undefined) return tasks.cancel(record);
    const upstream = this.upstreamOf(record);
    if (!upstream) return tasks.discard(record);
    const canceled = requestTask(this.#options, this.#ownTarget(record, upstream), 'tasks/cancel');
    const reply = await Promise.race([canceled, delay(CANCEL_MS, undefined, { ref: false })]);
    if (reply?.kind !== 'result') {
      const what = `did not cancel the task: ${reply?.error.message ?? `no response within ${CANCEL_MS / 1000} s`}`;
      throw new UpstreamError('rpc', upstream.transport.address, what);
    }
    // Clients of the extension go on to see what the upstream reports, which may complete the task nevertheless.
    if (clientEraOf(record) === 'legacy') await tasks.cancel(record);
    else tasks.end(record, { by: 'cancelled' });
  }

  #cancelOrphan({ record, session }: OrphanedTask): void {
    const upstream = record.replica === undefined ? this.upstreamOf(record) : undefined;
    if (!upstream) return;
    const target = this.#ownTarget(record, upstream);
    const openSession = session ? () => session : target.openSession;
    void requestTask(this.#options, { ...target, openSession }, 'tasks/cancel');
  }

  #ownTarget(record: TaskRecord, upstream: Upstream): TaskTarget {
    const { tasks, clientInfo } = this.#options;
    return { ...storedTarget(tasks, record, upstream), clientInfo: { ...clientInfo } };
  }

  /** The target of requests of a client, which is sent in the session of the task. */
  #targetFor(client: ClientFacts, headers: readonly string[], record: TaskRecord, upstream: Upstream): TaskTarget {
    const { tasks, sessions, clientInfo } = this.#options;
    const { session, capabilities } = client;
    return {
      ...storedTarget(tasks, record, upstream, headers),
      clientInfo: session?.clientInfo ?? { ...clientInfo },
      capabilities:
        client.era === 'modern' ? capabilities : translatedCapabilities(capabilities, session !== undefined),
      /**
       * If the upstream does not know the session of the task any more, a request is sent in one that calls of the client are
       * sent in. An upstream whose tasks do not depend on sessions still knows the task there.
       */
      openSession: (isRetry) => {
        if (!isRetry || record.era === 'modern') return taskSession(tasks, record, upstream);
        if (client.era === 'legacy' && !session) {
          const what = 'no longer knows the session of the task';
          return Promise.reject(new UpstreamError('session-lost', upstream.transport.address, what));
        }
        const own = { serverInfo: clientInfo, capabilities: legacyCapabilities(capabilities), headers };
        const opened = legacySession(upstream, client, { ...sessions, ...own })();
        return Promise.resolve(opened).then((other) => {
          tasks.setSession(record, other);
          return other;
        });
      },
    };
  }

  // Within one era.

  /** `inputs`: keys of the responses to requests for input that are sent; the others are removed. */
  #relay(request: TaskRequest, sink: ResponseSink, inputs?: readonly string[]): void {
    const { client, message, record } = request;
    const spec = this.#spec(request);
    if (inputs) spec.edits.keepInputs(inputs);
    const onAccepted = inputs && (() => this.#options.tasks.onAnswered(record, inputs));
    const rewriter = taskRewriter(this.#options.tasks, record, message.method, client.capabilities, onAccepted);
    new RelayedCall(this.#options, { ...spec, rewriter }, sink).start();
  }

  /** Returns the spec of the client's own request, with the id of the upstream in place of ours. */
  #spec(request: TaskRequest): CallSpec {
    const { tasks } = this.#options;
    const { client, message, record, target, trace } = request;
    const spec = taskSpec(target, message);
    const { upstreamId, address, session } = record;
    spec.edits.rename(upstreamId);
    if (trace) spec.edits.setTrace(trace);
    const isOwn = (other: TaskRecord) => isOwnedBy(other, client.namespace, client.principal);
    return {
      ...spec,
      capabilities: client.capabilities,
      messages: record.era === 'legacy' ? taskMessages(tasks, { address, session: session?.id }, isOwn) : undefined,
      task: { isAwaited: message.method === 'tasks/result' },
    };
  }

  /**
   * Relays the input that a task of the extension waits for. Other input is ignored, as the extension says: an upstream might take
   * an answer that is sent twice for one to its next question.
   */
  async #update(request: TaskRequest): Promise<RequestOutcome> {
    const { tasks } = this.#options;
    const { message, record, target } = request;
    const { inputResponses } = message.params;
    const relay = (inputs?: readonly string[]): RequestOutcome => ({
      kind: 'deferred',
      start: (sink) => this.#relay(request, sink, inputs),
    });
    if (!isJsonObject(inputResponses)) return relay();
    const keys = Object.keys(inputResponses);
    const isOpen = (key: string) => tasks.get(record.id)?.openKeys?.includes(key) === true;
    if (!keys.every(isOpen)) {
      // The client may know a later state than we do.
      const reading = await this.#read(record, target);
      if (reading.kind === 'error') return reading;
    }
    const open = keys.filter(isOpen);
    if (open.length === 0 && keys.length > 0) return ACKNOWLEDGED;
    return relay(open);
  }

  /** Cancels a core task of a legacy client. That it is canceled is durable before the response. */
  async #cancelCore(request: TaskRequest): Promise<RequestOutcome> {
    const { tasks } = this.#options;
    const { record } = request;
    const reply = await collect(this.#options, this.#spec(request), record.namespace);
    if (reply.kind === 'error') return reply;
    await tasks.cancel(record);
    const state = observeState(tasks, record, reply.value);
    if (typeof state === 'string') return unusableTask(state);
    const text = reply.text();
    const edits = reportedTaskEdits('legacy', text, 0, reportedTask({ ...record, isCanceled: true }));
    return { kind: 'result', json: applyEdits(text, edits) };
  }

  // Between eras.

  /** Reads the state of a task, with its result or the input that it waits for. */
  async #read(record: TaskRecord, target: TaskTarget): Promise<TaskReading> {
    const { tasks } = this.#options;
    // For good: the upstream need not honor the cancellation of a legacy client.
    if (record.isCanceled) return legacyReading(record, stateOf(record));
    const reply = await requestTask(this.#options, target, 'tasks/get');
    if (reply.kind === 'error') {
      if (reply.error.code !== INVALID_PARAMS) return reply;
      tasks.remove(record);
      return taskNotFound();
    }
    const status = record.era === 'legacy' ? reply.value.status : undefined;
    const hasResult = status === 'completed' || status === 'failed';
    const end = hasResult ? await requestTask(this.#options, target, 'tasks/result') : undefined;
    if (end?.kind === 'error' && end.text === undefined) return end;
    const content: JsonObject | undefined =
      end && (end.kind === 'result' ? { result: end.value } : { error: { ...end.error } });
    const current = tasks.get(record.id);
    if (!current) return taskNotFound();
    if (current.isCanceled) return legacyReading(current, stateOf(current));
    const state = observeState(tasks, record, reply.value, content);
    if (typeof state === 'string') return unusableTask(state);
    if (record.era === 'modern') {
      return legacyReading(tasks.get(record.id) ?? record, state, reply.isLarge ? undefined : reply.text());
    }
    const own = boundedState(state, record.id);
    if (end) return endedTask(own, reply.text(), end);
    if (state.status === 'cancelled') return modernReading(own, reply.text());
    const questions = await this.#questions(record, target, state);
    // Without open questions, there is nothing that the client could do.
    if (questions.length === 0) return modernReading({ ...own, status: 'working' }, reply.text());
    return modernReading(
      { ...own, status: 'input_required' },
      reply.text(),
      `,"inputRequests":${inputRequestsOf(questions)}`,
    );
  }

  async #questions(record: TaskRecord, target: TaskTarget, { status }: TaskState): Promise<readonly TaskQuestion[]> {
    const { tasks } = this.#options;
    const open = () => tasks.get(record.id)?.questions ?? [];
    if (status === 'input_required' && open().length === 0) {
      // Another replica may have got them.
      await tasks.refresh();
      if (open().length === 0) await this.#awaitQuestion(record, target);
    }
    await tasks.stored(record);
    return open();
  }

  /** Waits for a question on the stream of the result, which stays open for further ones until the task has ended. */
  async #awaitQuestion(record: TaskRecord, target: TaskTarget): Promise<void> {
    const { tasks } = this.#options;
    const listening = this.#listening.getOrInsertComputed(record.id, () => {
      const spec = { ...taskSpec(target, taskMessage(target, 'tasks/result')), task: { isAwaited: true } };
      return collect(this.#options, spec, record.namespace).finally(() => this.#listening.delete(record.id));
    });
    const { promise: asked, resolve } = Promise.withResolvers<void>();
    const stop = tasks.onChange(record, () => {
      if (tasks.get(record.id)?.questions?.length) resolve();
    });
    await withTimeout(QUESTION_MS, Promise.race([asked, listening]));
    stop();
  }

  /**
   * Sends the responses to the questions of a legacy upstream. Those under keys that are not open, or that are no objects, are
   * ignored, as the extension says.
   */
  async #answer({ message, record, target }: TaskRequest): Promise<RequestOutcome> {
    const { tasks } = this.#options;
    const { upstream, headers } = target;
    const responses = paramText(message.text, 'inputResponses');
    if (!responses?.startsWith('{')) return rpcError(INVALID_PARAMS, 'missing required parameter: inputResponses');
    await tasks.refresh();
    const session = taskSession(tasks, record, upstream);
    for (const { key, requestId } of tasks.get(record.id)?.questions ?? []) {
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
  async #requestCancellation({ record, target }: TaskRequest): Promise<RequestOutcome> {
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
  async #cancelForGood({ record, target }: TaskRequest): Promise<RequestOutcome> {
    const reading = await this.#read(record, target);
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
  #awaitResult({ message, record, target }: TaskRequest, sink: ResponseSink): void {
    const { tasks } = this.#options;
    if (record.isCanceled) {
      const error = { code: INTERNAL_ERROR, message: `${TASK_FAILURE}: the task was canceled` };
      return sink.complete({ kind: 'failed', error });
    }
    const spec = { ...taskSpec(target, message), rewriter: new LegacyResponseRewriter(TASK_FAILURE, false) };
    const state = { ...stateOf(record), taskId: record.upstreamId };
    const call = { spec, sink, isClientDisconnected: false, target, state, known: record };
    new PolledCall(this.#options, tasks, call).start();
  }
}

/** The state of a task of the extension, for legacy clients: one whose result has `isError` has failed. */
function legacyReading(record: TaskRecord, state: TaskState, text?: string): TaskReading {
  const own = { ...boundedState(state, record.id), status: stateOf(record).status };
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
