import { setTimeout as delay } from 'node:timers/promises';
import { isJsonObject, type JsonObject } from '@sluice/protocol/json/parse';
import { memberText } from '@sluice/protocol/json/text';
import { translatedCapabilities } from '@sluice/protocol/mcp/capabilities';
import { type Era, INTERNAL_ERROR, SERVER_ERROR } from '@sluice/protocol/mcp/constants';
import { progressTokenOf } from '@sluice/protocol/mcp/message';
import { paramText } from '@sluice/protocol/mcp/message-text';
import {
  isTerminal,
  readTask,
  relatedTaskOf,
  TASK_STATUS_NOTIFICATION,
  type TaskState,
  translatedTask,
  withTaskIds,
} from '@sluice/protocol/mcp/tasks';
import type { ClientFacts } from '../../client-facts.ts';
import type { DownstreamSession } from '../../downstream.ts';
import { CLIENT_DISCONNECTED } from '../../in-flight-calls.ts';
import { ObservedSink } from '../../observed-sink.ts';
import type { ResponseSink } from '../../response-sink.ts';
import { LegacyResponseRewriter } from '../era-translation/messages.ts';
import { digestOf } from '../era-translation/request-state.ts';
import type { SuspendedCalls } from '../era-translation/suspended-calls.ts';
import type { CallSpec, CreatedTask, TaskHandler } from '../relay/call-spec.ts';
import { RelayedCall } from '../relay/relayed-call.ts';
import { sendResponse } from '../relay/response-rewrite.ts';
import type { TaskEvents } from './events.ts';
import { PolledCall, pollDelayMs } from './polled-call.ts';
import { ownTaskSpec, requestTask, storedTarget, type TaskDeps, type TaskTarget, taskSession } from './target.ts';
import { isUpstreamTask, sessionRecord, type Task, type UpstreamTask } from './task.ts';
import { isOwnedBy, stateOf } from './task-record.ts';
import { type NewTask, newTask } from './tasks.ts';
import { ownState, plainMessages, plainResultRewriter, withReportedTask } from './translation.ts';

const CALL_FAILURE = 'forwarded tool call failed';

export interface CreatedTasksOptions extends TaskDeps {
  /** Whether tasks are polled on behalf of clients that do not support them. */
  readonly isEnabled: boolean;
  readonly events: Pick<TaskEvents, 'observerOf'>;
  /** A client with a session has got a task. */
  onCreated(task: Task, session: DownstreamSession, headers: readonly string[]): void;
  /** Seals the state of calls that continue with a retry. */
  readonly suspendedCalls: Pick<SuspendedCalls, 'createTaskState'>;
  /** Maximum time until the retry. */
  readonly suspendedMs: number;
}

/** A created task, its state, and where requests about it are sent. */
interface OpenTask extends CreatedTask {
  readonly state: TaskState;
  readonly target: TaskTarget;
  /** Set if the task is stored, as that of a call that continues. */
  readonly stored?: Task;
}

/** Tasks in place of the results of calls: the client gets an id of ours, once the task is stored. */
export class CreatedTasks implements TaskHandler {
  readonly #options: CreatedTasksOptions;

  constructor(options: CreatedTasksOptions) {
    this.#options = options;
  }

  isCreated({ message, task: offer }: CallSpec, era: Era, { resultType, task }: JsonObject): boolean {
    if (era === 'modern') return resultType === 'task';
    return isJsonObject(task) && (offer?.isDeclared === true || isJsonObject(message.params.task));
  }

  onCreated(created: CreatedTask, text: string, value: JsonObject): void {
    const { spec, session, sink } = created;
    const result = isJsonObject(value.result) ? value.result : {};
    const state = readTask(session.era, session.era === 'modern' ? result : result.task);
    if (!state) return fail(created, INTERNAL_ERROR, 'the upstream answered with an invalid task');
    const task = { ...created, state, target: this.#targetOf(created, state.taskId) };
    const reject = (code: number, what: string): void => {
      void requestTask(task.target, 'tasks/cancel');
      fail(task, code, what);
    };
    if (!spec.task?.isAccepted) {
      if (this.#options.isEnabled) return this.#continue(task);
      return reject(INTERNAL_ERROR, 'the upstream answered with a task to a client that does not support tasks');
    }
    let isClientDisconnected = false;
    sink.onDisconnect(() => {
      isClientDisconnected = true;
    });
    this.#store(task).then(
      (stored) => {
        if (!stored) return reject(SERVER_ERROR, 'too many tasks; wait for others to end, or cancel them');
        // A modern client that has disconnected has canceled its call.
        if (isClientDisconnected && sink.client.era === 'modern') {
          sink.observer?.canceled(CLIENT_DISCONNECTED);
          return this.#options.tasks.discard(stored);
        }
        sink.observer?.continuedAsTask();
        respond({ ...task, stored }, text, value);
        const { session: clientSession } = sink.client;
        if (clientSession) this.#options.onCreated(stored, clientSession, task.target.headers);
      },
      (error: unknown) => {
        this.#options.log.error('task could not be stored', { error });
        reject(INTERNAL_ERROR, 'the task could not be stored');
      },
    );
  }

  relatedTask(params: JsonObject, client: ClientFacts, address: string): string {
    const { record } = this.#options.tasks.get(relatedTaskOf(params) ?? '') ?? {};
    const isOwn = record?.address === address && isOwnedBy(record, client);
    return isOwn && record.kind !== 'call' ? record.upstreamId : '';
  }

  /** Continues to poll a task whose client has provided input; `id` is that of its record. */
  resume(spec: CallSpec, id: string, sink: ResponseSink): void {
    const task = this.#options.tasks.get(id);
    const { inputResponses } = spec.message.params;
    const isValid = inputResponses === undefined || isJsonObject(inputResponses);
    const isHere = task?.record.address === spec.upstream.transport.address;
    if (!isHere || !isUpstreamTask(task) || !isValid) {
      return fail({ spec, sink }, INTERNAL_ERROR, 'the task is no longer known; call the tool again');
    }
    this.#takeOver(task, spec, sink, paramText(spec.message.text, 'inputResponses'));
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
    const { tasks, calls, events } = this.#options;
    await tasks.refresh();
    const task = tasks.ofCall(session.id, idText);
    const target = task && storedTarget(this.#options, task, headers);
    if (!target || calls.ofRequest(session.id, idText)) return undefined;
    const { record } = task;
    const spec = ownTaskSpec(target, 'tasks/get', { token: record.progress?.client });
    const rewriter = record.kind === 'extension' ? new LegacyResponseRewriter(CALL_FAILURE, false) : undefined;
    const resumed = { ...spec, rewriter, failure: CALL_FAILURE };
    return (sink) => this.#takeOver(task, resumed, new ObservedSink(sink, events.observerOf(record)));
  }

  #takeOver(stored: UpstreamTask, spec: CallSpec, sink: ResponseSink, input?: string): void {
    const { record } = stored;
    const session = taskSession(stored, spec.upstream);
    const created = { spec, sink, session, requestId: record.progress?.upstream ?? '' };
    const target = this.#targetOf(created, record.upstreamId);
    this.#continue({ ...created, state: stateOf(record), target, stored }, input);
  }

  /** Waits for the result on behalf of a client that does not know the task. `input`: what the client has provided. */
  #continue(task: OpenTask, input?: string): void {
    if (task.target.era === 'modern') this.#poll(task, input);
    else this.#await(task);
  }

  #poll(task: OpenTask, input: string | undefined): void {
    const { suspendedCalls, suspendedMs } = this.#options;
    let storing = this.#remember(task);
    const suspend = async (state: TaskState): Promise<string | undefined> => {
      storing ??= this.#store({ ...task, state }, { isInternal: true, maxLifeMs: suspendedMs });
      const stored = await storing;
      const { namespace = '', principal } = task.sink.client;
      const binding = { namespace, principal, digest: digestOf(task.spec.message) };
      return stored && suspendedCalls.createTaskState(stored.id, binding);
    };
    new PolledCall({ ...task, input, suspend, onEnd: () => this.#forget(storing) }).start();
  }

  /** Requests of the upstream arrive on the stream of the request for the result, as on that of a call. */
  #await(task: OpenTask): void {
    const { spec, session, requestId, sink, target } = task;
    const token = progressTokenOf(spec.message);
    const { message, edits } = ownTaskSpec(target, 'tasks/result', { token });
    const storing = this.#remember(task);
    const settled = new AbortController();
    const awaited: CallSpec = {
      ...spec,
      message,
      edits,
      task: {
        awaitsResult: true,
        onAbandoned: () => void requestTask(target, 'tasks/cancel'),
        onSettled: () => {
          settled.abort();
          this.#forget(storing);
        },
      },
      rewriter: plainResultRewriter(spec.rewriter),
      openSession: () => session,
      messages: plainMessages(target.upstreamId, requestId, token),
    };
    const call = new RelayedCall(this.#options, awaited, sink);
    call.start();
    if (token !== undefined && sink.client.accepts.sse) void this.#pollStatus(task, call, settled.signal);
  }

  /** Polls a task whose result is awaited, and passes its states on as the notifications that an upstream need not send. */
  async #pollStatus({ state, target }: OpenTask, call: RelayedCall, settled: AbortSignal): Promise<void> {
    let last = state;
    while (!settled.aborted && !isTerminal(last.status)) {
      const params = { taskId: target.upstreamId, statusMessage: last.statusMessage ?? null };
      const value = { jsonrpc: '2.0', method: TASK_STATUS_NOTIFICATION, params };
      call.attempt?.response.onMessage(JSON.stringify(value), value);
      await delay(pollDelayMs(last), undefined, { ref: false, signal: settled }).catch(() => undefined);
      // A failed request is repeated. If the task no longer exists, the request for its result fails, and the polling ends.
      const reply = settled.aborted ? undefined : await requestTask(target, 'tasks/get');
      last = (reply?.kind === 'result' && readTask('legacy', reply.value)) || last;
    }
  }

  /**
   * Stores the task of a call of a legacy client, so that the call continues where its stream is resumed after a restart. Resolves
   * with the task, if it could be stored; undefined for other calls.
   */
  #remember(task: OpenTask): Promise<Task | undefined> | undefined {
    const { calls, log } = this.#options;
    const { session, idText } = task.sink.client;
    if (task.stored) return Promise.resolve(task.stored);
    if (!session) return undefined;
    const more = { isInternal: true, maxLifeMs: calls.limits.totalMs, callId: idText } as const;
    return this.#store(task, more).catch((error: unknown) => {
      log.debug('the task of a call could not be stored', { error });
      return undefined;
    });
  }

  /** Removes the record of a call that has ended, once it is stored. */
  #forget(storing: Promise<Task | undefined> | undefined): void {
    storing?.then((task) => task?.remove()).catch(() => undefined);
  }

  #store(
    { spec, session, requestId, sink, state, target }: OpenTask,
    more: { readonly isInternal?: true; readonly maxLifeMs?: number; readonly callId?: string } = {},
  ): Promise<Task | undefined> {
    const { client } = sink;
    const token = progressTokenOf(spec.message);
    const isLegacy = session.era === 'legacy';
    const record: NewTask = {
      ...newTask(client, { entry: spec.task?.tool, forward: spec.forward }, spec.upstream.transport.address),
      kind: isLegacy ? 'core' : 'extension',
      upstreamId: target.upstreamId,
      clientSession: client.session?.id,
      session: isLegacy ? sessionRecord(session) : undefined,
      inputRequests: [],
      ...(token !== undefined && { progress: { upstream: requestId, client: token } }),
      ...sink.observer?.continued,
      ...more,
    };
    return this.#options.tasks.create(record, state, isLegacy ? session : undefined);
  }

  /** The target of requests on behalf of the client: with the headers of its call that do not mirror a message. */
  #targetOf({ spec, session, sink }: CreatedTask, upstreamId: string): TaskTarget {
    const { upstream, edits } = spec;
    const { namespace, capabilities: declared } = sink.client;
    const at = { upstream, upstreamId, era: session.era, headers: edits.headers, openSession: () => session };
    const client = { namespace, clientInfo: { ...this.#options.clientInfo } };
    return { deps: this.#options, ...at, ...client, capabilities: translatedCapabilities(declared, true) };
  }
}

function fail({ spec, sink }: Pick<CreatedTask, 'spec' | 'sink'>, code: number, what: string): void {
  sink.complete({ kind: 'failed', error: { code, message: `${spec.failure}: ${what}` } });
}

/** Sends the client the result that creates the stored task, with our id, in the form of its era. */
function respond(
  { spec, target, sink, state, stored }: OpenTask & { readonly stored: Task },
  text: string,
  value: JsonObject,
): void {
  const { era } = sink.client;
  if (era === target.era) {
    const reported = withReportedTask(stored, text, ...(era === 'modern' ? ['result'] : ['result', 'task']));
    const own = withTaskIds(reported, (id) => (id === target.upstreamId ? stored.id : undefined));
    return sendResponse(sink, spec, { kind: 'response', text: own, value, status: 200, isAscii: false });
  }
  const result = memberText(text, 'result') ?? '{}';
  // The status may have another meaning in the other era, and is known once the client asks for it.
  const own = { ...ownState(stored.record, state), status: 'working' as const };
  const task =
    era === 'modern'
      ? `"resultType":"task",${translatedTask('modern', own, memberText(result, 'task'))}`
      : `"task":{${translatedTask('legacy', own, result)}}`;
  sink.complete({ kind: 'result', json: `{${task}}` });
}
