import { setTimeout as delay } from 'node:timers/promises';
import { isJsonObject, type JsonObject } from '@sluice/protocol/json/parse';
import { memberText } from '@sluice/protocol/json/text';
import { legacyCapabilities, translatedCapabilities } from '@sluice/protocol/mcp/capabilities';
import { INTERNAL_ERROR, INVALID_PARAMS, METHOD_NOT_FOUND } from '@sluice/protocol/mcp/constants';
import type { RequestMessage } from '@sluice/protocol/mcp/message';
import { paramText } from '@sluice/protocol/mcp/message-text';
import {
  isTerminal,
  readTask,
  relatedTo,
  type TaskState,
  translatedTask,
  withoutRelatedTask,
} from '@sluice/protocol/mcp/tasks';
import { withTimeout } from '@sluice/protocol/timing';
import { UpstreamError } from '../../../http/client/errors.ts';
import { type ErrorOutcome, rpcError } from '../../../http/outcome.ts';
import type { Entry } from '../../../registry/entries.ts';
import type { ToolCallSink } from '../../../telemetry/tool-calls/events.ts';
import type { TraceContext } from '../../../telemetry/tracing/trace-context.ts';
import type { Calls } from '../../call-stages.ts';
import type { ClientFacts, ClientRequest } from '../../client-facts.ts';
import { deferOutcome, type RequestOutcome } from '../../deferred-outcome.ts';
import { ObservedSink } from '../../observed-sink.ts';
import { FORWARDING_LOOP } from '../../upstream-headers.ts';
import { inputRequestsText } from '../era-translation/input-requests.ts';
import { LegacyResponseRewriter } from '../era-translation/messages.ts';
import { legacySession, type McpParts } from '../mcp-connection.ts';
import type { CallSpec } from '../relay/call-spec.ts';
import { collect, type Reply } from '../relay/collect.ts';
import { RelayedCall } from '../relay/relayed-call.ts';
import { postMessage } from '../rpc-request.ts';
import type { UpstreamSession } from '../upstream-sessions.ts';
import { PolledCall } from './polled-call.ts';
import {
  ownTaskSpec,
  requestTask,
  storedTarget,
  type TaskDeps,
  type TaskTarget,
  taskSession,
  taskSpec,
} from './target.ts';
import { isUpstreamTask, type Task, type UpstreamTask } from './task.ts';
import { isOwnedBy, stateOf } from './task-record.ts';
import {
  ACKNOWLEDGED,
  observeState,
  TASK_FAILURE,
  taskMessages,
  taskNotFound,
  taskRewriter,
  unusableTask,
  withReportedTask,
} from './translation.ts';

export interface TaskRequestsOptions extends TaskDeps {
  readonly clientOf: Calls['clientOf'];
  readonly sessions: Pick<McpParts, 'sessionBindings' | 'callSessionPool'>;
  readonly toolCalls: Pick<ToolCallSink, 'request'>;
}

/** A request of a client about a task, and where that is executed. */
interface TaskRequest {
  readonly task: UpstreamTask;
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
/** Time for the first request for input of a task that requires some to arrive, in milliseconds. */
const INPUT_REQUEST_MS = 1_000;

/**
 * Executes the requests of clients about their tasks: relays them within one era; between eras, reads the state in that of the
 * upstream and writes it in that of the client.
 */
export class TaskRequests {
  readonly #options: TaskRequestsOptions;
  /** Requests for results on whose streams legacy upstreams send their requests for input. */
  readonly #listening = new Map<UpstreamTask, Promise<Reply>>();
  /** Keys of the requests for input whose responses are being sent. */
  readonly #responding = new Set<string>();

  constructor(options: TaskRequestsOptions) {
    this.#options = options;
    options.tasks.orphaned.subscribe((task) => void this.#cancelUpstream(task));
  }

  /** Returns the outcome of a request about a task. `tool` is the tool that the task was created by, if that is served. */
  request(
    exchange: ClientRequest,
    message: RequestMessage,
    task: UpstreamTask,
    tool: Entry | undefined,
  ): RequestOutcome {
    const { clientOf, toolCalls, log } = this.#options;
    const client = clientOf(exchange, tool);
    const target = storedTarget(this.#options, task, client.copiedHeaders);
    if (!target) return taskNotFound();
    if (!client.copiedHeaders) return FORWARDING_LOOP;
    const observer = toolCalls.request(client.facts);
    const { server } = target.upstream;
    const trace = observer.send({ method: message.method, protocol: 'mcp', subject: undefined, server });
    const request = { task, client, message, target: this.#targetFor(client, target, task), trace };
    const execute = async () => this.#execute(request);
    return { kind: 'deferred', start: (sink) => deferOutcome(execute, log).start(new ObservedSink(sink, observer)) };
  }

  #execute(request: TaskRequest): RequestOutcome | Promise<RequestOutcome> {
    const { client, message, target } = request;
    if (client.era === target.era) {
      if (message.method === 'tasks/update') return this.#update(request);
      const isForGood = message.method === 'tasks/cancel' && client.era === 'legacy';
      return isForGood ? this.#cancel(request) : this.#relay(request);
    }
    switch (message.method) {
      case 'tasks/update':
        return this.#respond(request);
      case 'tasks/cancel':
        return client.era === 'legacy' ? this.#cancelForGood(request) : this.#requestCancellation(request);
      case 'tasks/result':
        return this.#awaitResult(request);
      default:
        return this.#readState(request);
    }
  }

  /** Returns the state of a core task for its modern client, which has subscribed to it with these headers. */
  async read(task: UpstreamTask, headers: readonly string[]): Promise<TaskReading | undefined> {
    const target = storedTarget(this.#options, task, headers);
    return target && this.#read(task, target);
  }

  /** Cancels a task for an operator, and records that. Rejects with `UpstreamError` or `StoreError`. */
  async cancel(task: Task): Promise<void> {
    // A call of our own ends when that is recorded.
    if (!isUpstreamTask(task)) return task.cancel();
    const canceled = this.#cancelUpstream(task);
    if (!canceled) return this.#options.tasks.discard(task);
    const { address, clientEra } = task.record;
    const reply = await Promise.race([canceled, delay(CANCEL_MS, undefined, { ref: false })]);
    if (reply?.kind !== 'result') {
      const what = `did not cancel the task: ${reply?.error.message ?? `no response within ${CANCEL_MS / 1000} s`}`;
      throw new UpstreamError('rpc', address, what);
    }
    // Clients of the extension go on to see what the upstream reports, which may complete the task nevertheless.
    if (clientEra === 'legacy') await task.cancel();
    else task.end({ by: 'cancelled' });
  }

  /** Cancels a task on behalf of no client; undefined if its upstream is gone. */
  #cancelUpstream(task: UpstreamTask): Promise<Reply> | undefined {
    const target = storedTarget(this.#options, task);
    return target && requestTask(target, 'tasks/cancel');
  }

  /** The target of requests of a client, which is sent in the session of the task. */
  #targetFor(client: ClientFacts, stored: TaskTarget, task: UpstreamTask): TaskTarget {
    const { session, capabilities, era } = client;
    return {
      ...stored,
      clientInfo: session?.clientInfo ?? stored.clientInfo,
      capabilities: era === 'modern' ? capabilities : translatedCapabilities(capabilities, session !== undefined),
      openSession: (isRetry) =>
        isRetry && stored.era === 'legacy' ? this.#reopenSession(client, stored, task) : stored.openSession(false),
    };
  }

  /**
   * If the upstream does not know the session of the task any more, a request is sent in one that calls of the client are sent
   * in. An upstream whose tasks do not depend on sessions still knows the task there.
   */
  async #reopenSession(client: ClientFacts, target: TaskTarget, task: UpstreamTask): Promise<UpstreamSession> {
    const { upstream, headers } = target;
    const { sessions, clientInfo } = this.#options;
    if (client.era === 'legacy' && !client.session) {
      throw new UpstreamError('session-lost', task.record.address, 'no longer knows the session of the task');
    }
    const parts = { ...sessions, serverInfo: clientInfo };
    const capabilities = legacyCapabilities(client.capabilities);
    const session = await legacySession(upstream, client, { parts, capabilities, headers })();
    task.setSession(session);
    return session;
  }

  // Within one era.

  /** `inputs`: keys of the responses to requests for input that are sent; the others are removed. */
  #relay(request: TaskRequest, inputs?: readonly string[]): RequestOutcome {
    const { task, client, message } = request;
    const spec = this.#spec(request);
    if (inputs) spec.edits.keepInputs(inputs);
    const onAccepted = inputs && (() => task.removeInputRequests(({ key }) => inputs.includes(key)));
    const rewriter = taskRewriter(task, message.method, client.capabilities, onAccepted);
    return { kind: 'deferred', start: (sink) => new RelayedCall(this.#options, { ...spec, rewriter }, sink).start() };
  }

  /** Returns the spec of the client's own request, with the id of the upstream in place of ours. */
  #spec({ task, client, message, target, trace }: TaskRequest): CallSpec {
    const { address, session, upstreamId } = task.record;
    const spec = taskSpec(target, message);
    spec.edits.rename(upstreamId);
    if (trace) spec.edits.setTrace(trace);
    const place = session && { address, session: session.id };
    return {
      ...spec,
      capabilities: client.capabilities,
      messages: place && taskMessages(this.#options.tasks, place, (record) => isOwnedBy(record, client)),
      task: { awaitsResult: message.method === 'tasks/result' },
    };
  }

  /**
   * Relays the input that a task of the extension waits for. Other input is ignored, as the extension says: an upstream might take
   * a response that is sent twice for one to its next request.
   */
  async #update(request: TaskRequest): Promise<RequestOutcome> {
    const { task, target, message } = request;
    const { inputResponses } = message.params;
    if (!isJsonObject(inputResponses)) return this.#relay(request);
    const keys = Object.keys(inputResponses);
    const isOpen = (known: string) => task.record.inputRequests.some(({ key }) => key === known);
    if (!keys.every(isOpen)) {
      // The client may know a later state than we do.
      const reading = await this.#read(task, target);
      if (reading.kind === 'error') return reading;
    }
    const open = keys.filter(isOpen);
    return open.length === 0 && keys.length > 0 ? ACKNOWLEDGED : this.#relay(request, open);
  }

  /** Cancels a core task of a legacy client. That it is canceled is durable before the response. */
  async #cancel(request: TaskRequest): Promise<RequestOutcome> {
    const { task } = request;
    const reply = await collect(this.#options, this.#spec(request), task.record.namespace);
    if (reply.kind === 'error') return reply;
    await task.cancel();
    const state = observeState(task, reply.value);
    if (typeof state === 'string') return unusableTask(state);
    return { kind: 'result', json: withReportedTask(task, reply.text()) };
  }

  // Between eras.

  async #readState({ task, target, client }: TaskRequest): Promise<RequestOutcome> {
    const reading = await this.#read(task, target);
    if (reading.kind === 'error') return reading;
    const type = client.era === 'modern' ? '"resultType":"complete",' : '';
    return { kind: 'result', json: `{${type}${reading.members}}` };
  }

  /** Reads the state of a task for a client of the other era: for a modern one with its result, or the input that it waits for. */
  async #read(task: UpstreamTask, target: TaskTarget): Promise<TaskReading> {
    const isLegacy = target.era === 'legacy';
    // For good: the upstream need not honor the cancellation of a legacy client.
    if (!isLegacy && task.record.isCanceled) return readingOf(task, stateOf(task.record));
    const reply = await requestTask(target, 'tasks/get');
    if (reply.kind === 'error') {
      if (reply.error.code !== INVALID_PARAMS) return reply;
      // An upstream that does not know the task any more has discarded it.
      task.remove();
      return taskNotFound();
    }
    const { status } = reply.value;
    const hasResult = isLegacy && (status === 'completed' || status === 'failed');
    const end = hasResult ? await requestTask(target, 'tasks/result') : undefined;
    if (end?.kind === 'error' && end.text === undefined) return end;
    if (task.isRemoved) return taskNotFound();
    if (!isLegacy && task.record.isCanceled) return readingOf(task, stateOf(task.record));
    const content: JsonObject | undefined =
      end && (end.kind === 'result' ? { result: end.value } : { error: { ...end.error } });
    const state = observeState(task, reply.value, content);
    if (typeof state === 'string') return unusableTask(state);
    // One whose result has `isError` has failed.
    if (!isLegacy) {
      const own = { ...state, status: stateOf(task.record).status };
      return readingOf(task, own, reply.isLarge ? undefined : reply.text());
    }
    const text = reply.text();
    // Also a task that has failed with a result is completed.
    if (end?.kind === 'result') {
      return readingOf(
        task,
        { ...state, status: 'completed' },
        text,
        `,"result":${withoutRelatedTask(end.text(), '_meta')}`,
      );
    }
    if (end) return readingOf(task, { ...state, status: 'failed' }, text, `,"error":${end.text}`);
    if (state.status === 'cancelled') return readingOf(task, state, text);
    if (state.status === 'input_required') await this.#awaitInputRequests(task, target);
    await task.stored();
    const requests = task.record.inputRequests;
    // Without requests, there is nothing that the client could do.
    if (requests.length === 0) return readingOf(task, { ...state, status: 'working' }, text);
    const pending = inputRequestsText(requests.map(({ key, request = '{}' }) => [key, request]));
    return readingOf(task, { ...state, status: 'input_required' }, text, `,"inputRequests":${pending}`);
  }

  /**
   * Waits until a task has requests for input: they arrive at another replica, or on the stream of the result, which stays open for
   * further ones until the task has ended.
   */
  async #awaitInputRequests(task: UpstreamTask, target: TaskTarget): Promise<void> {
    if (task.record.inputRequests.length === 0) await this.#options.tasks.refresh();
    if (task.record.inputRequests.length > 0) return;
    const listening = this.#listening.getOrInsertComputed(task, () => {
      const spec = { ...ownTaskSpec(target, 'tasks/result'), task: { awaitsResult: true } };
      return collect(this.#options, spec, task.record.namespace).finally(() => this.#listening.delete(task));
    });
    const { promise: requested, resolve } = Promise.withResolvers<void>();
    const stop = task.changed.subscribe(() => {
      if (task.record.inputRequests.length > 0) resolve();
    });
    await withTimeout(INPUT_REQUEST_MS, Promise.race([requested, listening]));
    stop();
  }

  /**
   * Sends the responses to the requests of a legacy upstream. Those under keys that are not open, or that are no objects, are
   * ignored, as the extension says.
   */
  async #respond({ task, message, target }: TaskRequest): Promise<RequestOutcome> {
    const { upstream, headers } = target;
    const responses = paramText(message.text, 'inputResponses');
    if (!responses?.startsWith('{')) return rpcError(INVALID_PARAMS, 'missing required parameter: inputResponses');
    await this.#options.tasks.refresh();
    const session = taskSession(task, upstream);
    for (const { key, requestId } of task.record.inputRequests) {
      const response = memberText(responses, key);
      if (!response?.startsWith('{') || this.#responding.has(key)) continue;
      this.#responding.add(key);
      try {
        const result = relatedTo(response, task.record.upstreamId);
        const sent = `{"jsonrpc":"2.0","id":${requestId},"result":${result}}`;
        await postMessage(upstream.transport, [...session.identityHeaders, ...headers], sent);
        task.removeInputRequests((request) => request.key === key);
      } catch (error) {
        if (!(error instanceof UpstreamError)) throw error;
        return rpcError(INTERNAL_ERROR, `${TASK_FAILURE}: ${error.message}`);
      } finally {
        this.#responding.delete(key);
      }
    }
    await task.stored();
    return ACKNOWLEDGED;
  }

  /** In the extension, a cancellation is a request that the upstream need not honor, and so no error if it is too late. */
  async #requestCancellation({ task, target }: TaskRequest): Promise<RequestOutcome> {
    const reply = await requestTask(target, 'tasks/cancel');
    if (reply.kind === 'error') {
      const isTooLate = reply.error.code === INVALID_PARAMS || reply.error.code === METHOD_NOT_FOUND;
      return isTooLate ? ACKNOWLEDGED : reply;
    }
    const state = readTask('legacy', reply.value);
    if (state) task.observe(state, { by: state.status === 'cancelled' ? 'cancelled' : 'polled' });
    return ACKNOWLEDGED;
  }

  /** Cancels a task of the extension for a legacy client. That it is canceled is durable before the response. */
  async #cancelForGood({ task, target }: TaskRequest): Promise<RequestOutcome> {
    const reading = await this.#read(task, target);
    if (reading.kind === 'error') return reading;
    const { status } = reading.state;
    if (isTerminal(status)) {
      return rpcError(INVALID_PARAMS, `cannot cancel a task that has ended: its status is ${status}`);
    }
    await task.cancel();
    void requestTask(target, 'tasks/cancel');
    const canceled = { ...reading.state, status: 'cancelled' as const, lastUpdatedAt: new Date().toISOString() };
    return { kind: 'result', json: `{${translatedTask('legacy', canceled)}}` };
  }

  /** Waits for the end of a task of the extension, and requests input of the legacy client meanwhile. */
  #awaitResult({ task, message, target }: TaskRequest): RequestOutcome {
    if (task.record.isCanceled) return rpcError(INTERNAL_ERROR, `${TASK_FAILURE}: the task was canceled`);
    const spec = { ...taskSpec(target, message), rewriter: new LegacyResponseRewriter(TASK_FAILURE, false) };
    const call = { spec, target, state: stateOf(task.record), known: task };
    return { kind: 'deferred', start: (sink) => new PolledCall({ ...call, sink }).start() };
  }
}

/** The state of a task for its client; `text` is that of the other era, `more` are further members, as JSON text. */
function readingOf({ record }: UpstreamTask, state: TaskState, text?: string, more = ''): TaskReading {
  return { kind: 'task', state, members: `${translatedTask(record.clientEra, state, text)}${more}` };
}
